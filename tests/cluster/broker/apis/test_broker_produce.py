"""Produce requests at a broker: in which order they are refused, what they wait for, and what the answer says."""

import pytest
from broker_world import B1, B2, FETCH, PRODUCE, BrokerWorld, batch

from controller.events import DeleteTopic, ElectLeader
from replica.errors import ErrorCode
from replica.trace.events import HighWatermarkAdvanced


@pytest.fixture
def world(tmp_path):
    world = BrokerWorld(tmp_path).start()
    world.run(100)
    world.join(B2)
    return world


def lead_by_b2(world):
    """The leadership of t-0 moves to b2, as after a reassignment of preference."""
    event = ElectLeader(now_us=world.now_us, topic="t", partition=0, kind="preferred", desired=B2)
    world.decide(event)
    assert world.controller.state.image.topics["t"].partitions[0].leader == B2


def test_what_the_metadata_does_not_know_is_refused_before_the_acks_are_looked_at(world):
    world.create(B1, B2)
    client = world.call("p1")
    client.produce(batch("r0"), acks=7, topic="nowhere")
    assert client.produced().error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    client.produce(batch("r0"), acks=7)
    assert client.produced().error is ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.parametrize("records", [None, b"", batch("r0")[:16] + b"\x01" + batch("r0")[17:]])
def test_a_request_without_a_batch_of_today_is_malformed_whoever_leads(world, records):
    world.create(B2)
    client = world.call("p1")
    client.produce(records, acks=7)
    assert client.produced().error is ErrorCode.INVALID_RECORD
    client.produce(batch("r0"), acks=1)
    assert client.produced().error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_zstd_needs_produce_7(world):
    world.create(B1)
    data = bytearray(batch("r0"))
    data[22] |= 4
    client = world.call("p1")
    client.produce(bytes(data), version=6)
    assert client.produced(6).error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_under_min_isr_acks_all_is_refused_before_anything_is_written(world):
    world.create(B1, B2, min_insync_replicas="2")
    world.fall_silent(B2)
    client = world.call("p1")
    client.produce(batch("r0"))
    assert client.produced().error is ErrorCode.NOT_ENOUGH_REPLICAS
    client.produce(batch("r0"), acks=1)
    assert client.produced().base_offset == 0


def test_a_timed_out_request_says_where_its_records_are(world):
    world.create(B1, B2)
    client = world.call("p1")
    client.produce(batch("r0", "r1"), timeout_ms=300)
    client_2 = world.call("p2")
    client_2.produce(batch("r2"), timeout_ms=300)
    world.run(299)
    assert client_2.answers == []
    world.run(1)
    answer = client_2.produced()
    assert (answer.error, answer.base_offset, answer.log_start_offset) == (ErrorCode.REQUEST_TIMED_OUT, 2, 0)


def test_a_duplicate_waits_for_the_high_watermark_as_its_original_does(world):
    world.create(B1, B2)
    records = batch("r0", producer_id=5, producer_epoch=0, base_sequence=0)
    first, second = world.call("p1"), world.call("p1")
    first.produce(records)
    second.produce(records)
    assert (first.answers, second.answers) == ([], [])
    fetch = world.follower(B2)
    fetch(0)
    fetch(1)
    assert (first.produced().base_offset, second.produced().base_offset) == (0, 0)
    assert second.produced().error is ErrorCode.NONE


def test_the_request_is_answered_before_those_who_wait_for_its_records(world):
    world.create(B1)
    consumer, client = world.call("c1r"), world.call("p1")
    consumer.fetch(0)
    client.produce(batch("r0"))
    assert [(peer, api) for _, peer, api, part in world.frames[-2:]] == [("p1", PRODUCE), ("c1r", FETCH)]
    assert consumer.fetched().high_watermark == 1


def test_when_the_leadership_goes_the_waiting_request_is_told_so_and_where_it_went(world):
    world.create(B1, B2)
    client = world.call("p1")
    client.produce(batch("r0"), version=10)
    assert client.answers == []
    lead_by_b2(world)
    answer = client.produced(10)
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (B2, 1)


def test_when_the_topic_goes_the_waiting_request_is_told_so(world):
    world.create(B1, B2)
    client = world.call("p1")
    client.produce(batch("r0"))
    world.decide(DeleteTopic(now_us=world.now_us, name="t"))
    assert client.produced().error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_request_with_acks_0_is_never_answered_and_an_error_closes_its_connection(world):
    world.create(B1)
    client = world.call("p1")
    client.produce(batch("r0"), acks=0)
    assert (client.answers, client.resumed, client.closed) == ([], 1, False)
    client.produce(batch("r1"), acks=0, topic="nowhere")
    assert (client.answers, client.resumed, client.closed) == ([], 1, True)


def test_records_of_a_client_that_hung_up_stay_and_commit(world):
    world.create(B1, B2)
    client = world.call("p1")
    client.produce(batch("r0"))
    client.hang_up()
    fetch = world.follower(B2)
    fetch(0)
    fetch(1)
    assert [fact.high_watermark for fact in world.facts(HighWatermarkAdvanced)] == [1]
    assert client.answers == []
