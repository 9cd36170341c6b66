"""The rest of the language: values, the static half, expectations, variants, overrides, selectors, lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_scenario import HEAD, PLAIN_EXPECT, caret_text, errors_of, file_of, load, load_whole

from cluster.config import BrokerConfig, GroupConfig, GroupConsumerConfig, ProducerConfig
from cluster.server.request_handlers import CpuTimes
from replica.config import Config, ConfigError, TopicConfig
from replica.ids import TopicPartition
from replica.trace.ranges import format_record_names, split_record_name
from scenarios.language.diagnostics import Place, Problems, SourceText
from scenarios.language.expect import (
    DivergedTest,
    ErrorTest,
    EventTest,
    Expect,
    LatencyTest,
    NumberTest,
    RecordsTest,
    TimeTest,
    UnavailableTest,
    UnavailableWindow,
)
from scenarios.language.parse.loading import load_text
from scenarios.language.selectors import (
    RecordSetError,
    Selector,
    SelectorError,
    Term,
    parse_record_names,
    parse_term,
    resolve,
    text_of,
)
from scenarios.language.spec import Arrival, Scenario, Source, TransactionPattern
from scenarios.language.steps import Delay
from scenarios.language.values.reading import Reader
from scenarios.language.values.trees import time_text
from scenarios.language.values.yaml_source import Scalar
from scenarios.language.write.lock import dump

T0 = TopicPartition("t", 0)


# ------------------------------------------------------------------------------------------------------------- values


def read(method: str, text: str) -> tuple[object, list[str]]:
    """The value of one scalar, and the codes of its errors."""
    problems = Problems()
    reader = Reader(problems)
    node = Scalar(Place(SourceText.of("x", text), 0, 0), text)
    return getattr(reader, method)(node, "path", "it"), [found.code for found in problems.found]


@pytest.mark.parametrize(
    ("method", "text", "value"),
    [
        ("time", "10.5s", 10_500_000),
        ("time", "250us", 250),
        ("time", "1.5ms", 1500),
        ("time", "2m", 120_000_000),
        ("time", "0s", 0),
        ("size", "100", 100),
        ("size", "1.5MB", 1_500_000),
        ("size", "1KiB", 1024),
        ("bandwidth", "50kB/s", 50_000),
        ("share_ppm", "10%", 100_000),
        ("share_ppm", "0.0001%", 1),
        ("share_ppm", "100%", 1_000_000),
        ("boolean", "true", True),
        ("integer", "+7", 7),
    ],
)
def test_value(method: str, text: str, value: object) -> None:
    assert read(method, text) == (value, [])


@pytest.mark.parametrize(
    ("method", "text", "code"),
    [
        ("time", "0.0000001s", "E122"),
        ("time", "1h", "E122"),
        ("time", "1e3s", "E122"),
        ("time", "１s", "E122"),
        ("size", "1kb", "E123"),
        ("bandwidth", "50kB", "E123"),
        ("share_ppm", "100.1%", "E123"),
        ("share_ppm", "10", "E123"),
        ("boolean", "yes", "E111"),
        ("boolean", "True", "E111"),
        ("integer", "0x10", "E111"),
        ("integer", "1.0", "E111"),
        ("integer", ".inf", "E111"),
    ],
)
def test_no_value(method: str, text: str, code: str) -> None:
    assert read(method, text)[1] == [code]


@given(st.integers(0, 30 * 24 * 3600 * 1_000_000))
def test_times_survive_writing_and_reading(us: int) -> None:
    assert read("time", time_text(us)) == (us, [])


@given(st.lists(st.tuples(st.sampled_from("rsu"), st.integers(0, 30)), max_size=30))
def test_record_names_survive_writing_and_reading(pairs: list[tuple[str, int]]) -> None:
    names = tuple(f"{prefix}{number}" for prefix, number in pairs)
    assert parse_record_names(format_record_names(names)) == names


@pytest.mark.parametrize(
    ("name", "parts"),
    [("r12", ("r", 12)), ("r012", ("r0", 12)), ("r00", ("r0", 0)), ("r", ("r", -1)), ("7", ("", 7)), ("", ("", -1))],
)
def test_a_record_name_has_a_prefix_and_a_number(name: str, parts: tuple[str, int]) -> None:
    assert split_record_name(name) == parts


def test_a_name_is_split_in_one_look() -> None:
    assert split_record_name("1" * 300_000 + "x") == ("1" * 300_000 + "x", -1)


def test_record_sets_are_bounded() -> None:
    assert parse_record_names("r0..r2, s5") == ("r0", "r1", "r2", "s5")
    assert parse_record_names("none") == ()
    for text in ("r0..r1000000", "r0..r999999, r0", "r5..r4", "r0..s4", "R0", "r", "0..9", "r0...r4", "r-1"):
        with pytest.raises(RecordSetError):
            parse_record_names(text)


# ------------------------------------------------------------------------------------------------------- static parts


def test_defaults() -> None:
    scenario = load()
    assert (scenario.seed, scenario.profile, scenario.duration_us) == (1, "kafka-4.4", 60_000_000)
    assert scenario.cluster.controllers == ("c1",)
    assert scenario.cluster.ids == {"b1": 1, "b2": 2, "b3": 3, "c1": 1001}
    assert scenario.cluster.names(2) == "b2"
    assert scenario.cluster.racks == {"b1": "A", "b2": "B", "b3": "B"}
    assert scenario.network.latency == Delay("constant", 1000)
    assert [workload.prefix for workload in scenario.producers] == ["r", "s"]
    assert scenario.workloads["p1"].producer_config().enable_idempotence
    assert scenario.topic_config("t").min_insync_replicas == 2
    assert scenario.expect.verdict == ()


def test_without_expect_nothing_is_judged() -> None:
    file = load_whole(file_of(expect=""))
    assert file.scenario.expect == Expect()
    assert [warning.code for warning in file.warnings] == ["W204"]


CONTRASTS = """variants:
  - {id: all, patch: {workloads: {p1: {config: {acks: all}}}}}
  - {id: lossy, title: Unknown yet, expect: {verdict: [lost]}}
  - {id: late, add_timeline: [{at: 9s, kill: b1}]}
