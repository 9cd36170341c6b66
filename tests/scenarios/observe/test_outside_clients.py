"""Events about clients that state nothing themselves, and their effect on the tap, the mirror and the verdict.

A log that is written by hand stands for the broker; test_client_tap and test_resent_batches have real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cluster.live.client_tap import ClientTap
from cluster.live.observations import (
    BatchArrived,
    ConnectionEnded,
    FetchResponseSeen,
    Observation,
    PartitionAnswered,
    ProduceAnswered,
    ProduceArrived,
    records_seen,
)
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.log.batches.records import BatchHeader, build_batch, read_header
from replica.trace import events as trace
from scenarios.check.verdict import Verdict, judge
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.mirror import LogMirror
from scenarios.observe.story import StoryLine
from scenarios.serve.trace_watches import DeletionWatch, LossWatch

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Idempotent = tuple[int, int, int]
"""(producer id, epoch, base sequence)"""


def arrived(
    *values: str, to: TopicPartition = T0, at_ms: int = 5, idempotent: Idempotent = (-1, -1, -1)
) -> BatchArrived:
    producer_id, epoch, sequence = idempotent
    batch = build_batch(
        [(None, value.encode()) for value in values],
        timestamp_ms=at_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    header = read_header(batch)
    return BatchArrived(to, header, records_seen(memoryview(batch), header.record_count))


class Client:
    """One connection."""

    def __init__(self, world: World, name: str, node: str) -> None:
        self.world, self.node = world, node
        self.tell: Callable[[Observation, int], None] = world.tap.open(f"client/{name}", node)

    def sends(self, *values: str, acks: int = -1, **how: Any) -> BatchHeader:
        """how: as for `arrived`"""
        batch = arrived(*values, **how)
        self.tell(ProduceArrived(acks, (batch,)), self.world.log.at_us)
        return batch.header

    def answered(self, base_offset: int, error: ErrorCode = ErrorCode.NONE, of: TopicPartition = T0) -> None:
        self.tell(ProduceAnswered((PartitionAnswered(of, error, base_offset, None),), 9), 9)

    def ends(self) -> None:
        self.tell(ConnectionEnded("it is gone"), 9)

    def writes(self, base_offset: int, *values: str, of: TopicPartition = T0, **how: Any) -> None:
        """Sent, appended, acked."""
        header = self.sends(*values, to=of, **how)
        self.world.appends(header, base_offset, self.node, of)
        self.answered(base_offset, of=of)


class World:
    def __init__(self) -> None:
        self.mirror = LogMirror()
        self.ledger = RecordLedger(self.mirror.deleted)
        self.said: list[StoryLine] = []
        deletions, self.losses = DeletionWatch(), LossWatch(self.said.append)
        self.losses.mirror = self.mirror
        self.events: list[trace.TraceEvent] = []
        self.log = trace.TraceLog(
            [
                self.ledger,
                self.mirror,
                self.losses,
                deletions,
                lambda row: self.events.append(row.event),
            ]
        )
        taken = self.ledger.records.index
        self.tap = deletions.tap = ClientTap(
            self.log, self.mirror.sent, self.mirror.names_in, lambda name: taken.place(name) >= 0, str
        )

    def connects(self, name: str = "p", node: str = "b1") -> Client:
        return Client(self, name, node)

    def appends(
        self, header: BatchHeader, base_offset: int, node: str = "b1", to: TopicPartition = T0, epoch: int = 0
    ) -> None:
        end = base_offset + header.record_count
        self.log.emit(
            trace.BatchAppended(
                node=node, role="leader", topic=to.topic, partition=to.partition, leader_epoch=epoch,
                base_offset=base_offset, last_offset=end - 1, log_end_offset=end, size_bytes=header.size_bytes,
                crc=header.crc, producer_id=header.producer_id, producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
            )
        )  # fmt: skip

    def leads(self, node: str, end: int = 0, of: TopicPartition = T0, epoch: int = 0) -> None:
        self.log.emit(
            trace.LeadershipBegan(
                node=node, topic=of.topic, partition=of.partition, leader_epoch=epoch, partition_epoch=0, isr=(node,),
                log_end_offset=end, high_watermark=end, )
        )  # fmt: skip

    def deletes_topic(self, *gone_on: str) -> None:
        self.log.emit(trace.TopicDeleted(node="c1", topic="t"))
        for node in gone_on:
            self.gone(node)

    def gone(self, node: str, of: TopicPartition = T0) -> None:
        self.log.emit(
            trace.ReplicaDeleted(node=node, topic=of.topic, partition=of.partition, previous_log_end_offset=0)
        )

    def records(self) -> list[str]:
        return [entry.name for entry in self.ledger]

    def final(self, node: str = "b1", of: TopicPartition = T0) -> list[str]:
        """The content of a node's log when the run ends."""
        names = []
        for offset, name, batch in self.mirror.records(of, node):
            names.append(name)
            self.log.emit(
                trace.LogEntriesFound(
                    node=node, topic=of.topic, partition=of.partition, offset=offset, records=(name,), leader_epoch=0,
                    crc=batch.crc,
                )
            )  # fmt: skip
        end = self.mirror.log(of, node).end
        self.log.emit(
            trace.ReplicaFound(
                node=node, topic=of.topic, partition=of.partition, log_start_offset=0, log_end_offset=end,
                high_watermark=end, is_leader=True, in_isr=True, running=True,
            )
        )  # fmt: skip
        return names

    def verdict(self) -> Verdict:
        self.ledger.close()
        return judge(self.ledger)


