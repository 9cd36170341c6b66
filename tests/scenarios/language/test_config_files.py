"""Kafka's own configuration in a scenario: files that `config_file` names, pasted lines, and which keys act."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from small_scenario import HEAD, PLAIN_EXPECT, caret_text, errors_of, file_of, load_whole

from cluster.config import BrokerConfig, ProducerConfig, TransformConfig
from cluster.dynamic_keys import READ_ONLY
from cluster.known_keys import BROKER_KEYS, BROKER_RACK, CLIENT_KEYS, PRODUCER_KEYS, TOPIC_KEYS, KnownKeys
from replica.config import Config, TopicConfig
from scenarios.language.diagnostics import Diagnostic, ScenarioInvalid, render
from scenarios.language.parse.loading import load_file, load_text
from scenarios.language.spec import ScenarioFile
from scenarios.language.write import lock

NAMED = HEAD.replace("cluster:\n", "cluster:\n  config_file: server.properties\n")

# Keys and values as these distributions ship them.
APACHE_4 = """\
# A comment
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
#log.flush.interval.messages=10000
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
DOCKER = """\
advertised.listeners=PLAINTEXT://broker:19092,PLAINTEXT_HOST://localhost:9092
broker.id=1
controller.listener.names=CONTROLLER
controller.quorum.voters=1@broker:29093
group.initial.rebalance.delay.ms=0
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT
listeners=PLAINTEXT://broker:19092,PLAINTEXT_HOST://0.0.0.0:9092
log.dirs=/tmp/kraft-combined-logs
log4j.logger.kafka=WARN
node.id=1
offsets.topic.replication.factor=1
process.roles=broker
transaction.state.log.min.isr=1
transaction.state.log.replication.factor=1
"""
CONFLUENT = """\
broker.id=0
listeners=PLAINTEXT://:9092
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
log.dirs=/var/lib/kafka
num.partitions=1
offsets.topic.replication.factor=3
log.retention.hours=168
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
metric.reporters=io.confluent.metrics.reporter.ConfluentMetricsReporter
confluent.metrics.reporter.bootstrap.servers=localhost:9092
confluent.support.metrics.enable=true
confluent.license.topic.replication.factor=1
confluent.balancer.enable=true
group.initial.rebalance.delay.ms=0
authorizer.class.name=io.confluent.kafka.security.authorizer.ConfluentServerAuthorizer
super.users=User:admin
"""
STRIMZI = """\
node.id=${STRIMZI_BROKER_ID}
broker.rack=eu-west-1a
process.roles=broker
controller.quorum.voters=0@kafka-0:9090,1@kafka-1:9090
log.dirs=/var/lib/kafka/data-0/kafka-log0
listeners=REPLICATION-9091://0.0.0.0:9091,TLS-9093://0.0.0.0:9093
listener.name.replication-9091.ssl.keystore.location=/tmp/kafka/cluster.keystore.p12
listener.name.replication-9091.ssl.client.auth=required
listener.name.tls-9093.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.endpoint.identification.algorithm=HTTPS
ssl.secure.random.implementation=SHA1PRNG
principal.builder.class=io.strimzi.kafka.oauth.server.OAuthKafkaPrincipalBuilder
config.providers=strimzienv
config.providers.strimzienv.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
strimzi.authorization.grants.refresh.period.seconds=60
cruise.control.metrics.topic=strimzi.cruisecontrol.metrics
metric.reporters=com.linkedin.kafka.cruisecontrol.metricsreporter.CruiseControlMetricsReporter
min.insync.replicas=2
default.replication.factor=3
transaction.state.log.min.isr=2
replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector
"""
ZOOKEEPER_0_10 = """\
broker.id=0
port = 9092
host.name : localhost
delete.topic.enable=true
auto.leader.rebalance.enable=true
leader.imbalance.per.broker.percentage=10
leader.imbalance.check.interval.seconds=300
log.dirs=/data1/kafka,/data2/kafka
log.cleaner.enable=false
log.flush.interval.messages=10000
log.message.format.version=0.9.0.1
inter.broker.protocol.version=0.9.0.1
replica.lag.max.messages=4000
num.replica.fetchers=4
controlled.shutdown.enable=true
unclean.leader.election.enable=true
zookeeper.connect=zk1:2181,zk2:2181,\\
    zk3:2181/kafka
zookeeper.session.timeout.ms=6000
zookeeper.connection.timeout.ms=6000
zookeeper.sync.time.ms=2000
"""