"""


@pytest.mark.parametrize("expect", [PLAIN_EXPECT, ""])
def test_a_variant_without_expect_is_not_judged_either(expect: str) -> None:
    """It does not take over what the file expects of its own run."""
    file = load_whole(file_of(expect=expect) + CONTRASTS)
    assert {name: variant.expect.verdict for name, variant in file.variants.items()} == {
        "all": None, "lossy": ("lost",), "late": None,
    }  # fmt: skip
    found = [(one.code, one.title, one.variants) for one in file.warnings]
    without = [("W204", "no `expect`: this run can neither pass nor fail", ("base",))] if not expect else []
    assert found == [
        *without,
        ("W204", "variant `all` has no `expect`: it can neither pass nor fail", ("all",)),
        ("W204", "variant `late` has no `expect`: it can neither pass nor fail", ("late",)),
    ]


def test_a_key_of_another_era_is_said_to_change_nothing() -> None:
    head = HEAD.replace("  brokers:", "  config: {replica.lag.max.messages: 100}\n  brokers:")
    assert [warning.code for warning in load_whole(file_of(head=head)).warnings] == ["W205"]
    assert load_whole(file_of(head=f"{head}protocol: {{isr-lag: messages}}\n")).warnings == ()


def test_broker_ids_follow_the_names_or_else_the_file() -> None:
    swapped = load(head=HEAD.replace("{b1: {rack: A}, b2: {rack: B}, b3: {rack: B}}", "{b3: , b1: , b2: }"))
    assert swapped.cluster.ids == {"b3": 3, "b1": 1, "b2": 2, "c1": 1001}
    head = HEAD.replace("{b1: {rack: A}, b2: {rack: B}, b3: {rack: B}}", "{left: {}, right: {}}")
    named = load(head=head.replace("[b1, b2, b3]", "[right, left]"))
    assert named.cluster.ids == {"left": 1, "right": 2, "c1": 1001}


def test_topics_by_number_and_by_assignment() -> None:
    head = HEAD.replace("  t: ", "  u: {partitions: 6, replication_factor: 3}\n  t: ")
    scenario = load(head=head)
    assert (scenario.topics["u"].partitions, scenario.topics["u"].assignment) == (6, None)
    assert scenario.topics["t"].assignment == (("b1", "b2", "b3"),)
    assert scenario.topics["t"].replication_factor == 3
    assert scenario.topics["u"].topic_partitions[5] == TopicPartition("u", 5)


def test_broker_defaults_reach_the_topic() -> None:
    head = HEAD.replace("topics:", "  config: {min.insync.replicas: 3, log.flush.interval.messages: 1}\ntopics:")
    topic = load(head=head.replace(", config: {min.insync.replicas: 2}", "")).topic_config("t")
    assert (topic.min_insync_replicas, topic.flush_messages) == (3, 1)
    assert load(head=head).topic_config("t").min_insync_replicas == 2


OF_ZOOKEEPER = {
    "broker.id": "0",
    "num.network.threads": "3",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "log.dirs": "C:/kafka/kafka-logs",
    "num.recovery.threads.per.data.dir": "1",
    "transaction.state.log.replication.factor": "1",
    "log.retention.hours": "2",
    "log.roll.hours": "1",
    "zookeeper.connect": "localhost:2181",
    "zookeeper.connection.timeout.ms": "18000",
}
OF_KRAFT = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "listener.name.internal.ssl.keystore.location": "/etc/kafka/keys.jks",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "log.dirs": "/var/d1,/var/d2",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "min.insync.replicas": "2",
    "log.message.timestamp.type": "LogAppendTime",
}


def with_properties(properties: Mapping[str, str]) -> str:
    lines = "".join(f"    {key}: '{value}'\n" for key, value in properties.items())
    return HEAD.replace("topics:", f"  config:\n{lines}topics:", 1)


@pytest.mark.parametrize(
    ("properties", "left_out", "not_yet", "log_dirs"),
    [
        (
            OF_ZOOKEEPER,
            "broker.id, log.dirs, num.recovery.threads.per.data.dir, socket.receive.buffer.bytes, "
            "socket.send.buffer.bytes, zookeeper.connect, zookeeper.connection.timeout.ms",
            "",
            ("",),
        ),
        (
            OF_KRAFT,
            "controller.quorum.voters, listener.name.internal.ssl.keystore.location, listener.security.protocol.map, "
            "listeners, node.id, super.users",
            "authorizer.class.name, process.roles",
            ("d1", "d2"),
        ),
    ],
)
def test_a_server_properties_is_taken(
    properties: Mapping[str, str], left_out: str, not_yet: str, log_dirs: tuple[str, ...]
) -> None:
    """Keys that do not act here are named in one warning of each kind and are in no lock file.

    `log.dirs` acts if it has several paths.
    """
    file = load_whole(file_of(head=with_properties(properties)))
    titles = {one.code: one.title for one in file.warnings}
    assert titles["W211"] == f"{len(left_out.split(', '))} keys have no effect here: {left_out}"
    assert titles.get("W212", "") == (f"2 Kafka keys are not yet supported: {not_yet}" if not_yet else "")
    inert = set(f"{left_out}, {not_yet}".split(", "))
    assert set(file.scenario.cluster.config) - {"log.dirs"} == set(properties) - inert - {"log.dirs"}
    assert file.scenario.cluster.log_dirs("b1") == log_dirs
    assert load_whole(dump(file.scenario)).scenario == file.scenario


def test_hours_of_a_server_properties_reach_the_topic() -> None:
    topic = load(head=with_properties(OF_ZOOKEEPER)).topic_config("t")
    assert (topic.retention_ms, topic.segment_ms) == (7_200_000, 3_600_000)


@pytest.mark.parametrize(
    ("of_topic", "key", "kafkas"),
    [
        (False, "segment.ms", "log.roll.ms"),
        (False, "retention.ms", "log.retention.ms"),
        (False, "max.message.bytes", "message.max.bytes"),
        (False, "file.delete.delay.ms", "log.segment.delete.delay.ms"),
        (True, "log.roll.hours", "segment.ms"),
        (True, "message.max.bytes", "max.message.bytes"),
    ],
)
def test_a_key_of_the_other_kind_gets_its_name(of_topic: bool, key: str, kafkas: str) -> None:
    """As two in a row did in one person's file: `retention.ms` and `segment.ms` of a broker."""
    head = HEAD.replace("{min.insync.replicas: 2}", f"{{{key}: 1}}") if of_topic else with_properties({key: "1"})
    (error,) = errors_of(file_of(head=head))
    assert (error.code, error.suggestion) == ("E126", kafkas)


