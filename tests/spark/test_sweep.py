"""Sweeps: isolated children, Spark jobs, the folder and what is missing in it, probabilities, the page, the command."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from scenarios.cli.main import cli
from scenarios.language.parse import catalogue
from scenarios.process.identity import identity
from scenarios.search.sweep import SweepScenario
from spark_reports.sweep import build
from spark_reports.sweep.build import write_code_zip
from spark_reports.sweep.isolated import Broken, play_isolated
from spark_reports.sweep.job import Task, WorkersUnfit, play_on_spark
from spark_reports.sweep.page import headline
from spark_reports.sweep.rows import Run, arrow_rows_schema, row_of
from spark_reports.sweep.store import SweepFolder, SweepFolderUnusable
from spark_reports.sweep.tables import DOCS, PERCENTILES, by_setting

pytestmark = pytest.mark.spark

ACKS = "workloads.p1.config.acks"
MIN_ISR = "topics.t.config.min.insync.replicas"


# ------------------------------------------------------------------------------------------------------- isolation


def _misbehave(job: str) -> str:
    match job:
        case "raises":
            raise ValueError("boom")
        case "exits":
            raise SystemExit(3)
        case "dies":
            os._exit(7)
        case "hangs":
            time.sleep(600)
    return f"{job} by {os.getpid()}"


def test_a_job_that_misbehaves_costs_only_itself() -> None:
    jobs = ["a", "raises", "b", "dies", "c", "hangs", "exits", "d"]
    outcomes = list(play_isolated(_misbehave, jobs, 2.0))
    told = [outcome if isinstance(outcome, Broken) else outcome.partition(" ")[0] for outcome in outcomes]
    assert told == [
        "a",
        Broken("raised", "ValueError: boom"),
        "b",
        Broken("crashed", "the process ended with exit code 7"),
        "c",
        Broken("timeout", "the run did not finish within 2 s"),
        Broken("raised", "SystemExit: 3"),
        "d",
    ]
    # One child for many jobs, a new one after each death.
    assert len({outcome.partition(" by ")[2] for outcome in outcomes if isinstance(outcome, str)}) == 3


def test_what_dies_of_those_before_it_is_played_again_alone() -> None:
    played: list[str] = []

    def weak(job: str) -> int:
        played.append(job)
        if len(played) == 3:
            os._exit(1)
        return len(played)

    assert list(play_isolated(weak, ["a", "b", "c", "d"], 30.0)) == [1, 2, 1, 2]


def test_a_child_ends_with_its_parent() -> None:
    program = (
        "import time\n"
        "from spark_reports.sweep.isolated import play_isolated\n"
        "def play(job):\n"
        "    print('playing', flush=True)\n"
        "    time.sleep(600)\n"
        "list(play_isolated(play, [1], 600))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "playing\n"
    parent.kill()
    parent.wait()
    # The child has this pipe as well: it ends when both are gone.
    assert parent.stdout.read() == ""


# -------------------------------------------------------------------------------------------------- a job on Spark


def luck_or_law() -> SweepScenario:
    path = catalogue.find_scenario("luck-or-law")
    return SweepScenario("luck-or-law", str(path), path.read_text(encoding="utf-8"), None, ())


def rows_of(spark: SparkSession, task: Task, runs: list[Run]) -> dict[Run, dict[str, Any]]:
    tables = [rows for rows in play_on_spark(spark, task, runs) if rows is not None]
    rows = pa.concat_tables(tables).to_pylist()
    assert len(rows) == len(runs)
    return {Run(tuple(row["settings"]), row["seed"]): row for row in rows}


@pytest.mark.soak
def test_failures_of_single_runs_are_rows(spark: SparkSession) -> None:
    scenario = luck_or_law()

    def play(settings: tuple[str, ...], seed: int) -> dict[str, Any]:
        if seed == 2:
            raise RuntimeError("seed 2")
        if seed == 3:
            os._exit(9)
        if seed == 4:
            time.sleep(600)
        return scenario.play(settings, seed)

    good, bad = (f"{ACKS}=1",), (f"{ACKS}=7",)
    runs = [*(Run(good, seed) for seed in (1, 2, 3, 4, 5)), Run(bad, 1)]
    found = rows_of(spark, Task(play, identity, identity(), 20.0), runs)
    assert {(run.seed, row["status"], row["error"]) for run, row in found.items() if run.settings == good} == {
        (1, "finished", None),
        (2, "raised", "RuntimeError: seed 2"),
        (3, "crashed", "the process ended with exit code 9"),
        (4, "timeout", "the run did not finish within 20 s"),
        (5, "finished", None),
    }
    assert found[Run(bad, 1)]["status"] == "invalid"
    # The row is that of the same run in this process.
    assert found[Run(good, 5)] == row_of(Run(good, 5), scenario.play(good, 5))


@pytest.mark.soak
def test_a_worker_that_would_play_something_else_ends_the_sweep(spark: SparkSession) -> None:
    task = Task(luck_or_law().play, identity, {**identity(), "kio": "0.0.1"}, 10.0)
    with pytest.raises(WorkersUnfit, match=r"kio is .* on a worker, 0\.0\.1 here"):
        list(play_on_spark(spark, task, [Run((), 1)]))


@pytest.mark.soak
def test_the_code_that_travels_is_whole_and_the_same(tmp_path: Path) -> None:
    archive = tmp_path / "code.zip"
    write_code_zip(archive)
    program = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "import scenarios.search.sweep, spark_reports.sweep.job\n"
        "assert '.zip' in scenarios.search.sweep.__file__, scenarios.search.sweep.__file__\n"
        "from scenarios.process.identity import identity; import json; print(json.dumps(identity()))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == identity()


# ------------------------------------------------------------------------------------------------------ the folder


def table_of(*rows: tuple[Run, dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([row_of(run, figures) for run, figures in rows], schema=arrow_rows_schema())


def test_a_resumed_sweep_lacks_only_what_has_no_lasting_row(tmp_path: Path) -> None:
    one, two = ("a=1",), ("a=2",)
    runs = [Run(settings, seed) for seed in (1, 2) for settings in (one, two)]
    about = {"scenario": "x", "version": {"code": "1"}}
    with SweepFolder(tmp_path, about, resume=False) as folder:
        assert folder.missing(runs) == runs
        folder.add(table_of((runs[0], {"status": "finished"}), (runs[1], {"status": "timeout"})))
    (tmp_path / "rows" / ".part-00009.parquet").write_bytes(b"half")
    with SweepFolder(tmp_path, about, resume=True) as folder:
        assert folder.missing(runs) == runs[1:]
        folder.add(table_of((runs[1], {"status": "finished"}), (runs[2], {"status": "invalid", "error": "no"})))
        with pytest.raises(SweepFolderUnusable, match="another command is writing"):
            SweepFolder(tmp_path, about, resume=True)
    parts = [path.name for path in sorted((tmp_path / "rows").iterdir())]
    assert parts == ["part-00000.parquet", "part-00001.parquet"]
    assert [row["status"] for row in pq.read_table(tmp_path / "rows").to_pylist()] == [
        "finished",
        "finished",
        "invalid",
    ]


def test_rows_of_other_sweeps_are_not_mixed_in(tmp_path: Path) -> None:
    with SweepFolder(tmp_path, {"scenario": "x", "version": {"code": "1"}}, resume=False) as folder:
        folder.add(table_of((Run((), 1), {"status": "finished"})))
    with pytest.raises(SweepFolderUnusable, match="use --resume to continue"):
        SweepFolder(tmp_path, {"scenario": "x", "version": {"code": "1"}}, resume=False)
    with pytest.raises(SweepFolderUnusable, match="differ from this sweep in version"):
        SweepFolder(tmp_path, {"scenario": "x", "version": {"code": "2"}}, resume=True)
    (tmp_path / "rows" / "part-00000.parquet").write_bytes(b"torn")
    with pytest.raises(SweepFolderUnusable, match=r"part-00000\.parquet cannot be read"):
        SweepFolder(tmp_path, {"scenario": "x", "version": {"code": "1"}}, resume=True)


# ------------------------------------------------------------------------------------------------- what rows say


def figures(lost: int = 0, **more: Any) -> dict[str, Any]:
    fates = dict.fromkeys(("unseen", "missing", "duplicated", "unavailable_us", "longest_unavailable_us"), 0)
    return {"status": "finished", "our_bug": False, "held": True, "verdict": [], "lost": lost, **fates, **more}


@pytest.mark.soak
def test_shares_have_wilson_intervals_and_times_are_over_all_acks(spark: SparkSession) -> None:
    sets = [("a=1",), ("a=2",), ("a=3",), ("a=4",)]
    rows = [(Run(sets[0], seed), figures()) for seed in range(1, 11)]
    halves = {"ack_latency_us": [2, 8], "ack_latency_acks": [1, 1]}
    rows += [(Run(sets[1], seed), figures(lost=3 * (seed == 7), **halves)) for seed in range(1, 11)]
    rows += [(Run(sets[2], 1), figures(lost=2, ack_latency_us=[1, 9], ack_latency_acks=[98, 1]))]
    rows[0][1]["unseen"] = 4
    rows += [(Run(sets[2], 2), figures(lost=1, verdict=["lost"], ack_latency_us=[5], ack_latency_acks=[1]))]
    rows += [(Run(sets[2], 3), {"status": "crashed", "error": "SIGKILL"})]
    rows += [(Run(sets[0], 11), figures(lost=9)), (Run(("b=1",), 1), figures(lost=9))]
    frame = spark.createDataFrame(table_of(*rows))
    found = [row.asDict() for row in by_setting(frame, sets, range(1, 11)).orderBy("setting").collect()]
    assert list(found[0]) == list(DOCS)

    def of(column: str) -> list[Any]:
        return [round(row[column], 4) if isinstance(row[column], float) else row[column] for row in found]

    assert of("runs") == [10, 10, 3, 0]
    assert of("finished") == [10, 10, 2, 0]
    # source: the score interval of 0/10, 1/10 and 2/2, as R's prop.test(correct=FALSE) gives it
    assert of("loss_probability") == [0.0, 0.1, 1.0, None]
    assert of("loss_low") == [0.0, 0.0179, 0.3424, None]
    assert of("loss_high") == [0.2775, 0.4042, 1.0, None]
    assert of("lost_records") == [0, 3, 3, 0]
    assert (of("unreadable_probability"), of("unseen_records")) == ([0.1, 0.0, 0.0, None], [4, 0, 0, 0])
    assert of("smallest_losing_seed") == [None, 7, 1, None]
    assert of("smallest_unfinished_seed") == [None, None, 3, None]
    assert of("unfinished_why") == [None, None, "crashed: SIGKILL", None]
    assert of("crashed") == [0, 0, 1, 0]
    assert of("endings") == [2, 2, 2, 0]
    assert of("verdicts") == [[], [], ["lost"], []]
    # Nearest rank, as on the screen of a run: times that some ack took, the smaller one in the middle.
    assert [of(f"ack_{name}_us")[1:] for name in PERCENTILES] == [
        [2, 1, None],
        [8, 1, None],
        [8, 5, None],
        [8, 9, None],
    ]
    said = headline(found, ["a"])
    assert said.startswith("Worst setting, a=3: 100 % (34.2 to 100.0 %)") and said.endswith(
        "1 of 4 settings lost nothing. In 1 run acked records cannot be read. 1 more run did not finish."
    )


# ----------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def sweep(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """The command in an empty directory, on the session of these tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(build, "spark_session", lambda master, conf: contextlib.nullcontext(spark))
    return lambda *words: CliRunner().invoke(cli, ["sweep", *words], standalone_mode=False)


