"""Runs with clients from outside, as `serve` keeps them: groups that read, the acks of brokers, internal topics."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from replica.causes import IsrCause, JoinCause, ResetCause
from replica.trace import events as t
from replica.trace.signs import SIGNS, sign_of
from scenarios.terminal.style import Style
from spark_reports.io import read_trace
from spark_reports.report.moments import moment_lines
from spark_reports.report.notes import InternalTopic, internal_notes, internal_topics, users
from spark_reports.report.rows import Rows
from spark_reports.report.series import down_stretches
from spark_reports.tables import ResultTables
from spark_reports.transforms.fetching import ack_latency
from spark_reports.transforms.witness import _KEY_MOMENTS as KEY_MOMENTS
from tests.spark.columns import rows_of
from tests.spark.slow import truth as slow
from tests.spark.story import Story
from tests.trace_builder import BROKERS

pytestmark = pytest.mark.spark

Written = Callable[[str, list[tuple[float, t.TraceEvent]]], Path]
OFFSETS: dict[str, Any] = {"topic": "__consumer_offsets", "partition": 3}


def joined(group: str, client_id: str) -> t.TraceEvent:
    return t.GroupMemberJoined(
        node="b1", group=group, member=f"{client_id}-1", instance=None, client_id=client_id, generation=0,
        cause=JoinCause.NEW,
    )  # fmt: skip


def assigned(group: str) -> t.TraceEvent:
    return t.GroupAssigned(node="b1", group=group, generation=1, members=("m",))


def emptied(group: str) -> t.TraceEvent:
    return t.GroupRebalanced(node="b1", group=group, generation=2, members=(), member=None, protocol=None)


def group_reads(run_dir: Path) -> None:
    """Group g reads, leaves while a record waits, comes back; other readers belong to no known group."""
    story = Story(run_dir, min_isr=1)
    story.begin()
    place: dict[str, Any] = {
        "node": "c1",
        "leader_epoch": 0,
        "partition_epoch": 0,
        "isr": ("b1",),
        **OFFSETS,
    }
    story.emit(t.PartitionCreated(broker="b1", replicas=BROKERS, min_isr=1, **place))
    story.emit(t.PartitionWentOffline(previous_leader="b1", **place))
    story.change_isr(("b1",))
    for group, client_id in (("g", "my app"), ("g2", "twice"), ("g3", "twice")):
        story.at(0.2).emit(joined(group, client_id))
        story.at(0.3).emit(assigned(group))

    def commit(at: float, record: str) -> None:
        story.at(at - 0.1).produce(record)
        story.at(at).commit()

    commit(1, "r0")
    for client in ("client/my app", "client/twice", "client/kcat"):
        story.at(2).read("r0", 0, by=client)
    story.emit(
        t.PositionReset(client="client/kcat", peer="b1", topic="t", partition=0, offset=0, previous_offset=1,
                        error=None, cause=ResetCause.SEEK)
    )  # fmt: skip
    commit(3, "r1")
    story.at(4).emit(
        t.FetchFailed(client="client/my app", peer="b1", topic="t", partition=0, offset=1, error="UNKNOWN_SERVER_ERROR")
    )
    story.at(5).read("r1", 1, by="client/my app")
    commit(6, "r2")
    story.at(8).emit(emptied("g"))
    commit(9, "r3")
    story.at(10).emit(assigned("g"))
    story.at(11).read("r2", 2, by="client/my app")
    story.at(14).finish()


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("runs") / "groups"
    group_reads(run_dir)
    return run_dir


@pytest.fixture(scope="module")
def tables(spark: SparkSession, run_dir: Path) -> ResultTables:
    return ResultTables(read_trace(spark, [run_dir]))


@pytest.mark.soak
def test_a_group_waits_while_it_has_members(run_dir: Path, tables: dict[str, DataFrame]) -> None:
    columns = ("client", "group", "from_us", "until_us", "recovered", "refused", "errors")
    found = [tuple(row) for row in tables["read_stalls"].orderBy("from_us").select(*columns).collect()]
    assert found == [
        (None, "g", 3_000_000, 5_000_000, True, 1, ["UNKNOWN_SERVER_ERROR"]),
        (None, "g", 6_000_000, 8_000_000, False, 0, []),
        (None, "g", 11_000_000, 14_000_000, False, 0, []),
    ]
    truth = {("t", 0, *row[:5]) for row in found}
    assert slow.read_stalls(slow.rows_of(run_dir)) == truth


@pytest.mark.soak
def test_internal_topics_are_marked_and_told_apart(tables: dict[str, DataFrame]) -> None:
    names = ("availability", "elections", "isr_changes", "unavailability", "runs")
    rows = {name: Rows(tables[name].toArrow()) for name in names}
    assert {(row["topic"], row["internal"]) for row in rows["availability"]} == {
        ("t", False), ("__consumer_offsets", True)
    }  # fmt: skip
    assert {row["topic"] for row in rows["unavailability"] if row["internal"]} == {"__consumer_offsets"}
    ours = users(rows)
    assert {row["topic"] for name in names[:4] for row in ours[name]} == {"t"} and ours["runs"] is rows["runs"]
    found = internal_topics(rows)
    worst = {"offline_us": 14_000_000, "under_replicated_us": 14_000_000, "under_min_isr_us": 0}
    assert found == [InternalTopic("__consumer_offsets", 1, 0, 0, 1, worst)]
    assert internal_notes(found) == [
        "1 of 1 partition of __consumer_offsets had no running leader for up to 14 s. "
        "Consumer groups stored there had no coordinator at that time."
    ]
    transactions = found[0]._replace(topic="__transaction_state")
    both = internal_notes([*found, transactions])[0]
    assert both.endswith("Consumer groups and transactions stored there had no coordinator at that time.")
    assert internal_notes([transactions])[0].endswith("Transactions stored there had no coordinator at that time.")
    assert internal_notes([]) == []


def test_acks_of_clients_from_outside_are_the_brokers_view(spark: SparkSession, written: Written) -> None:
    def told(client: str, record: str, acks: int, latency_us: int | None) -> t.TraceEvent:
        who: dict[str, Any] = {
            "client": client,
            "peer": "b1",
            "topic": "t",
            "partition": 0,
            "record": record,
            "acks": acks,
        }
        if acks == 0:
            return t.RecordHandedOver(**who, latency_us=latency_us)
        assert latency_us is not None
        return t.RecordAcked(**who, offset=0, latency_us=latency_us)

    facts = [
        (1.0, told("p1", "r0", 1, 5_000)),
        (1.0, told("p1", "r1", 1, 7_000)),
        (1.1, told("client/kcat", "k0", 1, 300)),
        (1.2, told("client/kcat", "k1", 0, None)),
        (2.0, t.RunFinished(lasted_us=0)),
    ]
    rows = ack_latency(read_trace(spark, [written("outside", facts)]).produce).orderBy("acks", "measured_at")
    assert [tuple(row) for row in rows.select("acks", "measured_at", "records", "p50_us", "max_us").collect()] == [
        (0, "broker", 1, None, None),
        (1, "broker", 1, 300, 300),
        (1, "producer", 2, 5_000, 7_000),
    ]


def moment(seq: int, event: t.TraceEvent, sign_of_event: str | None = None) -> dict[str, Any]:
    """A row of key_moments. sign_of_event: of another event, that this one explains"""
    data = {"event": t.EVENT_NAMES[type(event)]} | {one.name: getattr(event, one.name) for one in fields(event)}
    names = ("topic", "partition", "verb", "how")
    return {
        "seq": seq, "at_us": 7, "event": sign_of_event or data["event"], "reason": event.sentence(),
        "data": json.dumps(data), **{name: data.get(name) for name in names},
    }  # fmt: skip


def elected(partition: int, broker: str = "b2", epoch: int = 1) -> t.LeaderElected:
    return t.LeaderElected(
        "c1", "t", partition, leader_epoch=epoch, partition_epoch=epoch, broker=broker, previous_leader=None,
        isr=(broker,), clean=True,
    )  # fmt: skip


def proposed(partition: int, node: str) -> t.IsrProposed:
    return t.IsrProposed(
        node, "t", partition, leader_epoch=1, partition_epoch=1, isr=(node, "b3"), previous_isr=(node,),
        cause=IsrCause.CAUGHT_UP, caught_up_to=partition,
    )  # fmt: skip


def told_lines(moments: list[dict[str, Any]]) -> list[tuple[str, str]]:
    told, left_out = moment_lines(rows_of("key_moments", moments), 99)
    assert left_out == 0
    return [(line["sign"], line["reason"]) for line in told]


def test_what_undoes_a_fault_does_not_look_like_one() -> None:
    def fault(kind: type[t.FaultBegan] | type[t.FaultEnded], verb: str, effect: str) -> t.TraceEvent:
        return kind(fault=f"{verb}-1", verb=verb, targets=("a",), effect=effect)

    held, goes_on, cut = "it is held back", "what was held goes on", "a and b are cut"
    moments = [
        moment(0, fault(t.FaultBegan, "hold", held)),
        moment(1, fault(t.FaultBegan, "release", goes_on)),
        moment(2, fault(t.FaultBegan, "cut", cut)),
        moment(3, fault(t.FaultEnded, "hold", goes_on)),
    ]
    assert told_lines(moments) == [("fault", held), ("undone", goes_on), ("fault", cut), ("undone", goes_on)]


@pytest.mark.parametrize(("how", "sign"), [("stop", "ended"), ("kill", "down"), ("halt", "down")])
def test_an_orderly_end_does_not_look_like_a_death(how: str, sign: str) -> None:
    ((told, _),) = told_lines([moment(0, t.NodeStopped(node="b1", how=how))])
    (stretch,) = down_stretches([{"from_us": 0, "until_us": 1, "node": "b1", "how": how, "reason": ""}], ["b1"])
    assert told == sign and stretch["word"].startswith(SIGNS[sign])


def test_every_moment_of_the_page_has_the_sign_that_the_terminal_gives_it() -> None:
    stopped = t.NodeStopped(node="b1", how="kill")
    told = told_lines([moment(number, stopped, event) for number, event in enumerate(KEY_MOMENTS)])
    style = Style()
    on_page = dict(zip(KEY_MOMENTS, (SIGNS[sign] for sign, _ in told), strict=True))
    assert on_page == {event: style.sign(sign_of(event)) for event in KEY_MOMENTS}
    assert on_page["partition_went_offline"] != on_page["node_stopped"] != on_page["election_refused"]


def test_the_same_at_once_for_many_partitions_is_one_line_and_who_leads_is_not() -> None:
    moments = [moment(0, t.NodeStopped(node="b1", how="kill"))]
    moments += [moment(1 + n, elected(n)) for n in range(6)] + [moment(7, elected(6, "b3"))]
    moments += [moment(8 + n, proposed(n, f"b{1 + n}"), "isr_committed") for n in range(2)]
    assert told_lines(moments) == [
        ("down", "b1 was killed (kill -9)"),
        ("elected", "b2 was elected leader of t-0..t-5 in epoch 1"),
        ("elected", "b3 was elected leader of t-6 in epoch 1"),
        (
            "isr",
            "each leader proposed to expand the ISR of t-0..t-1 to {b1, b3} or {b2, b3}. "
            "t-0: b3 has caught up to 0; t-1: to 1",
        ),
    ]


@pytest.mark.parametrize(
    ("read", "places", "left_out"),
    [
        pytest.param(8_000, ["t-0..t-2", "t-0..t-2"], 12 - 6, id="all"),
        pytest.param(8, ["t-0, t-2", "t-0..t-1"], 12 - 4, id="too many at once"),
    ],
)
def test_of_many_moments_the_first_lines_are_told_and_the_others_counted(
    monkeypatch: pytest.MonkeyPatch, read: int, places: list[str], left_out: int
) -> None:
    monkeypatch.setattr("spark_reports.report.moments.MOMENTS_READ", read)
    moments = [moment(n, elected(n % 3, f"b{n % 5}")) for n in reversed(range(12))]
    told = moment_lines(rows_of("key_moments", moments), 2)
    said = [f"b{broker} was elected leader of {where} in epoch 1" for broker, where in enumerate(places)]
    assert ([line["reason"] for line in told[0]], told[1]) == (said, left_out)
