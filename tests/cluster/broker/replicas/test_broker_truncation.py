"""The switches `truncation`, `fetch-fencing` and `follower-ahead`: requests of a broker, and its actions after them."""

import pytest
from broker_world import B1, B2, B3, T0, BrokerWorld, batch
from segments import joined

from cluster.protocol import cold
from cluster.protocol.api_01_fetch import FetchPartitionResponse
from cluster.protocol.fetch_request_codec import decode_fetch_request
from cluster.protocol.fetch_response_codec import fetch_response_segments
from cluster.protocol.versions import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, read_request_header
from controller.inputs import ElectLeader
from replica.errors import ErrorCode
from replica.log.batches.records import stamp
from replica.rules import PROFILES


@pytest.fixture
def world_of(tmp_path):
    def make(**switches):
        rules = PROFILES["kafka-3.9"].changed({name.replace("_", "-"): value for name, value in switches.items()})
        world = BrokerWorld(tmp_path, rules).start()
        world.run(100)
        world.join(B2)
        world.join(B3)
        world.create(B2, B3, B1)
        return world

    return make


def in_flight(world, source):
    """(api key, request) of what the fetcher waits for."""
    ((_, frame),) = world.asked[source]
    header = read_request_header(frame)
    decode = decode_fetch_request if header.api_key == FETCH else cold.decode_request
    return header.api_key, decode(header, frame)


def fetched(world, source):
    """(offset, leader epoch, last fetched epoch) of the fetch in flight."""
    api, request = in_flight(world, source)
    assert api == FETCH
    ((_, (entry,)),) = request.topics
    return entry.fetch_offset, entry.current_leader_epoch, entry.last_fetched_epoch


def append(world, source, *values, offset=0, epoch=0, high_watermark=0):
    data = bytearray(batch(*values))
    stamp(data, 0, offset, epoch)
    part = FetchPartitionResponse(0, ErrorCode.NONE, high_watermark, high_watermark, 0, slice=bytes(data))
    answer_fetch(world, source, part)


def answer_fetch(world, source, part):
    topics = [(world.topic_id("t"), [part])]
    world.answer(source, lambda correlation_id: joined(fetch_response_segments(16, correlation_id, topics)))


def tell_epoch_end(world, source, epoch, end_offset, error=ErrorCode.NONE):
    entry = {"error_code": error, "partition": 0, "leader_epoch": epoch, "end_offset": end_offset}
    answer = cold.response(OFFSET_FOR_LEADER_EPOCH, 4, topics=[{"topic": "t", "partitions": [entry]}])
    world.answer(
        source, lambda correlation_id: cold.encode_response(OFFSET_FOR_LEADER_EPOCH, 4, correlation_id, answer)
    )


def tell_end(world, source, offset):
    entry = {"partition_index": 0, "error_code": ErrorCode.NONE, "timestamp": -1, "offset": offset, "leader_epoch": 0}
    answer = cold.response(LIST_OFFSETS, 7, topics=[{"name": "t", "partitions": [entry]}])
    world.answer(source, lambda correlation_id: cold.encode_response(LIST_OFFSETS, 7, correlation_id, answer))


def another_leader(world, broker_id=B3):
    world.decide(ElectLeader(now_us=world.now_us, topic="t", partition=0, kind="preferred", desired=broker_id))


def log_end(world):
    return world.broker.replicas.partitions[T0].log.log_end_offset


def test_it_asks_about_epochs_before_it_fetches_from_a_new_leader(world_of):
    world = world_of(truncation="leader-epoch-exact")
    append(world, "b2", "r0")
    append(world, "b2", "r1", offset=1)
    another_leader(world)
    api, request = in_flight(world, "b3")
    ((topic,),) = (request.topics,)
    (entry,) = topic.partitions
    assert api == OFFSET_FOR_LEADER_EPOCH
    assert (topic.topic, request.replica_id) == ("t", B1)
    assert (entry.partition, entry.current_leader_epoch, entry.leader_epoch) == (0, 1, 0)
    tell_epoch_end(world, "b3", 0, 1)
    assert log_end(world) == 1
    assert fetched(world, "b3") == (1, 1, -1)


