"""A model of a published benchmark of Kafka: do acks and replication cost throughput in the proportions measured then?

The measurement: Jay Kreps, "Benchmarking Apache Kafka: 2 Million Writes Per Second (On Three Cheap Machines)",
LinkedIn 2014. One producer thread, 100 byte records, six partitions, three brokers on 1 Gb Ethernet. Here the same
cluster runs in virtual time, where only the network takes time: neither client nor broker is ever short of processor.
One set of parameters serves all three cases; none was fitted to the throughputs: each follows from the published
set-up, or from the latency that was published beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from replica.trace import RecordAcked, TraceEvent, TraceRow
from scenarios.loading import load_text
from scenarios.runner import run_scenario

PUBLISHED_RECORDS_PER_S = {"none": 821_557, "async": 786_980, "sync": 421_823}

ETHERNET_BYTES_PER_S = 125_000_000
LINKS_PER_CARD = 3
"""What comes in at a broker comes from the producer and two leaders, a third from each; what the producer sends goes to
three brokers. Links have a bandwidth here and network cards have none, so each link gets a third of a card's."""
LATENCY_US = 500
"""Published: 2 ms (median) from producer to consumer of a replicated topic. A record takes four passages until then: to
the leader, to a follower, the follower's next fetch, to the consumer."""
RECORDS_IN_ONE = 10
"""Nothing here takes time per record, so one record stands for ten of the published ones, with their 22 bytes of
overhead each (published too): six of them are a full batch of batch.size=8196."""
RECORD_BYTES = RECORDS_IN_ONE * (100 + 22)
BATCH_RECORDS = 8_196 // RECORD_BYTES
OFFERED_RECORDS_PER_S = 110_000
"""More than the producer's card can send."""

START_MS, WARM_UP_MS, MEASURED_MS = 1_000, 100, 300

SCENARIO = """\
schema: 1
id: bench-acks-{name}
title: One producer against three brokers, as in 2014
seed: 1
duration: {duration_ms}ms
profile: kafka-3.9
cluster:
  controllers: [c1]
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
topics:
  t: {{partitions: {{{partitions}}}, config: {{min.insync.replicas: 1}}}}
network:
  latency: {latency_us}us
  bandwidth: {bandwidth}B/s
workloads:
  p1:
    kind: producer
    topic: t
    rate: {rate}/s
    batch: {batch}
    size: {size}B
    start: {start_ms}ms
    config: {{acks: {acks}, enable.idempotence: false, batch.size: 8196, linger.ms: 0, buffer.memory: 67108864}}
timeline: []
expect: {{}}
"""


@dataclass(frozen=True, slots=True)
class Case:
    """Of the published three: its name there, replicas of a partition, acks"""

    name: str
    title: str
    replicas: int
    acks: int | str


CASES = (
    Case("none", "no replication", 1, 1),
    Case("async", "3 replicas, asynchronous (acks=1)", 3, 1),
    Case("sync", "3 replicas, synchronous (acks=all)", 3, "all"),
)


class _Acks:
    """Listener: counts records acked within the measured time."""

    def __init__(self) -> None:
        self.records = 0

    def wants(self, kind: type[TraceEvent]) -> bool:
        return kind is RecordAcked

    def __call__(self, row: TraceRow) -> None:
        begin_us = (START_MS + WARM_UP_MS) * 1_000
        self.records += begin_us <= row.at_us < begin_us + MEASURED_MS * 1_000


def measure_acks(latency_us: int, progress: Callable[[float], None]) -> dict[str, Any]:
    """Records per second of the three cases, and their ratios beside the published ones.

    latency_us: of every passage between two machines
    """
    rates: dict[str, float] = {}
    for place, case in enumerate(CASES):
        progress(place / len(CASES))
        acks = _Acks()
        scenario = load_text(scenario_of(case, latency_us), "bench").scenario
        run_scenario(scenario, runs_dir=None, watchers=[acks])
        rates[case.name] = acks.records * RECORDS_IN_ONE * 1_000 / MEASURED_MS
    ratios = {"async / none": ("async", "none"), "sync / async": ("sync", "async")}
    return {
        "latency_us": latency_us,
        "cases": [
            {"case": case.name, "title": case.title, "published_records_per_s": PUBLISHED_RECORDS_PER_S[case.name],
             "model_records_per_s": round(rates[case.name])}
            for case in CASES
        ],
        "ratios": [
            _ratio(name, PUBLISHED_RECORDS_PER_S[over] / PUBLISHED_RECORDS_PER_S[under], rates[over] / rates[under])
            for name, (over, under) in ratios.items()
        ],
    }  # fmt: skip


def _ratio(name: str, published: float, model: float) -> dict[str, Any]:
    return {
        "ratio": name,
        "published": round(published, 3),
        "model": round(model, 3),
        "distance": round(model - published, 3),
    }


def scenario_of(case: Case, latency_us: int = LATENCY_US) -> str:
    """Six partitions, two led by each broker."""
    brokers = ("b1", "b2", "b3")
    assigned = {
        partition: [brokers[(partition + place) % len(brokers)] for place in range(case.replicas)]
        for partition in range(6)
    }
    return SCENARIO.format(
        name=case.name,
        duration_ms=START_MS + WARM_UP_MS + MEASURED_MS + 50,
        partitions=", ".join(f"{partition}: [{', '.join(names)}]" for partition, names in assigned.items()),
        latency_us=latency_us,
        bandwidth=ETHERNET_BYTES_PER_S // LINKS_PER_CARD,
        rate=OFFERED_RECORDS_PER_S,
        batch=BATCH_RECORDS,
        size=RECORD_BYTES,
        start_ms=START_MS,
        acks=case.acks,
    )