# ------------------------------------------------------------------------------------------- a batch that comes again


def test_a_batch_of_an_idempotent_producer_is_known_again_after_its_ack() -> None:
    """On the same connection, on another, from a client of another name, and after five more."""
    world = World()
    one = world.connects()
    one.writes(0, "hello", idempotent=(7, 0, 0))
    one.sends("hello", idempotent=(7, 0, 0))
    one.answered(0)
    for sequence in range(1, 6):
        one.writes(sequence, "more", idempotent=(7, 0, sequence))
    other = world.connects("q")
    other.sends("hello", idempotent=(7, 0, 0))
    other.answered(0)
    assert world.records() == world.final() == ["hello", "more", "more~2", "more~3", "more~4", "more~5"]
    assert world.verdict().ok
    assert [event.attempt for event in world.events if isinstance(event, trace.BatchSent)] == [1, 2, 1, 1, 1, 1, 1, 2]


def test_other_numbers_another_partition_and_another_topic_of_the_name_are_other_batches() -> None:
    world = World()
    client = world.connects()
    client.writes(0, "x", idempotent=(7, 0, 0))
    client.writes(1, "x", idempotent=(7, 0, 1))
    client.writes(2, "x", idempotent=(7, 1, 0))
    client.writes(3, "x", idempotent=(8, 0, 0))
    client.writes(0, "x", idempotent=(7, 0, 0), of=T1)
    assert world.records() == ["x", "x~2", "x~3", "x~4", "x~5"]
    world.deletes_topic("b1")
    client.writes(0, "x", idempotent=(7, 0, 0))
    assert world.records()[5:] == world.final() == ["x~6"]
    assert world.verdict().ok


def test_the_answer_tells_which_batch_it_is_when_its_first_sending_is_forgotten() -> None:
    world = World()
    client = world.connects()
    for sequence in range(40):
        client.writes(sequence, f"r{sequence}", idempotent=(7, 0, sequence))
    client.sends("r3", idempotent=(7, 0, 3))
    client.answered(3)
    world.final()
    verdict = world.verdict()
    assert verdict.ok and verdict.records["lost"] == ()
    assert verdict.records["unknown"] == ("r3~2",)


def test_sequence_numbers_that_begin_again_at_0_are_other_batches() -> None:
    """They wrap at 2^31; a producer that gets there has long sent more batches than are remembered."""
    world = World()
    client = world.connects()
    client.writes(0, "first", idempotent=(7, 0, 0))
    for number in range(20):
        client.writes(1 + number, "x", idempotent=(7, 0, 2**31 - 20 + number))
    client.writes(21, "wrapped", idempotent=(7, 0, 0))
    assert world.final()[-1] == "wrapped"
    assert world.verdict().ok


