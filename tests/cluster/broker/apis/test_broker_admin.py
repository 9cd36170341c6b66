"""What an admin client asks of one broker, and what broker and controller make of it."""

from pathlib import Path
from uuid import UUID

import pytest
from broker_world import B1, B2, B3, T0, BrokerWorld, batch

from cluster.broker.metadata.lifecycle import BrokerIdentity
from cluster.config import BrokerConfig
from cluster.messages.admin.broker_description import own_keys
from cluster.messages.admin.config_entries import broker_entries
from cluster.protocol.cold import decode_response, encode_request, request
from cluster.protocol.versions import (
    ALTER_CONFIGS,
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_QUORUM,
    DESCRIBE_TOPIC_PARTITIONS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_PARTITION_REASSIGNMENTS,
    METADATA,
)
from replica.errors import ErrorCode
from replica.rules import PROFILES
from replica.trace.events import ElectionRefused, LogStartOffsetAdvanced, TopicDeleted

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


@pytest.fixture
def world(tmp_path):
    world = BrokerWorld(tmp_path, auto_create_topics_enable="true").start()
    world.run(100)
    world.join(B2)
    return world


@pytest.fixture
def admin(world):
    return world.call("admin")


def create(admin, *topics, version=7, validate_only=False):
    answer = admin.ask(CREATE_TOPICS, version, topics=topics, timeout=1000, validate_only=validate_only)
    return {str(topic.name): topic for topic in answer.topics}


def topic(name, partitions=1, replicas=1, **more):
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}


def error(entry):
    return ErrorCode(int(entry.error_code))


def topics_of(admin, **options):
    return {topic.name: topic for topic in admin.ask(METADATA, 12, topics=None, **options).topics}


# -------------------------------------------------------------------------------------------------------------- topics


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
    assert [fact.topic for fact in world.facts(TopicDeleted)] == ["t"]
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


# -------------------------------------------------------------------------------------------------------------- configs


def change(admin, kind, name, *operations, api=INCREMENTAL_ALTER_CONFIGS):
    configs = [{"name": key, "config_operation": how, "value": value} for how, key, value in operations]
    if api == ALTER_CONFIGS:
        configs = [{"name": key, "value": value} for _, key, value in operations]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    version = 1 if api == INCREMENTAL_ALTER_CONFIGS else 2
    return error(admin.ask(api, version, resources=[resource], validate_only=False).responses[0])


def described(admin, kind, name, **options):
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    (result,) = admin.ask(DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=True, **options).results
    return error(result), {config.name: config for config in result.configs}


def test_settings_of_a_topic(world, admin):
    create(admin, topic("t", 1, 2))
    assert change(admin, TOPIC, "t", (SET, "min.insync.replicas", "2"), (SET, "retention.ms", "-1")) is ErrorCode.NONE
    assert world.broker.cache.image.topics["t"].effective_min_isr == 2
    found, configs = described(admin, TOPIC, "t")
    assert found is ErrorCode.NONE
    assert [
        (one.value, int(one.config_source)) for one in (configs["min.insync.replicas"], configs["retention.ms"])
    ] == [
        ("2", 1),
        ("-1", 1),
    ]
    assert [(one.name, one.value, int(one.source)) for one in configs["min.insync.replicas"].synonyms] == [
        ("min.insync.replicas", "2", 1),
        ("min.insync.replicas", "1", 5),
    ]
    assert change(admin, TOPIC, "t", (DELETE, "min.insync.replicas", None)) is ErrorCode.NONE
    assert described(admin, TOPIC, "t")[1]["min.insync.replicas"].value == "1"
    assert change(admin, TOPIC, "t", (SET, "segment.bytes", "2048"), api=ALTER_CONFIGS) is ErrorCode.NONE
    _, configs = described(admin, TOPIC, "t")
    assert [configs[key].value for key in ("segment.bytes", "retention.ms")] == ["2048", "604800000"]


