"""What the terminal of a live cluster says of topics that clients make and delete."""

from __future__ import annotations

from collections.abc import Sequence

from replica.causes import TransactionCause
from replica.ids import TopicPartition
from replica.trace.events import (
    PartitionCreated,
    ProduceRefused,
    TopicDeleted,
    TraceLog,
    TransactionRefused,
    TransactionStateChanged,
)
from scenarios.observe.story import StoryLine
from scenarios.serve.topic_news import TopicNews


class Cluster:
    def __init__(self, announced: Sequence[TopicPartition] = ()) -> None:
        self.news = TopicNews(announced)
        self.log = TraceLog([self.news])

    def make(self, topic: str, leaders: Sequence[str] = ("b1",), *, at_us: int = 0, first: int = 0) -> None:
        self.log.at_us = at_us
        for number, leader in enumerate(leaders, first):
            self.log.emit(
                PartitionCreated(
                    node="c1", topic=topic, partition=number, broker=leader, replicas=(leader, "b9"), isr=(leader,),
                    leader_epoch=0, partition_epoch=0, min_isr=1,
            )
            )  # fmt: skip

    def delete(self, topic: str, *, at_us: int = 0) -> None:
        self.log.at_us = at_us
        self.log.emit(TopicDeleted(node="c1", topic=topic))

    def said(self, now_us: int) -> list[str]:
        return [line.text for line in self.news.among([], now_us)]


def test_a_topic_is_told_with_its_sizes_and_leaders() -> None:
    cluster = Cluster()
    cluster.make("one", ["b2"], at_us=3)
    assert cluster.news.among([], 5) == [StoryLine(3, "note", "topic one was created: 1 partition, RF 2; b2 leads")]
    assert cluster.said(6) == []
    cluster.make("three", ["b2", "b1", "b2"], at_us=2_000_000)
    assert cluster.said(2_000_000) == [
        "topic three was created: 3 partitions, RF 2; b1 leads three-1; b2 leads three-0, three-2"
    ]
    cluster.make("one", ["b3"], first=1, at_us=4_000_000)
    assert cluster.said(4_000_000) == ["topic one was extended by 1 partition, RF 2; b3 leads"]


def test_a_thousand_topics_are_a_line_each_second() -> None:
    cluster = Cluster()
    cluster.make("first")
    assert len(cluster.said(0)) == 1
    for number in range(500):
        cluster.make(f"t{number}", ["b1", "b2"], at_us=1_000 * number)
        assert cluster.said(1_000 * number) == []
    assert cluster.said(1_000_000) == ["500 topics were created: t0..t499; 1,000 partitions"]
    for number in range(500):
        cluster.delete(f"t{number}", at_us=1_100_000)
    assert cluster.said(1_999_999) == []
    assert cluster.said(2_000_000) == ["500 topics were deleted with all their records: t0..t499"]
    for name in "abcdefghij":
        cluster.make(name, at_us=3_000_000)
    assert cluster.said(3_000_000) == ["10 topics were created: a, b, c, d, e, f, g, ..., j; 10 partitions"]


def test_within_a_second_the_changes_of_one_topic_keep_their_order() -> None:
    cluster = Cluster()
    cluster.make("first")
    assert len(cluster.said(0)) == 1
    cluster.make("t", ["b1"], at_us=100)
    cluster.delete("t", at_us=200)
    cluster.make("t", ["b2", "b3"], at_us=300)
    cluster.make("u", ["b1"], at_us=400)
    cluster.delete("u", at_us=500)
    cluster.delete("t", at_us=600)
    assert cluster.news.among([], 1_000_000) == [
        StoryLine(100, "note", "2 topics were created: t, u; 2 partitions"),
        StoryLine(200, "note", "2 topics were deleted with all their records: t, u"),
        StoryLine(300, "note", "topic t was created: 2 partitions, RF 2; b2 leads t-0; b3 leads t-1"),
        StoryLine(600, "note", "an operator deleted topic t with all its records"),
    ]


def test_topics_that_grow_are_not_made() -> None:
    cluster = Cluster()
    cluster.make("a", ["b1", "b2"], first=1)
    cluster.make("new", ["b1"], at_us=1)
    cluster.make("b", first=3, at_us=2)
    assert cluster.said(2) == [
        "2 topics got 3 more partitions: a, b",
        "topic new was created: 1 partition, RF 2; b1 leads",
    ]


def test_long_names_are_cropped() -> None:
    cluster, cut = Cluster(), f"{'n' * 37}..."
    name = "n" * 240
    cluster.make(name, ["b1", "b2", "b1"])
    assert cluster.said(0) == [
        f"topic {cut} was created: 3 partitions, RF 2; b1 leads {cut}-0, {cut}-2; b2 leads {cut}-1"
    ]
    for number in range(3):
        cluster.delete(f"{name}-{number}", at_us=1_000_000)
    assert cluster.said(1_000_000) == [f"3 topics were deleted with all their records: {cut}0..{cut}2"]


def test_names_with_zeros_before_their_number_keep_them() -> None:
    cluster = Cluster()
    for number in range(12):
        cluster.make(f"t{number:02}")
    assert cluster.said(0) == ["12 topics were created: t10..t11, t00..t09; 12 partitions"]