def test_a_batch_that_a_new_leader_no_longer_knows_is_numbered_anew_and_stored_twice() -> None:
    """KIP-360: out of order, so the producer raises its epoch. The records are the same, also when they were acked."""
    world = World()
    first = world.connects(node="b1")
    header = first.sends("r0", "r1", idempotent=(7, 0, 0))
    world.appends(header, 0, "b1")
    world.appends(header, 0, "b2")
    first.answered(0)
    second = world.connects(node="b2")
    second.sends("r0", "r1", idempotent=(7, 0, 0))
    second.answered(-1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    second.writes(2, "r0", "r1", idempotent=(7, 1, 0))
    assert world.records() == ["r0", "r1"]
    assert world.final("b2") == ["r0", "r1", "r0", "r1"]
    verdict = world.verdict()
    assert verdict.records["duplicated"] == ("r0", "r1") and verdict.records["lost"] == ()


def test_a_producer_that_becomes_another_after_an_error_sends_the_same_records() -> None:
    """As kafka-python does; a producer that was there beside it does not."""
    world = World()
    client = world.connects()
    client.writes(0, "a", idempotent=(7, 0, 0))
    client.sends("b", idempotent=(7, 0, 5))
    world.connects().writes(1, "b", idempotent=(9, 0, 0))
    client.answered(-1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    client.writes(2, "b", idempotent=(8, 0, 0))
    assert world.records() == ["a", "b", "b~2"] and world.final() == ["a", "b~2", "b"]
    records = world.verdict().records
    assert records["acked"] == ("a", "b", "b~2") and records["lost"] == records["duplicated"] == ()


def test_the_halves_of_a_batch_that_was_too_large_are_the_same_records() -> None:
    world = World()
    client = world.connects()
    client.sends("a", "b", "c", idempotent=(7, 0, 0))
    client.answered(-1, ErrorCode.MESSAGE_TOO_LARGE)
    client.writes(0, "a", idempotent=(7, 0, 0))
    client.writes(1, "b", "c", idempotent=(7, 0, 1))
    assert world.records() == world.final() == ["a", "b", "c"]
    verdict = world.verdict()
    assert verdict.ok and verdict.records["acked"] == ("a", "b", "c") and verdict.records["failed"] == ()


def test_without_idempotence_what_is_sent_again_after_a_lost_ack_is_stored_twice() -> None:
    world = World()
    first = world.connects()
    first.writes(0, "x", acks=1)
    first.ends()
    second = world.connects()
    second.writes(1, "x", acks=1)
    assert world.records() == ["x"] and world.final() == ["x", "x"]
    assert world.verdict().records["duplicated"] == ("x",)


def test_one_answer_may_be_lost_for_many_partitions_at_once() -> None:
    world = World()
    client = world.connects()
    partitions = [TopicPartition("t", number) for number in range(9)]
    request = ProduceArrived(1, tuple(arrived("x", to=partition) for partition in partitions))
    client.tell(request, 0)
    client.tell(ProduceAnswered(tuple(PartitionAnswered(one, ErrorCode.NONE, 0, None) for one in partitions), 9), 9)
    client.ends()
    world.connects().tell(request, 0)
    assert len(world.records()) == 9


def test_two_clients_of_one_name_that_say_the_same_at_once_send_two_records() -> None:
    """The answers come in another order than the batches."""
    for idempotent in (False, True):
        world = World()
        one, other = world.connects(), world.connects()
        numbers = ((7, 0, 0), (8, 0, 0)) if idempotent else ((-1, -1, -1), (-1, -1, -1))
        first = one.sends("x", idempotent=numbers[0])
        second = other.sends("x", idempotent=numbers[1])
        world.appends(second, 0)
        world.appends(first, 1)
        other.answered(0)
        one.answered(1)
        assert world.records() == ["x", "x~2"]
        assert world.final() == ["x~2", "x"]
        assert world.verdict().records["duplicated"] == () and world.verdict().records["lost"] == ()


def test_what_one_client_leaves_behind_is_not_what_another_of_its_name_sends() -> None:
    """The last answers to the first may not have been read; the other had its connection all the time."""
    world = World()
    one, other = world.connects(), world.connects()
    one.writes(0, "x")
    one.ends()
    other.writes(1, "x")
    assert world.records() == world.final() == ["x", "x~2"]
    assert world.verdict().ok


def test_a_retry_follows_the_leader_while_the_old_connection_stands() -> None:
    world = World()
    both = world.connects(node="b1"), world.connects(node="b2")
    both[0].sends("x")
    both[1].writes(0, "x")
    assert world.records() == world.final("b2") == ["x"]
    assert world.verdict().ok


def test_words_are_names_and_the_same_words_again_are_another_record() -> None:
    world = World()
    client = world.connects()
    client.sends("x", "y", at_ms=1)
    client.sends("x", "y", at_ms=1)  # the same batch again
    client.sends("y", "z", at_ms=1)  # put together anew
    client.answered(0)
    client.sends("y", at_ms=1)
    client.answered(2)
    client.ends()
    client = world.connects()
    client.sends("y", at_ms=1)  # Its answer may have been lost with the connection.
    client.sends("\x01", "{json: 'far too long to be the name of a record'}", at_ms=2)
    sent = [event.records for event in world.events if isinstance(event, trace.BatchSent)]
    assert sent == [("x", "y"), ("x", "y"), ("y", "z"), ("y~2",), ("y~2",), ("p-0", "p-1")]


def test_the_latency_is_that_of_the_request_at_the_broker() -> None:
    world = World()
    client = world.connects()

    def sends(at_us: int, value: str, acks: int) -> None:
        world.log.at_us = at_us
        client.sends(value, acks=acks)

    def answered(error: ErrorCode, left_us: int) -> None:
        # Stated with the time of the step in progress, which began when the request came.
        client.tell(ProduceAnswered((PartitionAnswered(T0, error, 0, None),), left_us), 1_000)

    sends(1_000, "a", acks=1)
    answered(ErrorCode.NONE, 1_400)
    sends(2_000, "b", acks=0)
    sends(3_000, "c", acks=1)
    answered(ErrorCode.MESSAGE_TOO_LARGE, 3_050)
    assert [(type(event).__name__, event.latency_us) for event in world.events if hasattr(event, "latency_us")] == [
        ("RecordAcked", 400), ("RecordHandedOver", None), ("RecordFailed", 50)
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------------ what is deleted


def test_the_same_bytes_in_every_partition_are_deleted_with_their_topic() -> None:
    world = World()
    client = world.connects()
    for partition in (T0, T1):
        client.writes(0, "same", of=partition)
    assert world.records() == ["same", "same~2"]
    world.deletes_topic()
    assert sorted(world.mirror.deleted) == ["same", "same~2"]
    assert world.verdict().ok


def test_what_is_deleted_of_one_partition_is_not_deleted_of_another() -> None:
    world = World()
    client = world.connects()
    for partition in (T0, T1):
        client.writes(0, "same", of=partition)
    world.log.emit(
        trace.LogStartOffsetAdvanced(
            node="b1", role="leader", topic="t", partition=0, leader_epoch=0, log_start_offset=1
        )
    )
    assert list(world.mirror.deleted) == ["same"]
    assert world.verdict().records["lost"] == ("same~2",)


def test_of_twins_in_one_partition_only_those_below_the_new_start_are_deleted() -> None:
    world = World()
    client = world.connects()
    for offset in range(3):
        client.writes(offset, "x")
    world.log.emit(
        trace.LogStartOffsetAdvanced(
            node="b1", role="leader", topic="t", partition=0, leader_epoch=0, log_start_offset=2
        )
    )
    assert list(world.mirror.deleted) == ["x", "x~2"]


def test_a_topic_that_is_made_again_lacks_nothing_of_the_one_before() -> None:
    """Neither what was acked before the deletion, nor what is still acked by a broker that has not heard of it."""
    world = World()
    client = world.connects()
    world.leads("b1")
    client.writes(0, "before")
    header = client.sends("meanwhile")
    world.deletes_topic()
    world.appends(header, 1)
    client.answered(1)
    world.leads("b2")
    world.gone("b1")
    assert world.said == []
    world.connects(node="b2").writes(0, "after")
    assert world.final("b2") == ["after"]
    assert world.verdict().ok
    world.leads("b3")
    assert [line.text for line in world.said] == ["the new leader b3 does not have 1 acked record of t-0: after"]


def test_a_broker_that_had_nothing_of_a_deleted_topic_is_not_waited_for() -> None:
    """It never states that its log is gone; only records of the present topic count."""
    world = World()
    world.leads("b1")
    world.deletes_topic("b1")
    world.deletes_topic()
    world.connects().writes(0, "x")
    assert list(world.mirror.deleted) == []
    assert world.verdict().records["lost"] == ("x",)


def test_what_is_sent_again_to_the_new_topic_and_lost_there_is_lost() -> None:
    world = World()
    client = world.connects()
    header = client.sends("x")
    world.appends(header, 0)
    world.deletes_topic("b1")
    assert list(world.mirror.deleted) == ["x"]
    client.ends()
    world.connects(node="b2").writes(0, "x")
    world.log.emit(
        trace.LogTruncated(
            "b2", "t", 0, leader_epoch=1, log_end_offset=0, previous_log_end_offset=1,
            high_watermark=0, previous_high_watermark=1,
        )
    )  # fmt: skip
    assert world.verdict().records["lost"] == ("x",)


# ------------------------------------------------------------------------------------------- what claims to be there


def test_a_batch_that_claims_two_billion_records_is_no_work() -> None:
    """Such a batch may be on a disk, from any source: all readers of it count the records that exist."""
    world = World()
    client = world.connects()
    client.writes(0, "x")
    header = read_header(build_batch([(None, b"y")], timestamp_ms=5))
    header = replace(header, base_offset=1, last_offset_delta=2**31 - 2, record_count=2**31 - 1)
    client.sends("z")
    world.log.emit(
        trace.BatchAppended(
            node="b1", role="leader", topic="t", partition=0, leader_epoch=0, base_offset=1,
            last_offset=header.last_offset, log_end_offset=header.last_offset + 1, size_bytes=header.size_bytes,
            crc=header.crc, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        )
    )  # fmt: skip
    for codec in (0, 1):
        claims = replace(header, attributes=codec)
        world.connects(f"reader-{codec}").tell(FetchResponseSeen(((T0, ErrorCode.NONE, (claims,)),)), 9)
    assert [event.record for event in world.events if isinstance(event, trace.RecordRead)] == []
    assert [event.offset for event in world.events if isinstance(event, trace.PositionReset)] == [2**31] * 2
    assert world.final() == ["x", "?1"]
    assert world.verdict().ok


# ------------------------------------------------------------------------------------------------ losses as they happen


def written(world: World, client: Client, base_offset: int, *values: str, epoch: int, **how: Any) -> None:
    """Sent to the client's broker, appended there, acked."""
    world.appends(client.sends(*values, **how), base_offset, client.node, epoch=epoch)
    client.answered(base_offset)


def gone(world: World) -> dict[TopicPartition, int]:
    return {partition: len(records) for partition, records in world.losses.gone.items()}


def test_what_a_new_leader_does_not_have_is_counted() -> None:
    world = World()
    world.leads("b1")
    written(world, world.connects(), 0, "a", "b", "c", epoch=0)
    world.leads("b2", end=1, epoch=1)
    assert gone(world) == {T0: 2}
    world.leads("b3", end=0, epoch=2)
    assert gone(world) == {T0: 3}
    world.deletes_topic("b1")
    assert gone(world) == {}


def test_what_a_deposed_leader_acks_is_gone_at_once() -> None:
    world = World()
    world.leads("b1")
    client = world.connects()
    written(world, client, 0, "a", epoch=0)
    world.leads("b2", end=1, epoch=1)
    assert gone(world) == {}
    written(world, client, 1, "b", epoch=0)
    assert gone(world) == {T0: 1}
    assert [line.text for line in world.said] == ["b1 acked b of t-0, but is no longer the leader: b is gone"]


def test_an_answer_that_comes_late_is_no_loss_where_the_new_leader_has_the_record() -> None:
    world = World()
    world.leads("b1")
    client = world.connects()
    world.appends(client.sends("a"), 0)
    world.leads("b2", end=1, epoch=1)
    client.answered(0)
    assert gone(world) == {}


def test_a_longer_log_of_an_older_epoch_hides_no_loss_and_brings_back_its_own_records() -> None:
    """b1 comes back by an unclean election: its log is as long as that of b2, and has other records."""
    world = World()
    world.leads("b1")
    written(world, world.connects(), 0, "a", "b", "c", epoch=0)
    world.leads("b2", end=1, epoch=1)
    written(world, world.connects(node="b2"), 1, "d", "e", epoch=1)
    assert gone(world) == {T0: 2}
    world.leads("b1", end=3, epoch=2)
    assert list(world.losses.gone[T0]) == ["d", "e"]
    assert [line.text for line in world.said][1:] == [
        "the new leader b1 has 2 acked records of t-0: b, c; not gone",
        "the new leader b1 does not have 2 acked records of t-0: d, e",
    ]


def test_a_record_that_is_acked_again_is_not_gone() -> None:
    """The answer of the first leader was lost on the way, so the producer sends the record to the next one."""
    world = World()
    world.leads("b1")
    written(world, world.connects(), 0, "a", epoch=0, idempotent=(7, 0, 0))
    world.leads("b2", end=0, epoch=1)
    assert gone(world) == {T0: 1}
    written(world, world.connects(node="b2"), 0, "a", epoch=1, idempotent=(7, 0, 0))
    assert gone(world) == {}
    assert world.said[-1].text == "b2 acked a of t-0 again: a is not gone"
