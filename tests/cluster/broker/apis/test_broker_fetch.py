"""Fetches at a broker: immediate answers, waiting, and the effect of a follower's fetch on the leader."""

from uuid import UUID

import pytest
from broker_world import B1, B2, BrokerWorld, batch

from cluster.config import RACK_AWARE
from cluster.protocol.api_01_fetch import FetchPartition
from cluster.protocol.fetch_response_codec import decode_fetch_response
from controller.inputs import DeleteTopic, ElectLeader
from replica.errors import ErrorCode
from replica.rules import PROFILES
from replica.trace.events import FollowerFetched, RecordsSent


@pytest.fixture
def world(tmp_path):
    world = BrokerWorld(tmp_path).start()
    world.run(100)
    world.join(B2)
    return world


def produce(world, *values, **options):
    client = world.call("p1")
    client.produce(batch(*values), acks=1, **options)
    assert client.produced().error is ErrorCode.NONE


def lead_by_b2(world):
    world.decide(ElectLeader(now_us=world.now_us, topic="t", partition=0, kind="preferred", desired=B2))


# ------------------------------------------------------------------------------------------------------- of a follower


def test_the_answer_carries_the_high_watermark_from_before_this_very_fetch(world):
    world.create(B1, B2)
    produce(world, "r0")
    fetch = world.follower(B2)
    assert fetch(0).high_watermark == 0
    produce(world, "r1")
    answer = fetch(1)
    assert answer.high_watermark == 0
    assert world.broker.replicas.partitions[("t", 0)].high_watermark == 1


def test_what_is_read_again_after_waiting_counts_as_no_second_fetch(world):
    world.create(B1, B2)
    fetch = world.follower(B2)
    assert fetch(0) is None
    produce(world, "r0")
    assert len(world.events(FollowerFetched)) == 1


def test_a_diverging_fetch_changes_nothing_but_tells_the_leaders_offsets(world):
    world.create(B1, B2)
    produce(world, "r0")
    lead_by_b2(world)
    world.decide(ElectLeader(now_us=world.now_us, topic="t", partition=0, kind="preferred", desired=B1))
    produce(world, "r1")
    answer = world.follower(B2)(5, epoch=2, last_epoch=0)
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 1)
    assert (answer.high_watermark, answer.log_start_offset) == (0, 0)
    assert world.events(FollowerFetched) == []


def test_a_fetch_out_of_range_changes_nothing(world):
    world.create(B1, B2)
    assert world.follower(B2)(9).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert world.events(FollowerFetched) == []


def test_a_fetch_of_an_earlier_life_is_refused_as_soon_as_the_metadata_knows_the_next(world):
    world.create(B1, B2)
    before = world.broker_epoch(B2)
    world.fall_silent(B2)
    world.join(B2, life=1)
    answer = world.follower(B2)(0, replica_epoch=before)
    assert world.events(FollowerFetched) == []
    assert answer is not None and answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_one_that_waits_is_not_woken_by_the_high_watermark_but_a_consumer_is(world):
    world.create(B1, B2)
    fetch, consumer = world.follower(B2), world.call("c1r")
    consumer.fetch(0)
    produce(world, "r0")
    assert consumer.answers == []
    fetch(0)
    assert fetch(1) is None  # moves the high watermark to 1, and waits
    assert consumer.fetched().high_watermark == 1
    waiting = world.frames.copy()
    world.run(499)
    assert [frame for frame in world.frames[len(waiting) :] if frame[1] == "b2"] == []
    world.run(1)
    assert [frame for frame in world.frames[len(waiting) :] if frame[1] == "b2"] != []


def test_one_that_waits_is_over_when_the_leadership_is(world):
    world.create(B1, B2)
    caller = world.call("b2")
    caller.fetch(0, version=16, replica_id=B2, epoch=0)
    assert caller.answers == []
    lead_by_b2(world)
    answer = caller.fetched(16)
    assert answer.error is ErrorCode.FENCED_LEADER_EPOCH
    assert answer.current_leader == (B2, 1)


def test_one_that_waits_has_an_error_for_each_of_the_leaderships_that_a_controlled_shutdown_moves_together(world):
    world.create(B1, B2, topic="t")
    world.create(B1, B2, topic="u")
    consumer = world.call("c1r")
    topics = [(name, [FetchPartition(0, 0, 0, -1, 0, 1 << 20)]) for name in ("t", "u")]
    consumer.fetch(0, max_wait_ms=60_000, topics=topics)
    assert consumer.answers == []
    world.shut_down()
    world.run(5_000)
    answer = decode_fetch_response(12, consumer.answers[0])
    errors = [(topic, found.error) for topic, partitions in answer.topics for found in partitions]
    assert errors == [("t", ErrorCode.FENCED_LEADER_EPOCH), ("u", ErrorCode.FENCED_LEADER_EPOCH)]


# ------------------------------------------------------------------------------------------------------- of a consumer


def test_one_that_is_ahead_of_the_high_watermark_is_answered_at_once_and_empty(world):
    world.create(B1, B2)
    produce(world, "r0")
    consumer = world.call("c1r")
    consumer.fetch(1)
    answer = consumer.fetched()
    assert (answer.error, answer.high_watermark, len(answer.records)) == (ErrorCode.NONE, 0, 0)
    consumer.fetch(0)
    assert len(consumer.answers) == 1  # at the high watermark it waits