@pytest.mark.parametrize(
    ("key", "value", "title"),
    [
        (
            "group.consumer.session.timeout.ms",
            "44999",
            "equal to group.consumer.min.session.timeout.ms, which is 45000",
        ),
        (
            "group.share.record.lock.duration.ms",
            "5000",
            "equal to group.share.min.record.lock.duration.ms, which is 15000",
        ),
        (
            "group.share.record.lock.duration.ms",
            "60001",
            "equal to group.share.max.record.lock.duration.ms, which is 60000",
        ),
        ("group.share.partition.max.record.locks", "4001", "group.share.max.partition.max.record.locks, which is 4000"),
        ("group.share.max.share.sessions", "199", "equal to group.share.max.size"),
        ("group.streams.heartbeat.interval.ms", "4999", "group.streams.min.heartbeat.interval.ms, which is 5000"),
        ("group.streams.num.standby.replicas", "3", "equal to group.streams.max.standby.replicas"),
    ],
)
def test_settings_of_groups_have_limits(key: str, value: str, title: str) -> None:
    """A broker of Kafka does not start with them."""
    (error,) = errors_of(file_of(head=with_properties({key: value})))
    assert title in error.title


@pytest.mark.parametrize(
    ("profile", "after_ms", "linger_ms"), [("kafka-4.1", 3_600_000, 5), ("kafka-3.9", 2**63 - 1, 0)]
)
def test_two_defaults_follow_the_release(profile: str, after_ms: int, linger_ms: int) -> None:
    """KIP-1030."""
    scenario = load(head=f"{HEAD}profile: {profile}\n")
    release = scenario.rules.release
    assert scenario.topic_config("t").message_timestamp_after_max_ms == after_ms
    assert scenario.cluster.broker_config("b1", release).log_message_timestamp_after_max_ms == after_ms
    assert scenario.workloads["p1"].producer_config(release).linger_ms == linger_ms


