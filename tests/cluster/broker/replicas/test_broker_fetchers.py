"""The follower side of a broker: whom it asks, in which order, and what it does with the answers."""

from dataclasses import replace

import pytest
from broker_world import B1, B2, B3, T0, BrokerWorld, batch
from segments import joined

from cluster.broker.replicas.fetchers import fetcher_number
from cluster.protocol.api_01_fetch import FetchPartitionResponse
from cluster.protocol.fetch_request_codec import decode_fetch_request
from cluster.protocol.fetch_response_codec import fetch_response_segments
from cluster.protocol.versions import FETCH, LIST_OFFSETS, read_request_header
from controller.image import PartitionRegistration
from controller.inputs import ElectLeader
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.log.batches.records import stamp
from replica.trace.events import FetchRefused, HighWatermarkLearned, LogTruncated

U0 = TopicPartition("u", 0)


@pytest.fixture
def world(tmp_path):
    world = BrokerWorld(tmp_path).start()
    world.run(100)
    world.join(B2)
    world.join(B3)
    return world


def asked(world, source="b2"):
    """The fetch the fetcher waits for: {topic: (offset, leader epoch, last fetched epoch)}, in its order."""
    ((_, frame),) = world.asked[source]
    request = decode_fetch_request(read_request_header(frame), frame)
    names = world.controller.state.image.topic_names
    return {
        names[topic]: (entry.fetch_offset, entry.current_leader_epoch, entry.last_fetched_epoch)
        for topic, (entry,) in request.topics
    }


def answer(world, source="b2", **partitions):
    """Answer the fetch in flight: topic=FetchPartitionResponse."""
    topics = [(world.topic_id(topic), [part]) for topic, part in partitions.items()]
    world.answer(source, lambda correlation_id: joined(fetch_response_segments(16, correlation_id, topics)))


def records(*values, offset=0, epoch=0, high_watermark=0):
    data = bytearray(batch(*values))
    stamp(data, 0, offset, epoch)
    return FetchPartitionResponse(0, ErrorCode.NONE, high_watermark, high_watermark, 0, slice=bytes(data))


def refused(error):
    return FetchPartitionResponse(0, error)


def test_it_appends_what_it_gets_and_takes_over_the_high_watermark_of_the_answer(world):
    world.create(B2, B1)
    assert asked(world) == {"t": (0, 0, -1)}
    answer(world, t=records("r0", "r1", high_watermark=1))
    assert asked(world) == {"t": (2, 0, 0)}
    assert world.broker.replicas.partitions[T0].high_watermark == 1


def test_a_partition_that_got_records_is_asked_for_after_the_others(world):
    world.create(B2, B1)
    world.create(B2, B1, topic="u")
    answer(world, t=FetchPartitionResponse(0, ErrorCode.NONE, 0, 0, 0))
    assert list(asked(world)) == ["t", "u"]
    answer(world, t=records("r0"), u=FetchPartitionResponse(0, ErrorCode.NONE, 0, 0, 0))
    assert list(asked(world)) == ["u", "t"]


def test_a_new_epoch_of_the_same_leader_waits_for_the_answer_in_flight(world):
    world.create(B2, B1)
    connection, _ = world.asked["b2"][0]
    dials = len(world.dials)
    # Two elections that come in one change of the metadata: away from b2 and back.
    later = PartitionRegistration(
        replicas=(B2, B1), in_sync_replicas=(B2, B1), leader=B2, leader_epoch=2, partition_epoch=2
    )
    world.broker.cache.image.topics["t"].partitions[0] = later
    world.broker._changes.apply([T0], [], world.now_us)
    world._from_broker(world.broker._outbox.take())
    assert [c for c, _ in world.asked["b2"]] == [connection]
    answer(world, t=records("r0"))  # asked for in epoch 0: nothing of it counts
    assert len(world.dials) == dials
    assert asked(world) == {"t": (0, 2, -1)}
    assert world.broker.replicas.partitions[T0].log.log_end_offset == 0


def test_a_fetcher_that_has_nothing_to_do_closes_its_connection(world):
    world.create(B2, B1)
    connection, _ = world.asked["b2"][0]
    world.decide(ElectLeader(now_us=world.now_us, topic="t", partition=0, kind="preferred", desired=B1))
    assert dict(world.broker.fetchers.sources()) == {}
    assert connection not in world.broker.base.outbox.callers


def test_a_leader_that_the_metadata_does_not_know_is_not_asked(world):
    world.create(B2, B1)
    partition = world.broker.replicas.partitions[T0]
    world.broker.fetchers.remove(T0)
    world.broker.fetchers.close_idle()
    unknown = PartitionRegistration(
        replicas=(9, B1), in_sync_replicas=(9,), leader=9, leader_epoch=1, partition_epoch=1
    )
    world.broker.fetchers.add(partition, unknown, world.now_us)
    assert dict(world.broker.fetchers.sources()) == {}