def loaded(folder: Path, properties: str, text: str = "") -> ScenarioFile:
    (folder / "server.properties").write_text(properties)
    (folder / "small.yaml").write_text(text or file_of(head=NAMED))
    return load_file(folder / "small.yaml")


def refused(folder: Path, properties: str, text: str = "") -> Diagnostic:
    """The only error of a scenario."""
    with pytest.raises(ScenarioInvalid) as invalid:
        loaded(folder, properties, text)
    (error,) = [found for found in invalid.value.diagnostics if found.severity == "error"]
    return error


def named_in(file: ScenarioFile, code: str) -> list[str]:
    """The keys that a warning names."""
    titles = [found.title for found in file.warnings if found.code == code]
    assert len(titles) <= 1
    return titles[0].partition(": ")[2].split(", ") if titles else []


@pytest.mark.parametrize(
    ("properties", "acting", "not_yet", "neutral"),
    [
        (APACHE_4, 12, ["process.roles"], 11),
        (CONFLUENT, 6, ["authorizer.class.name"], 12),
        (STRIMZI, 4, ["config.providers"], 15),
        (ZOOKEEPER_0_10, 11, ["inter.broker.protocol.version", "log.message.format.version"], 7),
    ],
    ids=["apache-4", "confluent", "strimzi", "zookeeper-0.10"],
)
def test_a_servers_file_is_taken_as_it_is(
    tmp_path: Path, properties: str, acting: int, not_yet: list[str], neutral: int
) -> None:
    file = loaded(tmp_path, properties)
    assert named_in(file, "W212") == not_yet
    assert len(named_in(file, "W211")) == neutral
    assert len(file.scenario.cluster.config) == acting


@pytest.mark.parametrize("key", ["log4j.logger.kafka", "acme.audit.enabled", "acme.retention.ms"])
def test_a_key_that_kafka_does_not_know_has_no_effect_in_a_file_and_is_an_error_in_yaml(
    tmp_path: Path, key: str
) -> None:
    file = loaded(tmp_path, DOCKER.replace("log4j.logger.kafka", key))
    assert key in named_in(file, "W211")
    pasted = PASTED.replace("broker.id=0", f"{key}=0").replace("3d", "300")
    assert named_in(load_text(file_of(head=HEAD.replace("cluster:\n", pasted)), "test.yaml"), "W211") == [key]
    assert load_text(lock.dump(file.scenario), "scenario.lock.yaml").scenario.cluster == file.scenario.cluster
    (error,) = errors_of(file_of(head=HEAD.replace("cluster:\n", f"cluster:\n  config: {{{key}: 1}}\n")))
    assert (error.code, caret_text(error), error.title) == ("E126", key, f"unknown broker key `{key}`")


@pytest.mark.parametrize(
    ("line", "caret", "suggestion"),
    [
        ("segment.ms=1000", "segment.ms", "log.roll.ms"),
        ("retention.ms=1000", "retention.ms", "log.retention.ms"),
        ("log.retention.hour=5", "log.retention.hour", "log.retention.hours"),
        ("log.retention.ms=5s", "5s", "5000"),
        ("socket.recieve.buffer.bytes=5", "socket.recieve.buffer.bytes", "socket.receive.buffer.bytes"),
        ("KAFKA_MIN_INSYNC_REPLICAS=2", "KAFKA_MIN_INSYNC_REPLICAS", "min.insync.replicas"),
        ("KAFKA_CFG_LOG_RETENTION_MS=2", "KAFKA_CFG_LOG_RETENTION_MS", "log.retention.ms"),
    ],
)
def test_a_wrong_line_hears_kafkas_own_name(tmp_path: Path, line: str, caret: str, suggestion: str) -> None:
    error = refused(tmp_path, f"broker.id=0\n{line}\n")
    assert (caret_text(error), error.suggestion) == (caret, suggestion), render(error)
    assert error.place is not None and error.place.line == 1


