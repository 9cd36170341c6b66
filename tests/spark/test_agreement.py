"""Spark against plain Python on the same traces: verdicts are the runner's, definitions mean what they say.

`pytest -m soak tests/spark` asks about a part of the catalogue and 15 random schedules, `make night` about the whole
catalogue and 500 more.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from scenarios.language.parse.catalogue import bundled
from scenarios.language.verbs import every
from scenarios.language.verbs.declaration import Lasts
from scenarios.language.verbs.every import STAYING, VERBS
from scenarios.run.runner import RunResult, run_scenario
from scenarios.search.schedules import random_schedule
from spark_reports.io import read_trace
from spark_reports.tables import ResultTables
from spark_reports.transforms.partitions import LASTING_VERBS
from spark_reports.transforms.verdict import VERDICT_ORDER
from spark_reports.transforms.witness import TOLD_BY_THEIR_NODE
from tests.catalogue import bundled_file
from tests.spark.folds import sliced
from tests.spark.runs_judged import FATES, judge_runs
from tests.spark.slow import elections as slow_elections
from tests.spark.slow import fetching as slow_fetching
from tests.spark.slow import losses as slow_losses
from tests.spark.slow import pins as slow_pins
from tests.spark.slow import transactions as slow_transactions
from tests.spark.slow import truth as slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_reports.report import ReportResult

pytestmark = pytest.mark.spark

SOAK_SEEDS = 15
SEEDS = 500
AT_ONCE = 50
"""Runs that Spark reads together."""


def test_the_verbs_are_what_their_declarations_say() -> None:
    """Spark reads only the trace, so it has its own words."""
    lasting = [verb.name for verb in VERBS.values() if verb.name in STAYING or verb.effect.lasts is Lasts.WHILE_PAUSED]
    assert list(LASTING_VERBS) == lasting
    assert sorted(TOLD_BY_THEIR_NODE) == sorted(every.TOLD_BY_THEIR_NODE)


COMPARED = {
    "isr_intervals": ("topic", "partition", "node", "from_us", "until_us", "standing"),
    "unavailability": ("topic", "partition", "kind", "from_us", "until_us"),
    "replication_lag": (
        "topic", "partition", "leader", "follower", "at_us", "seq", "lag_records", "lag_us", "peak_lag_us",
        "behind_us",
    ),
    "hw_stalls": (
        "topic", "partition", "leader", "from_us", "until_us", "high_watermark", "waiting_records", "ended_by",
        "pinned_by", "pinned_us", "under_min_isr_us",
    ),
    "data_at_risk": ("topic", "partition", "leader", "leader_epoch", "acks", "at_us", "at_risk_records"),
    "write_stalls": ("topic", "partition", "client", "from_us", "until_us", "recovered"),
    "read_stalls": ("topic", "partition", "client", "group", "from_us", "until_us", "recovered"),
    "elections": (
        "topic", "partition", "seq", "at_us", "leader", "lost_us", "leading_us", "first_write_us", "elect_us",
        "write_us",
    ),
    "isr_changes": (
        "topic", "partition", "seq", "at_us", "previous_isr", "isr", "joined", "left", "leader", "reason",
    ),
    "lost_records": (
        "topic", "partition", "record", "acked_us", "acked_by", "held_by", "elected_us", "elected", "elected_clean",
        "elected_reason", "erased_us", "erased_on", "erased_reason", "disk_lost_us", "disk_lost_on",
        "disk_lost_reason",
    ),
    "catch_ups": (
        "topic", "partition", "node", "started_us", "first_fetch_us", "from_offset", "caught_up_us", "to_offset",
        "joined_us", "records", "bytes",
    ),
    "ack_latency": (
        "topic", "acks", "measured_at", "records", "p50_us", "p95_us", "p99_us", "p999_us", "max_us",
    ),
    "fetch_efficiency": (
        "node", "peer", "partition_reads", "record_bytes", "empty_fetches", "requests", "bytes_per_request",
        "sendfile_bytes", "sendfile_calls",
    ),
    "transactions": (
        "transactional_id", "producer_id", "producer_epoch", "partitions", "from_us", "decided_us", "until_us",
        "state", "coordinator", "fenced", "duration_us", "markers_us",
    ),
    "lso_stalls": (
        "topic", "partition", "leader", "leader_epoch", "from_us", "until_us", "last_stable_offset",
        "waiting_records",
    ),
    "group_assignments": ("group", "topic", "partition", "member", "client_id", "from_us", "until_us"),
    "group_unread": (
        "group", "topic", "partition", "observed_us", "unread_us", "longest_unread_us", "members",
    ),
}  # fmt: skip


def told_slowly(run_dir: Path) -> dict[str, Iterable[tuple[Any, ...]]]:
    rows = slow.rows_of(run_dir)
    leaders = slow.Leaders(rows)
    return {
        "isr_intervals": slow.isr_intervals(rows),
        "unavailability": slow.unavailability(rows),
        "replication_lag": leaders.lag,
        "hw_stalls": slow_pins.hw_stalls(rows, leaders),
        "data_at_risk": {(*key, number) for key, number in leaders.risk.items()},
        "write_stalls": slow.write_stalls(rows),
        "read_stalls": slow.read_stalls(rows),
        "elections": slow_elections.elections(rows),
        "isr_changes": slow_elections.isr_changes(rows),
        "lost_records": slow_losses.lost_records(rows),
        "catch_ups": slow_fetching.catch_ups(rows),
        "ack_latency": slow_elections.ack_latency(rows),
        "fetch_efficiency": slow_fetching.fetch_efficiency(rows),
        "transactions": slow_transactions.transactions(rows),
        "lso_stalls": slow_transactions.lso_stalls(rows),
        "group_assignments": slow_transactions.group_assignments(rows),
        "group_unread": slow_transactions.group_unread(rows),
    }


def values_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in row.values())


def differences(tables: ResultTables, run_dirs: Sequence[Path]) -> tuple[list[str], set[str]]:
    """Rows that Spark, asked once for all runs, finds and plain Python does not (+), and the reverse (-); and the
    tables that had rows to compare."""
    found: dict[tuple[str, str], Counter[Any]] = defaultdict(Counter)
    for name, columns in COMPARED.items():
        for row in tables[name].select("run", *columns).toArrow().to_pylist():
            run, *told = values_of(row)
            found[run, name][tuple(told)] += 1
    said = []
    for run_dir in run_dirs:
        for name, rows in told_slowly(run_dir).items():
            spark_says, truth = found[run_dir.name, name], Counter(rows)
            said += [f"{run_dir.name} {name} + {row}" for row in sorted((spark_says - truth).elements(), key=str)]
            said += [f"{run_dir.name} {name} - {row}" for row in sorted((truth - spark_says).elements(), key=str)]
    return said, {name for (_, name), rows in found.items() if rows}


def judged_alike(spark: SparkSession, results: Mapping[str, RunResult]) -> None:
    """Spark's verdict, from the trace alone, is the runner's, and so are the fates of all records."""
    judged = judge_runs(spark, [Path(str(result.run_dir)) for result in results.values()])
    assert sorted(judged) == sorted(results)
    for name, result in results.items():
        assert list(judged[name].verdict) == result.summary["verdict"], name
        for kind in FATES:
            told = result.summary["records"].get(kind, [])
            assert sorted(judged[name].records[kind]) == sorted(told), f"{name}: {kind}"


def random_runs(seeds: Sequence[int], runs_dir: Path) -> dict[str, RunResult]:
    schedules = [random_schedule(random.Random(seed)) for seed in seeds]
    results = [run_scenario(one.scenario(), runs_dir=runs_dir, keep_logs=False) for one in schedules]
    return {Path(str(result.run_dir)).name: result for result in results}


def bundled_runs(names: Sequence[str], runs_dir: Path) -> dict[str, RunResult]:
    """Every variant of these scenarios, run once and kept."""
    scenarios = [scenario for name in names for scenario in bundled_file(name).all]
    results = [run_scenario(scenario, runs_dir=runs_dir, keep_logs=False) for scenario in scenarios]
    return {Path(str(result.run_dir)).name: result for result in results}


def agree(spark: SparkSession, results: Mapping[str, RunResult]) -> set[str]:
    """out: the tables that had rows to compare"""
    judged_alike(spark, results)
    run_dirs = [Path(str(result.run_dir)) for result in results.values()]
    tables = ResultTables(read_trace(spark, run_dirs))
    draw = random.Random(5)
    found, compared = differences(tables, run_dirs)
    assert not found, "\n".join([f"{len(found)} differences", *found[:40]])
    # Each table is folded three times: of every third run, for cutting depends on a trace's length, not on its story.
    for run_dir in run_dirs[::3]:
        sliced.agree(tables, run_dir, draw, (2, 20))
    return compared


def test_the_tables_of_the_story(report: ReportResult, leader_kill_dir: Path) -> None:
    """The report has written them, so that Spark need not be asked again."""
    tables = report.path.parent / "tables"
    for name, rows in told_slowly(leader_kill_dir).items():
        found = pq.read_table(tables / name, columns=list(COMPARED[name])).to_pylist()
        assert Counter(map(values_of, found)) == Counter(rows), name


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_part_of_the_catalogue(spark: SparkSession, tmp_path: Path) -> None:
    agree(spark, bundled_runs(list(bundled())[::24], tmp_path))


@pytest.mark.night
@pytest.mark.timeout(3600)
def test_the_whole_catalogue(spark: SparkSession, tmp_path: Path) -> None:
    """It has every verdict, and rows for every table."""
    results = bundled_runs(list(bundled()), tmp_path)
    names = list(results)
    compared: set[str] = set()
    for first in range(0, len(names), AT_ONCE):
        compared |= agree(spark, {name: results[name] for name in names[first : first + AT_ONCE]})
    # No bundled scenario has a group that is coordinated: tests/spark/report/test_coordinators.py makes some by hand.
    assert set(COMPARED) - compared <= {"group_assignments", "group_unread"}
    met = {kind for result in results.values() for kind in result.summary["verdict"]}
    assert met == {*VERDICT_ORDER}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "seeds",
    [pytest.param(range(SOAK_SEEDS), marks=pytest.mark.soak)]
    + [
        pytest.param(range(first, first + AT_ONCE), marks=pytest.mark.night)
        for first in range(SOAK_SEEDS, SOAK_SEEDS + SEEDS, AT_ONCE)
    ],
)
def test_random_schedules(seeds: range, spark: SparkSession, tmp_path: Path) -> None:
    agree(spark, random_runs(seeds, tmp_path))
