"""Transactions and groups in the report: tables by hand and against plain Python, and what the page says of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replica.trace import events as t
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.observe.trace_writer import TraceWriter
from scenarios.run.runner import run_scenario
from spark_reports.io import read_trace
from spark_reports.report.notes import coordinator_notes
from spark_reports.tables import ResultTables
from tests.group_script import GroupScript
from tests.spark.columns import rows_of
from tests.spark.slow import transactions as slow
from tests.spark.slow.truth import read_stalls
from tests.spark.slow.truth import rows_of as trace_rows
from tests.spark.test_agreement import COMPARED, values_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GROUPS: dict[str, Callable[[list[dict[str, Any]]], Iterable[tuple[Any, ...]]]] = {
    "group_assignments": slow.group_assignments,
    "group_unread": slow.group_unread,
}
TRANSACTIONS: dict[str, Callable[[list[dict[str, Any]]], Iterable[tuple[Any, ...]]]] = {
    "transactions": slow.transactions,
    "lso_stalls": slow.lso_stalls,
}


def told(tables: ResultTables, name: str) -> list[tuple[Any, ...]]:
    return [values_of(row) for row in tables[name].select(*COMPARED[name]).toArrow().to_pylist()]


def script_on(run_dir: Path, play: Callable[[GroupScript], None]) -> Path:
    with TraceWriter(run_dir / "trace") as writer:
        script = GroupScript("g", [writer])
        script.log.emit(t.RunStarted(scenario="s", variant=None, seed=1, profile="kafka-4.1", title="it begins"))
        play(script)
        script.log.at_us += 1_000_000
        script.log.emit(t.RunFinished(lasted_us=0))
    return run_dir


def eager(script: GroupScript) -> None:
    script.joined("m1")  # 1 s
    script.rebalanced(1, "range", m1=("t-0", "t-1"))  # 3 s
    script.joined("m2")
    script.rebalance_began(1)  # 5 s
    script.rebalanced(2, "range", m1=("t-0",), m2=("t-1",))  # 7 s
    script.left("m1")  # 8 s
    script.rebalance_began(2)  # 9 s
    script.rebalanced(3, "range", m2=("t-0", "t-1"))  # 11 s
    script.left("m2")  # 12 s
    script.rebalanced(4, "range")


@pytest.mark.soak
@pytest.mark.usefixtures("any_length")
def test_who_of_an_eager_group_reads_what(spark: SparkSession, tmp_path: Path) -> None:
    tables = ResultTables(read_trace(spark, [script_on(tmp_path / "eager", eager)]))
    assert sorted(told(tables, "group_assignments"), key=lambda row: (row[2], row[5])) == [
        ("g", "t", 0, "m1", "m1-client", 3_000_000, 5_000_000),
        ("g", "t", 0, None, None, 5_000_000, 7_000_000),
        ("g", "t", 0, "m1", "m1-client", 7_000_000, 8_000_000),
        ("g", "t", 0, None, None, 8_000_000, 11_000_000),
        ("g", "t", 0, "m2", "m2-client", 11_000_000, 12_000_000),
        ("g", "t", 1, "m1", "m1-client", 3_000_000, 5_000_000),
        ("g", "t", 1, None, None, 5_000_000, 7_000_000),
        ("g", "t", 1, "m2", "m2-client", 7_000_000, 9_000_000),
        ("g", "t", 1, None, None, 9_000_000, 11_000_000),
        ("g", "t", 1, "m2", "m2-client", 11_000_000, 12_000_000),
    ]
    assert sorted(told(tables, "group_unread")) == [
        ("g", "t", 0, 9_000_000, 5_000_000, 3_000_000, 2),
        ("g", "t", 1, 9_000_000, 4_000_000, 2_000_000, 2),
    ]


def frozen(script: GroupScript) -> None:
    """b1 is frozen while b2 is elected, and says what it had decided when it wakes. Later it leads again."""
    script.elected("b1", 1)  # 1 s
    script.reconciled("m1", 1, "t-0")  # 2 s
    script.elected("b2", 2)
    script.reconciled("m2", 2, "t-0")  # 4 s
    script.left("m1")
    script.coordinator = "b1"
    script.reconciled("m1", 1, "t-0", "t-1")
    script.say(t.GroupRemoved, generation=1)
    script.elected("b1", 3)
    script.reconciled("m3", 3, "t-1")  # 9 s


@pytest.mark.usefixtures("any_length")
def test_a_frozen_coordinator_does_not_decide(spark: SparkSession, tmp_path: Path) -> None:
    tables = ResultTables(read_trace(spark, [script_on(tmp_path / "frozen", frozen)]))
    assert sorted(told(tables, "group_assignments"), key=lambda row: (row[2], row[5])) == [
        ("g", "t", 0, "m1", "m1-client", 2_000_000, 4_000_000),
        ("g", "t", 0, "m2", "m2-client", 4_000_000, 10_000_000),
        ("g", "t", 1, "m3", "m3-client", 9_000_000, 10_000_000),
    ]


def at_random(seed: int) -> Callable[[GroupScript], None]:
    """A classic group, or one of KIP-848, whose members come, go, come back as static ones, and are given parts."""
    draw = random.Random(seed)

    def dealt(members: list[str]) -> dict[str, tuple[str, ...]]:
        owners = {f"t-{number}": draw.choice([*members, ""]) for number in range(3)}
        return {member: tuple(name for name, owner in owners.items() if owner == member) for member in members}

    def classic(script: GroupScript, members: dict[str, tuple[str, ...]], step: int) -> None:
        match draw.randrange(4):
            case 0:
                script.rebalance_began(step)
            case 1 | 2:
                script.rebalanced(step, draw.choice(["range", "cooperative-sticky"]), **dealt(list(members)))
            case _ if draw.random() < 0.2:
                script.say(t.GroupRemoved, generation=step)
                members.clear()

    def consumers(script: GroupScript, members: dict[str, tuple[str, ...]], step: int) -> None:
        who = draw.choice(list(members))
        free = [f"t-{one}" for one in range(3) if not any(f"t-{one}" in held for held in members.values())]
        kept = [one for one in members[who] if draw.random() < 0.7]
        given_up = tuple(one for one in members[who] if one not in kept and draw.random() < 0.5)
        kept += [one for one in free if draw.random() < 0.5]
        script.reconciled(who, step, *kept, revoking=given_up)
        members[who] = (*kept, *given_up)

    def happens(script: GroupScript) -> None:
        """To a process that reads: each is frozen by a fault of its own, or goes, and comes back or not."""
        name = f"m{draw.randrange(60)}-client"
        about: dict[str, Any] = {"fault": name, "targets": (name,), "effect": "as it is"}
        events: list[t.TraceEvent] = [
            t.FaultBegan(verb="pause", **about),
            draw.choice([t.FaultEnded(verb="pause", **about), t.FaultBegan(verb="resume", **about)]),
            t.NodeStopped(node=name, how="kill"),
            t.NodeStarted(node=name, role="consumer", incarnation=1),
        ]
        for event in events[draw.choice([0, 0, 2]) : draw.choice([1, 2, 3, 4])]:
            script.log.at_us += 700_000
            script.log.emit(event)

    def play(script: GroupScript) -> None:
        members: dict[str, tuple[str, ...]] = {}
        latest, move = "", classic if draw.random() < 0.5 else consumers
        for step in range(60):
            if draw.random() < 0.05:
                script.elected(draw.choice(["b1", "b2"]), step)
            elif draw.random() < 0.05:
                script.coordinator = draw.choice(["b1", "b2"])
            if draw.random() < 0.3:
                happens(script)
            if draw.random() < 0.25 or not members:
                is_static = draw.random() < 0.5
                script.joined(f"m{step}", instance="i1" if is_static else None)
                members[f"m{step}"] = members.pop(latest, ()) if is_static else ()
                latest = f"m{step}" if is_static else latest
            elif draw.random() < 0.2:
                gone = draw.choice(list(members))
                script.left(gone)
                del members[gone]
            else:
                move(script, members, step)

    return play


@pytest.mark.soak
def test_groups_at_random_are_what_plain_python_makes_of_them(spark: SparkSession, tmp_path: Path) -> None:
    run_dirs = [script_on(tmp_path / f"group-{seed}", at_random(seed)) for seed in range(20)]
    tables = ResultTables(read_trace(spark, run_dirs))
    for name, slowly in GROUPS.items():
        rows = tables[name].select("run", *COMPARED[name]).toArrow().to_pylist()
        expected = [(run_dir.name, *row) for run_dir in run_dirs for row in slowly(trace_rows(run_dir))]
        assert Counter(map(values_of, rows)) == Counter(expected), name
        assert len(expected) > 40


@pytest.mark.soak
@pytest.mark.usefixtures("any_length")
def test_a_transaction_whose_coordinator_dies_is_decided_long_before_its_last_marker(
    spark: SparkSession, tmp_path: Path
) -> None:
    scenario = load_file(find_scenario("txn-coordinator-dies")).scenario
    run_dir = run_scenario(scenario, runs_dir=tmp_path, keep_logs=False).run_dir
    assert run_dir is not None
    tables = ResultTables(read_trace(spark, [run_dir]))
    for name, slowly in TRANSACTIONS.items():
        assert Counter(told(tables, name)) == Counter(slowly(trace_rows(run_dir))), name
    (one,) = told(tables, "transactions")
    assert one[:4] == ("orders", 0, 0, ("t-0",)) and one[7:10] == ("CompleteCommit", "b3", False)
    assert one[5] < 8_000_000 < one[6] and one[11] > 9_000_000
    (stall,) = told(tables, "lso_stalls")
    assert stall[:4] == ("t", 0, "b1", 0) and stall[6:] == (0, 5) and stall[5] - stall[4] > 9_000_000
    (waited,) = told(tables, "read_stalls")
    assert waited == ("t", 0, "c1r", None, stall[4], 15_752_000, True)


@pytest.mark.soak
def test_nothing_waits_at_markers_and_aborted_records(spark: SparkSession, tmp_path: Path) -> None:
    names = ("txn-aborted-seen", "txn-hanging", "txn-leader-fails-over")
    scenarios = [load_file(find_scenario(name)).scenario for name in names]
    run_dirs = [Path(str(run_scenario(one, runs_dir=tmp_path, keep_logs=False).run_dir)) for one in scenarios]
    rows = ResultTables(read_trace(spark, run_dirs))["read_stalls"].select("run", *COMPARED["read_stalls"])
    expected = [(run_dir.name, *row) for run_dir in run_dirs for row in read_stalls(trace_rows(run_dir))]
    assert Counter(map(values_of, rows.toArrow().to_pylist())) == Counter(expected)
    aborted_seen, hanging, fails_over = (run_dir.name for run_dir in run_dirs)
    assert {row[0]: row[-1] for row in expected} == {hanging: False, fails_over: True}
    assert aborted_seen not in {row[0] for row in expected}


S = 1_000_000


def test_the_page_says_how_long_who_waited() -> None:
    stalls = [
        {"topic": "t", "partition": 0, "from_us": 10 * S, "until_us": 30 * S, "last_stable_offset": 6}
        | {"waiting_records": 8},
        {"topic": "t", "partition": 1, "from_us": 0, "until_us": S, "last_stable_offset": 1, "waiting_records": 1},
    ]
    unread = [{"group": "g", "topic": "t", "partition": 2, "observed_us": 9 * S, "unread_us": 2 * S}]
    tables = {"lso_stalls": rows_of("lso_stalls", stalls), "group_unread": rows_of("group_unread", unread)}
    assert coordinator_notes(tables) == [
        "Consumers with read_committed waited for up to 20 s: from 10.000 s on, the last stable offset of t-0 stood at "
        "6, 8 records below the high watermark.",
        "For 2 s of 9 s no running member of group g owned t-2.",
    ]
    short = rows_of("lso_stalls", [{"from_us": 0, "until_us": 9}])
    assert coordinator_notes({"lso_stalls": short, "group_unread": rows_of("group_unread")}) == []
