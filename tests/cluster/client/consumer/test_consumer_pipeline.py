"""The stages behind a fetch: deserializers, then interceptors; and a record that cannot be read."""

from __future__ import annotations

from typing import Any

from fake_cluster import MS, SECOND, TOPIC, FakeCluster, Harness, client_base

from cluster.client.consumer.consumer import ConsumerCore
from cluster.client.interceptors import NO_TIME, ClientCpuTimes
from cluster.config import ConsumerConfig
from replica.ids import TopicPartition
from replica.log.batches.records import build_batch
from replica.rules import PROFILES

TP = TopicPartition(TOPIC, 0)


def integers(*numbers: int) -> bytearray:
    names = [(("highwater.name", f"r{number}".encode()),) for number in numbers]
    return build_batch([(None, number.to_bytes(4, "big")) for number in numbers], timestamp_ms=0, headers=names)


def text(*numbers: int) -> bytearray:
    return build_batch([(None, f"s{number} xx".encode()) for number in numbers], timestamp_ms=0)


def consumer(cluster: FakeCluster, cpu: ClientCpuTimes = NO_TIME, **config: Any) -> Harness:
    keys = {"auto.offset.reset": "earliest", **{name.replace("_", "."): value for name, value in config.items()}}

    def make(trace: Any) -> ConsumerCore:
        settings, rules = ConsumerConfig.from_mapping(keys), PROFILES["kafka-4.1"]
        return ConsumerCore(client_base("c1", trace, cpu=cpu), settings, [TOPIC], rules)

    return Harness(make, cluster)


def cluster_with(*batches: bytearray, leaders: dict[int, tuple[int, int]] | None = None) -> FakeCluster:
    cluster = FakeCluster(leaders or {0: (1, 0)})
    for node_id in (1, 2):
        for batch in batches:
            cluster.broker(node_id).append(0, batch)
    return cluster


def read(harness: Harness) -> list[tuple[int, str]]:
    return [(event.offset, event.record) for event in harness.events("RecordRead")]


def test_a_record_that_cannot_be_read_stops_the_consumer_at_its_position() -> None:
    cluster = cluster_with(integers(0, 1), text(0), integers(2))
    harness = consumer(cluster, value_deserializer="IntegerDeserializer")
    harness.run_until(5 * SECOND)
    assert read(harness) == [(0, "r0"), (1, "r1")]
    (failed,) = harness.events("DeserializationFailed")
    assert (failed.offset, failed.record) == (2, "s0")
    assert harness.core.position(TP) == 2
    assert [event.error for event in harness.events("FetchFailed")] == ["RECORD_DESERIALIZATION"]


def test_in_the_middle_of_a_batch_what_comes_before_it_is_read() -> None:
    mixed = build_batch([(None, b"0123"), (None, b"s1 xx"), (None, b"4567")], timestamp_ms=0)
    harness = consumer(
        cluster_with(mixed), value_deserializer="IntegerDeserializer", interceptor_classes="AuditInterceptor"
    )
    harness.run_until(2 * SECOND)
    assert [event.offset for event in harness.events("RecordRead")] == [0]
    assert harness.core.position(TP) == 1
    assert [event.offset for event in harness.events("PositionIntercepted")] == [1]


def test_a_seek_past_it_goes_on_and_a_seek_to_it_stops_again() -> None:
    harness = consumer(cluster_with(integers(0), text(0), integers(1)), value_deserializer="IntegerDeserializer")
    harness.run_until(2 * SECOND)
    harness.call(harness.core.seek, TP, 1)
    harness.run_until(3 * SECOND)
    assert len(harness.events("DeserializationFailed")) == 2
    harness.call(harness.core.seek, TP, 2)
    harness.run_until(4 * SECOND)
    assert read(harness) == [(0, "r0"), (2, "r1")]


def test_meanwhile_no_other_partition_is_read() -> None:
    cluster = cluster_with(text(0), leaders={0: (1, 0), 1: (2, 0)})
    harness = consumer(cluster, value_deserializer="IntegerDeserializer")
    harness.run_until(1 * SECOND)
    cluster.broker(2).append(1, integers(5))
    harness.run_until(3 * SECOND)
    assert read(harness) == []
    harness.call(harness.core.seek, TP, 1)
    harness.run_until(5 * SECOND)
    assert read(harness) == [(0, "r5")]


def test_strings_are_made_of_any_bytes() -> None:
    cluster = cluster_with(integers(0xFFFE), text(0))
    for deserializer in ("StringDeserializer", "ByteArrayDeserializer"):
        harness = consumer(cluster, value_deserializer=deserializer)
        harness.run_until(2 * SECOND)
        assert read(harness) == [(0, "r65534"), (1, "s0")]


def test_without_any_of_it_no_event_says_so() -> None:
    harness = consumer(cluster_with(text(0)))
    harness.run_until(2 * SECOND)
    assert [type(row.event).__name__ for row in harness.rows] == ["PositionReset", "RecordRead"]


def test_interceptors_are_called_with_what_is_read_and_may_throw() -> None:
    harness = consumer(cluster_with(text(0, 1)), interceptor_classes="ThrowingInterceptor, AuditInterceptor")
    harness.run_until(2 * SECOND)
    called = [(one.interceptor, one.outcome, one.offset) for one in harness.events("PositionIntercepted")]
    assert called == [("ThrowingInterceptor", "threw", 2), ("AuditInterceptor", "unchanged", 2)]
    assert read(harness) == [(0, "s0"), (1, "s1")]


def test_the_application_thread_takes_its_time_for_each_record() -> None:
    cpu = ClientCpuTimes(deserializer_us=100 * MS, interceptor_us=50 * MS)
    cluster = cluster_with(text(0, 1))
    fast = consumer(cluster)
    slow = consumer(cluster, cpu, interceptor_classes="AuditInterceptor")
    times = []
    for harness in (fast, slow):
        harness.run_until(2 * SECOND)
        assert read(harness) == [(0, "s0"), (1, "s1")]
        times.append([row.at_us for row in harness.rows if type(row.event).__name__ == "RecordRead"])
    assert [late - soon for soon, late in zip(*times, strict=True)] == [300 * MS, 300 * MS]
    cluster.broker(1).append(0, text(2))
    slow.run_until(4 * SECOND)
    assert read(slow)[2:] == [(2, "s2")]


def test_a_position_that_moves_meanwhile_makes_the_answer_worthless() -> None:
    cluster = cluster_with(text(0, 1, 2))
    harness = consumer(cluster, ClientCpuTimes(deserializer_us=100 * MS))
    harness.run_until(100 * MS)
    harness.call(harness.core.seek, TP, 2)
    harness.run_until(2 * SECOND)
    assert read(harness) == [(2, "s2")]
