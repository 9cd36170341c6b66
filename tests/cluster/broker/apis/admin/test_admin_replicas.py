"""Elections, reassignments, deletion of records, and descriptions of log directories, producers and the quorum."""

from admin_requests import create, error, topic
from broker_world import B1, B2, batch

from cluster.protocol.cold import decode_response, encode_request, request
from cluster.protocol.versions import (
    ALTER_PARTITION_REASSIGNMENTS,
    DELETE_RECORDS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_QUORUM,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
)
from replica.errors import ErrorCode
from replica.trace.events import ElectionRefused, LogStartOffsetAdvanced


def test_leaders_are_elected(world, admin):
    create(admin, topic("t", -1, -1, assignments=[{"partition_index": 0, "broker_ids": [B1, B2]}]))

    def elect(*partitions, kind=0):
        wanted = [{"topic": "t", "partitions": partitions}] if partitions else None
        answer = admin.ask(ELECT_LEADERS, 2, election_type=kind, topic_partitions=wanted, timeout=1000)
        return [
            (one.partition_id, error(one)) for told in answer.replica_election_results for one in told.partition_result
        ]

    assert elect(0, 7) == [(0, ErrorCode.ELECTION_NOT_NEEDED), (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert elect() == []
    assert len(world.events(ElectionRefused)) == 1, "only of partitions that there are"
    assert elect(0, kind=1) == [(0, ErrorCode.ELECTION_NOT_NEEDED)]
    assert elect(0, kind=5) == [(0, ErrorCode.INVALID_REQUEST)]


def test_a_reassignment_is_begun_listed_and_cancelled(world, admin):
    create(admin, topic("t", -1, -1, assignments=[{"partition_index": 0, "broker_ids": [B1]}]))

    def move(replicas, **options):
        topics = [{"name": "t", "partitions": [{"partition_index": 0, "replicas": replicas}]}]
        answer = admin.ask(ALTER_PARTITION_REASSIGNMENTS, 1, topics=topics, timeout=1000, **options)
        return error(answer.responses[0].partitions[0])

    def moving(**options):
        answer = admin.ask(LIST_PARTITION_REASSIGNMENTS, 0, timeout=1000, topics=None, **options)
        return [
            (told.name, tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas))
            for told in answer.topics
            for one in told.partitions
        ]

    assert move(None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert move([9]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert move([B1, B2], allow_replication_factor_change=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert move([B2], allow_replication_factor_change=False) is ErrorCode.NONE
    assert moving() == [("t", (B2, B1), (B2,), (B1,))]
    assert move(None) is ErrorCode.NONE
    assert moving() == []


def delete_records(admin, offset, timeout=5000, partition=0, name="t"):
    topics = [{"name": name, "partitions": [{"partition_index": partition, "offset": offset}]}]
    entity = request(DELETE_RECORDS, 2, topics=topics, timeout=timeout)
    before = len(admin.answers)
    admin.send(encode_request(DELETE_RECORDS, 2, 9, "admin", entity))
    return deleted(admin) if len(admin.answers) > before else None


def deleted(admin):
    (one,) = decode_response(DELETE_RECORDS, 2, admin.answers[-1]).topics[0].partitions
    return error(one), int(one.low_watermark)


def test_records_are_deleted_once_every_live_follower_has_let_them_go(world, admin):
    world.create(B1, B2)
    client, fetch = world.call("p1"), world.follower(B2)
    for value in ("r0", "r1", "r2"):
        client.produce(batch(value), acks=1)
    fetch(0)
    fetch(2)
    assert delete_records(admin, 3) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1), "r2 is not committed"
    assert delete_records(admin, -1) is None, "b2 still has them"
    (event,) = world.events(LogStartOffsetAdvanced)
    assert (event.node, event.role, event.log_start_offset) == ("b1", "leader", 2)
    client.fetch(0)
    assert client.fetched().error is ErrorCode.OFFSET_OUT_OF_RANGE
    fetch(2, start=2)
    assert deleted(admin) == (ErrorCode.NONE, 2)


def test_a_follower_that_is_not_alive_is_not_waited_for_and_one_that_is_only_until_the_timeout(world, admin):
    world.create(B1, B2)
    client, fetch = world.call("p1"), world.follower(B2)
    client.produce(batch("r0"), acks=1)
    client.produce(batch("r1"), acks=1)
    fetch(0)
    fetch(2)
    assert delete_records(admin, 1, timeout=500) is None
    world.run(600)
    assert deleted(admin) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    world.fall_silent(B2)
    assert delete_records(admin, 2) == (ErrorCode.NONE, 2)


def test_records_that_nobody_may_delete(world, admin):
    world.create(B1, topic="__consumer_offsets")
    world.create(B1, **{"cleanup_policy": "compact"})
    world.create(B2, topic="u")
    assert delete_records(admin, 0, name="__consumer_offsets")[0] is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert delete_records(admin, 0)[0] is ErrorCode.POLICY_VIOLATION
    assert delete_records(admin, 0, name="u")[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert delete_records(admin, 0, name="nope")[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete_records(admin, 0, partition=3)[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_quorum_is_described(world, admin):
    world.run(5000)
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    (partition,) = admin.ask(DESCRIBE_QUORUM, 2, topics=topics).topics[0].partitions
    assert (error(partition), partition.leader_id) == (ErrorCode.NONE, 1001)
    end = world.controller.log.end.offset
    assert [(one.replica_id, one.log_end_offset) for one in partition.current_voters] == [(1001, end)]
    assert [(one.replica_id, one.log_end_offset) for one in partition.observers] == [(B1, end)]
    (wrong,) = admin.ask(DESCRIBE_QUORUM, 0, topics=[{**topics[0], "topic_name": "t"}]).topics[0].partitions
    assert error(wrong) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_log_directories_and_producers_are_described(world, admin):
    create(admin, topic("t", 2))
    records = batch("r0", "r1", producer_id=7, producer_epoch=1, base_sequence=0)
    admin.produce(records)
    (directory,) = admin.ask(DESCRIBE_LOG_DIRS, 4, topics=None).results
    sizes = {one.partition_index: one.partition_size for one in directory.topics[0].partitions}
    leads = {number for number in sizes if sizes[number]}
    assert leads == {0}
    assert sizes[0] == len(records)
    assert 0 < directory.usable_bytes <= directory.total_bytes
    wanted = [{"name": "t", "partition_indexes": [0, 9]}]
    known, unknown = admin.ask(DESCRIBE_PRODUCERS, 0, topics=wanted).topics[0].partitions
    assert [(one.producer_id, one.producer_epoch, one.last_sequence) for one in known.active_producers] == [(7, 1, 1)]
    assert error(unknown) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
