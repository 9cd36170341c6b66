"""Simulates published Kafka benchmarks, to check that acks and replication cost the same share of throughput.

The clusters run in virtual time, in which messages, network cards and the brokers' threads take time. The speed of a
benchmark's producers is set to the throughput of its first case; all other throughputs are results of the simulation.
All benchmarks have the same network latency and the same thread time. The thread time is derived from a published
end-to-end latency, so it is not fitted to a throughput.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from replica.trace.events import RecordAcked, TraceRow
from replica.trace.listening import Listener, on
from scenarios.language.parse.loading import load_text
from scenarios.process.pool import in_order
from scenarios.run.runner import run_scenario

RECORD_BYTES = 100 + 22
"""Bytes of each record in these benchmarks: a value of 100 and the published overhead of 22."""
BATCH_HEADER_BYTES = 61

LATENCY_US = 250
"""One-way latency between machines: half of the 500 us round trip in Jeff Dean's "numbers everyone should know"."""
END_TO_END_US, END_TO_END_RANGE_US = 2_500, (2_000, 2_999)
"""Latency from producer to consumer, and its possible range.

LinkedIn published a median of 2 ms, and TestEndToEndLatency cuts off fractions of milliseconds.
"""
POLL_US = 500
"""Mean wait for a record in TestEndToEndLatency's consumer: half of its fetch.wait.max.ms=1."""
PASSAGES, THREADS = 5, 5
"""Numbers of one-way messages and of thread times in the end-to-end latency.

The messages are Produce to the leader, the record to a follower, the follower's next fetch, and the consumer's fetch
and its response. The threads are those of producer, leader, follower, leader again, and consumer.
"""

START_MS = 1_000

SCENARIO = """\
schema: 1
id: bench-acks-{name}
title: Producers against three brokers
seed: 1
duration: {duration_ms}ms
profile: kafka-3.9
cluster:
  controllers: [c1]
  brokers: {{b1: {{cpu: {cpu}}}, b2: {{cpu: {cpu}}}, b3: {{cpu: {cpu}}}}}
topics:
  t: {{partitions: {{{partitions}}}, config: {{min.insync.replicas: 1}}}}
network: {{latency: {latency_us}us, cards: {{{cards}}}}}
workloads:
{producers}
timeline: []
expect: {{}}
"""
PRODUCER = """\
  {name}:
    kind: producer
    topic: t
    rate: {rate}/s
    size: {size}B
    start: {start_ms}ms
    stop: {stop_ms}ms
    config: {{acks: {acks}, enable.idempotence: false, buffer.memory: 67108864,
             max.in.flight.requests.per.connection: {in_flight}}}"""


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a benchmark: a cluster and its producers.

    Attributes:
        replicas: replication factor of the six partitions.
        batch_bytes: size of a full batch.
        published_records_per_s: published throughput, None if there is none.
        in_flight: max.in.flight.requests.per.connection.
        warm_up_ms: time until the rate is steady.
        measured_ms: duration of the measurement, enough for hundreds of batches.
    """

    name: str
    title: str
    replicas: int
    acks: int | str
    batch_bytes: int
    published_records_per_s: int | None = None
    producers: int = 1
    in_flight: int = 5
    warm_up_ms: int = 60
    measured_ms: int = 90


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A published benchmark.

    Attributes:
        setup: description of the machines.
        card_bytes_per_second: network speed of a broker and of a producer's machine, without packet headers.
        cases: the cases. The published throughput of the first case sets the speed of the simulated producers.
        ratios: pairs (name of a case, name of the case with which it is compared).
    """

    name: str
    title: str
    setup: str
    card_bytes_per_second: tuple[int, int]
    cases: tuple[Case, ...]
    ratios: tuple[tuple[str, str], ...]

    @property
    def producer_records_per_s(self) -> int:
        value = self.cases[0].published_records_per_s
        assert value is not None
        return value


GIGABIT_ETHERNET = 125_000_000 * 1448 // 1538
"""Bytes of TCP data per second on a Gigabit link, on which 1448 of the 1538 bytes of a packet are data."""

