"""Throughput, latency and CPU of live brokers under librdkafka, beside librdkafka's own mock cluster in the same run.

The cluster is a `highwater serve` of its own, with its client tap off; the load is one librdkafka client in this
process. Both share the machine, so a record's way is paid for at both ends; what the brokers' processes took is told
apart.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

BROKERS, PARTITIONS = 3, 3
SIZES = (100, 1024)
ACKS = ("0", "1", "all")
BYTES_PER_ROUND, RECORDS_MAX = 24 << 20, 200_000
PACED_RECORDS, PACE_S = 400, 0.002
BATCH = 1000
REQUESTS = 1500
REQUEST_BYTES = 16_384 - 200
"""Of a record whose batch, as librdkafka frames it, is sent as one request of 16 KiB."""
PATIENCE_S = 40
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class ClusterFailed(Exception):
    """The cluster to be measured did not come up; the text has what it said."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Something to measure. pid: whose processes' CPU is the brokers' own; None if that cannot be told apart

    start_s: from its start to its being ready, of the whole process and of the brokers in it
    """

    name: str
    bootstrap: str
    pid: int | None
    start_s: tuple[float, float] = (0.0, 0.0)

    def cpu_s(self) -> float:
        return 0.0 if self.pid is None else _cpu_of_tree(self.pid)


# ------------------------------------------------------------------------------------------------- what is measured


@contextmanager
def highwater(*, in_processes: bool) -> Iterator[Cluster]:
    """raises: ClusterFailed"""
    port = _free_ports(BROKERS)
    words = ["--brokers", str(BROKERS), "--port", str(port), "--no-client-records"]
    topics = [word for size_bytes in SIZES for word in ("--topic", f"{_topic(size_bytes)}:{PARTITIONS}:3")]
    if in_processes:
        words.append("--processes")
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as scratch, _quiet(scratch) as log:
        began = time.perf_counter()
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "scenarios.cli",
                "serve",
                "--record",
                scratch,
                *words,
                *topics,
                "--topic",
                "requests:1:1",
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=scratch,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        try:
            yield _ready(process, began, "processes" if in_processes else "tasks", Path(scratch))
        finally:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=PATIENCE_S)
            process.kill()


@contextmanager
def _quiet(scratch: str) -> Iterator[Any]:
    with (Path(scratch) / "stderr.txt").open("w", encoding="utf-8") as log:
        yield log


def _ready(process: subprocess.Popen[str], began: float, name: str, scratch: Path) -> Cluster:
    assert process.stdout is not None
    brokers_s = 0.0
    for line in process.stdout:
        up = re.search(r"up in ([\d.]+) s", line)
        brokers_s = float(up[1]) if up else brokers_s
        found = re.search(r"bootstrap.servers=(\S+)", line)
        if found:
            return Cluster(f"highwater, {name}", found[1], process.pid, (time.perf_counter() - began, brokers_s))
    raise ClusterFailed((scratch / "stderr.txt").read_text(encoding="utf-8").strip()[-2000:])


@contextmanager
def mock() -> Iterator[Cluster]:
    """librdkafka's own, in C, within this process. It keeps records in memory, and its followers have none."""
    from confluent_kafka import Producer

    host = Producer({"test.mock.num.brokers": BROKERS, "bootstrap.servers": "unused", "log_level": 0})
    brokers = host.list_topics(timeout=PATIENCE_S).brokers.values()
    yield Cluster("librdkafka mock", ",".join(f"{one.host}:{one.port}" for one in brokers), None)


def _topic(size_bytes: int) -> str:
    return f"bench-{size_bytes}"


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


def _median_row(same: Any) -> dict[str, Any]:
    """Of dictionaries with the same keys; what is no number is the same in all of them."""
    first = same[0]
    return {
        key: round(statistics.median(one[key] for one in same), 6) if isinstance(value, float) else value
        for key, value in first.items()
    }


def _first_ack(cluster: Cluster) -> dict[str, float]:
    """From the start of the process, and from the start of the brokers in it."""
    began = time.perf_counter()
    topic = _topic(SIZES[0])
    _produce(_producer(cluster, topic, "all", {"linger.ms": 0}), topic, 1, SIZES[0])
    after_s = time.perf_counter() - began
    whole_s, brokers_s = cluster.start_s
    return {"process_to_first_ack_s": whole_s + after_s, "brokers_to_first_ack_s": brokers_s + after_s}


def _load(cluster: Cluster) -> list[dict[str, Any]]:
    return [row for size_bytes in SIZES for row in _load_of(cluster, size_bytes)]


