"""Ctrl-C while Spark works: one clear ending, no word of Java, no JVM and no half-written file left over."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.run.runner import run_scenario
from tests.interrupting import interrupted
from tests.soak import one_in

pytestmark = pytest.mark.spark

SMALL = ("--conf", "spark.driver.memory=512m")


@pytest.mark.soak
def test_an_interrupted_sweep_tells_what_it_has(tmp_path: Path) -> None:
    words = ("sweep", "luck-or-law", "--vary", "workloads.p1.config.acks=1,all", "--seeds", "1..500", "--out", "kept")
    # Runs have a speed from the first one on; where Spark is slow to begin, a line says before that none is played yet.
    ended = interrupted(tmp_path, *words, "--master", "local[1]", *SMALL, "--format", "json", sign="/s, ")
    assert ended.code == 130
    told = json.loads(ended.out)
    assert told["interrupted"] and told["runs"] == sum(row["runs"] for row in told["settings"])
    assert 0 < told["runs"] < 1000
    said = f"{told['runs']} of 1,000 runs are kept. To play the rest, repeat the command with --resume."
    assert ended.errors[-2:] == [said, "Interrupted."]
    page = (tmp_path / "kept" / "sweep.html").read_text()
    assert f"seeds 1..500, {told['runs']} of 1,000 runs so far" in page
    kept = [path.name for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert not [name for name in kept if re.match(r"\.(part|sweep)|.*tmp$", name)]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    scenario = load_file(find_scenario("acks1-leader-kill")).scenario
    run_dir = run_scenario(scenario, runs_dir=tmp_path / "runs", keep_logs=False).run_dir
    assert run_dir is not None
    return run_dir


AT = {
    "while the JVM starts": ("Spark first makes the report", "*/highwater-spark-*/jvm.log"),
    "in a query": ("report: 20 %", ""),
}


@pytest.mark.parametrize("moment", one_in(len(AT), AT))
def test_nothing_is_left_of_what_spark_was_asked(moment: str, run_dir: Path, tmp_path: Path) -> None:
    sign, file = AT[moment]
    there = sorted(tmp_path.rglob("*"))
    ended = interrupted(tmp_path, "report", "last", "--sql", "SELECT * FROM records", sign=sign, file=file)
    assert (ended.code, ended.out, ended.errors[-1]) == (130, "", "Interrupted.")
    assert [line for line in ended.errors[:-1] if not line.startswith(("report: ", "Spark first makes"))] == []
    assert sorted(tmp_path.rglob("*")) == [*there, tmp_path / "tmp"]


@pytest.mark.soak
def test_an_interrupted_report_leaves_the_one_before(run_dir: Path, tmp_path: Path) -> None:
    """Its page and its tables stay as they are, together with all other files in the folder."""
    out = run_dir / "report"
    (out / "tables" / "records").mkdir(parents=True)
    before = {out / "report.html": "the page before", out / "tables" / "records" / "part-0.parquet": "its table"}
    for path, text in before.items():
        path.write_text(text)
    assert interrupted(tmp_path, "report", "last", sign="report: ").code == 130
    assert {path: path.read_text() for path in out.rglob("*") if path.is_file()} == before
