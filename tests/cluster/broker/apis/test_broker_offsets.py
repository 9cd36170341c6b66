"""ListOffsets and OffsetForLeaderEpoch at a broker, before and after a failover."""

import pytest
from broker_world import B1, B2, BrokerWorld, batch

from cluster.protocol.versions import LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from controller.inputs import ElectLeader
from replica.errors import ErrorCode
from replica.log.batches.codecs import CODECS

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3


@pytest.fixture
def world(tmp_path):
    world = BrokerWorld(tmp_path).start()
    world.run(100)
    world.join(B2)
    return world


def produce(world, *values, timestamp_ms):
    client = world.call("p1")
    client.produce(batch(*values, timestamp_ms=timestamp_ms), acks=1)
    assert client.produced().error is ErrorCode.NONE


def lead(world, broker_id):
    world.decide(ElectLeader(now_us=world.now_us, topic="t", partition=0, kind="preferred", desired=broker_id))


def answer(entry):
    return ErrorCode(int(entry.error_code)), int(entry.offset), int(entry.timestamp), int(entry.leader_epoch)


@pytest.fixture
def after_failover(world):
    """b1 leads again, in epoch 2: r0 (at 10 ms) is committed and r1 (at 20 ms), both of epoch 0, is in its log."""
    world.create(B1, B2)
    produce(world, "r0", timestamp_ms=10)
    fetch = world.follower(B2)
    fetch(0)
    fetch(1)
    produce(world, "r1", timestamp_ms=20)
    lead(world, B2)
    lead(world, B1)
    return world


def test_until_the_new_leader_has_caught_up_with_its_predecessor_the_end_is_not_told(after_failover):
    client = after_failover.call("c1r")
    assert answer(client.list_offset(LATEST))[0] is ErrorCode.OFFSET_NOT_AVAILABLE
    assert answer(client.list_offset(LATEST, version=4))[0] is ErrorCode.LEADER_NOT_AVAILABLE
    assert answer(client.list_offset(EARLIEST)) == (ErrorCode.NONE, 0, -1, 0)


def test_times_that_are_surely_committed_are_told_all_the_same(after_failover):
    client = after_failover.call("c1r")
    assert answer(client.list_offset(5)) == (ErrorCode.NONE, 0, 10, 0)
    assert answer(client.list_offset(11))[0] is ErrorCode.OFFSET_NOT_AVAILABLE
    assert answer(client.list_offset(21))[0] is ErrorCode.OFFSET_NOT_AVAILABLE


def test_an_offset_comes_with_the_epoch_its_record_was_written_in(after_failover):
    fetch = after_failover.follower(B2)
    fetch(2, epoch=2, last_epoch=0)
    client = after_failover.call("c1r")
    assert answer(client.list_offset(11)) == (ErrorCode.NONE, 1, 20, 0)
    assert answer(client.list_offset(21)) == (ErrorCode.NONE, -1, -1, -1)
    assert answer(client.list_offset(LATEST)) == (ErrorCode.NONE, 2, -1, 2)


def test_the_record_with_the_largest_timestamp(world):
    world.create(B1)
    for timestamp_ms in (10, 30, 20):
        produce(world, "r", timestamp_ms=timestamp_ms)
    assert answer(world.call("c1r").list_offset(MAX_TIMESTAMP)) == (ErrorCode.NONE, 1, 30, 0)


def test_where_an_epoch_ends_is_told_by_the_leader_alone(after_failover):
    client = after_failover.call("c1r")

    def end_of(epoch, current=-1):
        partition = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
        topics = [{"topic": "t", "partitions": [partition]}]
        asked = client.ask(OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=topics).topics[0].partitions[0]
        return ErrorCode(int(asked.error_code)), int(asked.leader_epoch), int(asked.end_offset)

    assert end_of(0) == (ErrorCode.NONE, 0, 2)
    assert end_of(1) == (ErrorCode.NONE, 0, 2)
    assert end_of(3) == (ErrorCode.NONE, -1, -1)
    assert end_of(0, current=1)[0] is ErrorCode.FENCED_LEADER_EPOCH
    assert end_of(0, current=3)[0] is ErrorCode.UNKNOWN_LEADER_EPOCH
    lead(after_failover, B2)
    assert end_of(0)[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_times_that_stand_for_something_came_version_by_version(world):
    world.create(B1)
    produce(world, "r0", timestamp_ms=10)
    client = world.call("c1r")
    for timestamp, first in ((MAX_TIMESTAMP, 7), (-4, 8), (-5, 9)):
        assert answer(client.list_offset(timestamp, version=first - 1))[0] is ErrorCode.UNSUPPORTED_VERSION
        assert answer(client.list_offset(timestamp, version=first))[0] is ErrorCode.NONE
    assert answer(client.list_offset(-4, version=10))[1] == 0
    assert answer(client.list_offset(-5, version=10))[1] == -1
    assert answer(client.list_offset(-6, version=10))[0] is ErrorCode.UNSUPPORTED_VERSION


def test_a_partition_asked_about_twice_is_answered_with_an_error(world):
    world.create(B1)
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": LATEST}
    topics = [{"name": "t", "partitions": [partition, partition]}]
    asked = world.call("c1r").ask(LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=topics)
    assert [int(one.error_code) for one in asked.topics[0].partitions] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.soak
@pytest.mark.parametrize("codec", CODECS)
def test_times_are_looked_up_among_the_records_of_a_compressed_batch(world, codec):
    """The answers are the same as over batches that are not: by time, the largest time, and none that late."""
    world.create(B1)
    client = world.call("p1")
    for number, times in enumerate(([10, 40, 20], [30, 90, 90, 50], [60])):
        records = [f"r{number}.{at}" for at in times]
        client.produce(batch(*records, timestamp_ms=times, compression=codec), acks=1)
        assert client.produced().error is ErrorCode.NONE
    found = {}
    for at in (0, 11, 41, 51, 90, 91, MAX_TIMESTAMP):
        found[at] = answer(client.list_offset(at))[1:3]
    assert found == {
        0: (0, 10), 11: (1, 40), 41: (4, 90), 51: (4, 90), 90: (4, 90), 91: (-1, -1), MAX_TIMESTAMP: (4, 90)
    }  # fmt: skip