def test_settings_that_are_lists_grow_and_shrink(admin):
    create(admin, topic("t"))

    def policy():
        return described(admin, TOPIC, "t")[1]["cleanup.policy"].value

    assert change(admin, TOPIC, "t", (APPEND, "cleanup.policy", "compact")) is ErrorCode.NONE
    assert policy() == "delete,compact"
    assert change(admin, TOPIC, "t", (SUBTRACT, "cleanup.policy", "delete")) is ErrorCode.NONE
    assert policy() == "compact"
    assert change(admin, TOPIC, "t", (SUBTRACT, "cleanup.policy", "compact")) is ErrorCode.NONE
    assert policy() == "", "nothing is deleted, which is a policy, too"
    assert change(admin, TOPIC, "t", (APPEND, "cleanup.policy", "delete")) is ErrorCode.NONE
    assert policy() == "delete"
    assert change(admin, TOPIC, "t", (APPEND, "segment.bytes", "1")) is ErrorCode.INVALID_CONFIG


def test_settings_of_a_broker(world, admin):
    rate = "leader.replication.throttled.rate"
    assert change(admin, BROKER, "1", (SET, rate, "1000")) is ErrorCode.NONE
    assert world.broker.cache.image.broker_config == {1: {rate: "1000"}}
    _, configs = described(admin, BROKER, "1")
    assert (configs[rate].value, configs[rate].read_only) == ("1000", False)
    assert (configs["num.partitions"].value, configs["num.partitions"].read_only) == ("1", True)
    assert change(admin, BROKER, "1", (SET, "num.partitions", "3")) is ErrorCode.INVALID_REQUEST


def test_the_throttles_that_the_reassignment_tool_clears_may_not_be_there(admin):
    rates = [f"{side}.replication.throttled.rate" for side in ("leader", "follower")]
    rates.append("replica.alter.log.dirs.io.max.bytes.per.second")
    assert change(admin, BROKER, "1", *((DELETE, rate, "") for rate in rates)) is ErrorCode.NONE
    assert change(admin, BROKER, "1", *((SET, rate, "1000") for rate in rates)) is ErrorCode.NONE
    assert {rate: described(admin, BROKER, "1")[1][rate].value for rate in rates} == dict.fromkeys(rates, "1000")
    assert change(admin, BROKER, "1", *((DELETE, rate, "") for rate in rates)) is ErrorCode.NONE
    assert not set(rates) & set(described(admin, BROKER, "1")[1])


def test_settings_of_every_broker_at_once(world, admin):
    rate = "leader.replication.throttled.rate"
    assert change(admin, BROKER, "", (SET, rate, "1000")) is ErrorCode.NONE
    _, configs = described(admin, BROKER, "")
    assert {name: (one.value, one.config_source) for name, one in configs.items()} == {rate: ("1000", 3)}
    assert (described(admin, BROKER, "1")[1][rate].value, described(admin, BROKER, "1")[1][rate].config_source) == (
        "1000",
        3,
    )
    assert change(admin, BROKER, "1", (SET, rate, "400")) is ErrorCode.NONE
    its_own = described(admin, BROKER, "1")[1][rate]
    assert [(one.value, one.source) for one in its_own.synonyms] == [("400", 2), ("1000", 3)]
    assert change(admin, BROKER, "", (SET, "min.insync.replicas", "2")) is ErrorCode.INVALID_REQUEST


def test_what_tools_look_for_in_a_broker(world, admin):
    _, told = described(admin, BROKER, "1", include_documentation=True)
    listener = "PLAINTEXT://b1:9092"
    expected = {
        "advertised.listeners": listener,
        "auto.create.topics.enable": "true",
        "broker.id": "1",
        "controller.quorum.voters": "1001@c1:9093",
        "default.replication.factor": "1",
        "inter.broker.protocol.version": "3.9-IV0",
        "listeners": listener,
        "log.dirs": ",".join(str(manager.root) for manager in world.broker.logs.directories.values()),
        "log.retention.hours": "168",
        "log.retention.ms": None,
        "message.max.bytes": "1048588",
        "min.insync.replicas": "1",
        "node.id": "1",
        "num.io.threads": "8",
        "process.roles": "broker",
        "ssl.keystore.password": None,
        "unclean.leader.election.enable": "false",
    }
    assert {name: told[name].value for name in expected} == expected
    assert [name for name, one in told.items() if one.is_sensitive] == [
        "sasl.jaas.config",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.truststore.password",
    ]
    assert told["log.retention.ms"].documentation == "Milliseconds a segment is kept, -1 for ever."
    types = {"num.io.threads": 3, "log.roll.ms": 5, "unclean.leader.election.enable": 1, "ssl.key.password": 9}
    assert {name: told[name].config_type for name in types} == types
    assert not {"zookeeper.connect", "zookeeper.session.timeout.ms", "replica.lag.max.messages"} & set(told)
    assert list(told) == sorted(told)