LINKEDIN = Benchmark(
    name="linkedin-2014",
    title="LinkedIn 2014: Jay Kreps, Benchmarking Apache Kafka: 2 Million Writes Per Second (On Three Cheap Machines)",
    setup="3 brokers, 6 partitions, 1 Gb/s Ethernet",
    card_bytes_per_second=(GIGABIT_ETHERNET, GIGABIT_ETHERNET),
    cases=(
        Case("none", "1 replica, acks=1", 1, 1, 8_196, 821_557),
        Case("async", "3 replicas, acks=1", 3, 1, 8_196, 786_980),
        # According to the article this case has the same batch size, but its published commands set a larger one.
        Case("sync", "3 replicas, acks=all (article)", 3, "all", 8_196, 421_823),
        Case(
            "sync-64000", "3 replicas, acks=all (commands)", 3, "all", 64_000, 421_823, warm_up_ms=200, measured_ms=300
        ),
        Case("three", "3 replicas, acks=1, 3 producers", 3, 1, 8_196, 2_024_032, producers=3),
    ),
    ratios=(("async", "none"), ("sync", "async"), ("sync-64000", "async"), ("three", "async")),
)

EC2 = Benchmark(
    name="ec2-2016",
    title="EC2 2016: Rafay Aleem, Apache Kafka Producer Benchmarks - Java vs Jython vs Python (the Java part)",
    setup="3 brokers on m4.large (445 Mb/s by iperf), producer on m4.xlarge (700 to 900 Mb/s), 6 partitions",
    # The TCP throughput is from "EC2 instance types's exact network performance" (stackoverflow.com, 18507405).
    card_bytes_per_second=(445_000_000 // 8, 800_000_000 // 8),
    cases=(
        Case("none", "1 replica, acks=1", 1, 1, 8_196, 747_418),
        # The followers fall behind in this case, and only then take a share of the network cards' capacity.
        Case("async", "3 replicas, acks=1", 3, 1, 8_196, 427_051, warm_up_ms=300),
        Case("sync", "3 replicas, acks=all", 3, "all", 64_000, 205_476, warm_up_ms=200, measured_ms=300),
    ),
    ratios=(("async", "none"), ("sync", "async")),
)

BENCHMARKS = (LINKEDIN, EC2)

IN_FLIGHT = tuple(
    Case(f"in-flight-{count}", f"{count} in flight", 3, "all", 8_196, in_flight=count) for count in (1, 2)
)
"""Cases from an article in Kafka's wiki: a second request in flight increases throughput, further requests do not.

The article ("An analysis of the impact of max.in.flight.requests.per.connection and acks on Producer performance") has
only charts, so there are no numbers for a comparison.
"""


def thread_us(latency_us: int, end_to_end_us: int) -> int:
    """Return a thread's time for one request, derived from an end-to-end latency. Raises ValueError if negative."""
    left_us = end_to_end_us - POLL_US - PASSAGES * latency_us
    if left_us < 0:
        raise ValueError(f"{PASSAGES} passages of {latency_us} us take longer than {end_to_end_us - POLL_US} us")
    return left_us // THREADS


class _Acks(Listener):
    """Listener that counts the batches that are acked within the measured time."""

    def __init__(self, case: Case) -> None:
        self._begin_us = (START_MS + case.warm_up_ms) * 1_000
        self._end_us = self._begin_us + case.measured_ms * 1_000
        self.batches = 0

    @on(RecordAcked)
    def _acked(self, row: TraceRow, event: RecordAcked) -> None:
        self.batches += self._begin_us <= row.at_us < self._end_us


@dataclass(frozen=True, slots=True)
class AcksRun:
    benchmark: Benchmark
    case: Case
    latency_us: int
    end_to_end_us: int


def records_per_s(run: AcksRun) -> int:
    acks = _Acks(run.case)
    text = scenario_of(run.benchmark, run.case, run.latency_us, run.end_to_end_us)
    run_scenario(load_text(text, "bench").scenario, runs_dir=None, watchers=lambda view: [acks])
    return acks.batches * _records_of_a_batch(run.case) * 1_000 // run.case.measured_ms


def measure_acks(latency_us: int, progress: Callable[[float], None]) -> dict[str, Any]:
    """Simulate all cases. Return their throughputs, and their ratios beside the published ratios.

    Args:
        latency_us: one-way latency between two machines.
        progress: called with the share of finished cases, 0 to 1.

    Raises:
        ValueError: the latency leaves no time for the threads.
    """
    sync = LINKEDIN.cases[2]
    runs = [AcksRun(item, case, latency_us, END_TO_END_US) for item in BENCHMARKS for case in item.cases]
    runs += [AcksRun(LINKEDIN, case, latency_us, END_TO_END_US) for case in IN_FLIGHT]
    runs += [AcksRun(LINKEDIN, sync, latency_us, end_to_end_us) for end_to_end_us in END_TO_END_RANGE_US]
    threads_us = [thread_us(latency_us, end_to_end_us) for end_to_end_us in END_TO_END_RANGE_US]
    rates: dict[AcksRun, int] = {}
    for run, rate in zip(runs, in_order(records_per_s, runs, os.cpu_count() or 1), strict=True):
        rates[run] = rate
        progress(len(rates) / len(runs))

    def rate_of(benchmark: Benchmark, case: Case, end_to_end_us: int = END_TO_END_US) -> int:
        return rates[AcksRun(benchmark, case, latency_us, end_to_end_us)]

    async_rate = rate_of(LINKEDIN, LINKEDIN.cases[1])
    return {
        "latency_us": latency_us,
        "thread_us": thread_us(latency_us, END_TO_END_US),
        "benchmarks": [
            _benchmark(item, {case.name: rate_of(item, case) for case in item.cases}) for item in BENCHMARKS
        ],
        "range": {
            "thread_us": threads_us,
            "sync / async": sorted(round(rate_of(LINKEDIN, sync, at) / async_rate, 3) for at in END_TO_END_RANGE_US),
        },
        "in_flight": [
            {"requests": case.in_flight, "model_records_per_s": rate_of(LINKEDIN, case)}
            for case in (*IN_FLIGHT, sync)
        ],
    }  # fmt: skip


def _benchmark(benchmark: Benchmark, rates: dict[str, int]) -> dict[str, Any]:
    published = {case.name: case.published_records_per_s or 0 for case in benchmark.cases}
    return {
        "benchmark": benchmark.name,
        "title": benchmark.title,
        "setup": benchmark.setup,
        "cases": [
            {"case": case.name, "title": case.title, "batch_bytes": case.batch_bytes,
             "published_records_per_s": published[case.name], "model_records_per_s": rates[case.name],
             "is_given": case is benchmark.cases[0]}
            for case in benchmark.cases
        ],
        "ratios": [
            _ratio(f"{over} / {under}", published[over] / published[under], rates[over] / rates[under])
            for over, under in benchmark.ratios
        ],
    }  # fmt: skip


def _ratio(name: str, published: float, model: float) -> dict[str, Any]:
    return {
        "ratio": name,
        "published": round(published, 3),
        "model": round(model, 3),
        "distance": round(model - published, 3),
    }


def _records_of_a_batch(case: Case) -> int:
    return case.batch_bytes // RECORD_BYTES


def scenario_of(
    benchmark: Benchmark, case: Case, latency_us: int = LATENCY_US, end_to_end_us: int = END_TO_END_US
) -> str:
    """Return the YAML of a case's scenario, with six partitions, of which each broker leads two.

    One record stands for a full batch, because no simulated time depends on the number of records, and a producer that
    is faster than its brokers always sends full batches.
    """
    brokers = ("b1", "b2", "b3")
    assigned = {
        partition: [brokers[(partition + index) % len(brokers)] for index in range(case.replicas)]
        for partition in range(6)
    }
    producers = [f"p{number}" for number in range(1, case.producers + 1)]
    of_broker, of_producer = benchmark.card_bytes_per_second
    cards = {**dict.fromkeys(brokers, of_broker), **dict.fromkeys(producers, of_producer)}
    needed_us, records = thread_us(latency_us, end_to_end_us), _records_of_a_batch(case)
    duration_ms = START_MS + case.warm_up_ms + case.measured_ms
    return SCENARIO.format(
        name=case.name,
        duration_ms=duration_ms,
        cpu=f"{{request: {needed_us}us, replicate: {needed_us}us}}",
        partitions=", ".join(f"{partition}: [{', '.join(names)}]" for partition, names in assigned.items()),
        latency_us=latency_us,
        cards=", ".join(f"{name}: {rate}B/s" for name, rate in cards.items()),
        producers="\n".join(
            PRODUCER.format(
                name=name,
                rate=benchmark.producer_records_per_s // records,
                size=records * RECORD_BYTES - BATCH_HEADER_BYTES,
                start_ms=START_MS,
                stop_ms=duration_ms,
                acks=case.acks,
                in_flight=case.in_flight,
            )
            for name in producers
        ),
    )
