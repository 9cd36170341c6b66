"""The stages before the accumulator: interceptors, then serializers, each in the application's thread."""

from __future__ import annotations

from typing import Any

from fake_cluster import MS, SECOND, TOPIC, FakeCluster, Harness, client_base, refuse
from producer_world import cluster_of, names_of, record, send, stored

from cluster.client.interceptors import NO_TIME, ClientCpuTimes
from cluster.client.producer.pipeline import STAMP_TEXT
from cluster.client.producer.producer import ProducerCore, producer_config_from
from cluster.protocol.versions import PRODUCE
from replica.errors import ErrorCode
from replica.log.batches.records import read_records
from replica.rules import Rules

ALL = "AuditInterceptor, ThrowingInterceptor, StampInterceptor"


def producer(cluster: FakeCluster, cpu: ClientCpuTimes = NO_TIME, **config: Any) -> Harness:
    keys = {name.replace("_", "."): value for name, value in config.items()}

    def make(trace: Any) -> ProducerCore:
        return ProducerCore(client_base("p1", trace, cpu=cpu), producer_config_from(keys), TOPIC, Rules())

    return Harness(make, cluster)


def kinds(harness: Harness) -> list[str]:
    return [type(row.event).__name__ for row in harness.rows]


def calls(harness: Harness) -> list[tuple[str, str, str, int]]:
    return [(one.record, one.hook, one.outcome, one.calls) for one in harness.events("RecordIntercepted")]


def test_without_any_of_it_no_event_says_so() -> None:
    harness = producer(cluster_of())
    harness.run_until(1 * SECOND)
    send(harness, 0)
    harness.run_until(2 * SECOND)
    assert kinds(harness) == ["RecordSent", "BatchSent", "RecordAcked"]


def test_interceptors_come_first_then_serializers_then_the_batch() -> None:
    cluster = cluster_of()
    harness = producer(cluster, interceptor_classes=ALL, value_serializer="IntegerSerializer")
    harness.run_until(1 * SECOND)
    send(harness, 7)
    harness.run_until(2 * SECOND)
    intercepted = ["RecordIntercepted"] * 3
    assert kinds(harness) == ["RecordSent", *intercepted, "RecordSerialized", "BatchSent", "RecordAcked", *intercepted]
    assert calls(harness) == [
        ("r7", "onSend", "unchanged", 1),
        ("r7", "onSend", "threw", 1),
        ("r7", "onSend", "unchanged", 1),  # the value is no text
        ("r7", "onAcknowledgement", "unchanged", 1),
        ("r7", "onAcknowledgement", "threw", 1),
        ("r7", "onAcknowledgement", "unchanged", 1),
    ]
    (written,) = read_records(cluster.broker(1).log[0][0])
    assert written.value == b"\0\0\0\x07"


def test_an_interceptor_that_throws_loses_no_change_of_another() -> None:
    cluster = cluster_of()
    harness = producer(cluster, interceptor_classes="StampInterceptor, ThrowingInterceptor")
    harness.run_until(1 * SECOND)
    send(harness, 0, size=10)
    harness.run_until(2 * SECOND)
    (written,) = read_records(cluster.broker(1).log[0][0])
    assert written.value is not None and written.value.endswith(b"x" + STAMP_TEXT)
    assert names_of(harness.events("RecordAcked")) == ["r0"]


def test_what_an_interceptor_adds_counts_for_the_largest_size() -> None:
    size = 1000
    harness = producer(cluster_of(), interceptor_classes="StampInterceptor", max_request_size=size + 90)
    harness.run_until(1 * SECOND)
    send(harness, 0, size=size - len(STAMP_TEXT))
    send(harness, 1, size=size)
    harness.run_until(2 * SECOND)
    assert names_of(harness.events("RecordAcked")) == ["r0"]
    assert [(one.record, one.error) for one in harness.events("RecordFailed")] == [("r1", "MESSAGE_TOO_LARGE")]