@pytest.mark.parametrize(
    ("profile", "there", "absent"),
    [
        ("kafka-4.1", {"process.roles"}, {"inter.broker.protocol.version", "zookeeper.connect"}),
        ("kafka-3.9", {"process.roles", "inter.broker.protocol.version"}, {"replica.lag.max.messages"}),
        ("kafka-2.7", {"inter.broker.protocol.version", "zookeeper.connect"}, {"node.id", "broker.session.timeout.ms"}),
        ("kafka-0.8", {"replica.lag.max.messages", "zookeeper.session.timeout.ms"}, {"process.roles"}),
    ],
)
def test_keys_of_a_broker_are_those_of_its_era(profile, there, absent):
    identity = BrokerIdentity(7, "alpha", UUID(int=1), "::1", 9092, "r1")
    rules = PROFILES[profile]
    own = own_keys(identity, rules, [Path("/data/1"), Path("/data/2")], {12: ("c", 1), 11: ("d", 2)})
    entries = broker_entries(BrokerConfig(), rules, own, {}, {})
    told = {entry.name: entry.value for entry in entries}
    assert there <= set(told) and not absent & set(told)
    assert (told["broker.id"], told["broker.rack"], told["log.dirs"]) == ("7", "r1", "/data/1,/data/2")
    assert [entry.name for entry in entries] == sorted(told)