SLOW = "network.links.1.latency={exponential: 1s, least: 1s}"
"""So slow that the followers are always behind and out of the ISR: the losses do not depend on the seed."""


@pytest.mark.soak
def test_the_command_end_to_end(sweep: Callable[..., Result], tmp_path: Path) -> None:
    words = ["luck-or-law", "--seeds", "1", "--set", SLOW, "--vary", f"{ACKS}=1,all", "--vary", f"{MIN_ISR}=1,2"]
    first = sweep(*words, "--format", "json")
    assert first.exception is None, first.exception
    document = json.loads(first.stdout)
    assert (first.return_value, document["runs"], document["played"]) == (0, 4, 4)
    assert [row["loss_runs"] for row in document["settings"]] == [1, 1, 1, 0]
    replay = document["settings"][0]["losing_replay"]
    assert replay == f"highwater run luck-or-law --seed 1 --set '{SLOW}' --set {ACKS}=1 --set {MIN_ISR}=1"
    assert f"first loss: {replay.partition(' --seed')[0]}" in first.stderr
    # A longer sweep plays only what is new, in the same folder.
    words[2] = "1..2"
    assert "has rows of an earlier sweep" in sweep(*words).stderr
    longer = sweep(*words, "--resume", "--fail-on", "lost")
    assert longer.return_value == 1
    assert "4 kept from an earlier sweep, 4 played now" in longer.stdout
    assert replay in longer.stdout
    assert re.search(r" records +never  dupli-.*\n.* lost  arrived +cated ", longer.stdout)
    html = (tmp_path / "sweeps" / "luck-or-law" / "sweep.html").read_text(encoding="utf-8")
    assert replay in unescape(html)
    assert "Runs in which a record is missing" in html and '<th class="n wrap">missing</th>' in html
    outside_scripts = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)|@import|url\(""", outside_scripts)
    assert len(html) < 3_000_000
    readme = (tmp_path / "sweeps" / "luck-or-law" / "README.md").read_text(encoding="utf-8")
    assert "| loss_low | double | lower end of the 95 % Wilson interval of that share |" in readme


BAD_COMMANDS = [
    (["--vary", f"{ACKS}=0,7"], 3, "`7` is not one of"),
    (["--vary", "workloads.p9.config.acks=0"], 3, "there is no key `p9` here"),
    (["--vary", "workloads.p9.config.acks=0,1"], 3, "--vary workloads.p9.config.acks=0:1:11"),
    (["--vary", "acks=0,1"], 3, f"did you mean `{ACKS}`?"),
    (["--set", "acks=0", "--vary", f"{ACKS}=0,1"], 3, "--set acks=0:1:1"),
    (["--vary", "acks"], 2, "does not have the form path=value"),
    (["--vary", f"{ACKS}=0,1", "--seeds", "1..60000"], 2, "--max-runs 120000"),
    (["--master", "yarn"], 2, "neither local"),
    (["--master", "spark://127.0.0.1:1", "--seeds", "1"], 6, "no Spark master answers at spark://127.0.0.1:1: "),
    (["--conf", "ui=false"], 2, "does not have the form spark.key=value"),
]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [pytest.param(*bad, marks=pytest.mark.soak if place % 5 else ()) for place, bad in enumerate(BAD_COMMANDS)],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_command_is_one_clear_error_and_nothing_runs(
    words: list[str], code: int, said: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scenarios.cli", "sweep", "luck-or-law", *words, "--out", "kept"],
        cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert (done.returncode, said in done.stderr, done.stdout) == (code, True, ""), done.stderr
    assert list(tmp_path.iterdir()) == []