def _load_of(cluster: Cluster, size_bytes: int) -> Iterator[dict[str, Any]]:
    count = min(BYTES_PER_ROUND // size_bytes, RECORDS_MAX)
    topic = _topic(size_bytes)
    for acks in ACKS:
        producer = _producer(cluster, topic, acks, {})
        wanted = _committed(cluster, topic) + count
        work = partial(_produce, producer, topic, count, size_bytes)
        taken = _timed(cluster, work, partial(_replicated, cluster, topic, wanted))
        latency_ms = _latency(cluster, topic, acks, size_bytes)
        yield _row(cluster, f"produce acks={acks}", size_bytes, taken, latency_ms)
    taken = _timed(cluster, partial(_consume, *_reader(cluster, topic, PARTITIONS, {})))
    yield _row(cluster, "consume", size_bytes, taken, None)


@dataclass(frozen=True, slots=True)
class Taken:
    """What a piece of work took. records: how many there were"""

    records: int
    wall_s: float
    brokers_cpu_s: float
    client_cpu_s: float


def _timed(cluster: Cluster, work: Callable[[], int], settle: Callable[[], object] = lambda: None) -> Taken:
    """settle: waits for what the brokers still have to do; it costs their CPU, and not the client's time"""
    cpu_s, own_s, began = cluster.cpu_s(), time.process_time(), time.perf_counter()
    records = work()
    wall_s, own_s = time.perf_counter() - began, time.process_time() - own_s
    settle()
    return Taken(records, wall_s, cluster.cpu_s() - cpu_s, own_s)


def _row(
    cluster: Cluster, what: str, size_bytes: int, taken: Taken, latency_ms: tuple[float, float] | None
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
        "p50_ms": None if latency_ms is None else latency_ms[0],
        "p99_ms": None if latency_ms is None else latency_ms[1],
        "broker_cpu_us_per_record": None if cluster.pid is None else taken.brokers_cpu_s / count * 1e6,
        "broker_cpu_s_per_gib": None if cluster.pid is None else taken.brokers_cpu_s / gib,
        "client_cpu_us_per_record": taken.client_cpu_s / count * 1e6,
    }


def _requests(cluster: Cluster) -> dict[str, float]:
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


def _producer(cluster: Cluster, topic: str, acks: str, settings: dict[str, Any]) -> Any:
    """One that has been told where the topic is."""
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


def _latency(cluster: Cluster, topic: str, acks: str, size_bytes: int) -> tuple[float, float]:
    """(p50, p99) milliseconds from `produce` to the answer, of single records in a steady trickle."""
    latencies_s: list[float] = []

    def told(error: Any, message: Any) -> None:
        if error is None:
            latencies_s.append(message.latency())

    producer = _producer(cluster, topic, acks, {"linger.ms": 0})
    for _ in range(PACED_RECORDS):
        producer.produce(topic, b"x" * size_bytes, on_delivery=told)
        producer.poll(PACE_S)
    producer.flush(PATIENCE_S)
    if len(latencies_s) < 2:
        raise ClusterFailed("no record of the trickle was answered")
    cuts = statistics.quantiles(latencies_s, n=100)
    return cuts[49] * 1e3, cuts[98] * 1e3


def _committed(cluster: Cluster, topic: str) -> int:
    """Records below the high watermarks, which is what consumers are told of."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "bench", "log_level": 0})
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    committed = sum(consumer.get_watermark_offsets(place, timeout=PATIENCE_S)[1] for place in places)
    consumer.close()
    return committed


def _replicated(cluster: Cluster, topic: str, wanted: int) -> None:
    """Waits until every in-sync replica has everything.

    Not of the mock's, which does not replicate, and loses what is sent to it with acks=0 at this pace.
    """
    until = time.monotonic() + PATIENCE_S
    while cluster.pid is not None and (committed := _committed(cluster, topic)) < wanted:
        if time.monotonic() > until:
            raise ClusterFailed(f"only {committed} of {wanted} records were replicated within {PATIENCE_S} s")
        time.sleep(0.01)


def _reader(cluster: Cluster, topic: str, partitions: int, settings: dict[str, Any]) -> tuple[Any, int]:
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


# -------------------------------------------------------------------------------------------------------- the system


def _cpu_of_tree(pid: int) -> float:
    """Seconds of user and system time of a process and of all that descend from it and live. source: proc(5)"""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.name))
        ticks[int(entry.name)] = int(fields[11]) + int(fields[12])
    total, left = 0, [pid]
    while left:
        one = left.pop()
        total += ticks.get(one, 0)
        left += children.get(one, [])
    return total * TICK_S


def _free_ports(count: int) -> int:
    """The first of `count` ports in a row on which nobody listens now."""
    for port in range(20_000 + os.getpid() % 9000, 60_000, count):
        try:
            for place in range(count):
                with socket.socket() as sock:
                    sock.bind(("127.0.0.1", port + place))
        except OSError:
            continue
        return port
    raise ClusterFailed("no free ports on 127.0.0.1")