@pytest.mark.parametrize(
    ("line", "label"), [("linger.ms=5", "a key of producers"), ("broker.rack=${RACK_ID}", "`${...}` is a placeholder")]
)
def test_a_line_that_no_broker_has_says_whose_it_is(tmp_path: Path, line: str, label: str) -> None:
    error = refused(tmp_path, f"{line}\n")
    assert error.label.startswith(label) and error.suggestion is None


def test_the_rack_of_a_file_is_that_of_its_brokers(tmp_path: Path) -> None:
    head = NAMED.replace("b1: {rack: A}, b2: {rack: B}, b3: {rack: B}", "b1: {rack: A}, b2: {}, b3: {config_file: b3}")
    (tmp_path / "b3").write_text("broker.rack=C\nlog.dirs=/a,/b\nnum.io.threads=3\n")
    scenario = loaded(tmp_path, STRIMZI, file_of("{at: 1s, kill: rack(C)}", head=head)).scenario
    assert scenario.cluster.racks == {"b1": "A", "b2": "eu-west-1a", "b3": "C"}
    assert scenario.cluster.brokers["b3"].config == {"log.dirs": "d1,d2", "num.io.threads": "3"}


def test_what_stands_in_config_counts_before_the_file_and_a_variant_before_both(tmp_path: Path) -> None:
    head = NAMED.replace("server.properties\n", "server.properties\n  config: {num.partitions: 3}\n")
    variants = "variants: [{id: v, patch: {cluster: {config: {num.partitions: 4}}}, expect: {verdict: ok}}]\n"
    file = loaded(tmp_path, "num.partitions=1\nnum.io.threads=2\n", file_of(head=head, expect=PLAIN_EXPECT + variants))
    assert file.scenario.cluster.config == {"num.partitions": "3", "num.io.threads": "2"}
    assert file.variants["v"].cluster.config == {"num.partitions": "4", "num.io.threads": "2"}


def test_the_lock_holds_what_was_read(tmp_path: Path) -> None:
    scenario = loaded(tmp_path, APACHE_4).scenario
    assert load_text(lock.dump(scenario), "scenario.lock.yaml").scenario.cluster == scenario.cluster


def test_a_topic_has_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "t.properties").write_text("retention.ms=1000\ncompression.type=lz4\npreallocate=true\n")
    topic = "t: {partitions: {0: [b1, b2, b3]}, config_file: t.properties, config: {min.insync.replicas: 2}}"
    head = HEAD.replace("t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}", topic)
    file = loaded(tmp_path, "", file_of(head=head))
    kept = {"retention.ms": "1000", "compression.type": "lz4", "preallocate": "true", "min.insync.replicas": "2"}
    assert file.scenario.topics["t"].config == kept
    assert (named_in(file, "W211"), named_in(file, "W212")) == (["preallocate"], ["compression.type"])


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("../server.properties", "`config_file` cannot be `../server.properties`"),
        ("a/../../b", "`config_file` cannot be `a/../../b`"),
        ("/etc/hostname", "`config_file` cannot be `/etc/hostname`"),
        ("link", "`config_file` cannot be `link`"),
        ("out/x", "`config_file` cannot be `out/x`"),
        (".", "`config_file` cannot be `.`"),
        ("pipe", "`pipe` is not a plain file"),
        ("nothing", "cannot read `nothing`: No such file or directory"),
    ],
)
def test_a_file_elsewhere_is_not_read(tmp_path: Path, name: str, title: str) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "x").write_text("num.io.threads=2")
    (folder / "link").symlink_to(tmp_path / "x")
    (folder / "out").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    error = refused(folder, "", file_of(head=NAMED.replace("server.properties", name)))
    assert (error.code, error.title, error.path) == ("E101", title, "cluster.config_file")
    assert caret_text(error) == name