def test_what_a_broker_reads_when_it_starts_is_not_set_while_it_runs(admin):
    for key in ("log.dirs", "num.io.threads", "log.cleaner.threads"):
        resource = {"resource_type": BROKER, "resource_name": "1", "configs": [{"name": key, "value": "1"}]}
        (answer,) = admin.ask(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
        assert answer.error_code is ErrorCode.INVALID_REQUEST
        assert f"Cannot update these configs dynamically: {key}" in answer.error_message


@pytest.mark.parametrize(("name", "why"), [("1", "a broker has no loggers here"), ("", "no broker is named")])
def test_a_broker_has_no_loggers(admin, name, why):
    resource = {"resource_type": BROKER_LOGGER, "resource_name": name, "configuration_keys": None}
    (result,) = admin.ask(DESCRIBE_CONFIGS, 4, resources=[resource]).results
    assert result.error_code is ErrorCode.INVALID_REQUEST
    assert result.error_message.startswith(why)
    assert change(admin, BROKER_LOGGER, name, (SET, "root", "DEBUG")) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("api", [INCREMENTAL_ALTER_CONFIGS, ALTER_CONFIGS])
def test_settings_that_are_badly_asked_for(admin, api):
    """Of the request something is wrong, not of the settings."""
    create(admin, topic("t"))
    twice = [(SET, "segment.bytes", "2048"), (SET, "segment.bytes", "4096")]
    assert change(admin, TOPIC, "t", *twice, api=api) is ErrorCode.INVALID_REQUEST
    assert change(admin, TOPIC, "t", (SET, "segment.bytes", None), api=api) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("kind", "name", "refusal"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_REQUEST),
        (BROKER, "b1", ErrorCode.INVALID_REQUEST),
        (BROKER, "-1", ErrorCode.INVALID_REQUEST),
        (99, "t", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_has_no_settings(admin, kind, name, refusal):
    assert change(admin, kind, name, (SET, "segment.bytes", "2048")) is refusal
    if name:
        assert described(admin, kind, name)[0] is refusal


# ------------------------------------------------------------------------------------------------- leaders and replicas


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
    assert len(world.facts(ElectionRefused)) == 1, "only of partitions that there are"
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


# ---------------------------------------------------------------------------------------------------- deleting records


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
    (fact,) = world.facts(LogStartOffsetAdvanced)
    assert (fact.node, fact.role, fact.log_start_offset) == ("b1", "leader", 2)
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


# -------------------------------------------------------------------------------------------------------- descriptions


def test_the_cluster_is_described(world, admin):
    answer = admin.ask(DESCRIBE_CLUSTER, 2, include_cluster_authorized_operations=True, endpoint_type=1)
    assert [(one.broker_id, one.is_fenced) for one in answer.brokers] == [(B1, False), (B2, False)]
    assert (answer.controller_id, int(answer.cluster_authorized_operations)) == (B1, 8096)
    for endpoint, refusal in ((2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)):
        answer = admin.ask(DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=False, endpoint_type=endpoint)
        assert error(answer) is refusal
    world.fall_silent(B2)
    answer = admin.ask(DESCRIBE_CLUSTER, 2, include_fenced_brokers=True, endpoint_type=1)
    assert [(one.broker_id, one.is_fenced) for one in answer.brokers] == [(B1, False), (B2, True)]


def test_partitions_are_described_page_by_page(admin):
    create(admin, topic("t", 3), topic("u", 2))
    seen, cursor = [], None
    while True:
        answer = admin.ask(DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=2, cursor=cursor)
        seen.append([(told.name, one.partition_index) for told in answer.topics for one in told.partitions])
        if answer.next_cursor is None:
            break
        cursor = {"topic_name": answer.next_cursor.topic_name, "partition_index": answer.next_cursor.partition_index}
    assert seen == [[("t", 0), ("t", 1)], [("t", 2), ("u", 0)], [("u", 1)]]


def test_a_partition_that_nobody_leads_is_described_without_an_error(world, admin):
    """Clients see the leader -1."""
    create(admin, topic("t", -1, -1, assignments=[{"partition_index": 0, "broker_ids": [B2]}]))
    world.fall_silent(B2)
    (told,) = admin.ask(DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": "t"}], cursor=None).topics
    assert [(error(one), one.leader_id, list(one.offline_replicas)) for one in told.partitions] == [
        (ErrorCode.NONE, -1, [B2])
    ]


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
    wanted = [{"name": "t", "partition_indexes": [0, 9]}]
    known, unknown = admin.ask(DESCRIBE_PRODUCERS, 0, topics=wanted).topics[0].partitions
    assert [(one.producer_id, one.producer_epoch, one.last_sequence) for one in known.active_producers] == [(7, 1, 1)]
    assert error(unknown) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# ------------------------------------------------------------------------------------------------------------ metadata


def test_a_topic_that_a_client_asks_about_is_created(world, admin):
    def ask(name, allow=True, version=9):
        answer = admin.ask(METADATA, version, topics=[{"name": name}], allow_auto_topic_creation=allow)
        return error(answer.topics[0])

    assert ask("t", allow=False) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask("t", allow=False) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask("t") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask("t") is ErrorCode.NONE
    assert ask("a/b") is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert ask("__consumer_offsets") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.join(B3)
    assert ask("__consumer_offsets") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(topics_of(admin)["__consumer_offsets"].partitions) == 50
    assert ask("old", version=1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask("old", version=1) is ErrorCode.NONE


def test_what_everybody_may_do_is_told_to_those_who_ask(admin):
    create(admin, topic("t"))

    def told(**asked):
        answer = admin.ask(METADATA, 8, topics=None, **asked)
        return int(answer.cluster_authorized_operations), int(answer.topics[0].topic_authorized_operations)

    assert told() == (-(2**31), -(2**31))
    assert told(include_cluster_authorized_operations=True, include_topic_authorized_operations=True) == (8096, 3576)


# ---------------------------------------------------------------------------------------------------------- forwarding


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
