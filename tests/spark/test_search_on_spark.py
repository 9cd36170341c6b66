"""A search on Spark plays what it plays in this process, keeps its rows, and plays none of them twice."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from scenarios.cli.main import cli
from scenarios.search.findings import Finding
from scenarios.search.rows import COLUMNS, SearchRun, found_of, run_of
from scenarios.search.search import SeedJob, schedule_of
from spark_reports.sweep import build
from spark_reports.sweep.rows import row_of

pytestmark = pytest.mark.spark


@pytest.fixture
def search(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """The command in an empty directory, on the session of these tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(build, "spark_session", lambda master, conf: contextlib.nullcontext(spark))
    words = ["search", "--safe", "--format", "json"]
    return lambda *more: CliRunner().invoke(cli, [*words, *more], standalone_mode=False)


@pytest.mark.soak
def test_a_search_on_spark_plays_what_it_plays_here(search: Callable[..., Result], tmp_path: Path) -> None:
    here = json.loads(search("--seeds", "1..3", "--jobs", "1").stdout)
    first = search("--seeds", "1..2", "--master", "local[2]")
    assert (first.exception, first.return_value) == (None, 0), first.stderr
    resumed = search("--seeds", "1..3", "--master", "local[2]", "--resume")
    there = json.loads(resumed.stdout)
    assert (there["played"], there["kinds"]) == (3, []) == (here["played"], here["kinds"])
    rows = pq.read_table(tmp_path / "search" / "kafka-4.4-blind-safe.rows" / "rows").to_pylist()
    assert sorted(row["seed"] for row in rows) == [1, 2, 3]
    assert "use --resume to continue" in search("--seeds", "1", "--master", "local[2]").stderr
    swarm = search("--seeds", "1", "--master", "local[2]", "--swarm")
    assert (swarm.exception, swarm.return_value) == (None, 0), "one of another mode goes into the same folder"


def test_a_finding_survives_its_row() -> None:
    schedule = schedule_of(SeedJob(5, "kafka-2.0", safe=False))
    run = SearchRun(9, "kafka-2.0", schedule.safe, True, schedule.text, ("S3",))
    assert run.schedule == schedule and run_of(SeedJob(9, "kafka-2.0", safe=False)).text == ""
    figures = {"status": "finished", "findings": ["S3"], "sentences": ["one"], "our_bugs": [1]}
    found = found_of(row_of(run, figures, COLUMNS))
    assert (found.seed, found.schedule, found.findings) == (9, schedule, (Finding("S3", "one", True),))


@pytest.mark.parametrize(("status", "kinds"), [("crashed", ("stopped: crashed",)), ("timeout", ())])
def test_a_run_without_an_end_is_a_finding_unless_it_took_too_long(status: str, kinds: tuple[str, ...]) -> None:
    run = SearchRun(1, "kafka-4.1", safe=True, swarm=False)
    found = found_of(row_of(run, {"status": status, "error": "SIGKILL"}, COLUMNS))
    assert found.kinds == kinds and all(finding.our_bug for finding in found.findings)