def test_a_link_that_stays_in_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("server.properties")
    file = loaded(tmp_path, "num.io.threads=2\n", file_of(head=NAMED.replace("server.properties", "link")))
    assert file.scenario.cluster.config == {"num.io.threads": "2"}


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    many = "".join(f"confluent.a{number}=1\n" for number in range(2001))
    for properties in (many, "#" * (1 << 18) + "\n"):
        assert refused(tmp_path, properties).code == "E102"


def test_a_text_that_is_no_file_names_none() -> None:
    (error,) = errors_of(file_of(head=NAMED))
    assert (error.title, error.label) == (
        "`config_file` works only in a scenario file",
        "paste the lines of the file below `config: |`",
    )


PASTED = """\
cluster:
  config: |
    # of a broker
    broker.id=0

    num.io.threads = 4
    log.retention.ms=3d
"""


def test_lines_can_be_pasted() -> None:
    good = PASTED.replace("3d", "300")
    assert load_text(file_of(head=HEAD.replace("cluster:\n", good)), "test.yaml").scenario.cluster.config == {
        "num.io.threads": "4",
        "log.retention.ms": "300",
    }
    (error,) = errors_of(file_of(head=HEAD.replace("cluster:\n", PASTED)))
    assert (caret_text(error), error.suggestion) == ("3d", "259200000")


OF_KAFKA_TOPICS = (
    "Topic: t\tPartitionCount: 3\tReplicationFactor: 3\tConfigs: retention.ms=1\n    Topic: t\tPartition: 0\n"
)
OF_KAFKA_CONFIGS = "Dynamic configs for topic t are:\n  retention.ms=1 sensitive=false synonyms={DEFAULT_CONFIG:a=1}\n"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (
            OF_KAFKA_TOPICS,
            'write `t: {partitions: 3, replication_factor: 3, config: "..."}`, '
            "with the text after `Configs:` in the quotes",
        ),
        (OF_KAFKA_CONFIGS, "keep only `key=value` of each line, and drop the text from ` sensitive=` on"),
    ],
)
def test_the_output_of_kafkas_tools_hears_what_to_paste(tmp_path: Path, text: str, label: str) -> None:
    error = refused(tmp_path, text)
    assert (error.label, caret_text(error)) == (label, "server.properties")
    pasted = "".join(f"    {line}\n" for line in text.splitlines())
    (error,) = errors_of(file_of(head=HEAD.replace("cluster:\n", f"cluster:\n  config: |\n{pasted}")))
    assert error.label == label
    head, _, rest = HEAD.partition("  t: {partitions")
    (error,) = errors_of(f"{head.rstrip()} topics.txt\n{rest.partition(chr(10))[2]}timeline: []\n{PLAIN_EXPECT}")
    assert "`kafka-topics.sh --describe`" in error.label


def test_a_comment_about_configs_is_no_output_of_a_tool(tmp_path: Path) -> None:
    assert loaded(tmp_path, "# Configs: a=1 sensitive=false synonyms={\nnum.io.threads=2\n").scenario.cluster.config


LISTED = "cleanup.policy=compact,delete,segment.bytes=2048,retention.ms=SOME"


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_topics_settings_can_be_pasted_as_kafka_topics_lists_them(quote: str) -> None:
    block = f"\n    partitions: {{0: [b1, b2, b3]}}\n    config: {quote}{LISTED}{quote}"
    listed = file_of(head=HEAD.replace(" {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}", block))
    assert load_text(listed.replace("SOME", "1000"), "test.yaml").scenario.topics["t"].config == {
        "cleanup.policy": "compact,delete",
        "segment.bytes": "2048",
        "retention.ms": "1000",
    }
    (error,) = errors_of(listed.replace("SOME", "soon"))
    assert caret_text(error) == "soon"


DESCRIBED = (
    "Topic: t{0}TopicId: ab-cdE{0}PartitionCount: 3{0}ReplicationFactor: 3{0}Configs: retention.ms=1,segment.bytes=2048"
)


