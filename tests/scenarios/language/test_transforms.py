"""`kind: transform`: what its keys mean, and what is refused."""

from __future__ import annotations

import pytest
from small_scenario import HEAD, caret_text, errors_of, file_of, load, load_whole

from cluster.config import GroupConsumerConfig
from replica.config import ConfigError
from scenarios.language.write.lock import dump

TRANSFORM = "  t1: {kind: transform, topic: t, to: u, config: {group.id: g, transactional.id: x, acks: all}}\n"
TOPICS = "  u: {partitions: {0: [b1, b2, b3]}}\nworkloads:\n"
WHOLE = HEAD.replace("workloads:\n", TOPICS) + TRANSFORM


def test_each_client_takes_the_keys_that_it_knows() -> None:
    transform = load(head=WHOLE).workloads["t1"]
    assert (transform.to, transform.batch, transform.offsets, transform.names_member) == (
        "u",
        1,
        "in-transaction",
        True,
    )
    consumer = transform.consumer_config()
    assert isinstance(consumer, GroupConsumerConfig) and consumer.group_id == "g"
    assert transform.producer_config().transactional_id == "x"


def test_without_a_transaction_offsets_are_committed_after_the_outputs() -> None:
    assert load(head=WHOLE.replace("transactional.id: x, ", "")).workloads["t1"].offsets == "after"


def test_it_is_written_as_it_is_read() -> None:
    written = TRANSFORM.replace("to: u", "to: u, batch: 5, prefix: out, offsets: before, group-metadata: id, stop: 30s")
    scenario = load(head=WHOLE.replace(TRANSFORM, written))
    assert load_whole(dump(scenario)).scenario.workloads["t1"] == scenario.workloads["t1"]


def test_one_that_names_no_topic_is_an_error() -> None:
    (error,) = errors_of(file_of(head=WHOLE.replace(TRANSFORM, TRANSFORM.replace("topic: t, ", ""))))
    assert (error.code, error.label) == ("E105", "add `topic: t`")


def test_it_may_read_several_topics() -> None:
    several = WHOLE.replace("  u: {part", "  more: {partitions: 2, replication_factor: 3}\n  u: {part")
    several = several.replace("transform, topic: t", "transform, topics: [t, more]")
    scenario = load(head=several)
    assert scenario.workloads["t1"].topics == ("t", "more")
    assert load_whole(dump(scenario)).scenario.workloads["t1"] == scenario.workloads["t1"]


def test_it_may_subscribe_by_a_pattern() -> None:
    by_pattern = WHOLE.replace("transform, topic: t", "transform, topics: {pattern: t.*}")
    scenario = load(head=by_pattern)
    assert (scenario.workloads["t1"].topics, scenario.workloads["t1"].pattern) == (("t",), "t.*")
    assert load_whole(dump(scenario)).scenario.workloads["t1"] == scenario.workloads["t1"]


def test_kafka_wants_the_heartbeat_below_the_session() -> None:
    with pytest.raises(ConfigError, match=r"must be lower than session\.timeout\.ms"):
        GroupConsumerConfig(group_id="g", session_timeout_ms=3000)
    assert GroupConsumerConfig(group_id="g", session_timeout_ms=3001).heartbeat_interval_ms == 3000
    assert GroupConsumerConfig(group_id="g", group_protocol="consumer", session_timeout_ms=3000), "it is not its own"


@pytest.mark.parametrize(("profile", "codes"), [("kafka-4.1", []), ("kafka-3.9", ["E120"]), ("kafka-0.10", ["E120"])])
def test_brokers_evaluate_a_pattern_since_kafka_4(profile: str, codes: list[str]) -> None:
    head = WHOLE.replace("transform, topic: t", "transform, topics: {pattern: t}").replace("transactional.id: x, ", "")
    text = f"profile: {profile}\n" + head.replace("acks: all", "group.protocol: consumer")
    found = errors_of(file_of(head=text))
    assert [(error.code, caret_text(error)) for error in found] == [(code, "topics") for code in codes]


