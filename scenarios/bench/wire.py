"""Throughput, latency and CPU of live brokers under librdkafka, beside librdkafka's own mock cluster in the same run.

The cluster is a separate `highwater serve` process with its client tap off; the load is one librdkafka client in
this process. Both share the machine, so a record costs CPU time at both ends; the CPU time of the brokers'
processes is measured separately.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from scenarios.bench.wire_clusters import (
    BROKERS,
    PARTITIONS,
    PATIENCE_S,
    SIZES,
    ClusterFailed,
    MeasuredCluster,
    highwater,
    mock,
    topic_of,
)

ACKS = ("0", "1", "all")
BYTES_PER_ROUND, RECORDS_MAX = 24 << 20, 200_000
PACED_RECORDS, PACE_S = 400, 0.002
LONE_RECORDS = 100
BATCH = 1000
REQUESTS = 1500
REQUEST_BYTES = 16_384 - 200
"""Of a record whose batch, as librdkafka frames it, is sent as one request of 16 KiB."""


# -------------------------------------------------------------------------------------------------------- measuring


def measure_wire(repeat: int, *, in_processes: bool, progress: Callable[[float], None]) -> dict[str, Any]:
    """Medians of `repeat` rounds, the two clusters taken in turn. raises: ClusterFailed"""
    rounds: list[list[dict[str, Any]]] = []
    starts: list[dict[str, float]] = []
    requests: list[dict[str, float]] = []
    for turn in range(repeat):
        rows: list[dict[str, Any]] = []
        with highwater(in_processes=in_processes) as ours:
            starts.append(_first_ack(ours))
            rows += _load(ours)
            requests.append(_requests(ours))
        progress((turn + 0.7) / repeat)
        with mock() as theirs:
            rows += _load(theirs)
        rounds.append(rows)
        progress((turn + 1) / repeat)
    return {
        "brokers": BROKERS,
        "world": "processes" if in_processes else "tasks of one process",
        "repeat": repeat,
        "client_tap": False,
        "rows": [_median_row(same) for same in zip(*rounds, strict=True)],
        "start": _median_row(starts),
        "requests": _median_row(requests),
    }


def measure_acks_all() -> dict[str, Any]:
    """The acks=all row of the smallest records, with the start and the cost of requests. raises: ClusterFailed"""
    with highwater(in_processes=False) as ours:
        start = _first_ack(ours)
        row = next(row for row in _load_of(ours, SIZES[0], ("all",)))
        return {**row, **start, **_requests(ours)}


def _median_row(same: Any) -> dict[str, Any]:
    """Of dictionaries with the same keys. Values that are not numbers are the same in all of them."""
    first = same[0]
    return {
        key: round(statistics.median(one[key] for one in same), 6) if isinstance(value, float) else value
        for key, value in first.items()
    }


def _first_ack(cluster: MeasuredCluster) -> dict[str, float]:
    """From the start of the process, and from the start of the brokers in it."""
    began = time.perf_counter()
    topic = topic_of(SIZES[0])
    _produce(_producer(cluster, topic, "all", {"linger.ms": 0}), topic, 1, SIZES[0])
    after_s = time.perf_counter() - began
    whole_s, brokers_s = cluster.start_s
    return {"process_to_first_ack_s": whole_s + after_s, "brokers_to_first_ack_s": brokers_s + after_s}


def _load(cluster: MeasuredCluster) -> list[dict[str, Any]]:
    return [row for size_bytes in SIZES for row in _load_of(cluster, size_bytes)]


def _load_of(cluster: MeasuredCluster, size_bytes: int, wanted_acks: Sequence[str] = ACKS) -> Iterator[dict[str, Any]]:
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
    """The cost of a piece of work. records: how many there were"""

    records: int
    wall_s: float
    brokers_cpu_s: float
    client_cpu_s: float


class RecordLatency(NamedTuple):
    """Of single records, from `produce` to the answer; None where nothing is answered.

    p50_ms, p99_ms: of a steady trickle. If fewer a second are served than offered, they wait in a queue that grows, and
    these are the times of that queue
    lone_p50_ms: of records that are sent one after the other's answer
    """

    p50_ms: float | None = None
    p99_ms: float | None = None
    offered_per_s: float | None = None
    served_per_s: float | None = None
    lone_p50_ms: float | None = None


def _timed(cluster: MeasuredCluster, work: Callable[[], int], settle: Callable[[], object] = lambda: None) -> Taken:
    """settle: waits for the brokers' remaining work; this costs their CPU, and not the client's time"""
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


def _requests(cluster: MeasuredCluster) -> dict[str, float]:
    """CPU of the brokers for one Produce, and for one Fetch, of 16 KiB each, one after the other on one partition."""
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
    """One that knows where the topic is."""
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
    """Every record has its answer at the end; with acks=0, every one has been sent."""
    value = b"x" * size_bytes
    for sent in range(0, count, BATCH):
        # The client writes what it has to say about a record into the record's own dictionary.
        producer.produce_batch(topic, [{"value": value} for _ in range(min(BATCH, count - sent))])
    left = producer.flush(PATIENCE_S)
    if left:
        raise ClusterFailed(f"{left} records of {count} had no answer within {PATIENCE_S} s")
    return count


def _latency(cluster: MeasuredCluster, topic: str, acks: str, size_bytes: int) -> RecordLatency:
    producer = _producer(cluster, topic, acks, {"linger.ms": 0})
    trickle = _LatencyOf(producer, topic, b"x" * size_bytes)
    began = time.perf_counter()
    for number in range(PACED_RECORDS):
        # `poll` comes back with the first answer, so the pace is kept by the clock.
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
        raise ClusterFailed("no record of the trickle was answered")
    cuts = statistics.quantiles(trickle.latencies_s, n=100)
    return RecordLatency(
        p50_ms=cuts[49] * 1e3,
        p99_ms=cuts[98] * 1e3,
        offered_per_s=PACED_RECORDS / offered_s,
        served_per_s=len(trickle.latencies_s) / served_s,
        lone_p50_ms=statistics.median(lone.latencies_s) * 1e3,
    )


class _LatencyOf:
    """The times of the records that were sent through it."""

    def __init__(self, producer: Any, topic: str, value: bytes) -> None:
        self.latencies_s: list[float] = []
        self._producer = producer
        self._topic = topic
        self._value = value

    def send(self) -> None:
        self._producer.produce(self._topic, self._value, on_delivery=self._told)

    def _told(self, error: Any, message: Any) -> None:
        if error is None:
            self.latencies_s.append(message.latency())


def _committed(cluster: MeasuredCluster, topic: str) -> int:
    """Records below the high watermarks, which is all that consumers see."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "bench", "log_level": 0})
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    committed = sum(consumer.get_watermark_offsets(place, timeout=PATIENCE_S)[1] for place in places)
    consumer.close()
    return committed


def _replicated(cluster: MeasuredCluster, topic: str, wanted: int) -> None:
    """Waits until every in-sync replica has everything.

    Not of the mock's, which does not replicate, and loses what is sent to it with acks=0 at this pace.
    """
    until = time.monotonic() + PATIENCE_S
    while cluster.pid is not None and (committed := _committed(cluster, topic)) < wanted:
        if time.monotonic() > until:
            raise ClusterFailed(f"only {committed} of {wanted} records were replicated within {PATIENCE_S} s")
        time.sleep(0.01)


def _reader(cluster: MeasuredCluster, topic: str, partitions: int, settings: dict[str, Any]) -> tuple[Any, int]:
    """Assigned to everything that is there, and how many records that is: the mock keeps only the latest."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "log_level": 0,
            "queued.min.messages": 1_000_000,  # With fewer it waits for its application a second at a time.
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