def test_a_record_that_cannot_be_serialized_never_comes_to_the_accumulator() -> None:
    cluster = cluster_of()
    harness = producer(
        cluster, value_serializer="FailingSerializer", failing_records="r1", interceptor_classes="AuditInterceptor"
    )
    harness.run_until(1 * SECOND)
    send(harness, 0, 1, 2)
    harness.run_until(2 * SECOND)
    assert stored(cluster.broker(1)) == ["r0", "r2"]
    (failed,) = harness.events("RecordFailed")
    assert (failed.record, failed.error, failed.definite) == ("r1", "SERIALIZATION", True)
    assert [one for one in calls(harness) if one[0] == "r1"] == [
        ("r1", "onSend", "unchanged", 2),
        ("r1", "onAcknowledgement", "unchanged", 1),
    ]
    assert [event.base_sequence for event in harness.events("BatchSent")] == [0, 1]  # it took no sequence number


def test_of_a_batch_the_records_that_can_be_serialized_are_sent() -> None:
    cluster = cluster_of()
    harness = producer(cluster, value_serializer="FailingSerializer", failing_records="r1")
    harness.run_until(1 * SECOND)
    harness.call(harness.core.send_batch, [record(number) for number in range(3)])
    harness.run_until(2 * SECOND)
    assert [event.records for event in harness.events("BatchSent")] == [("r0", "r2")]
    assert not harness.core.has_unfinished


def test_without_metadata_nothing_is_serialized() -> None:
    cluster = cluster_of()
    cluster.topic_exists = False
    harness = producer(cluster, value_serializer="FailingSerializer", failing_records="r0", max_block_ms=3000)
    send(harness, 0)
    harness.run_until(5 * SECOND)
    assert [one.error for one in harness.events("RecordFailed")] == ["REQUEST_TIMED_OUT"]
    assert harness.events("RecordSerialized") == []


def test_the_key_is_serialized_before_the_partitioner_sees_it() -> None:
    cluster = cluster_of(leaders={number: (1, 0) for number in range(8)})
    plain, integers = producer(cluster), producer(cluster, key_serializer="IntegerSerializer")
    for harness in (plain, integers):
        harness.run_until(1 * SECOND)
        for number in range(4):
            key = str(number).encode()
            harness.call(
                lambda now_us, h=harness, n=number, k=key: h.core.send(record(n, partition=None, key=k), now_us)
            )
        harness.run_until(2 * SECOND)
    chosen = [[event.partition for event in harness.events("BatchSent")] for harness in (plain, integers)]
    # murmur2 of the text, and of the four bytes: BuiltInPartitioner.partitionForKey
    assert chosen[0] != chosen[1]


def test_the_application_thread_is_in_one_record_at_a_time() -> None:
    cpu = ClientCpuTimes(interceptor_us=2 * MS, serializer_us=5 * MS)
    harness = producer(cluster_of(), cpu, interceptor_classes="AuditInterceptor, ThrowingInterceptor")
    harness.run_until(1 * SECOND)
    send(harness, 0, 1)
    harness.run_until(2 * SECOND)
    formed = [row.at_us - 1 * SECOND for row in harness.rows if type(row.event).__name__ == "RecordSerialized"]
    assert formed == [
        4 * MS,
        13 * MS,
    ]  # two interceptors of 2 ms, then the serializers
    assert [one.took_us for one in harness.events("RecordSerialized")] == [5 * MS, 5 * MS]


def test_interceptors_hear_how_a_record_ended() -> None:
    cluster = cluster_of()
    harness = producer(cluster, interceptor_classes="AuditInterceptor", retries=0, enable_idempotence=False)
    harness.run_until(1 * SECOND)
    cluster.broker(1).next(PRODUCE, refuse(ErrorCode.NOT_ENOUGH_REPLICAS))
    send(harness, 0)
    harness.run_until(2 * SECOND)
    heard = [one.sentence() for one in harness.events("RecordIntercepted") if one.hook == "onAcknowledgement"]
    assert heard == [
        "AuditInterceptor of p1 counted onAcknowledgement of r0, which failed with NOT_ENOUGH_REPLICAS, call 1"
    ]
