"""Measures the throughput, latency and CPU time of live brokers with a librdkafka client.

The cluster is a separate `highwater serve` process that records no client requests. The client is in this process. Both
share the machine, so each record costs CPU time on both sides. The brokers' CPU time is measured separately.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from scenarios.bench.wire_clusters import (
    PARTITIONS,
    PATIENCE_S,
    SIZES,
    ClusterFailed,
    MeasuredCluster,
    highwater,
    topic_of,
)

ACKS = ("0", "1", "all")
BYTES_PER_ROUND, RECORDS_MAX = 24 << 20, 200_000
PACED_RECORDS, PACE_S = 400, 0.002
LONE_RECORDS = 100
BATCH = 1000
REQUESTS = 1500
REQUEST_BYTES = 16_384 - 200
"""Size in bytes of a record that librdkafka sends as one request of 16 KiB."""


# -------------------------------------------------------------------------------------------------------- measuring


def measure_acks_all() -> dict[str, Any]:
    """Measure acks=all with the smallest records, the start of the cluster, and single requests.

    Raises ClusterFailed.
    """
    with highwater(in_processes=False) as ours:
        start = first_ack(ours)
        row = next(row for row in load_of(ours, SIZES[0], ("all",)))
        return {**row, **start, **single_requests(ours)}


def first_ack(cluster: MeasuredCluster) -> dict[str, float]:
    """Return the seconds to the first ack, from the start of the process and from the start of its brokers."""
    began = time.perf_counter()
    topic = topic_of(SIZES[0])
    _produce(_producer(cluster, topic, "all", {"linger.ms": 0}), topic, 1, SIZES[0])
    after_s = time.perf_counter() - began
    whole_s, brokers_s = cluster.start_s
    return {"process_to_first_ack_s": whole_s + after_s, "brokers_to_first_ack_s": brokers_s + after_s}


def load_of(cluster: MeasuredCluster, size_bytes: int, wanted_acks: Sequence[str] = ACKS) -> Iterator[dict[str, Any]]:
    count = min(BYTES_PER_ROUND // size_bytes, RECORDS_MAX)
    topic = topic_of(size_bytes)
    for acks in wanted_acks:
        producer = _producer(cluster, topic, acks, {})
        wanted = _committed(cluster, topic) + count
        work = partial(_produce, producer, topic, count, size_bytes)
        taken = _timed(cluster, work, partial(_replicated, cluster, topic, wanted))
        latency = _latency(cluster, topic, acks, size_bytes)
        yield _row(cluster, f"produce acks={acks}", size_bytes, taken, latency)
    taken = _timed(cluster, partial(_consume, *_reader(cluster, topic, PARTITIONS, {})))
    yield _row(cluster, "consume", size_bytes, taken, None)


@dataclass(frozen=True, slots=True)
class Taken:
    """The time and the CPU time that a number of records took."""

    records: int
    wall_s: float
    brokers_cpu_s: float
    client_cpu_s: float


class RecordLatency(NamedTuple):
    """Latencies of single records from `produce` to the ack. All fields are None if they were not measured.

    Attributes:
        p50_ms, p99_ms: percentiles at a steady rate. If `served_per_s` is less than `offered_per_s`, most of this time
            is spent in a growing queue.
        offered_per_s: rate at which records were sent.
        served_per_s: rate at which records were acked.
        lone_p50_ms: median of records that are sent one by one, each after the ack of the previous record.
    """

    p50_ms: float | None = None
    p99_ms: float | None = None
    offered_per_s: float | None = None
    served_per_s: float | None = None
    lone_p50_ms: float | None = None


def _timed(cluster: MeasuredCluster, work: Callable[[], int], settle: Callable[[], object] = lambda: None) -> Taken:
    """Measure `work`, which returns its number of records.

    Args:
        settle: waits for the brokers' remaining work, whose CPU time counts and whose duration does not.
    """
    cpu_s, own_s, began = cluster.cpu_s(), time.process_time(), time.perf_counter()
    records = work()
    wall_s, own_s = time.perf_counter() - began, time.process_time() - own_s
    settle()
    return Taken(records, wall_s, cluster.cpu_s() - cpu_s, own_s)


def _row(
    cluster: MeasuredCluster, what: str, size_bytes: int, taken: Taken, latency: RecordLatency | None
) -> dict[str, Any]:
    count = taken.records
    gib = count * size_bytes / (1 << 30)
    return {
        "cluster": cluster.name,
        "what": what,
        "size_bytes": size_bytes,
        "records": count,
        "records_per_s": count / taken.wall_s,
        "mb_per_s": count * size_bytes / 1e6 / taken.wall_s,
        **(RecordLatency._field_defaults if latency is None else latency._asdict()),
        "broker_cpu_us_per_record": None if cluster.pid is None else taken.brokers_cpu_s / count * 1e6,
        "broker_cpu_s_per_gib": None if cluster.pid is None else taken.brokers_cpu_s / gib,
        "client_cpu_us_per_record": taken.client_cpu_s / count * 1e6,
    }


def single_requests(cluster: MeasuredCluster) -> dict[str, float]:
    """Return the brokers' CPU time for one Produce and one Fetch of 16 KiB, sent one at a time on one partition."""
    one_each = {"batch.num.messages": 1, "linger.ms": 0, "max.in.flight": 1}
    producer = _producer(cluster, "requests", "1", one_each)
    produced = _timed(cluster, partial(_produce, producer, "requests", REQUESTS, REQUEST_BYTES))
    little = {"max.partition.fetch.bytes": 16_384, "fetch.max.bytes": 16_384, "message.max.bytes": 16_384}
    fetched = _timed(cluster, partial(_consume, *_reader(cluster, "requests", 1, little)))
    return {
        "produce_16_kib_cpu_us": produced.brokers_cpu_s / REQUESTS * 1e6,
        "fetch_16_kib_cpu_us": fetched.brokers_cpu_s / REQUESTS * 1e6,
    }


