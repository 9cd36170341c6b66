"""What is told of clients that state nothing themselves."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from serving import serving

from cluster.live.client_tap import ClientTap
from cluster.live.observations import (
    BatchArrived,
    PartitionAnswered,
    ProduceAnswered,
    ProduceArrived,
    records_seen,
)
from cluster.live.record_names import RecordNames, is_believable, word_of
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.log.records import build_batch, read_header
from replica.trace import events as trace

pytestmark = pytest.mark.live

FAILOVER = """
schema: 1
id: live-failover
title: A client from outside, and the leader dies
seed: 1
duration: 10s
cluster:
  controllers: [c1]
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {broker.session.timeout.ms: 2000, broker.heartbeat.interval.ms: 200}
topics:
  orders: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: 2}}
workloads: {}
timeline:
  - when: {b1: {orders-0: {leo: {at_least: 10}}}}
    hold: {from: b1, to: "followers(orders-0)", api: Fetch, part: response}
  - when: {b1: {orders-0: {leo: {at_least: 25}}}}
    kill: b1
expect: {}
"""


def test_an_unmodified_client_loses_what_the_dead_leader_alone_had_acked(tmp_path: Path) -> None:
    """Whatever the moment at which the leader dies: what the client was told is lost, is missing for a consumer."""
    file = tmp_path / "failover.yaml"
    file.write_text(FAILOVER)
    with serving(tmp_path, "--scenario", str(file)) as served:
        producer = KafkaProducer(bootstrap_servers=served.bootstrap, acks=1, enable_idempotence=False, retries=20)
        acked = []
        while len(acked) < 40:
            name = f"order-{len(acked)}"
            assert producer.send("orders", value=name.encode()).get(20)
            acked.append(name)
            time.sleep(0.02)
        producer.close()
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=served.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=2000
        )
        read = {record.value.decode() for record in consumer}
        consumer.close()
        served.stop()
    lost = served.summary["records"]["lost"]
    assert lost and sorted(lost) == sorted(set(acked) - read)
    assert "lost" in served.summary["verdict"] and not served.summary["our_bug"]
    (told,) = served.summary["producers"].values()
    assert told["latency_us"]["min"] > 0  # acks=1 is answered in the step that it arrives in: still not in no time


def test_the_latency_of_a_client_from_outside_is_its_requests_at_the_broker() -> None:
    facts: list[trace.TraceEvent] = []
    log = trace.TraceLog([lambda row: facts.append(row.event)])
    names: dict[int, tuple[str, ...]] = {}
    story = ClientTap(log, lambda crc: names.get(crc, ()), lambda name: False, str).open("client/p", "b1")
    partition = TopicPartition("t", 0)

    def arrives(at_us: int, value: bytes, acks: int) -> None:
        batch = memoryview(build_batch([(None, value)], timestamp_ms=0))
        arrived = BatchArrived(partition, read_header(batch), records_seen(batch, 1))
        story(ProduceArrived(acks, (arrived,)), at_us)

    def answered(error: ErrorCode, left_us: int) -> None:
        # Told as of the step in progress, which began when the request came.
        story(ProduceAnswered((PartitionAnswered(partition, error, 0, None),), left_us), 1_000)

    arrives(1_000, b"a", acks=1)
    answered(ErrorCode.NONE, 1_400)
    arrives(2_000, b"b", acks=0)
    arrives(3_000, b"c", acks=1)
    answered(ErrorCode.MESSAGE_TOO_LARGE, 3_050)
    assert [(type(fact).__name__, fact.latency_us) for fact in facts if hasattr(fact, "latency_us")] == [
        ("RecordAcked", 400), ("RecordHandedOver", None), ("RecordFailed", 50)
    ]  # fmt: skip


def test_the_same_words_again_are_another_record_unless_the_first_has_no_answer() -> None:
    names = RecordNames(lambda name: False)
    partition = TopicPartition("t", 0)

    def sent(*values: bytes, at_ms: int) -> tuple[str, ...]:
        batch = memoryview(build_batch([(None, value) for value in values], timestamp_ms=at_ms))
        header = read_header(batch)
        seen = records_seen(batch, header.record_count)
        named = names.of("client/p", partition, header.crc, header.record_count, seen)
        sent.last = named  # type: ignore[attr-defined]
        return named.names

    assert sent(b"x", b"y", at_ms=1) == ("x", "y")
    assert sent(b"x", b"y", at_ms=1) == ("x", "y")  # the same batch again
    assert sent(b"y", b"z", at_ms=1) == ("y", "z")  # put together anew
    names.answered(sent.last)  # type: ignore[attr-defined]
    assert sent(b"y", at_ms=1) == ("y~2",)
    names.answered(sent.last)  # type: ignore[attr-defined]
    names.may_come_again(sent.last)  # type: ignore[attr-defined]
    assert sent(b"y", at_ms=1) == ("y~2",)  # its answer may have been lost with the connection
    assert sent(b"\xff\xfe", b"{json: 'far too long to be the name of a record'}", at_ms=2) == ("p-0", "p-1")


def test_words_are_safe_to_print_and_batches_are_believed_only_as_far_as_they_reach() -> None:
    assert word_of(b"a b/../<i>") == "a_b_____i_" and word_of(b"...") is None and word_of(b"x" * 25) is None
    assert word_of("\u202eevil".encode()) is None
    header = read_header(build_batch([(None, b"v")], timestamp_ms=0))
    assert is_believable(header)
    assert not is_believable(header._replace(record_count=1 << 30, last_offset_delta=(1 << 30) - 1))