def test_an_error_makes_it_wait_and_ask_again(world_of):
    world = world_of(truncation="leader-epoch-exact")
    append(world, "b2", "r0")
    another_leader(world)
    tell_epoch_end(world, "b3", -1, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    world.run(999)
    assert world.asked["b3"] == []
    world.run(1)
    assert in_flight(world, "b3")[0] == OFFSET_FOR_LEADER_EPOCH
    tell_epoch_end(world, "b3", 0, 1)
    assert fetched(world, "b3") == (1, 1, -1)


def test_a_broken_connection_makes_it_ask_again(world_of):
    world = world_of(truncation="leader-epoch")
    append(world, "b2", "r0")
    another_leader(world)
    connection, _ = world.asked["b3"].pop()
    world.to_broker("disconnected", connection, "reset")
    world.run(1000)
    assert in_flight(world, "b3")[0] == OFFSET_FOR_LEADER_EPOCH


def test_before_kip_101_it_cuts_to_its_high_watermark_and_asks_nothing(world_of):
    world = world_of(truncation="high-watermark")
    append(world, "b2", "r0", high_watermark=1)
    append(world, "b2", "r1", offset=1, high_watermark=1)
    another_leader(world)
    assert log_end(world) == 1
    assert fetched(world, "b3") == (1, 1, -1)


def test_before_kip_320_it_names_no_epoch_and_goes_on_with_the_same_leader(world_of):
    world = world_of(truncation="leader-epoch-exact", fetch_fencing="none")
    append(world, "b2", "r0")
    assert fetched(world, "b2") == (1, -1, -1)
    another_leader(world)
    ((topic,),) = (in_flight(world, "b3")[1].topics,)
    assert topic.partitions[0].current_leader_epoch == -1
    tell_epoch_end(world, "b3", 0, 1)
    assert fetched(world, "b3") == (1, -1, -1)
    world.asked["b3"].clear()
    another_leader(world, B2)
    another_leader(world, B3)
    assert in_flight(world, "b3")[0] == OFFSET_FOR_LEADER_EPOCH


def test_before_kip_320_a_new_epoch_of_the_same_leader_interrupts_nothing(world_of):
    world = world_of(truncation="leader-epoch-exact", fetch_fencing="none")
    append(world, "b2", "r0")
    world.fall_silent(B3)  # a change of the ISR, then of the epoch, and b2 leads all the time
    before = list(world.asked["b2"])
    another_leader(world, B2)
    assert world.asked["b2"] == before
    append(world, "b2", "r1", offset=1, epoch=1)
    assert log_end(world) == 2


@pytest.mark.parametrize(("switch", "halts"), [("halt", True), ("truncate", False)])
def test_a_follower_with_more_than_its_leader(world_of, switch, halts):
    world = world_of(truncation="high-watermark", follower_ahead=switch)
    append(world, "b2", "r0", high_watermark=1)
    append(world, "b2", "r1", offset=1, high_watermark=2)
    answer_fetch(world, "b2", FetchPartitionResponse(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    assert in_flight(world, "b2")[0] == LIST_OFFSETS
    tell_end(world, "b2", 1)
    assert world.exited is halts
    assert log_end(world) == (2 if halts else 1)


def test_the_high_watermark_is_checkpointed_from_when_the_broker_knows_its_partitions(tmp_path):
    """Every five seconds, but not from its start."""
    world = BrokerWorld(tmp_path).start()
    world.run(100)
    world.join(B2)
    world.create(B2, B1)
    append(world, "b2", "r0", high_watermark=1)
    world.run(4900)
    checkpoint = tmp_path / "b1" / "replication-offset-checkpoint"
    assert not checkpoint.exists() or "t 0 1" not in checkpoint.read_text()
    world.run(100)
    assert "t 0 1" in checkpoint.read_text()


@pytest.mark.parametrize(
    ("switch", "error"), [("none", ErrorCode.NOT_LEADER_OR_FOLLOWER), ("leader-epoch", ErrorCode.NONE)]
)
def test_before_kip_320_a_follower_serves_no_consumer(world_of, switch, error):
    world = world_of(fetch_fencing=switch)
    append(world, "b2", "r0", high_watermark=1)
    caller = world.call("r1")
    caller.fetch(0, version=16, max_wait_ms=0)
    assert caller.fetched(16).error is error