def line_of_deletion(at_us: int, topic: str) -> StoryLine:
    event = TopicDeleted(node="c1", topic=topic)
    return StoryLine(at_us, "note", event.sentence(), event)


def test_a_deletion_is_told_here_and_not_by_the_story() -> None:
    cluster = Cluster()
    cluster.make("first")
    assert len(cluster.said(0)) == 1
    cluster.delete("gone", at_us=7)
    line = line_of_deletion(7, "gone")
    assert cluster.news.among([line], 8) == []
    assert cluster.news.among([], 1_000_000) == [line._replace(event=None)]


def test_what_waits_is_told_before_a_later_line_of_the_story() -> None:
    cluster = Cluster()
    cluster.make("first")
    assert len(cluster.said(0)) == 1
    cluster.make("second", at_us=10)
    cluster.delete("second", at_us=30)
    earlier, later = StoryLine(20, "down", "b2 is killed"), StoryLine(40, "up", "b2 is back")
    deleted = line_of_deletion(30, "second")
    made = StoryLine(10, "note", "topic second was created: 1 partition, RF 2; b1 leads")
    assert cluster.news.among([earlier, deleted, later], 50) == [
        made, earlier, deleted._replace(event=None), later
    ]  # fmt: skip
    cluster.make("third", at_us=60)
    assert cluster.said(1_000_049) == []
    assert len(cluster.said(1_000_050)) == 1


def test_topics_of_the_scenario_and_of_coordinators_are_no_news() -> None:
    cluster = Cluster([TopicPartition("orders", 0), TopicPartition("orders", 1)])
    cluster.make("__consumer_offsets", ["b1"] * 50)
    cluster.make("orders", ["b1"])
    cluster.make("orders", ["b2"], first=1)  # A controller of the ZooKeeper era makes them one by one.
    assert cluster.said(5) == []
    cluster.delete("orders")
    cluster.make("orders", ["b3"])
    assert cluster.said(6) == [
        "an operator deleted topic orders with all its records",
        "topic orders was created: 1 partition, RF 2; b3 leads",
    ]


class Coordinator(Cluster):
    def refuse(self, name: str, *, api: str = "AddPartitionsToTxn", topic: str = "__transaction_state") -> None:
        refused = ProduceRefused(
            node="b1", peer="b1", topic=topic, partition=0, error="NOT_ENOUGH_REPLICAS", message="the ISR {b1} is small"
        )
        error = "COORDINATOR_NOT_AVAILABLE"
        self.log.emit(
            TransactionRefused(node="b1", transactional_id=name, api=api, producer_id=1, producer_epoch=0, error=error),
            self.log.emit(refused),
        )

    def go_on(self, name: str) -> None:
        self.log.emit(
            TransactionStateChanged(
                node="b1", transactional_id=name, producer_id=1, producer_epoch=0, previous_state="Empty",
                state="Ongoing", partitions=(), fences=False, cause=TransactionCause.PARTITIONS_ADDED,
            )
        )  # fmt: skip


def test_a_coordinator_that_cannot_write_is_told_once_for_each_outage() -> None:
    cluster = Coordinator()
    for _ in range(3):
        cluster.refuse("pay")
    cluster.refuse("bill", api="InitProducerId")
    why = "b1 refused a batch of b1 for __transaction_state-0 with NOT_ENOUGH_REPLICAS: the ISR {b1} is small"
    who = "transactional.id pay (producer id 1, epoch 0)"
    told = f"b1 refused AddPartitionsToTxn for {who} with COORDINATOR_NOT_AVAILABLE; {why}"
    assert cluster.said(0) == [told, told.replace("AddPartitionsToTxn", "InitProducerId").replace("pay", "bill")]
    cluster.refuse("pay")
    assert cluster.said(1_000_000) == []
    cluster.go_on("pay")
    for name in ("pay", "bill"):
        cluster.refuse(name)
    assert cluster.said(2_000_000) == [told]


def test_what_a_client_did_wrong_is_no_news() -> None:
    cluster = Coordinator()
    cluster.refuse("pay", topic="orders")
    assert cluster.said(0) == []


def test_so_many_transactional_ids_have_a_line() -> None:
    cluster = Coordinator()
    for number in range(1000):
        cluster.refuse(f"t{number}")
    assert len(cluster.said(0)) == 100


def test_a_deleted_internal_topic_is_told_with_what_went_with_it() -> None:
    cluster = Cluster()
    cluster.make("__consumer_offsets", ["b1"] * 50)
    cluster.delete("__consumer_offsets", at_us=5)
    cluster.delete("__transaction_state", at_us=2_000_000)
    assert cluster.said(5_000_000) == [
        "2 topics were deleted with all their records: __consumer_offsets, __transaction_state"
    ]
    cluster.delete("__consumer_offsets", at_us=9_000_000)
    assert cluster.said(9_000_000) == [
        "an operator deleted topic __consumer_offsets with all its records; "
        "the offsets of all groups were deleted with it"
    ]