def test_delivery_must_leave_time_for_the_linger_of_4_0() -> None:
    times = "config: {delivery.timeout.ms: 3000, request.timeout.ms: 3000}"
    head = HEAD.replace("p1: {kind: producer, topic: t", f"p1: {{kind: producer, topic: t, {times}")
    assert errors_of(file_of(head=f"{head}profile: kafka-3.9\n")) == ()
    (error,) = errors_of(file_of(head=f"{head}profile: kafka-4.1\n"))
    assert error.title == "`delivery.timeout.ms`: must be at least linger.ms + request.timeout.ms"


def test_transactions() -> None:
    producer = "p1: {kind: producer, topic: t, config: {transactional.id: x}"
    head = HEAD.replace(
        "p1: {kind: producer, topic: t", f"{producer}, transaction: {{records: 5, abort-every: 3}}"
    ).replace("p2: {kind: producer, topic: t", "p2: {kind: producer, topic: t, config: {transactional.id: y}")
    scenario = load("{at: 5s, produce: {from: p2, count: 10}}", head=head)
    assert scenario.workloads["p1"].transaction == TransactionPattern(5, 3)
    assert scenario.workloads["p2"].transaction == TransactionPattern(1)
    assert load_text(dump(scenario), "lock").scenario == scenario


def test_workloads() -> None:
    head = HEAD.replace(
        "p2: {kind: producer, topic: t}", "p2: {kind: producer, topic: t, rate: 10/s, size: 1kB, batch: 5}"
    )
    head = head.replace("p1: {kind: producer, topic: t}", "p1: {kind: producer, topic: t, poisson: 3/500ms, prefix: q}")
    scenario = load("{at: 5s, produce: {from: p2, count: 10}}", head=head)
    assert scenario.workloads["p1"].arrival == Arrival(3, 500_000, poisson=True)
    assert scenario.workloads["p2"].arrival == Arrival(10, 1_000_000)
    assert [workload.prefix for workload in scenario.producers] == ["q", "s"]
    produce: Any = scenario.timeline[0].payload
    assert (produce.size_bytes, produce.batch) == (1000, 5)
    assert load_text(dump(scenario), "lock").scenario == scenario


