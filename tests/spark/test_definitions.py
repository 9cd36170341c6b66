"""The definitions over a trace, on tiny traces whose answers can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import spark_reports.tables as tables_module
from replica.causes import IsrCause, IsrCommitCause, LagCause
from replica.trace import events as t
from replica.trace.signs import SIGNS, sign_of
from spark_reports.held import has_no_rows
from spark_reports.io import read_trace
from spark_reports.results import COLUMNS, RESULT_TABLES
from spark_reports.tables import ResultTables
from spark_reports.transforms.partitions import with_the_leaders_reasons
from spark_reports.transforms.witness import _KEY_MOMENTS
from tests.soak import one_row_in
from tests.spark.story import Story

pytestmark = pytest.mark.spark

Ask = Callable[..., list[Any]]
Written = Callable[[str, list[tuple[float, t.TraceEvent]]], Path]


# ------------------------------------------------------------- one story, many questions (see tests/spark/story.py)


def test_replica_timeline_follows_appends_truncation_and_stops(ask: Ask) -> None:
    columns = ("at_us", "event", "log_end_offset", "high_watermark", "uncommitted_records")
    told = ask("replica_timeline", *columns, by="seq", where=lambda row: row["node"] == "b1")
    assert told[-8:] == [
        (5_100_000, "batch_appended", 4, 3, 1),
        (5_200_000, "batch_appended", 5, 3, 2),
        (5_500_000, "node_stopped", None, None, None),
        (20_000_000, "log_recovered", 5, 3, 2),
        (20_000_000, "following_began", 5, 3, 2),
        (20_100_000, "log_truncated", 3, 3, 0),
        (20_200_000, "batch_appended", 4, 3, 1),
        (20_300_000, "high_watermark_learned", 4, 4, 0),
    ]


def test_isr_intervals_and_changes_carry_their_reasons(ask: Ask) -> None:
    columns = ("from_us", "until_us", "standing", "reason")
    assert ask("isr_intervals", *columns, by="from_us", where=lambda row: row["node"] == "b1") == [
        (0, 14_000_000, "leader", "t-0 was created with the assigned replicas; the first live replica, b1, leads it"),
        (14_000_000, 20_400_000, "out of sync", "b1 left the ISR of t-0 (now {b2, b3})"),
        (20_400_000, 30_000_000, "in sync", "b2 proposed to expand the ISR of t-0 to {b1, b2, b3}"),
    ]
    # The election and the ISR write that comes with it are one change.
    elected = "b2 was elected leader of t-0 in epoch 1 as the first member of the ISR {b1, b2, b3} that counts as live"
    assert ask("isr_changes", "at_us", "left", "joined", "reason", by="seq") == [
        (14_000_000, ["b1"], [], elected),
        (20_400_000, [], ["b1"], "b2 proposed to expand the ISR of t-0 to {b1, b2, b3}"),
    ]


def test_lag_in_records_in_age_and_by_the_isr_rule(ask: Ask) -> None:
    columns = ("at_us", "leader", "lag_records", "lag_us", "peak_lag_us", "behind_us")
    of_b2 = ask(
        "replication_lag", *columns, by="seq", where=lambda row: row["follower"] == "b2" and row["at_us"] > 3_000_000
    )
    assert of_b2 == [
        (3_100_000, "b1", 1, 100_000, 100_000, 900_000),  # r2 is 0.1 s old; b2 was last caught up at 2.2
        (3_200_000, "b1", 0, 0, 200_000, 0),  # it ends at 0.2 s
        (5_100_000, "b1", 1, 0, 0, 1_900_000),  # the leader's own append
        (5_200_000, "b1", 2, 100_000, 100_000, 2_000_000),
        (5_500_000, "b1", 2, 400_000, 400_000, 2_300_000),  # drawn up to the death of the leader
    ]
    # b1 comes back to a leader whose term began at 14.0, with r5 appended at 14.2.
    assert ask("replication_lag", *columns, by="seq", where=lambda row: row["follower"] == "b1") == [
        (20_200_000, "b2", 1, 6_000_000, 0, 6_200_000),
        (20_300_000, "b2", 0, 0, 6_100_000, 0),
        (30_000_000, "b2", 0, 0, 0, 0),
    ]


def test_election_with_time_to_recover(ask: Ask) -> None:
    columns = (
        "leader",
        "previous_leader",
        "leader_epoch",
        "clean",
        "lost_us",
        "elect_us",
        "first_write_us",
        "write_us",
    )
    assert ask("elections", *columns) == [("b2", "b1", 1, True, 5_500_000, 8_500_000, 14_200_000, 8_700_000)]


def test_time_to_recover_counts_from_the_first_loss_to_the_leader_that_knows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """b1 dies at 2.0; b2, chosen at 6.0, is down; b1, chosen at 9.0, leads from 10.0. b3 replaces it while it runs.

    The topic of the same name that is made anew counts its epochs from 0: b2 leads there in an epoch that it was chosen
    for before.
    """
    story = Story(tmp_path / "losses", min_isr=1)
    story.begin()
    story.at(1).take_down("b2")
    story.at(2).take_down("b1")
    place: dict[str, Any] = {"node": "c1", "topic": "t", "partition": 0, "partition_epoch": 0, "isr": ("b1",)}
    story.epoch += 1
    story.at(5).emit(t.PartitionWentOffline(previous_leader="b1", leader_epoch=1, **place))
    story.elected = None
    story.at(6).change_leader("b2", ("b2",), clean=False)
    story.at(9).change_leader("b1", ("b1",), clean=False)
    story.at(10).restart("b1")
    story.at(11).produce("r0")
    story.at(12).change_leader("b3", ("b1", "b3"))
    story.at(13).emit(t.TopicDeleted(node="c1", topic="t"))
    story.at(14).emit(t.PartitionCreated(broker="b1", replicas=("b1",), leader_epoch=0, min_isr=1, **place))
    story.at(15).restart("b2")
    story.epoch = 1
    story.at(16).change_leader("b2", ("b2",))
    story.at(17).produce("other")
    story.at(20).finish()
    columns = ("leader", "at_us", "lost_us", "leading_us", "first_write_us", "write_us")
    elections = ResultTables(read_trace(spark, [tmp_path / "losses"]))["elections"].orderBy("seq")
    assert [tuple(row) for row in elections.select(*columns).collect()] == [
        ("b2", 6_000_000, 2_000_000, None, None, None),
        ("b1", 9_000_000, 2_000_000, 10_000_000, 11_000_000, 9_000_000),
        ("b3", 12_000_000, None, 12_000_000, None, None),
        ("b2", 16_000_000, None, 16_000_000, 17_000_000, None),
    ]


def test_unavailability_of_the_partition_and_of_the_producer(ask: Ask) -> None:
    assert ask("unavailability", "kind", "from_us", "until_us", by="kind") == [
        ("leader down", 5_500_000, 14_000_000),
        ("under-replicated", 14_000_000, 20_400_000),
    ]
    columns = ("observed_us", "offline_us", "under_replicated_us", "under_min_isr_us")
    assert ask("availability", *columns) == [(30_000_000, 8_500_000, 6_400_000, 0)]
    assert ask("write_stalls", "client", "from_us", "until_us", "refused", "errors", "recovered") == [
        ("p1", 6_000_000, 14_201_000, 1, ["NETWORK_EXCEPTION"], True)
    ]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("profile", "under_s"),
    one_row_in(
        3,
        [
            ("kafka-4.1", 0),
            ("kafka-3.9", 0),
            ("real Kafka 3.7.2", 0),
            ("real Kafka 3.6.2", 8),
            ("kafka-0.10", 8),
            ("?", 0),
        ],
    ),
)
def test_more_in_sync_replicas_than_there_are_are_asked_for_before_kafka_3_7(
    spark: SparkSession, written: Written, profile: str, under_s: int
) -> None:
    """Partition.effectiveMinIsr is of 3.7: before it no acks=all was answered there."""
    facts: list[tuple[float, t.TraceEvent]] = [
        (0, t.RunStarted(scenario="s", variant=None, seed=1, profile=profile, title="it was run")),
        (2, t.PartitionCreated(
            node="c1", topic="t", partition=0, broker="b1", replicas=("b1",), isr=("b1",), leader_epoch=0,
            partition_epoch=0, min_isr=2,
        )),
        (10, t.RunFinished(lasted_us=0)),
    ]  # fmt: skip
    tables = ResultTables(read_trace(spark, [written("minimum", facts)]))
    assert [row.under_min_isr_us for row in tables["availability"].collect()] == [under_s * 1_000_000]
    assert [row.min_isr for row in tables["partition_states"].collect()] == [2 if under_s else 1]


def test_faults_end_by_themselves_by_restart_or_at_once(ask: Ask) -> None:
    assert ask("fault_intervals", "verb", "targets", "from_us", "until_us", by="from_us") == [
        ("hold", ["b1", "b2", "b3"], 5_000_000, 30_000_000),
        ("kill", ["b1"], 5_500_000, 20_000_000),
        ("start", ["b1"], 20_000_000, 20_000_000),
    ]


@pytest.mark.soak
def test_a_pause_ends_when_its_node_continues_or_stops(spark: SparkSession, written: Written) -> None:
    def began(fault: str, verb: str, *targets: str) -> t.TraceEvent:
        return t.FaultBegan(fault=fault, verb=verb, targets=targets, effect=f"{verb} {targets}")

    facts: list[tuple[float, t.TraceEvent]] = [
        (1, began("pause-1", "pause", "b1")),
        (2, began("pause-2", "pause", "b2")),
        (3, began("pause-3", "pause", "b3")),
        (4, began("resume-4", "resume", "b1")),
        (5, t.NodeStopped(node="b2", how="kill")),
        (5, began("kill-5", "kill", "b2")),
        (6, t.FaultEnded(fault="pause-3", verb="pause", targets=("b3",), effect="time is over")),
        (7, t.NodeStarted(node="b2", role="broker", incarnation=1)),
        (8, began("pause-6", "pause", "b1")),
        (9, t.RunFinished(lasted_us=0)),
    ]
    found = ResultTables(read_trace(spark, [written("pauses", facts)]))["fault_intervals"].orderBy("from_us", "fault")
    assert [(row.fault, row.until_us // 1_000_000) for row in found.collect()] == [
        ("pause-1", 4), ("pause-2", 5), ("pause-3", 6), ("resume-4", 4), ("kill-5", 7), ("pause-6", 9),
    ]  # fmt: skip


def test_an_unanswered_proposal_does_not_explain_what_the_controller_did_itself(
    spark: SparkSession, written: Written
) -> None:
    place: dict[str, Any] = {"topic": "t", "partition": 0, "leader_epoch": 0, "partition_epoch": 0}
    before, after = ("b1", "b2", "b3"), ("b1", "b2")
    its = {"node": "c1", "proposed_by": None, "cause": IsrCommitCause.DECIDED, **place}
    asked = its | {"proposed_by": "b1", "cause": IsrCommitCause.PROPOSED}
    asks = t.IsrProposed(
        node="b1",
        isr=after,
        previous_isr=before,
        cause=IsrCause.LAG,
        lag_causes=(LagCause.NEVER_CAUGHT_UP,),
        lags=(-1,),
        **place,
    )
    facts: list[tuple[float, t.TraceEvent]] = [
        (1, asks),
        (2, t.IsrCommitted(isr=after, previous_isr=before, **its)),
        (3, t.IsrCommitted(isr=before, previous_isr=after, **asked)),
        (4, asks),
        (5, t.IsrCommitted(isr=after, previous_isr=before, **asked)),
    ]
    control = with_the_leaders_reasons(read_trace(spark, [written("proposals", facts)]).control)
    told = control.filter("event = 'isr_committed'").orderBy("seq").collect()
    assert [row.reason for row in told] == [
        "b3 left the ISR of t-0 (now {b1, b2})",
        "b3 joined the ISR of t-0 (now {b1, b2, b3}): the leader b1 proposed this",
        "b1 proposed to shrink the ISR of t-0 to {b1, b2}: b3 has not caught up since b1 became leader",
    ]


def test_lost_records_have_a_witness(ask: Ask) -> None:
    columns = ("record", "acked_by", "ack_offset", "held_by", "elected", "elected_us", "erased_on", "disk_lost_us")
    assert ask("lost_records", *columns, by="record") == [
        ("r3", "b1", 3, ["b1"], "b2", 14_000_000, ["b1"], None),
        ("r4", "b1", 4, ["b1"], "b2", 14_000_000, ["b1"], None),
    ]


@pytest.mark.soak
def test_the_election_that_lost_a_record_is_that_of_a_leader_without_it(spark: SparkSession, tmp_path: Path) -> None:
    """r0 is acked by b1 and on b2; b2 leads with it, then b3 without. Before, b3 cut another record at its offset."""
    story = Story(tmp_path / "two-elections", min_isr=1)
    story.begin()
    story.at(1).produce("r0", ack=False)
    story.write("b2", "r0", 0)
    story.at(1.1).ack("r0", 0, latency_us=1000)
    story.at(2).take_down("b1")
    story.at(5).change_leader("b2", ("b2", "b3"))
    story.at(6).write("b3", "other", 1)
    story.at(7).truncate("b3", 0)
    story.at(8).take_down("b2")
    story.at(10).change_leader("b3", ("b3",), clean=False)
    story.at(11).restart("b2")
    story.truncate("b2", 0)
    story.at(12).change_leader("b2", ("b2", "b3"))
    story.at(20).finish()
    columns = ("held_by", "elected", "elected_clean", "elected_us", "erased_on", "erased_us", "erased_reason")
    (lost,) = ResultTables(read_trace(spark, [tmp_path / "two-elections"]))["lost_records"].select(*columns).collect()
    assert tuple(lost) == (["b1", "b2"], "b3", False, 10_000_000, ["b2"], 11_000_000, "b2 cut its log of t-0 back to 0")


@pytest.mark.soak
def test_who_lost_a_record_with_its_disk_and_leads_again_leads_without_it(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(tmp_path / "disk", min_isr=1)
    story.begin()
    story.at(1).produce("r0")
    story.at(2).take_down("b1", "power_off")
    story.lose("b1")
    story.at(3).restart("b1")
    story.at(4).change_leader("b1", ("b1",))
    story.at(5).finish()
    columns = ("elected", "elected_us", "erased_us", "disk_lost_on")
    (lost,) = ResultTables(read_trace(spark, [tmp_path / "disk"]))["lost_records"].select(*columns).collect()
    assert tuple(lost) == ("b1", 4_000_000, None, ["b1"])


def test_records_counted_and_latency_by_acks(ask: Ask) -> None:
    columns = ("acks", "sent", "acked", "lost", "missing", "duplicated")
    assert ask("record_counts", *columns) == [(1, 6, 6, 2, 0, 0)]
    assert ask("ack_latency", "acks", "measured_at", "records", "p50_us", "max_us") == [
        (1, "producer", 6, 1000, 8_201_000)
    ]


def test_key_moments_leave_out_the_building_of_the_cluster(ask: Ask) -> None:
    assert [row[0] for row in ask("key_moments", "event", by="seq")] == [
        "fault_began", "node_stopped", "leader_elected", "isr_committed", "node_started",
        "log_truncated", "isr_committed", "fault_ended",
    ]  # fmt: skip
    # Each has its sign on the page.
    assert {sign_of(event) for event in _KEY_MOMENTS} <= set(SIGNS)


@pytest.mark.soak
def test_every_table_and_column_is_documented(spark: SparkSession, leader_kill_dir: Path) -> None:
    tables = ResultTables(read_trace(spark, [leader_kill_dir]))
    assert set(tables) == set(RESULT_TABLES)
    used = {field.name for table in tables.values() for field in table.schema}
    assert used == set(COLUMNS)
    declared = {name: table.ddl.replace(", ", ",") for name, table in RESULT_TABLES.items()}
    found = {
        name: ",".join(f"{field.name} {field.dataType.simpleString()}" for field in table.schema)
        for name, table in tables.items()
    }
    assert found == declared


@pytest.mark.soak
def test_tables_left_out_have_the_rows_and_columns_of_their_definitions(
    spark: SparkSession, leader_kill_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run without transactions and groups: their tables are not computed. Nor are they where that is not known."""
    left_out = dict(tables_module._ONLY_FROM)
    trace = read_trace(spark, [leader_kill_dir])
    assert {table for table in left_out.values() if not has_no_rows(getattr(trace, table))} == set()
    known = ResultTables(trace)
    monkeypatch.setattr(tables_module, "_ONLY_FROM", {})
    defined = ResultTables(trace)
    for name in left_out:
        assert defined[name].collect() == known[name].collect() == []
        assert [(field.name, field.dataType) for field in defined[name].schema] == [
            (field.name, field.dataType) for field in known[name].schema
        ]