@pytest.mark.parametrize("gap", [" ", "\t"])
@pytest.mark.parametrize(
    "begun",
    [
        "t:\n    config: ",
        't:\n    partitions: 1\n    config: "',
        "t:\n    partitions: 1\n    config: |\n      ",
        "t: ",
        "t:\n    ",
        "",
    ],
)
def test_a_pasted_line_of_describe_hears_how_its_topic_is_written(begun: str, gap: str) -> None:
    line = DESCRIBED.format(gap) + '"' * begun.endswith('"')
    topic = "t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}"
    (error,) = errors_of(file_of(head=HEAD.replace(topic, begun + line)))
    assert "`t: {partitions: 3, replication_factor: 3, config:" in error.label


def test_what_follows_configs_is_pasted_without_that_word() -> None:
    head = HEAD.replace("config: {min.insync.replicas: 2}", 'config: "Configs: min.insync.replicas=2"')
    (error,) = errors_of(file_of(head=head))
    assert error.label == "paste only the text after `Configs:`, in quotes"


@pytest.mark.parametrize(
    "pasted", ["num.io.threads=4,log.retention.ms=300", "|\n    num.io.threads=4\n    log.retention.ms=300"]
)
def test_a_setting_and_a_variant_change_one_pasted_key(pasted: str) -> None:
    head = HEAD.replace("cluster:\n", f"cluster:\n  config: {pasted}\n")
    variants = "variants: [{id: v, patch: {cluster: {config: {num.io.threads: 7}}}, expect: {verdict: ok}}]\n"
    file = load_whole(file_of(head=head, expect=PLAIN_EXPECT + variants), "cluster.config.log.retention.ms=5")
    assert file.scenario.cluster.config == {"num.io.threads": "4", "log.retention.ms": "5"}
    assert file.variants["v"].cluster.config == {"num.io.threads": "7", "log.retention.ms": "5"}


def test_a_variant_may_paste_its_settings() -> None:
    variants = "variants: [{id: v, patch: {topics: {t: {config: retention.ms=9}}}, expect: {verdict: ok}}]\n"
    file = load_whole(file_of(expect=PLAIN_EXPECT + variants))
    assert file.variants["v"].topics["t"].config == {"min.insync.replicas": "2", "retention.ms": "9"}


def test_a_step_may_paste_its_settings() -> None:
    (step,) = load_whole(
        file_of('{at: 1s, set_config: {topic: t, config: "retention.ms=9,segment.bytes=2048"}}')
    ).scenario.timeline
    assert step.payload.tree()["config"] == {"retention.ms": "9", "segment.bytes": "2048"}


def test_a_setting_below_settings_that_cannot_be_read_is_not_told_its_own_path() -> None:
    head = HEAD.replace("cluster:\n", "cluster:\n  config: many threads\n")
    path = "cluster.config.num.io.threads"
    assert path not in {error.suggestion for error in errors_of(file_of(head=head), f"{path}=4")}


def test_pasted_lines_without_a_bar_hear_of_it() -> None:
    (error,) = errors_of(
        file_of(head=HEAD.replace("cluster:\n", PASTED.replace(" |", "").replace("# of a broker", "")))
    )
    assert (error.title, error.label) == (
        "`cluster`: `config` must be a mapping",
        "write `config: |`, and indent the lines of the .properties file below it",
    )


CLIENT = """\
bootstrap.servers=localhost:9092
client.id=p
security.protocol=SASL_SSL
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required;
compression.type=lz4
acme.team=payments
key.serializer=StringSerializer
linger.ms=20
acks=1
partitioner.class=com.example.OwnPartitioner
"""


