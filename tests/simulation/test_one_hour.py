"""One virtual hour of steady load under rolling faults: nothing is lost, and memory stays flat."""

from __future__ import annotations

import gc
import itertools
import tracemalloc

import pyarrow as pa
import pytest

from scenarios.language.parse.loading import load_text
from scenarios.observe import trace_writer
from scenarios.run.runner import run_scenario

HOUR_S = 3600
QUIET_S = 120
RECORDS_PER_S = 5
BYTES_TO_REMEMBER_A_RECORD = 240
"""Its name, its times and its batch in the checker's columns, and what a fault leaves in the story; measured 196-202.
A column grows by an eighth of its length at a time, so at one moment up to an eighth more is allocated than used."""

HEAD = """\
schema: 1
id: one-hour
title: One hour of steady load with a fault every half minute
seed: 7
duration: {duration}s
cluster:
  controllers: [c1]
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
topics:
  t: {{partitions: {{0: [b1, b2, b3], 1: [b2, b3, b1]}}, config: {{min.insync.replicas: 2}}}}
workloads:
  p1:
    kind: producer
    topic: t
    rate: {rate}/s
    start: 1s
    stop: {stop}s
    config: {{acks: all, delivery.timeout.ms: 600000}}
  r1: {{kind: consumer, topic: t, config: {{auto.offset.reset: earliest}}}}
expect: {{verdict: ok}}
timeline:
"""


def one_hour() -> str:
    faults = itertools.cycle(
        (
            "kill: b1, for: 12s",
            "pause: b2, for: 5s",
            "cut: {between: [b1, b3]}, for: 10s",
            "stop: b3, for: 15s",
            "latency: {between: [b1, b2], add: 100ms}, for: 10s",
            "kill: b2, for: 12s",
            "partition: [[b3], [b1, b2, c1, p1, r1]], for: 14s",
            "restart: c1",
        )
    )
    steps = [f"  - {{at: {at}s, {next(faults)}}}" for at in range(10, HOUR_S - QUIET_S, 30)]
    return HEAD.format(duration=HOUR_S, stop=HOUR_S - QUIET_S, rate=RECORDS_PER_S) + "\n".join(steps) + "\n"


def living_bytes() -> int:
    """Memory of Python's objects and Arrow's columns, without the allocators' reserves, which differ by machine."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0] + int(pa.total_allocated_bytes())


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_an_hour_of_rolling_faults_loses_nothing_and_memory_stays_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_writer, "ROWS_PER_CHUNK", 256)  # what waits to be written would hide what piles up
    scenario = load_text(one_hour(), "one-hour.yaml").scenario
    samples: dict[int, int] = {}

    def progress(now_us: int, until_us: int, events: int) -> None:
        minute = now_us // 60_000_000
        if minute % 10 == 0 and minute not in samples:
            samples[minute] = living_bytes()

    tracemalloc.start()
    try:
        result = run_scenario(scenario, runs_dir=None, progress=progress)
    finally:
        tracemalloc.stop()
    assert result.verdict.kinds == () and result.held
    acked = len(result.summary["records"]["acked"])
    assert acked > 15_000
    # The run must remember all sent records to find the lost ones at its end; nothing else may pile up.
    grown_bytes = samples[50] - samples[10]
    assert grown_bytes < 40 * 60 * RECORDS_PER_S * BYTES_TO_REMEMBER_A_RECORD, samples