@pytest.mark.soak
def test_the_minimum_follows_the_number_of_replicas(spark: SparkSession, written: Written) -> None:
    """A topic of one replica gets two more; then two leave the ISR, and one replica is left."""
    place: dict[str, Any] = {"topic": "t", "partition": 0, "leader_epoch": 0, "node": "c1"}
    one, all_of_them = ("b1",), ("b1", "b2", "b3")

    def isr(epoch: int, before: tuple[str, ...], after: tuple[str, ...]) -> t.TraceEvent:
        return t.IsrCommitted(isr=after, previous_isr=before, proposed_by=None, partition_epoch=epoch, **place)

    facts: list[tuple[float, t.TraceEvent]] = [
        (1, t.PartitionCreated(broker="b1", replicas=one, isr=one, partition_epoch=0, min_isr=2, **place)),
        (5, t.ReassignmentBegan(
            replicas=all_of_them, adding=("b2", "b3"), removing=(), partition_epoch=1, **place
        )),
        (6, isr(2, one, all_of_them)),
        (6, t.ReassignmentCompleted(replicas=all_of_them, partition_epoch=2, **place)),
        (10, isr(3, all_of_them, one)),
        (20, t.ReassignmentCompleted(replicas=one, partition_epoch=4, **place)),
        (25, t.RunFinished(lasted_us=0)),
    ]  # fmt: skip
    tables = ResultTables(read_trace(spark, [written("factor", facts)]))
    minima = tables["partition_states"].orderBy("seq").select("min_isr").collect()
    assert [row.min_isr for row in minima] == [1, 2, 2, 2, 2, 1]
    assert [row.under_min_isr_us for row in tables["availability"].collect()] == [11_000_000]
