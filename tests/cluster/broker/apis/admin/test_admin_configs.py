"""The settings of topics and brokers, as an admin client reads and changes them."""

from pathlib import Path
from uuid import UUID

import pytest
from admin_requests import create, error, topic
from broker_world import BrokerWorld

from cluster.broker.metadata.lifecycle import BrokerIdentity
from cluster.config import BrokerConfig
from cluster.messages.admin.broker_description import own_keys
from cluster.messages.admin.config_entries import Dynamic, broker_entries
from cluster.protocol.versions import (
    ALTER_CONFIGS,
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_CONFIG_RESOURCES,
)
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.rules import PROFILES

TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32
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
    # Not in AllDynamicConfigs, and Kafka calls all others read-only.
    assert (configs[rate].value, configs[rate].is_sensitive, configs[rate].read_only) == ("1000", False, True)
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


@pytest.fixture
def world_of_groups(tmp_path):
    world = BrokerWorld(tmp_path, PROFILES["kafka-4.1"]).start()
    world.run(100)
    return world


def test_settings_of_a_group(world_of_groups):
    world, admin = world_of_groups, world_of_groups.call("admin")
    timeout, interval = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    found, configs = described(admin, GROUP, "g")
    assert found is ErrorCode.NONE, "a group need not be there, nor be of KIP-848"
    assert (len(configs), configs[timeout].value, configs[timeout].config_source) == (10, "45000", 5)
    settings = (SET, timeout, "50000"), (SET, "share.isolation.level", "read_committed")
    assert change(admin, GROUP, "g", *settings) is ErrorCode.NONE
    stored = {timeout: "50000", "share.isolation.level": "read_committed"}
    assert world.broker.cache.image.group_config == {"g": stored}
    _, configs = described(admin, GROUP, "g")
    assert (configs[timeout].value, configs[timeout].config_source, configs[timeout].read_only) == ("50000", 8, False)
    assert [(one.name, one.value, one.source) for one in configs[timeout].synonyms] == [(timeout, "50000", 8)]
    assert described(admin, GROUP, "other")[1][timeout].value == "45000"
    offset = world.broker.cache.image.offset
    assert change(admin, GROUP, "g", (SET, timeout, "50000")) is ErrorCode.NONE
    assert world.broker.cache.image.offset == offset, "what it has already is no record"
    resources = admin.ask(LIST_CONFIG_RESOURCES, 1, resource_types=[GROUP]).config_resources
    assert [(one.resource_type, one.resource_name) for one in resources] == [(GROUP, "g")]
    assert change(admin, GROUP, "g", (SET, interval, "7000"), api=ALTER_CONFIGS) is ErrorCode.NONE
    assert world.broker.cache.image.group_config == {"g": {interval: "7000"}}
    assert change(admin, GROUP, "g", (DELETE, interval, None)) is ErrorCode.NONE
    assert world.broker.cache.image.group_config == {}