# ------------------------------------------------------------------------------------------------------- the client


def _producer(cluster: MeasuredCluster, topic: str, acks: str, settings: dict[str, Any]) -> Any:
    """Return a producer that has already fetched the metadata of the topic."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": acks,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            **settings,
        }
    )
    producer.list_topics(topic, timeout=PATIENCE_S)
    return producer


def _produce(producer: Any, topic: str, count: int, size_bytes: int) -> int:
    """Produce records, wait until all are acked (with acks=0, sent), and return their number. Raises ClusterFailed."""
    value = b"x" * size_bytes
    for sent in range(0, count, BATCH):
        # The client writes the result of a record into the record's dictionary, so each record needs its own one.
        producer.produce_batch(topic, [{"value": value} for _ in range(min(BATCH, count - sent))])
    left = producer.flush(PATIENCE_S)
    if left:
        raise ClusterFailed(f"{left} of {count} records got no response within {PATIENCE_S} s")
    return count


def _latency(cluster: MeasuredCluster, topic: str, acks: str, size_bytes: int) -> RecordLatency:
    producer = _producer(cluster, topic, acks, {"linger.ms": 0})
    trickle = _LatencyOf(producer, topic, b"x" * size_bytes)
    began = time.perf_counter()
    for number in range(PACED_RECORDS):
        # `poll` returns early if an answer comes, so repeat it until the record's time has come.
        while (early_s := began + number * PACE_S - time.perf_counter()) > 0:
            producer.poll(early_s)
        trickle.send()
    offered_s = time.perf_counter() - began
    producer.flush(PATIENCE_S)
    served_s = time.perf_counter() - began
    lone = _LatencyOf(producer, topic, b"x" * size_bytes)
    for _ in range(LONE_RECORDS):
        lone.send()
        producer.flush(PATIENCE_S)
    if len(trickle.latencies_s) < 2 or not lone.latencies_s:
        raise ClusterFailed("too few records were acknowledged to measure the latency; look at the log of the cluster")
    cuts = statistics.quantiles(trickle.latencies_s, n=100)
    return RecordLatency(
        p50_ms=cuts[49] * 1e3,
        p99_ms=cuts[98] * 1e3,
        offered_per_s=PACED_RECORDS / offered_s,
        served_per_s=len(trickle.latencies_s) / served_s,
        lone_p50_ms=statistics.median(lone.latencies_s) * 1e3,
    )


class _LatencyOf:
    """A producer that collects the latencies of the records sent through it."""

    def __init__(self, producer: Any, topic: str, value: bytes) -> None:
        self.latencies_s: list[float] = []
        self._producer = producer
        self._topic = topic
        self._value = value

    def send(self) -> None:
        self._producer.produce(self._topic, self._value, on_delivery=self._delivered)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.latencies_s.append(message.latency())


def _committed(cluster: MeasuredCluster, topic: str) -> int:
    """Return the sum of the topic's high watermarks: the number of records that consumers can read."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "bench", "log_level": 0})
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    committed = sum(consumer.get_watermark_offsets(partition, timeout=PATIENCE_S)[1] for partition in places)
    consumer.close()
    return committed


def _replicated(cluster: MeasuredCluster, topic: str, wanted: int) -> None:
    """Wait until every in-sync replica has all records. Raises ClusterFailed.

    A cluster without `pid` (librdkafka's mock) does not replicate and may lose records with acks=0, so do not wait.
    """
    until = time.monotonic() + PATIENCE_S
    while cluster.pid is not None and (committed := _committed(cluster, topic)) < wanted:
        if time.monotonic() > until:
            raise ClusterFailed(f"only {committed} of {wanted} records were replicated within {PATIENCE_S} s")
        time.sleep(0.01)


def _reader(cluster: MeasuredCluster, topic: str, partitions: int, settings: dict[str, Any]) -> tuple[Any, int]:
    """Return a consumer that is assigned to all partitions, and the number of records in their logs."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "log_level": 0,
            # With a smaller queue the consumer waits for a second whenever the queue is full.
            "queued.min.messages": 1_000_000,
            **settings,
        }
    )
    count, places = 0, []
    for number in range(partitions):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=PATIENCE_S)
        count += high - low
        places.append(TopicPartition(topic, number, low))
    consumer.assign(places)
    return consumer, count


def _consume(consumer: Any, count: int) -> int:
    read, until = 0, time.monotonic() + PATIENCE_S
    while read < count:
        read += sum(message.error() is None for message in consumer.consume(min(10_000, count - read), 0.2))
        if time.monotonic() > until:
            raise ClusterFailed(f"only {read} of {count} records were read within {PATIENCE_S} s")
    return count