@pytest.mark.parametrize(
    ("protocol", "titles"),
    [("classic", ["`t2` and `t1` are in one group but read different topics"]), ("consumer", [])],
)
def test_the_leader_of_a_classic_group_assigns_what_it_reads_itself(protocol: str, titles: list[str]) -> None:
    first = TRANSFORM.replace("acks: all", f"group.protocol: {protocol}")
    second = first.replace("t1", "t2").replace("topic: t", "topics: [t, more]").replace("id: x", "id: y")
    head = WHOLE.replace(TRANSFORM, first + second)
    head = head.replace("  u: {part", "  more: {partitions: 2, replication_factor: 3}\n  u: {part")
    assert [error.title for error in errors_of(file_of(head=head))] == titles


def test_it_is_a_client_like_any_other_and_its_outputs_have_names() -> None:
    steps = ("{at: 1s, produce: {from: p1, count: 2}}", "{at: 9s, pause: t1}", "{at: 12s, kill: t1}")
    expect = "expect: {verdict: ok, records: {acked: 'r0, r1, tr0, tr1'}}\n"
    assert not errors_of(file_of(*steps, head=WHOLE, expect=expect))
    assert not load_whole(file_of(*steps, head=WHOLE, expect=expect)).warnings


@pytest.mark.parametrize(
    ("old", "new", "code", "caret"),
    [
        ("group.id: g, ", "", "E126", "t1"),
        ("to: u", "to: t", "E112", "to"),
        ("to: u", "to: nowhere", "E131", "nowhere"),
        ("topic: t", "topics: [t, u]", "E112", "to"),
        ("topic: t", "topics: {pattern: t|u}", "E112", "to"),
        ("topic: t", "topics: {pattern: (t)}", "E113", "(t)"),
        ("topic: t", "topics: {pattern: t.}", "E131", "t."),
        ("topic: t", "topics: {}", "E105", "{}"),
        ("topic: t", "topic: t, topics: {pattern: t}", "E111", "topics"),
        ("topic: t", "topics: [t, nowhere]", "E131", "nowhere"),
        ("topic: t", "topics: [t, t]", "E112", "t"),
        ("topic: t", "topics: []", "E111", "[]"),
        ("topic: t", "topics: t", "E111", "t"),
        ("topic: t", "topic: t, topics: [t]", "E111", "topics"),
        ("transactional.id: x, acks: all}", "acks: all}, offsets: in-transaction", "E126", "offsets"),
        ("to: u", "to: u, offsets: never", "E110", "never"),
        ("to: u", "to: u, group-metadata: none", "E110", "none"),
        ("acks: all", "aks: all", "E126", "aks"),
        ("to: u", "to: u, start: 5s, stop: 4s", "E112", "stop"),
        ("to: u", "to: u, rate: 1/s", "E104", "rate"),
        ("acks: all", "group.protocol: new", "E126", "new"),
        ("acks: all", "group.protocol: consumer, session.timeout.ms: 6000", "E126", "session.timeout.ms"),
        ("acks: all", "group.remote.assignor: range", "E126", "group.remote.assignor"),
        ("acks: all", "session.timeout.ms: 3000", "E126", "session.timeout.ms"),
        ("acks: all", "session.timeout.ms: 6000, heartbeat.interval.ms: 6000", "E126", "heartbeat.interval.ms"),
    ],
)
def test_a_mistake_is_one_error_in_its_place(old: str, new: str, code: str, caret: str) -> None:
    (error,) = errors_of(file_of(head=WHOLE.replace(TRANSFORM, TRANSFORM.replace(old, new))))
    assert (error.code, caret_text(error)) == (code, caret)


def test_outputs_are_not_named_like_the_records_of_a_producer() -> None:
    head = WHOLE.replace("p2: {kind: producer, topic: t", "p2: {kind: producer, topic: t, prefix: tr")
    (error,) = errors_of(file_of(head=head))
    assert error.code == "E134" and "outputs of `t1`" in error.title