def test_network() -> None:
    network = """\
network:
  latency: 2ms
  jitter: 500us
  bandwidth: 1MB/s
  card: 125MB/s
  cards: {b2: 10MB/s, p1: 1kB/s}
  links:
    - {between: [b1, [b2, b3]], latency: {exponential: 4ms, least: 1ms}, loss: 1%}
"""
    scenario = load(head=HEAD + network)
    assert scenario.network.latency == Delay("uniform", 2000, 500)
    assert (scenario.network.card_bytes_per_second, scenario.network.cards) == (
        125_000_000,
        {"b2": 10_000_000, "p1": 1000},
    )
    (link,) = scenario.network.links
    assert (link.latency, link.loss_ppm, link.bytes_per_second) == (Delay("exponential", 1000, 4000), 10_000, None)
    assert load_text(dump(scenario), "lock").scenario == scenario


def test_a_card_belongs_to_a_machine_of_the_file() -> None:
    (error,) = errors_of(file_of(head=HEAD + "network: {cards: {b9: 10MB/s}}\n"))
    assert (error.code, error.path) == ("E131", "network.cards.b9")


def test_cpu() -> None:
    cpu = "{request: 150us, produce: 1us, fetch: 2us, replicate: 3us, connection: 4us, connections_per_poll: all}"
    scenario = load(head=HEAD.replace("b1: {rack: A}", f"b1: {{rack: A, cpu: {cpu}}}"))
    assert scenario.cluster.brokers["b1"].cpu == CpuTimes(
        request_us=150, produced_us=1, fetched_us=2, replicated_us=3, connection_us=4, connections_per_poll=None
    )
    assert load_text(dump(scenario), "lock").scenario == scenario


def test_limits_on_what_a_file_may_ask_for() -> None:
    brokers = ", ".join(f"b{number}: {{}}" for number in range(1, 33))
    head = HEAD.replace("b1: {rack: A}, b2: {rack: B}, b3: {rack: B}", brokers)
    assert "E140" in [error.code for error in errors_of(file_of(head=head))]
    much = HEAD.replace("p2: {kind: producer, topic: t}", "p2: {kind: producer, topic: t, rate: 1000000/s}")
    assert [error.code for error in errors_of(file_of(head=much))] == ["E140"]
    often = "{at: 1s, produce: {from: p1, count: 10000}, every: 1ms, times: 2000}"
    assert [error.code for error in errors_of(file_of(often))] == ["E140"]
    large = "{at: 1s, produce: {from: p1, count: 1000000, size: 1MB}}"
    assert [error.code for error in errors_of(file_of(large))] == ["E140"]


KEYS = [
    (schema, name)
    for schema in (BrokerConfig, TopicConfig, ProducerConfig, GroupConsumerConfig, GroupConfig)
    for name, one in schema.keys().items()
    if type(one.default) is int
]


@pytest.mark.soak
@pytest.mark.parametrize(("schema", "name"), KEYS, ids=[f"{schema.WHAT} {name}" for schema, name in KEYS])
def test_every_number_of_a_key_has_a_bound(schema: type[Config], name: str) -> None:
    high = schema.keys()[name].metadata["high"]
    assert schema.check(name, high) == high == schema.check(name, "never")
    with pytest.raises(ConfigError, match="must be at most"):
        schema.check(name, int(high) * 2 + 1)


@pytest.mark.parametrize(
    "name",
    ["num.network.threads", "num.io.threads", "num.replica.fetchers", "num.partitions", "offsets.topic.num.partitions",
     "transaction.state.log.num.partitions"],
)  # fmt: skip
def test_what_is_made_of_a_number_is_bounded_by_a_laptop(name: str) -> None:
    head = HEAD.replace("  brokers:", f"  config: {{{name}: 2000000}}\n  brokers:")
    (error,) = errors_of(file_of(head=head))
    assert (error.code, error.title) == ("E126", f"`{name}`: must be at most 1,000, not 2000000")


