"""Topics that an admin client creates, deletes and extends; requests that wait for a controller."""

import pytest
from admin_requests import create, error, topic, topics_of
from broker_world import B1, B2, T0, batch

from cluster.protocol.cold import decode_response, encode_request, request
from cluster.protocol.versions import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
)
from replica.errors import ErrorCode
from replica.trace.events import TopicDeleted


def test_topics_are_created_by_the_controller_and_known_to_the_broker_at_once(world, admin):
    configs = [{"name": "min.insync.replicas", "value": "2"}]
    made = create(admin, topic("t", 2, 2, configs=configs), topic("a/b"), topic("u", -1, -1))
    assert {name: error(one) for name, one in made.items()} == {
        "t": ErrorCode.NONE,
        "a/b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "u": ErrorCode.NONE,
    }
    assert (int(made["t"].num_partitions), int(made["t"].replication_factor)) == (2, 2)
    told = {config.name: (config.value, int(config.config_source)) for config in made["t"].configs}
    assert told["min.insync.replicas"] == ("2", 1)
    assert told["retention.ms"] == ("604800000", 5)
    known = topics_of(admin)
    assert [len(known[name].partitions) for name in ("t", "u")] == [2, 1]
    assert known["t"].topic_id == made["t"].topic_id
    assert error(create(admin, topic("t"))["t"]) is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_of_create_topics(admin, version):
    assert error(create(admin, topic(f"t{version}"), version=version)[f"t{version}"]) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("wish", "refusal"),
    [
        ({"partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"partitions": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"replicas": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replicas": 3}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"partitions": 10_001}, ErrorCode.POLICY_VIOLATION),
        ({"partitions": 2**31 - 1}, ErrorCode.POLICY_VIOLATION),
        ({"configs": [{"name": "nonsense", "value": "1"}]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [{"name": "segment.bytes", "value": "1_000_000"}]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [{"name": "segment.bytes", "value": "3000000000"}]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [{"name": "cleanup.policy", "value": "burn"}]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [{"name": "segment.bytes", "value": None}]}, ErrorCode.INVALID_CONFIG),
        ({"assignments": [{"partition_index": 0, "broker_ids": [B1]}]}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_no_topic_may_be_like(admin, wish, refusal):
    made = create(admin, topic("t", **wish))["t"]
    assert error(made) is refusal
    assert made.error_message
    assert "t" not in topics_of(admin)


def test_assigned_replicas(admin):
    def assigned(name, *partitions):
        assignments = [{"partition_index": number, "broker_ids": brokers} for number, brokers in partitions]
        return create(admin, topic(name, -1, -1, assignments=assignments))[name]

    assert error(assigned("t", (1, [B2, B1]), (0, [B1, B2]))) is ErrorCode.NONE
    assert [list(one.replica_nodes) for one in topics_of(admin)["t"].partitions] == [[B1, B2], [B2, B1]]
    for wrong in ([(0, [B1]), (2, [B1])], [(0, [B1]), (0, [B2])], [(0, [9])], [(0, [B1, B1])], [(0, [])]):
        assert error(assigned("u", *wrong)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_topic_named_twice_is_not_created(admin):
    answer = admin.ask(CREATE_TOPICS, 7, topics=[topic("t"), topic("t")], timeout=1000)
    assert [(one.name, error(one)) for one in answer.topics] == [("t", ErrorCode.INVALID_REQUEST)]
    assert "t" not in topics_of(admin)


def test_only_validated(admin):
    made = create(admin, topic("t", 3), topic("u", 0), validate_only=True)
    assert (error(made["t"]), error(made["u"])) == (ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS)
    assert not topics_of(admin)


def test_a_deleted_topic_is_gone_with_its_logs_and_may_come_again(world, admin):
    create(admin, topic("t"))
    topic_id = topics_of(admin)["t"].topic_id
    admin.produce(batch("r0"))
    assert admin.produced().error is ErrorCode.NONE
    unknown = {"name": None, "topic_id": "00000000-0000-0000-0000-000000000009"}
    both = {"name": "t", "topic_id": topic_id}
    by_id = {"name": None, "topic_id": topic_id}
    answer = admin.ask(DELETE_TOPICS, 6, topics=[unknown, both, {"name": "u", "topic_id": None}], timeout=1000)
    assert [error(one) for one in answer.responses] == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    answer = admin.ask(DELETE_TOPICS, 6, topics=[by_id], timeout=1000)
    assert [(one.name, error(one)) for one in answer.responses] == [("t", ErrorCode.NONE)]
    assert [event.topic for event in world.events(TopicDeleted)] == ["t"]
    assert T0 not in world.broker.logs.logs
    admin.produce(batch("r1"))
    assert admin.produced().error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create(admin, topic("t"))
    admin.produce(batch("r2"))
    assert admin.produced().base_offset == 0
    assert topics_of(admin)["t"].topic_id != topic_id


def test_a_topic_named_twice_is_not_deleted(admin):
    create(admin, topic("t"))
    topic_id = topics_of(admin)["t"].topic_id
    twice = [{"name": "t", "topic_id": None}, {"name": None, "topic_id": topic_id}]
    answer = admin.ask(DELETE_TOPICS, 6, topics=twice, timeout=1000)
    assert [error(one) for one in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert "t" in topics_of(admin)


def test_partitions_are_added(admin):
    create(admin, topic("t"))

    def grow(count, **more):
        wish = {"name": "t", "count": count, "assignments": None, **more}
        answer = admin.ask(CREATE_PARTITIONS, 3, topics=[wish], timeout=1000, validate_only=False)
        return error(answer.results[0])

    assert grow(1) is ErrorCode.INVALID_PARTITIONS
    assert grow(2**31 - 1) is ErrorCode.POLICY_VIOLATION
    assert grow(3) is ErrorCode.NONE
    assert grow(4, assignments=[{"broker_ids": [B2]}]) is ErrorCode.NONE
    assert [one.partition_index for one in topics_of(admin)["t"].partitions] == [0, 1, 2, 3]
    assert topics_of(admin)["t"].partitions[3].leader_id == B2


def test_a_request_waits_for_a_controller_and_is_answered_by_the_next_one(world, admin):
    world.stop_controller()
    entity = request(CREATE_TOPICS, 7, topics=[topic("t")], timeout=1000)
    admin.send(encode_request(CREATE_TOPICS, 7, 1, "admin", entity))
    world.run(5000)
    assert not admin.answers
    world.start_controller()
    world.run(20_000)
    assert error(decode_response(CREATE_TOPICS, 7, admin.answers[-1]).topics[0]) is ErrorCode.NONE


def test_without_a_controller_a_request_is_given_up_after_a_minute(world, admin):
    world.stop_controller()
    entity = request(CREATE_TOPICS, 7, topics=[topic("t")], timeout=1000)
    admin.send(encode_request(CREATE_TOPICS, 7, 1, "admin", entity))
    world.run(61_000)
    assert error(decode_response(CREATE_TOPICS, 7, admin.answers[-1]).topics[0]) is ErrorCode.REQUEST_TIMED_OUT


def test_what_cannot_be_read_closes_the_clients_connection_and_no_other(world, admin):
    frame = encode_request(CREATE_TOPICS, 7, 1, "admin", request(CREATE_TOPICS, 7, topics=[topic("t")], timeout=1000))
    admin.send(frame[:-6])
    assert admin.closed
    assert error(create(world.call("other"), topic("t"))["t"]) is ErrorCode.NONE