def test_a_setting_that_a_group_cannot_have(world_of_groups):
    world, admin = world_of_groups, world_of_groups.call("admin")
    timeout, interval = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    for key, value, message in (
        (timeout, "44999", "must be greater than or equal to group.consumer.min.session.timeout.ms"),
        (timeout, "60001", "must be less than or equal to group.consumer.max.session.timeout.ms"),
        (interval, "4999", "must be greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        (interval, "15001", "must be less than or equal to group.consumer.max.heartbeat.interval.ms"),
        (interval, "often", "is not a number"),
        ("share.heartbeat.interval.ms", "4999", "equal to group.share.min.heartbeat.interval.ms"),
        ("share.session.timeout.ms", "60001", "equal to group.share.max.session.timeout.ms"),
        ("share.record.lock.duration.ms", "60001", "equal to group.share.max.record.lock.duration.ms"),
        ("streams.session.timeout.ms", "44999", "equal to group.streams.min.session.timeout.ms"),
        ("streams.num.standby.replicas", "3", "equal to group.streams.max.standby.replicas"),
        ("share.auto.offset.reset", "sometimes", "does not have the form"),
        ("session.timeout.ms", "45000", "Unknown group config name: session.timeout.ms"),
        ("share.delivery.count.limit", "5", "Unknown group config name: share.delivery.count.limit"),
    ):
        configs = [{"name": key, "config_operation": SET, "value": value}]
        resource = {"resource_type": GROUP, "resource_name": "g", "configs": configs}
        (answer,) = admin.ask(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
        assert error(answer) is ErrorCode.INVALID_CONFIG and message in answer.error_message
    assert world.broker.cache.image.group_config == {}


def test_limits_of_settings_are_shown_as_numbers_since_4_4(tmp_path):
    world = BrokerWorld(tmp_path, PROFILES["kafka-4.4"], group_share_min_record_lock_duration_ms="20000").start()
    world.run(100)
    admin = world.call("admin")
    for key, value, message in (
        ("share.record.lock.duration.ms", "19999", "must be in the range 20000 to 60000 inclusive."),
        ("share.delivery.count.limit", "11", "must be in the range 2 to 10 inclusive."),
        ("share.partition.max.record.locks", "4001", "must be in the range 100 to 4000 inclusive."),
        ("streams.num.standby.replicas", "3", "must be less than or equal to 2"),
    ):
        configs = [{"name": key, "config_operation": SET, "value": value}]
        resource = {"resource_type": GROUP, "resource_name": "g", "configs": configs}
        (answer,) = admin.ask(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
        assert (error(answer), answer.error_message) == (ErrorCode.INVALID_CONFIG, f"{key} {message}")
    assert change(admin, GROUP, "g", (SET, "share.delivery.count.limit", "10")) is ErrorCode.NONE


def test_an_unknown_setting_of_a_group_can_be_taken_back(world_of_groups):
    world, admin = world_of_groups, world_of_groups.call("admin")
    offset = world.broker.cache.image.offset
    assert change(admin, GROUP, "g", (DELETE, "session.timeout.ms", None)) is ErrorCode.NONE
    assert world.broker.cache.image.offset == offset


def test_groups_have_no_settings_before_4_0(tmp_path):
    world = BrokerWorld(tmp_path, PROFILES["kafka-3.9"]).start()
    world.run(100)
    admin = world.call("admin")
    assert change(admin, GROUP, "g", (SET, "consumer.session.timeout.ms", "50000")) is ErrorCode.INVALID_REQUEST
    assert described(admin, GROUP, "g") == (ErrorCode.INVALID_REQUEST, {})


def test_there_are_no_settings_of_all_groups(world_of_groups):
    admin = world_of_groups.call("admin")
    assert change(admin, GROUP, "", (SET, "consumer.session.timeout.ms", "50000")) is ErrorCode.INVALID_REQUEST
    assert described(admin, GROUP, "")[0] is ErrorCode.INVALID_REQUEST


def test_settings_of_every_broker_at_once(world, admin):
    key = "log.retention.ms"
    assert change(admin, BROKER, "", (SET, key, "1000")) is ErrorCode.NONE
    _, configs = described(admin, BROKER, "")
    assert {name: (one.value, one.config_source) for name, one in configs.items()} == {key: ("1000", 3)}
    of_one = described(admin, BROKER, "1")[1][key]
    assert (of_one.value, of_one.config_source, of_one.read_only) == ("1000", 3, False)
    assert change(admin, BROKER, "1", (SET, key, "400")) is ErrorCode.NONE
    assert synonyms(admin, key) == [("400", 2), ("1000", 3), ("168", 5)]  # the last is log.retention.hours
    assert change(admin, BROKER, "1", (DELETE, key, None)) is ErrorCode.NONE
    assert synonyms(admin, key) == [("1000", 3), ("168", 5)]
    assert change(admin, BROKER, "", (DELETE, key, None)) is ErrorCode.NONE
    assert (described(admin, BROKER, "1")[1][key].value, described(admin, BROKER, "")[1]) == (None, {})


def synonyms(admin, key):
    return [(one.value, one.source) for one in described(admin, BROKER, "1")[1][key].synonyms]


def retention_of(world):
    return world.broker.logs.logs[TopicPartition("t", 0)].config.retention_ms


def test_a_topic_without_a_setting_has_that_of_its_broker_as_it_is_now(world, admin):
    create(admin, topic("t"))
    create(admin, topic("own", configs=[{"name": "retention.ms", "value": "7"}]))
    assert change(admin, BROKER, "", (SET, "log.retention.ms", "1000")) is ErrorCode.NONE
    _, configs = described(admin, TOPIC, "t")
    found = [(one.name, one.value, int(one.source)) for one in configs["retention.ms"].synonyms]
    assert found == [("log.retention.ms", "1000", 3), ("log.retention.hours", "168", 5)]
    topics = world.broker.cache.image.topics
    assert [topics[name].log_config.retention_ms for name in ("t", "own")] == [1000, 7]
    assert retention_of(world) == 1000, "the running log has it, too"
    assert change(admin, BROKER, "1", (SET, "log.retention.ms", "400")) is ErrorCode.NONE
    assert retention_of(world) == 400, "its own counts before that of all"
    assert world.controller.state.image.topics["t"].log_config.retention_ms == 1000, "and only at that broker"
    assert change(admin, TOPIC, "t", (SET, "retention.ms", "604800000")) is ErrorCode.NONE
    assert retention_of(world) == 604_800_000, "Kafka's own default is a setting, if it is set"


WITHOUT_SYNONYMS = {
    "flush.ms",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "retention.ms",
    "segment.jitter.ms",
    "segment.ms",
}


def test_where_the_settings_of_a_topic_may_come_from(world, admin):
    """As Kafka 4.1.0 names them: a broker's key that is null by default, and what stands behind it, are no synonyms."""
    create(admin, topic("t"))
    configs = described(admin, TOPIC, "t")[1]
    assert len(configs) == 33
    told = {name: [(one.name, one.value, one.source) for one in config.synonyms] for name, config in configs.items()}
    assert {name for name, synonyms in told.items() if not synonyms} == WITHOUT_SYNONYMS
    assert told["compression.type"] == [("compression.type", "producer", 5)]
    assert told["message.timestamp.type"] == [("log.message.timestamp.type", "CreateTime", 5)]
    assert told["preallocate"] == [("log.preallocate", "false", 5)]
    assert told["local.retention.ms"] == [("log.local.retention.ms", "-2", 5)]
    assert configs["retention.ms"].value == configs["segment.ms"].value == "604800000"
    assert change(admin, BROKER, "", (SET, "compression.type", "zstd")) is ErrorCode.NONE
    found = described(admin, TOPIC, "t")[1]["compression.type"]
    assert [(one.value, one.source) for one in found.synonyms] == [("zstd", 3), ("producer", 5)]
    assert (found.value, found.config_source) == ("zstd", 3)


def test_the_coordinators_topics_are_described_as_the_broker_has_them():
    config = BrokerConfig.from_mapping({"transaction.state.log.replication.factor": "1", "log.roll.hours": "2"})
    told = {one.name: one for one in broker_entries(config, PROFILES["kafka-4.1"], [], Dynamic())}
    factor = told["transaction.state.log.replication.factor"]
    assert (factor.value, factor.source, factor.type) == ("1", 4, 4), "a SHORT, from its own file"
    assert (told["log.roll.ms"].value, told["log.roll.hours"].value) == (None, "2")


def test_settings_of_a_cluster_without_tiered_storage(admin):
    taken = {"remote.storage.enable": "false", "local.retention.ms": "1000", "max.message.bytes": "0"}
    create(admin, topic("t", configs=[{"name": name, "value": value} for name, value in taken.items()]))
    configs = described(admin, TOPIC, "t")[1]
    assert {name: configs[name].value for name in taken} == taken
    assert change(admin, TOPIC, "t", (SET, "remote.storage.enable", "true")) is ErrorCode.INVALID_CONFIG
    assert change(admin, TOPIC, "t", (SET, "local.retention.ms", "-3")) is ErrorCode.INVALID_CONFIG


def test_what_a_running_broker_takes_over(world, admin):
    settings = {
        "max.connections.per.ip": "1",
        "num.io.threads": "16",
        "producer.id.expiration.ms": "5",
        "log.cleaner.backoff.ms": "7",
    }
    create(admin, topic("t"))
    assert change(admin, BROKER, "", *((SET, key, value) for key, value in settings.items())) is ErrorCode.NONE
    config = world.broker.base.running.current
    assert (config.max_connections_per_ip, config.num_io_threads, config.log_cleaner_backoff_ms) == (1, 16, 7)
    assert world.broker._server.handlers.num_io_threads == 16
    assert world.broker.logs.logs[TopicPartition("t", 0)].producers.expiration_ms == 5
    assert not world.broker._server.connections.accepted(9001, "admin:1", "", world.now_us), "it has one"


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("1", {"num.partitions": "3"}, "Cannot update these configs dynamically: Set(num.partitions)"),
        (
            "",
            {"queued.max.requests": "3", "num.partitions": "3"},
            ": Set(num.partitions, queued.max.requests)",
        ),
        ("1", {"ssl.keystore.type": "x"}, "only per-listener using the listener prefix: Set(ssl.keystore.type)"),
        ("", {"listeners": "x"}, "at default cluster level, broker id must be specified: Set(listeners)"),
        ("", {"listener.name.x.ssl.key.password": "x"}, "Set(listener.name.x.ssl.key.password)"),
        (
            "1",
            {"num.io.threads": "17"},
            "num.io.threads=17, value should not be greater than double the current value",
        ),
        ("1", {"num.io.threads": "3"}, "num.io.threads=3, value should be at least half the current value 8"),
        ("1", {"log.cleaner.threads": "3"}, "cannot be increased to more than double the current value 1"),
        ("1", {"log.segment.bytes": "x"}, "log.segment.bytes: `x` is not a number"),
        ("1", {"log.retention.ms": "0"}, "log.retention.ms must be unlimited (-1) or, equal or greater than 1"),
        ("1", {"compression.type": "rar"}, "compression.type: `rar` is not one of"),
        ("1", {"leader.replication.throttled.rate": "-1"}, "throttled.rate: must be at least 0, not -1"),
    ],
)
def test_settings_of_brokers_that_cannot_be(admin, name, changes, message):
    """The messages are those of DynamicBrokerConfig.validateConfigs."""
    configs = [{"name": key, "value": value} for key, value in changes.items()]
    resource = {"resource_type": BROKER, "resource_name": name, "configs": configs}
    (answer,) = admin.ask(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    assert message in answer.error_message
    assert described(admin, BROKER, "")[1] == {}


@pytest.mark.parametrize("name", ["listeners", "listener.name.x.ssl.key.password", "plugins.key", "compression.type"])
def test_settings_that_are_only_kept(world, admin, name):
    value = "gzip" if name == "compression.type" else "x"
    assert change(admin, BROKER, "1", (SET, name, value)) is ErrorCode.NONE
    assert world.broker.cache.image.broker_config == {1: {name: value}}
    entry = described(admin, BROKER, "1")[1][name]
    is_known = name in ("listeners", "compression.type")
    assert (entry.value, entry.is_sensitive) == ((value, False) if is_known else (None, True))


def test_with_elr_all_brokers_have_one_min_insync_replicas(tmp_path):
    world = BrokerWorld(tmp_path, PROFILES["kafka-4.1"]).start()
    world.run(100)
    admin = world.call("admin")
    key = "min.insync.replicas"
    assert change(admin, BROKER, "1", (SET, key, "2")) is ErrorCode.INVALID_CONFIG
    assert change(admin, BROKER, "", (SET, key, "2")) is ErrorCode.NONE
    assert change(admin, BROKER, "", (DELETE, key, None)) is ErrorCode.INVALID_CONFIG
    assert described(admin, BROKER, "")[1][key].value == "2"


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
    assert not described(admin, BROKER, "1")[1][key].read_only
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
    assert told["log.retention.ms"].documentation == "Retention time of a segment in ms; -1: no limit."
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
    entries = broker_entries(BrokerConfig(), rules, own, Dynamic())
    told = {entry.name: entry.value for entry in entries}
    assert there <= set(told) and not absent & set(told)
    assert (told["broker.id"], told["broker.rack"], told["log.dirs"]) == ("7", "r1", "/data/1,/data/2")
    assert [entry.name for entry in entries] == sorted(told)


@pytest.mark.parametrize(
    ("name", "why"), [("1", "log levels of brokers"), ("", "the resource name must be a broker id")]
)
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
