"""Runs with clients from outside, as `serve` keeps them: groups that read, the acks of brokers, internal topics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from replica.causes import JoinCause, ResetCause
from replica.trace import events as t
from replica.trace.signs import SIGNS, sign_of
from scenarios.terminal.style import Style
from spark_reports.io import read_trace
from spark_reports.report.internal import InternalTopic, internal_notes, internal_topics, users
from spark_reports.report.moments import told_moments
from spark_reports.report.rows import Rows
from spark_reports.report.series import down_stretches
from spark_reports.tables import ResultTables
from spark_reports.transforms.latency import ack_latency
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
        "Up to 14 s without a running leader: 1 of 1 partition of __consumer_offsets. "
        "Consumer groups kept there had no coordinator then."
    ]
    transactions = found[0]._replace(topic="__transaction_state")
    both = internal_notes([*found, transactions])[0]
    assert both.endswith("Consumer groups and transactions kept there had no coordinator then.")
    assert internal_notes([transactions])[0].endswith("Transactions kept there had no coordinator then.")
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


def moment(
    seq: int, event: str, reason: str, partition: int | None = None, verb: str | None = None, how: str | None = None
) -> dict[str, Any]:
    """A row of key_moments."""
    topic = None if partition is None else "t"
    place = {"topic": topic, "partition": partition}
    return {"seq": seq, "at_us": 7, "event": event, "reason": reason, "verb": verb, "how": how, **place}


def told_lines(moments: list[dict[str, Any]], several_partitions: bool = True) -> list[dict[str, Any]]:
    told, left_out = told_moments(rows_of("key_moments", moments), several_partitions=several_partitions, most=99)
    assert left_out == 0
    return told


def test_what_undoes_a_fault_does_not_look_like_one() -> None:
    held, goes_on, cut = "it is held back", "what was held goes on", "a and b are cut"
    moments = [
        moment(0, "fault_began", held, verb="hold"),
        moment(1, "fault_began", goes_on, verb="release"),
        moment(2, "fault_ended", goes_on, verb="hold"),
        moment(3, "fault_began", cut, verb="cut"),
    ]
    told = told_lines(moments)
    assert [(line["reason"], line["sign"]) for line in told] == [
        (held, "fault"), (goes_on, "undone"), (cut, "fault")
    ]  # fmt: skip


@pytest.mark.parametrize(("how", "sign"), [("stop", "ended"), ("kill", "down"), ("halt", "down")])
def test_an_orderly_end_does_not_look_like_a_death(how: str, sign: str) -> None:
    (line,) = told_lines([moment(0, "node_stopped", "b1 is gone", how=how)])
    (stretch,) = down_stretches([{"from_us": 0, "until_us": 1, "node": "b1", "how": how, "reason": ""}], ["b1"])
    assert line["sign"] == sign and stretch["word"].startswith(SIGNS[sign])


def test_every_moment_of_the_page_has_the_sign_that_the_terminal_gives_it() -> None:
    told = told_lines([moment(n, event, event) for n, event in enumerate(KEY_MOMENTS)], several_partitions=False)
    style = Style()
    on_page = {line["event"]: SIGNS[line["sign"]] for line in told}
    assert on_page == {event: style.sign(sign_of(event)) for event in KEY_MOMENTS}
    assert on_page["partition_went_offline"] != on_page["node_stopped"] != on_page["election_refused"]


def test_the_same_at_once_for_many_partitions_is_one_line() -> None:
    moments = [moment(0, "node_stopped", "b1 is killed")]
    moments += [moment(1 + n, "leader_elected", "b2 is next", n) for n in range(6)]
    moments += [moment(9, "isr_committed", "b2 is next", 0)]
    told = told_lines(moments)
    assert [(line["event"], line["where"]) for line in told] == [
        ("node_stopped", ""), ("leader_elected", "t-0..t-5")
    ]  # fmt: skip
    assert [line["where"] for line in told_lines(moments, several_partitions=False)] == ["", ""]


def test_what_differs_in_numbers_alone_is_one_line_and_who_leads_is_not() -> None:
    moments = [moment(n, "leader_elected", f"b{2 + n // 4} leads, after {n} s (epoch {n + 1})", n) for n in range(6)]
    moments += [moment(9, "isr_committed", "b1 wants b3 in the ISR {b1, b3}", 0)]
    moments += [moment(10, "isr_committed", "b2 wants b3 in the ISR {b2, b3}", 2)]
    assert [(line["where"], line["reason"]) for line in told_lines(moments)] == [
        ("t-0..t-3", "b2 leads, after 0..3 s (epoch 1..4)"),
        ("t-4..t-5", "b3 leads, after 4..5 s (epoch 5..6)"),
        ("t-0, t-2", "each leader wants b3 in the ISR {b1, b3} or {b2, b3}"),
    ]


def test_the_same_words_with_another_sign_are_a_line_of_their_own() -> None:
    moments = [moment(0, "leader_elected", "b1 is next", 0), moment(1, "partition_went_offline", "b1 is next", 1)]
    assert [(line["sign"], line["where"]) for line in told_lines(moments)] == [("elected", "t-0"), ("offline", "t-1")]


def test_who_leads_is_no_number_where_brokers_are_named_by_numbers() -> None:
    moments = [moment(n, "leader_elected", f"{2 + n} is next", n) for n in range(2)]
    rows = rows_of("key_moments", moments)
    told, _ = told_moments(rows, several_partitions=True, most=9, names={"1", "2", "3"})
    assert [line["reason"] for line in told] == ["2 is next", "3 is next"]


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
    moments = [moment(n, "leader_elected", f"b{n % 5} leads", n % 3) for n in reversed(range(12))]
    told = told_moments(rows_of("key_moments", moments), several_partitions=True, most=2)
    assert [line["reason"] for line in told[0]] == ["b0 leads", "b1 leads"]
    assert ([line["where"] for line in told[0]], told[1]) == (places, left_out)
