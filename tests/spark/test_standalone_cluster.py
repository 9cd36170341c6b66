"""The same sweep and the same report on a cluster of two workers as on this machine; stopping and going on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.spark.standalone import WORKER_MEMORY, sessions_left, standalone_cluster

pytestmark = [pytest.mark.night, pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
SMALL = ["--conf", "spark.driver.memory=512m", "--conf", f"spark.executor.memory={WORKER_MEMORY}"]
SWEEP = ["sweep", "luck-or-law", "--vary", "workloads.p1.config.acks=1,all", "--format", "json", *SMALL]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The workers find packages of our names that cannot be imported: only code that travelled is of use."""
    folder = tmp_path_factory.mktemp("cluster")
    for package in ("replica", "controller", "cluster", "scenarios", "spark_reports"):
        (folder / "poison" / package).mkdir(parents=True)
        (folder / "poison" / package / "__init__.py").write_text("raise ImportError('not the code that travelled')\n")
    with standalone_cluster(folder, {"PYTHONPATH": str(folder / "poison")}) as address:
        yield address


def highwater(folder: Path, *words: str) -> Any:
    command = [sys.executable, "-m", "scenarios.cli", *words]
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rows_in(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / "rows").to_pylist()
    return sorted(rows, key=lambda row: (row["settings"], row["seed"]))


def test_a_sweep_gives_the_same_rows(master: str, tmp_path: Path) -> None:
    words = [*SWEEP, "--seeds", "1..8"]
    there = highwater(tmp_path, *words, "--master", master, "--out", "there")
    here = highwater(tmp_path, *words, "--master", "local[2]", "--out", "here")
    assert (there["runs"], there["played"]) == (16, 16)
    assert there["settings"] == here["settings"]
    assert rows_in(tmp_path / "there") == rows_in(tmp_path / "here")


def tables_in(folder: Path) -> dict[str, list[str]]:
    tables = {path.name: pq.read_table(path).to_pylist() for path in (folder / "tables").iterdir() if path.is_dir()}
    return {name: sorted(map(repr, rows)) for name, rows in tables.items()}


def test_a_report_gives_the_same_tables(master: str, tmp_path: Path) -> None:
    run_dir = highwater(tmp_path, "run", "acks1-leader-kill", "--format", "json")["run_dir"]
    for address, out in ((master, "there"), ("local[2]", "here")):
        told = highwater(tmp_path, "report", run_dir, "--master", address, "--out", out, "--format", "json", *SMALL)
        assert told["verdicts"] == {Path(run_dir).name: ["lost"]}
    assert tables_in(tmp_path / "there") == tables_in(tmp_path / "here")


def test_an_interrupted_sweep_goes_on_and_leaves_no_process(tmp_path: Path) -> None:
    words = [*SWEEP, "--seeds", "1..20", "--out", "stopped", "--master", "local[2]"]
    command = [sys.executable, "-m", "scenarios.cli", *words]
    begun = subprocess.Popen(
        command, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert begun.stderr is not None
    for line in begun.stderr:
        if "30 %" in line:
            # As a terminal does: to the JVM and the workers as well.
            os.killpg(begun.pid, signal.SIGINT)
            break
    said = begun.stderr.read()
    assert begun.wait() == 130
    assert "repeat the command with --resume" in said and "Traceback" not in said
    assert sessions_left([begun.pid]) == []
    kept = len(rows_in(tmp_path / "stopped"))
    assert 0 < kept < 40
    document = highwater(tmp_path, *words, "--resume")
    assert (document["runs"], document["played"]) == (40, 40 - kept)
    assert len(rows_in(tmp_path / "stopped")) == 40


def test_a_search_plays_what_it_plays_here(master: str, tmp_path: Path) -> None:
    words = ["search", "--safe", "--seeds", "1..3", "--format", "json"]
    there = highwater(tmp_path, *words, "--master", master, *SMALL, "--out", "there")
    here = highwater(tmp_path, *words, "--jobs", "1", "--out", "here")
    assert (there["played"], there["kinds"]) == (3, []) == (here["played"], here["kinds"])


def test_workers_without_room_for_an_executor_are_named(master: str, tmp_path: Path) -> None:
    words = ["search", "--seeds", "1..3", "--master", master, "--conf", "spark.executor.memory=600m", "--out", "none"]
    done = subprocess.run(
        [sys.executable, "-m", "scenarios.cli", *words], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 6, done.stderr
    assert "less free memory than the 600m that an executor needs" in done.stderr and "Traceback" not in done.stderr
