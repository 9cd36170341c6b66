"""Produce requests at a broker: the order of refusals, the reasons to wait, and the answers."""

from uuid import UUID

import pytest
from broker_world import B1, B2, FETCH, PRODUCE, BrokerWorld, batch
from crc32c import crc32c

from cluster.protocol.api_00_produce import ProduceRequest, decode_produce_response, encode_produce_request
from controller.inputs import DeleteTopic, ElectLeader
from replica.errors import ErrorCode
from replica.log.batches.records import build_batch
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


def test_a_compacted_topic_wants_keys_and_says_which_records_have_none(world):
    world.create(B1, **{"cleanup_policy": "compact"})
    client = world.call("p1")
    client.produce(batch("r0", "r1"))
    answer = client.produced()
    assert answer.error is ErrorCode.INVALID_RECORD
    assert [place for place, _ in answer.record_errors] == [0, 1]
    keyed = bytes(build_batch([(b"k", b"r0")], timestamp_ms=0))
    client.produce(keyed)
    assert client.produced().base_offset == 0


def test_an_answer_has_the_leaders_time_where_that_is_the_records_time(world):
    world.create(B1, **{"message_timestamp_type": "LogAppendTime"})
    client = world.call("p1")
    client.produce(batch("r0"), acks=1)
    now_ms = world.now_us // 1000
    assert (client.produced().base_offset, client.produced().log_append_time_ms) == (0, now_ms)
    data = bytearray(batch("r1", "r2"))
    data[22] |= 0x08
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4)
    client.produce(bytes(data), acks=1)
    refused = client.produced()
    assert refused.error is ErrorCode.INVALID_TIMESTAMP
    assert [place for place, _ in refused.record_errors] == [0, 1]


def test_there_are_no_transactions(world):
    """Without a transactional id of its own, with an id that no coordinator knows."""
    world.create(B1)
    data = bytearray(batch("r0", producer_id=5, producer_epoch=0, base_sequence=0))
    data[22] |= 0x10
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4)
    client = world.call("p1")
    client.produce(bytes(data))
    assert client.produced().error is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    request = ProduceRequest("tx", -1, 1000, [("t", [(0, bytes(data))])])
    client.send(encode_produce_request(9, 77, "p1", request))
    assert client.produced().error is ErrorCode.NOT_ENOUGH_REPLICAS


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


def test_a_topic_is_named_by_its_id_and_answered_by_it(world):
    world.create(B1)
    client = world.call("p1")
    client.produce(batch("r0"), version=13)
    ((topic, (part,)),) = decode_produce_response(13, client.answers[-1]).topics
    assert (topic, part.error, part.base_offset) == (world.topic_id("t"), ErrorCode.NONE, 0)


def test_an_id_that_stands_for_no_topic_is_refused_beside_what_is_appended(world):
    world.create(B1)
    client, unknown = world.call("p1"), UUID(int=9)
    topics = [(unknown, [(0, batch("r0")), (3, batch("r1"))]), (world.topic_id("t"), [(0, batch("r2"))])]
    client.send(encode_produce_request(13, 1, "p1", ProduceRequest(None, -1, 1000, topics)))
    answer = {topic: parts for topic, parts in decode_produce_response(13, client.answers[-1]).topics}
    assert [(part.partition, part.error) for part in answer[unknown]] == [
        (0, ErrorCode.UNKNOWN_TOPIC_ID),
        (3, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert [part.error for part in answer[world.topic_id("t")]] == [ErrorCode.NONE]


def test_an_unknown_id_with_acks_0_closes_the_connection(world):
    world.create(B1)
    client = world.call("p1")
    client.produce(batch("r0"), acks=0, version=13, topic_id=UUID(int=9))
    assert (client.answers, client.closed) == ([], True)


def test_the_id_of_a_deleted_topic_does_not_append_to_the_next_one_of_that_name(world):
    """KIP-516: the producer has to look for the topic again, and not write where it never meant to."""
    world.create(B1)
    client, former = world.call("p1"), world.topic_id("t")
    world.decide(DeleteTopic(now_us=world.now_us, name="t"))
    world.create(B1)
    client.produce(batch("r0"), version=13, topic_id=former)
    assert client.produced(13).error is ErrorCode.UNKNOWN_TOPIC_ID
    client.produce(batch("r0"), version=13)
    assert (client.produced(13).error, client.produced(13).base_offset) == (ErrorCode.NONE, 0)


def test_the_topic_that_goes_while_its_producer_waits_is_answered_by_its_id(world):
    world.create(B1, B2)
    client, former = world.call("p1"), world.topic_id("t")
    client.produce(batch("r0"), version=13)
    world.decide(DeleteTopic(now_us=world.now_us, name="t"))
    ((topic, (part,)),) = decode_produce_response(13, client.answers[-1]).topics
    assert (topic, part.error) == (former, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


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
    assert [event.high_watermark for event in world.events(HighWatermarkAdvanced)] == [1]
    assert client.answers == []