# ------------------------------------------------------------------------------------------------------- expectations


def test_expectations() -> None:
    expect = """\
expect:
  verdict: [duplicated, lost]
  records: {acked: [r0..r1, s0], missing: {at_least: r3}, failed: {count: 2}}
  diverged: {t-0: {offsets: [1], replicas: [b1, b2]}}
  state: {t-0: {isr: []}}
  events:
    - {event: leader_elected, partition: t-0, broker: b2, epoch: 1, clean: true, previous_leader: ~, between: [1s, 2s]}
    - {event: log_truncated, broker: b1, to: {at_least: 10}, after: 3s}
    - {event: isr_changed, isr: [b2, b1], count: 2}
    - {never: record_acked, record: r3, client: p1, before: 9s}
    - {event: end_offset_seen, error: OFFSET_NOT_AVAILABLE}
  errors: {p1: {NOT_ENOUGH_REPLICAS: {count: 5, first_after: 1s, last_before: 2s}}, p2: none}
  latency: {p1: {max: {at_most: 9s}, r10: {between: [1s, 2s]}}}
  unavailable: {t-0: {writes: [{from: 1s, to: 2s, slack: 500ms}], reads: none}}
"""
    scenario = load(expect=expect)
    assert scenario.expect.verdict == ("lost", "duplicated")
    assert scenario.expect.records == (
        RecordsTest(kind="acked", at_least=("r0", "r1", "s0"), at_most=("r0", "r1", "s0")),
        RecordsTest(kind="failed", count=NumberTest(2, 2)),
        RecordsTest(kind="missing", at_least=("r3",)),
    )
    assert scenario.expect.diverged == (DivergedTest(partition=T0, offsets=(1,), replicas=("b1", "b2")),)
    zero = NumberTest(0, 0)
    assert scenario.expect.events == (
        EventTest(
            event="leader_elected",
            where={
                "topic": "t",
                "partition": zero,
                "broker": "b2",
                "leader_epoch": NumberTest(1, 1),
                "clean": True,
                "previous_leader": None,
            },
            between=TimeTest(1_000_000, 2_000_000),
        ),
        EventTest(
            event="log_truncated",
            where={"node": "b1", "log_end_offset": NumberTest(10, None)},
            between=TimeTest(3_000_000, None),
        ),
        EventTest(event="isr_committed", where={"isr": ("b2", "b1")}, count=NumberTest(2, 2)),
        EventTest(
            event="record_acked", never=True, where={"record": "r3", "client": "p1"}, between=TimeTest(None, 9_000_000)
        ),
        EventTest(event="end_offset_seen", where={"error": "OFFSET_NOT_AVAILABLE"}),
    )
    assert scenario.expect.errors == (
        ErrorTest(
            client="p1",
            error="NOT_ENOUGH_REPLICAS",
            count=NumberTest(5, 5),
            first=TimeTest(1_000_000, None),
            last=TimeTest(None, 2_000_000),
        ),
        ErrorTest(client="p2", error=None, count=zero),
    )
    assert scenario.expect.latency == (
        LatencyTest(client="p1", what="max", bounds=TimeTest(None, 9_000_000)),
        LatencyTest(client="p1", what="r10", bounds=TimeTest(1_000_000, 2_000_000)),
    )
    assert scenario.expect.unavailable == (
        UnavailableTest(partition=T0, what="writes", windows=(UnavailableWindow(1_000_000, 2_000_000, 500_000),)),
        UnavailableTest(partition=T0, what="reads", windows=()),
    )
    assert load_text(dump(scenario), "lock").scenario == scenario


# ---------------------------------------------------------------------------------------------- variants and overrides

