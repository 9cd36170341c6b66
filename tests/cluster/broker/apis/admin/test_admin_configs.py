"""The settings of topics and brokers, as an admin client reads and changes them."""

from pathlib import Path
from uuid import UUID

import pytest
from admin_requests import create, error, topic
from broker_world import BrokerWorld

from cluster.broker.metadata.lifecycle import BrokerIdentity
from cluster.config import BrokerConfig
from cluster.messages.admin.broker_description import own_keys
from cluster.messages.admin.config_entries import broker_entries
from cluster.protocol.versions import (
    ALTER_CONFIGS,
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
)
from replica.errors import ErrorCode
from replica.rules import PROFILES

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


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


@pytest.mark.parametrize(
    ("profile", "sources"),
    [("kafka-4.1", [("2", 3), ("2", 4), ("1", 5)]), ("kafka-3.9", [("2", 4), ("1", 5)])],
)
def test_with_elr_the_smallest_isr_is_a_setting_of_all_brokers(tmp_path, profile, sources):
    """As Apache Kafka 4.1.0 describes a cluster that was just formatted (KIP-966)."""
    world = BrokerWorld(tmp_path, PROFILES[profile], min_insync_replicas="2").start()
    world.run(100)
    admin = world.call("admin")
    key = "min.insync.replicas"
    creation = admin.ask(CREATE_TOPICS, 7, topics=[topic("t")], timeout=0, validate_only=False).topics[0]
    assert {one.name: one.config_source for one in creation.configs}[key] == sources[0][1]
    for kind, name in ((TOPIC, "t"), (BROKER, "1")):
        one = described(admin, kind, name)[1][key]
        assert (one.value, one.config_source) == sources[0]
        assert [(synonym.value, synonym.source) for synonym in one.synonyms] == sources
    of_all = described(admin, BROKER, "")[1]
    assert {name: (one.value, one.config_source) for name, one in of_all.items()} == (
        {key: ("2", 3)} if sources[0][1] == 3 else {}
    )
    assert described(admin, BROKER, "1")[1][key].read_only is (profile == "kafka-3.9")
    assert change(admin, TOPIC, "t", (SET, key, "1")) is ErrorCode.NONE
    assert described(admin, TOPIC, "t")[1][key].config_source == 1


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