def test_a_client_has_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "producer.properties").write_text(CLIENT)
    (tmp_path / "m.properties").write_text("group.id=g\nclient.id=m\n")
    head = HEAD.replace(
        "p1: {kind: producer, topic: t}", "p1: {kind: producer, topic: t, config_file: producer.properties}"
    )
    head = head.replace(
        "p2: {kind: producer, topic: t}", "p2: {kind: transform, topic: t, to: t2, config_file: m.properties}"
    )
    file = loaded(tmp_path, "", file_of(head=head.replace("workloads:", "  t2: {partitions: 1}\nworkloads:")))
    clients = file.scenario.workloads
    acting = {"compression.type": "lz4", "key.serializer": "StringSerializer", "linger.ms": "20", "acks": "1"}
    assert clients["p1"].config == acting
    assert clients["p2"].config == {"group.id": "g"}
    neutral = ["acme.team", "bootstrap.servers", "client.id", "sasl.jaas.config", "security.protocol"]
    assert (named_in(file, "W211"), named_in(file, "W212")) == (neutral, ["partitioner.class"])


def test_a_class_by_its_full_name_hears_the_short_one(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("value.serializer=org.apache.kafka.common.serialization.StringSerializer\n")
    head = HEAD.replace("p1: {kind: producer, topic: t}", "p1: {kind: producer, topic: t, config_file: p}")
    assert refused(tmp_path, "", file_of(head=head)).suggestion == "StringSerializer"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (file_of("{at: 1s, create_acls: {}}"), "`create_acls` is not yet supported in step 1"),
        (file_of("{at: 1s, alter_replica_log_dirs: b1}"), "`alter_replica_log_dirs` is not yet supported in step 1"),
        (file_of("{at: 1s, add-broker: b4}"), "`add-broker` is not yet supported in step 1"),
        (file_of(head=HEAD.replace("kind: consumer", "kind: streams")), "`kind: streams` is not yet supported"),
        (
            file_of(head=HEAD.replace("cluster:\n", "cluster:\n  acls: []\n")),
            "`acls` is not yet supported in `cluster`",
        ),
    ],
)
def test_what_kafka_has_and_is_not_played_is_not_yet_supported(text: str, title: str) -> None:
    (error,) = errors_of(text)
    assert (error.code, error.title) == ("E120", title)
    assert error.label and "no such field" not in error.label


# ----------------------------------------------------------------------------------------------------- table of keys


def _kafkas(part: str) -> list[str]:
    """Names of all keys in Kafka's ConfigDefs."""
    text = (Path(__file__).parents[2] / "cluster" / "config_keys.txt").read_text()
    return text.partition(f"## {part}\n")[2].partition("##")[0].split()


# What a key is called today, which an old file has.
RENAMED = {"log.message.timestamp.difference.max.ms", "message.timestamp.difference.max.ms"}
# Checked, kept and described, as in a Kafka without tiered storage; a key of another subject acts, or is not checked.
KEPT = ("compression.", "jitter", "preallocate", "local.retention.", "remote.")


@pytest.mark.parametrize(
    ("part", "schema", "known"),
    [
        ("brokers", BrokerConfig, BROKER_KEYS),
        ("topics", TopicConfig, TOPIC_KEYS),
        ("producers", ProducerConfig, PRODUCER_KEYS),
        ("consumers", TransformConfig, CLIENT_KEYS),
    ],
)
def test_every_key_of_kafka_acts_or_is_neutral_or_not_yet_supported(
    part: str, schema: type[Config], known: KnownKeys
) -> None:
    kafkas = _kafkas(part)
    assert len(kafkas) > 30
    unknown = [name for name in kafkas if name not in schema.keys() and known.standing_of(name, "?") == "acts"]  # noqa: SIM118
    assert set(unknown) <= {*RENAMED, BROKER_RACK}
    kept = [name for name in schema.keys() if name in known.names]  # noqa: SIM118
    assert [name for name in kept if not any(part in name for part in KEPT)] == []


def test_only_keys_that_a_running_broker_cannot_take_are_read_only() -> None:
    assert {"broker.rack", "node.id", "process.roles", "group.share.max.size"} <= READ_ONLY
    assert not {"log.retention.ms", "background.threads", "ssl.keystore.location", "segment.jitter.ms"} & READ_ONLY