def test_a_broken_connection_delays_all_that_is_followed_now(world):
    world.create(B2, B1)
    answer(world, t=refused(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    world.create(B2, B1, topic="u")
    assert list(asked(world)) == ["u"]
    world.create(B2, B1, topic="v")
    connection, _ = world.asked["b2"].pop()
    world.to_broker("disconnected", connection, "reset")
    world.run(999)
    assert world.asked["b2"] == []
    world.run(1)
    assert list(asked(world)) == ["t", "u", "v"]


def test_garbage_is_a_broken_fetch(world):
    world.create(B2, B1)
    world.answer("b2", lambda correlation_id: b"\0\0\0\0" + correlation_id.to_bytes(4, "big") + b"\xff" * 9)
    assert world.asked["b2"] == []
    world.run(1000)
    assert list(asked(world)) == ["t"]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (refused(ErrorCode.FENCED_LEADER_EPOCH), ErrorCode.FENCED_LEADER_EPOCH),
        (
            replace(records("r7", offset=7, epoch=0), slice=bytes(records("r0").slice) * 2),
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
    ],
)
def test_a_partition_that_fails_says_why_and_is_left_alone(world, bad, error):
    world.create(B2, B1)
    answer(world, t=bad)
    assert [event.error for event in world.events(FetchRefused)] == [error.name]
    world.run(5000)
    assert world.asked["b2"] == []


def test_a_divergence_cuts_the_log_and_the_high_watermark_with_it(world):
    world.create(B2, B1)
    answer(world, t=records("r0"))
    answer(world, t=records("r1", "r2", offset=1, high_watermark=3))
    diverging = FetchPartitionResponse(0, ErrorCode.NONE, 9, 9, 0, diverging_epoch=(0, 1))
    consumer = world.call("c1r")
    consumer.fetch(3)
    answer(world, t=diverging)
    (cut,) = world.events(LogTruncated)
    assert (cut.log_end_offset, cut.high_watermark, cut.previous_high_watermark) == (1, 1, 3)
    assert [event.high_watermark for event in world.events(HighWatermarkLearned)] == [3, 1]
    assert world.broker.replicas.partitions[T0].high_watermark == 1
    assert consumer.answers == []  # it is not woken: its time runs out, or the high watermark moves again
    world.run(500)
    assert consumer.fetched().error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_consumers_of_a_follower_are_woken_when_its_high_watermark_moves(world):
    world.create(B2, B1)
    consumer = world.call("c1r")
    consumer.fetch(0)
    answer(world, t=records("r0"))
    assert consumer.answers == []
    answer(world, t=FetchPartitionResponse(0, ErrorCode.NONE, 1, 1, 0))
    assert consumer.fetched().high_watermark == 1


def test_out_of_range_asks_the_leader_before_anything_else_is_fetched(world):
    world.create(B2, B1)
    world.create(B2, B1, topic="u")
    answer(world, t=FetchPartitionResponse(0, ErrorCode.NONE, 0, 0, 0))
    answer(world, t=refused(ErrorCode.OFFSET_OUT_OF_RANGE), u=FetchPartitionResponse(0, ErrorCode.NONE, 0, 0, 0))
    ((_, frame),) = world.asked["b2"]
    assert read_request_header(frame).api_key == LIST_OFFSETS
    assert world.frames[-1][2] != FETCH


@pytest.mark.parametrize(
    ("topic", "partition", "fetchers", "number"),
    [
        ("hello", 0, 1, 0),
        ("hello", 0, 1000, 314),  # "hello".hashCode() is 99162322, and 31 times that overflows to -1220935314
        ("hello", 1, 1000, 313),
        ("polygenelubricants", 0, 7, 0),  # hashCode() is Integer.MIN_VALUE, which has no absolute value
        ("polygenelubricants", 1, 1000, 647),
    ],
)
def test_the_fetcher_of_a_partition_is_javas_choice(topic, partition, fetchers, number):
    assert fetcher_number(TopicPartition(topic, partition), fetchers) == number


def test_with_two_fetchers_one_source_is_asked_twice_at_a_time(tmp_path):
    world = BrokerWorld(tmp_path, num_replica_fetchers="2").start()
    world.run(100)
    world.join(B2)
    assert fetcher_number(T0, 2) != fetcher_number(U0, 2)
    world.create(B2, B1)
    world.create(B2, B1, topic="u")
    assert len(world.asked["b2"]) == 2
