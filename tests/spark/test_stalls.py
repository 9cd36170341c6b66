"""Holders of a high watermark, records at risk, a follower that catches up, the content of fetches: one story."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from replica.causes import ResetCause
from replica.trace import events as t
from spark_reports.io import read_trace
from spark_reports.tables import ResultTables
from spark_reports.transforms.availability import unavailability
from spark_reports.transforms.partitions import isr_intervals, partition_states, stopped_intervals
from tests.spark.story import Story
from tests.trace_builder import BROKERS

pytestmark = pytest.mark.spark

Written = Callable[[str, list[tuple[float, t.TraceEvent]]], Path]


def pinned(run_dir: Path) -> None:
    """b3 does not fetch r0 and is put out of the ISR; then b2 is as well, below min ISR 2; both start again, and
    b2 is not seen to catch up."""
    story = Story(run_dir)
    story.begin()
    story.at(0.1).emit(
        t.PositionReset(
            client="c1r",
            peer="b1",
            topic="t",
            partition=0,
            offset=0,
            previous_offset=-1,
            error=None,
            cause=ResetCause.SEEK,
        )
    )
    for follower in ("b2", "b3"):
        story.at(0.5).replicate(follower)
    story.at(1).produce("r0")
    story.at(1.1).emit(t.RecordsSent(node="b1", peer="b2", topic="t", partition=0, fetch_offset=0, size_bytes=100))
    story.replicate("b2")
    story.at(1.2).replicate("b2")
    story.emit(
        t.RequestCompleted(
            node="b1", peer="b2", api="Fetch", api_version=16, correlation_id=1, connection=1, processor=0,
            connected_us=0, received_us=0, request_bytes=90, response_bytes=125, request_queue_time_us=0,
            local_time_us=0, remote_time_us=0, throttle_time_us=0, response_queue_time_us=0, response_send_time_us=0,
            total_time_us=0, sendfile_calls=2, sendfile_bytes=100,
        )
    )  # fmt: skip
    story.at(4).change_isr(("b1", "b2"))
    story.at(4.1).commit()
    story.at(6).read("r0", 0, by="c1r")
    story.at(7).change_isr(("b1",))
    story.at(8).produce("r1")
    story.at(9).take_down("b3")
    story.at(10).restart("b3")
    story.at(10.5).replicate("b3")
    story.at(10.7).replicate("b3")
    story.at(11).take_down("b2")
    story.restart("b2")
    story.at(11.5).replicate("b2")
    story.at(12).finish()


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ResultTables:
    run_dir = tmp_path_factory.mktemp("runs") / "pinned"
    pinned(run_dir)
    return ResultTables(read_trace(spark, [run_dir]))


def rows(table: DataFrame, *columns: str, by: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in table.orderBy(by).select(*columns).collect()]


@pytest.mark.soak
def test_a_stalled_high_watermark_names_who_held_it(tables: dict[str, DataFrame]) -> None:
    columns = ("from_us", "until_us", "high_watermark", "waiting_records", "pinned_by", "pinned_us",
               "under_min_isr_us", "ended_by")  # fmt: skip
    assert rows(tables["hw_stalls"], *columns, by="from_us") == [
        # b2 had r0 at 1.2; b3 held it until it left the ISR.
        (1_000_000, 4_100_000, 0, 1, ["b3"], 3_000_000, 0, "the high watermark moved"),
        (8_000_000, 12_000_000, 1, 1, [], 0, 4_000_000, "the run ended"),
    ]


def test_a_consumer_waits_from_the_commit_to_its_read(tables: dict[str, DataFrame]) -> None:
    columns = ("client", "from_us", "until_us", "waiting_records", "recovered")
    assert rows(tables["read_stalls"], *columns, by="from_us") == [("c1r", 4_100_000, 6_000_000, 1, True)]


def test_acked_records_are_at_risk_until_the_high_watermark_passes_or_the_term_ends(
    tables: dict[str, DataFrame],
) -> None:
    assert rows(tables["data_at_risk"], "at_us", "at_risk_records", "acks", by="seq") == [
        (1_001_000, 1, 1), (4_100_000, 0, 1), (8_001_000, 1, 1), (12_000_000, 0, 1),
    ]  # fmt: skip


def test_catching_up_after_a_restart(tables: dict[str, DataFrame]) -> None:
    columns = ("node", "started_us", "first_fetch_us", "caught_up_us", "records", "bytes", "records_per_s", "joined_us")
    assert rows(tables["catch_ups"], *columns, by="node") == [
        ("b2", 11_000_000, 11_500_000, None, 1, 100, None, None),
        ("b3", 10_000_000, 10_500_000, 10_700_000, 2, 200, 10.0, None),
    ]


def test_what_a_fetch_carried(tables: dict[str, DataFrame]) -> None:
    columns = ("peer", "partition_reads", "bytes_per_read", "empty_fetches", "bytes_per_request", "bytes_per_call",
               "sendfile_share")  # fmt: skip
    assert rows(tables["fetch_efficiency"], *columns, by="peer") == [
        ("b2", 1, 100.0, 3, 125.0, 50.0, 0.8),
        ("b3", 0, None, 3, None, None, None),
    ]


@pytest.mark.soak
def test_settings_reassignments_and_deletions_change_what_a_partition_should_be(
    spark: SparkSession, written: Written
) -> None:
    def place(**more: Any) -> dict[str, Any]:
        return {"node": "c1", "topic": "t", "partition": 0, "leader_epoch": 0, "partition_epoch": 0, **more}

    created = t.PartitionCreated(broker="b1", replicas=BROKERS, isr=BROKERS, min_isr=2, **place())
    moving = place(replicas=("b4", *BROKERS), adding=("b4",), removing=("b3",))
    facts: list[Any] = [
                        (0, created),
                        (1, t.IsrCommitted(isr=("b1", "b2"), previous_isr=BROKERS, proposed_by=None, **place())),
                        (2, t.ConfigAltered(node="c1", topic="t", key="min.insync.replicas", value="3", min_isr=3)),
                        (3, t.ReassignmentBegan(**moving)),
                        (4, t.IsrCommitted(isr=("b1", "b2", "b4"), previous_isr=("b1", "b2"), proposed_by=None,
                                           **place())),
                        (5, t.ReassignmentCompleted(**place(replicas=("b1", "b2", "b4")))),
                        (6, t.TopicDeleted(node="c1", topic="t")),
                        (8, created),
                        (9, t.RunFinished(lasted_us=0)),
    ]  # fmt: skip
    trace = read_trace(spark, [written("decisions", facts)])
    states = partition_states(trace.control)
    stopped = stopped_intervals(trace.control)
    assert rows(unavailability(states, stopped), "kind", "from_us", "until_us", by="kind") == [
        ("under min ISR", 2_000_000, 4_000_000),
        ("under-replicated", 1_000_000, 4_000_000),
    ]
    of_b4_and_b3 = isr_intervals(states).filter("node in ('b3', 'b4')").orderBy("node")
    assert rows(of_b4_and_b3, "node", "from_us", "until_us", "standing", by="from_us") == [
        ("b3", 0, 1_000_000, "in sync"),
        ("b3", 1_000_000, 5_000_000, "out of sync"),
        ("b4", 3_000_000, 4_000_000, "out of sync"),
        ("b4", 4_000_000, 6_000_000, "in sync"),
        ("b3", 8_000_000, 9_000_000, "in sync"),
    ]


def test_settings_of_a_topic_that_was_made_again_do_not_bring_back_a_partition_that_it_had(
    spark: SparkSession, written: Written
) -> None:
    def created(number: int) -> t.TraceEvent:
        return t.PartitionCreated(
            node="c1", topic="t", partition=number, broker="b1", replicas=BROKERS, isr=("b1",), leader_epoch=0,
            partition_epoch=0, min_isr=2,
        )  # fmt: skip

    facts: list[Any] = [
        (0, created(0)), (0, created(1)),
        (2, t.TopicDeleted(node="c1", topic="t")),
        (4, created(0)),
        (5, t.ConfigAltered(node="c1", topic="t", key="retention.ms", value="9", min_isr=2)),
        (9, t.RunFinished(lasted_us=0)),
    ]  # fmt: skip
    states = partition_states(read_trace(spark, [written("fewer-partitions", facts)]).control)
    assert rows(states, "partition", "from_us", "until_us", by="seq") == [
        (0, 0, 2_000_000), (1, 0, 2_000_000), (0, 4_000_000, 5_000_000), (0, 5_000_000, 9_000_000),
    ]  # fmt: skip


@pytest.mark.soak
def test_who_was_beyond_the_high_watermark_when_it_stopped_does_not_hold_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """b2 has r0 and r1 and dies; b3 has r0 only, and takes until 4.0 for r1."""
    story = Story(tmp_path / "beyond")
    story.begin()
    story.at(1).produce("r0")
    story.at(1.1).produce("r1")
    for record in ("r0", "r1"):
        story.at(1.2).write("b2", record, 0)
    story.write("b3", "r0", 0)
    story.at(1.3)
    story.fetch("b2", 2)
    story.fetch("b3", 1)
    story.commit()
    story.at(1.4).take_down("b2")
    story.at(4).write("b3", "r1", 0)
    story.fetch("b3", 2)
    story.commit()
    story.at(5).finish()
    stalls = ResultTables(read_trace(spark, [tmp_path / "beyond"]))["hw_stalls"]
    columns = ("from_us", "until_us", "high_watermark", "pinned_by", "pinned_us")
    assert rows(stalls, *columns, by="from_us") == [(1_300_000, 4_000_000, 1, ["b3"], 2_700_000)]


@pytest.mark.soak
def test_a_follower_holds_the_high_watermark_while_it_is_in_the_isr_and_not_beyond_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """b2 lacks r0 until it leaves the ISR at 2.0; it comes back at 9.0 with r0, and loses it with its disk at 9.1.
    b3 never fetches, and joins at 8.5."""
    story = Story(tmp_path / "comes-and-goes", min_isr=3)
    story.isr = ("b1", "b2")
    story.begin()
    story.emit(_isr_of(story))
    story.at(1).produce("r0")
    story.at(2).emit(_isr_of(story, "b1"))
    story.at(3).write("b2", "r0", 0)
    story.at(3.1).replicate("b2")
    story.at(8.5).emit(_isr_of(story, "b1", "b3"))
    story.at(9).emit(_isr_of(story, "b1", "b2", "b3"))
    story.at(9.1).empty("b2")
    story.fetch("b2", 0)
    story.at(10).finish()
    stalls = ResultTables(read_trace(spark, [tmp_path / "comes-and-goes"]))["hw_stalls"]
    columns = ("from_us", "until_us", "pinned_by", "pinned_us", "under_min_isr_us")
    assert rows(stalls, *columns, by="from_us") == [(1_000_000, 10_000_000, ["b2"], 1_900_000, 8_000_000)]


def _isr_of(story: Story, *isr: str) -> t.TraceEvent:
    return t.IsrCommitted(
        node="c1", topic="t", partition=0, leader_epoch=0, partition_epoch=0, isr=isr or story.isr, previous_isr=(),
        proposed_by=None,
    )  # fmt: skip