VARIANTS = """\
variants:
  - id: loud
    title: Louder
    patch: {seed: 7, topics: {t: {config: {min.insync.replicas: 1}}}, workloads: {p2: ~, c1r: {start: 5s}}}
    add_timeline:
      - {at: 9s, kill: b2}
    expect: {verdict: [lost]}
  - id: other-story
    patch: {timeline: [{at: 3s, stop: b3}]}
    expect: {}
"""


def test_variants_are_resolved() -> None:
    file = load_whole(file_of("{at: 1s, kill: b1}") + VARIANTS)
    loud, other = file.variants["loud"], file.variants["other-story"]
    assert (loud.seed, loud.variant, loud.title, loud.run_name) == (7, "loud", "Louder", "small-loud")
    assert list(loud.workloads) == ["p1", "c1r"]
    assert loud.workloads["c1r"].start_us == 5_000_000
    assert loud.topic_config("t").min_insync_replicas == 1
    assert [step.verb for step in loud.timeline] == ["kill", "kill"]
    assert loud.expect.verdict == ("lost",)
    assert [step.verb for step in other.timeline] == ["stop"]
    assert (file.scenario.seed, file.scenario.variant, len(file.scenario.timeline)) == (1, None, 1)
    for scenario in file.all:
        assert load_text(dump(scenario), "lock").scenario == scenario


def test_overrides_reach_every_variant() -> None:
    text = file_of("{at: 1s, kill: b1}") + VARIANTS
    overrides = (
        "seed=11",
        "workloads.p1.config.acks=1",
        "topics.t.config.min.insync.replicas=3",
        "timeline.1.at=2s",
        "cluster.config.replica.lag.time.max.ms=10000",
        "network.latency={uniform: [1ms, 2ms]}",
    )
    file = load_whole(text, *overrides)
    for scenario in file.all:
        assert scenario.seed == 11
        assert scenario.workloads["p1"].config == {"acks": "1"}
        assert scenario.topic_config("t").min_insync_replicas == 3
        assert scenario.cluster.broker_config("b1").replica_lag_time_max_ms == 10_000
        assert scenario.network.latency == Delay("uniform", 1000, 1000)
        assert scenario.timeline[0].trigger.at_us == 2_000_000  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("override", "code", "caret"),
    [
        ("seed", "E137", "s"),
        ("seed=-1", "E112", "-1"),
        ("seed=[", "E103", ""),
        ("seed=&a 1", "E108", "&a 1"),
        ("sed=1", "E104", "sed"),
        ("timeline.9.at=1s", "E137", "9"),
        ("timeline.1.at.x=1s", "E137", "x"),
        ("workload.p1.config.acks=1", "E137", "workload"),
        ("workloads.p1.config.acks=9", "E126", "9"),
        ("workloads.p1.config.akcs=1", "E126", "akcs"),
        ("workloads.p9.topic=t", "E137", "p9"),
    ],
)
def test_an_override_is_judged_like_the_file(override: str, code: str, caret: str) -> None:
    errors = errors_of(file_of("{at: 1s, kill: b1}"), override)
    assert [error.code for error in errors] == [code]
    assert errors[0].where.startswith(f"--set {override}:1:")
    assert caret_text(errors[0]) == caret


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("acks=1", "workloads.p1.config.acks"),
        ("akcs=1", "workloads.p1.config.acks"),
        ("workloads.p2.acks=1", "workloads.p2.config.acks"),
        ("workloads.p9.config.acks=1", "workloads.p1.config.acks"),
        ("p2.conifg.acks=1", "workloads.p2.config.acks"),
        ("c1r.auto.offset.reset=latest", "workloads.c1r.config.auto.offset.reset"),
        ("min.insync.replicas=1", "topics.t.config.min.insync.replicas"),
        ("cluster.broker.session.timeout.ms=9", "cluster.config.broker.session.timeout.ms"),
        ("sed=1", "seed"),
        ("workload.p1.topic=t", "workloads"),
    ],
)
def test_a_key_without_its_path_gets_the_path_that_was_meant(override: str, meant: str) -> None:
    (error,) = errors_of(file_of("{at: 1s, kill: b1}"), override)
    assert (error.suggestion, error.label) == (meant, f"did you mean `{meant}`?")


# ---------------------------------------------------------------------------------------------------------- selectors