def test_one_whose_segment_is_complete_does_not_wait_for_more_bytes(world):
    world.create(B1, segment_bytes="1024")
    for number in range(8):
        produce(world, f"r{number} {'x' * 300}")
    consumer = world.call("c1r")
    consumer.fetch(0, min_bytes=1 << 20)
    assert 0 < len(consumer.fetched().records) <= 1024


def test_it_asks_for_no_more_than_it_allows(world):
    world.create(B1)
    produce(world, "r0 " + "x" * 200)
    consumer = world.call("c1r")
    consumer.fetch(0, min_bytes=10_000, max_bytes=100)
    assert len(consumer.fetched().records) > 200  # the first batch comes whole


def test_partitions_nobody_knows_are_answered_beside_the_others_and_do_not_hurry_them(world):
    world.create(B1)
    consumer = world.call("c1r")
    known = FetchPartition(0, -1, 0, -1, 0, 1 << 20)
    consumer.fetch(0, topics=[("nowhere", [known]), ("t", [known])])
    assert consumer.answers == []
    world.run(500)
    answer = {topic: parts[0].error for topic, parts in decode_fetch_response(12, consumer.answers[0]).topics}
    assert answer == {"t": ErrorCode.NONE, "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_topic_id_nobody_knows(world):
    world.create(B1)
    consumer = world.call("c1r")
    consumer.fetch(0, version=13, topics=[(UUID(int=9), [FetchPartition(0, -1, 0, -1, 0, 1 << 20)])])
    assert consumer.fetched(13).error is ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [13, 17, 18])
def test_the_id_of_a_deleted_topic_does_not_read_the_next_one_of_that_name(world, version):
    world.create(B1)
    consumer, former = world.call("c1r"), world.topic_id("t")
    world.decide(DeleteTopic(now_us=world.now_us, name="t"))
    world.create(B1)
    produce(world, "r0")
    consumer.fetch(0, version=version, topics=[(former, [FetchPartition(0, -1, 0, -1, 0, 1 << 20)])])
    assert consumer.fetched(version).error is ErrorCode.UNKNOWN_TOPIC_ID
    consumer.fetch(0, version=version)
    assert (consumer.fetched(version).error, consumer.fetched(version).high_watermark) == (ErrorCode.NONE, 1)


def test_nothing_is_sent_to_a_consumer_that_hung_up(world):
    world.create(B1)
    consumer = world.call("c1r")
    consumer.fetch(0)
    consumer.hang_up()
    produce(world, "r0")
    assert consumer.answers == []
    assert world.events(RecordsSent) == []


@pytest.mark.parametrize("frames_leave", [True, False])
def test_records_are_sent_when_the_frame_has_left_and_not_before(world, frames_leave):
    world.create(B1)
    produce(world, "r0")
    world.frames_leave = frames_leave
    consumer = world.call("c1r")
    consumer.fetch(0)
    assert consumer.fetched().records  # decided, and handed to the shell
    assert [event.peer for event in world.events(RecordsSent)] == ["c1r"] * frames_leave


@pytest.mark.parametrize(("version", "error"), [(10, ErrorCode.NOT_LEADER_OR_FOLLOWER), (11, ErrorCode.NONE)])
def test_a_follower_serves_consumers_from_fetch_11_on(world, version, error):
    world.create(B2, B1)
    consumer = world.call("c1r")
    consumer.fetch(0, version=version, max_wait_ms=0)
    assert consumer.fetched(version).error is error


def test_a_consumer_beyond_a_followers_log_is_out_of_range(world):
    world.create(B2, B1)
    consumer = world.call("c1r")
    consumer.fetch(1)
    assert consumer.fetched().error is ErrorCode.OFFSET_OUT_OF_RANGE


# ---------------------------------------------------------------------------------------------------- nearest replica


@pytest.mark.parametrize(
    ("selector", "version", "options", "named"),
    [
        ({"replica_selector_class": RACK_AWARE}, 11, {"rack": "B"}, B2),
        ({"replica_selector_class": RACK_AWARE}, 11, {"rack": "A"}, -1),
        ({"replica_selector_class": RACK_AWARE}, 11, {}, -1),
        ({}, 11, {"rack": "B"}, -1),
    ],
    ids=["in-its-rack", "in-no-rack-of-a-replica", "without-a-rack", "without-a-selector"],
)
def test_a_leader_sends_a_consumer_to_the_replica_in_its_rack_and_reads_nothing(
    tmp_path, selector, version, options, named
):
    world = BrokerWorld(tmp_path, **selector).start()
    world.run(100)
    world.join(B2, rack="B")
    world.create(B1, B2)
    fetch = world.follower(B2)
    fetch(0)
    produce(world, "r0")
    fetch(1)
    client = world.call("near")
    client.fetch(0, version=version, min_bytes=1000, max_wait_ms=500 if named >= 0 else 0, **options)
    assert client.answers, "it waits for records"
    answer = client.fetched(version)
    assert (answer.preferred_read_replica, len(answer.records) > 0) == (named, named < 0)


def test_no_reader_is_sent_to_a_fenced_broker(tmp_path):
    world = BrokerWorld(
        tmp_path, PROFILES["kafka-2.7"].changed({"membership": "registration"}), replica_selector_class=RACK_AWARE
    )
    world.start()
    world.run(100)
    world.join(B2, rack="B")
    world.create(B1, B2)
    world.follower(B2)(0)
    client = world.call("near")
    for named in (B2, -1):
        client.fetch(0, version=11, max_wait_ms=0, rack="B")
        assert client.fetched(11).preferred_read_replica == named
        if named == B2:
            world.fall_silent(B2)