@dataclass
class Sight:
    """t-0 with replicas b2, b1, b3, led by `chief`."""

    chief: str | None = "b1"
    brokers: tuple[str, ...] = ("b1", "b2", "b3")
    clients: tuple[str, ...] = ("p1",)
    controller: str = "c1"
    racks: Mapping[str, str] = field(default_factory=lambda: {"b2": "B", "b3": "B"})

    def leader(self, partition: TopicPartition) -> str | None:
        return self.chief

    def coordinator(self, group_id: str) -> str | None:
        return self.chief if group_id == "my-group" else None

    def isr(self, partition: TopicPartition) -> tuple[str, ...]:
        return ("b1", "b3")

    def replicas(self, partition: TopicPartition) -> tuple[str, ...]:
        return ("b2", "b1", "b3")


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("b2", ("b2",)),
        ("leader(t-0)", ("b1",)),
        ("followers(t-0)", ("b2", "b3")),
        ("follower(t-0,1)", ("b2",)),
        ("follower(t-0, 2)", ("b3",)),
        ("isr(t-0)", ("b1", "b3")),
        ("replicas(t-0)", ("b2", "b1", "b3")),
        ("controller", ("c1",)),
        ("brokers", ("b1", "b2", "b3")),
        ("clients", ("p1",)),
        ("rack(B)", ("b2", "b3")),
        ("others(b1, b3)", ("b2",)),
        ("coordinator(my-group)", ("b1",)),
        ("@victim", ("b3", "b1")),
    ],
)
def test_selectors_resolve_when_asked(text: str, nodes: tuple[str, ...]) -> None:
    term = parse_term(text)
    assert parse_term(text_of(term)) == term
    assert resolve(Selector((term,)), Sight(), {"victim": ("b3", "b1")}) == nodes


def test_a_node_is_meant_once_and_nobody_is_an_error() -> None:
    both = Selector((parse_term("leader(t-0)"), parse_term("brokers")))
    assert resolve(both, Sight(), {}) == ("b1", "b2", "b3")
    for term in (
        parse_term("leader(t-0)"),
        parse_term("@nobody"),
        parse_term("rack(Z)"),
        parse_term("coordinator(other)"),
        parse_term("follower(t-0,9)"),
    ):
        with pytest.raises(SelectorError):
            resolve(Selector((term,)), Sight(chief=None), {})
    assert resolve(Selector(()), Sight(), {}) == ()


@given(st.text(max_size=20))
def test_any_text_is_a_term_or_an_error(text: str) -> None:
    try:
        term = parse_term(text)
    except SelectorError:
        return
    assert isinstance(term, Term)
    assert parse_term(text_of(term)) == term


# --------------------------------------------------------------------------------------------------------------- lock


def test_the_lock_keeps_everything(tmp_path: object) -> None:
    head = HEAD.replace(
        "title: Small",
        'title: "Small: a \\"test\\" # of quoting"\nquestion: "null"\nlesson: 2\ntags: [isr]\n'
        "sources: [{ref: a, url: 'https://x/y?z=1#w', recalled: true}]",
    )
    scenario = load("{at: 1s, kill: b1}", head=head)
    again = load_text(dump(scenario, "made by a test\nsecond line"), "lock").scenario
    assert again == scenario
    assert isinstance(again, Scenario)
    assert again.sources == (Source("a", "https://x/y?z=1#w", True),)
    assert again.title == 'Small: a "test" # of quoting'
    assert dump(again) == dump(scenario)


@pytest.mark.parametrize("dirs", ["d1,d1", "d1,../x", "d1,,d2", "D1", ",".join(f"d{n}" for n in range(9))])
def test_log_dirs_are_plain_names(dirs: str) -> None:
    head = HEAD.replace("b1: {rack: A}", f'b1: {{config: {{log.dirs: "{dirs}"}}}}')
    assert [error.code for error in errors_of(file_of(head=head))] == ["E113"]


def test_a_verdict_that_is_not_written_is_ok() -> None:
    expect = load_whole(file_of(expect="expect: {records: {duplicated: none}}\n")).scenario.expect
    assert (expect.verdict, expect.verdict_is_written) == ((), False)
