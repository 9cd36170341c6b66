"""One virtual hour of steady load under rolling faults: nothing is lost, and memory stays flat."""

from __future__ import annotations

import gc
import itertools
from pathlib import Path

import pytest

from scenarios.loading import load_text
from scenarios.runner import run_scenario

HOUR_S = 3600
QUIET_S = 120
PAGE_BYTES = 4096
RECORDS_PER_S = 5
BYTES_TO_REMEMBER_A_RECORD = 4500
"""Its name, its times and its batch in the checker, with the room that allocators waste: measured 3300."""

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


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_an_hour_of_rolling_faults_loses_nothing_and_memory_stays_flat() -> None:
    samples: dict[int, int] = {}

    def progress(now_us: int, until_us: int, events: int) -> None:
        minute = now_us // 60_000_000
        if minute % 10 == 0 and minute not in samples:
            samples[minute] = resident_bytes()

    result = run_scenario(load_text(one_hour(), "one-hour.yaml").scenario, runs_dir=None, progress=progress)
    assert result.verdict.kinds == () and result.held
    acked = len(result.summary["records"]["acked"])
    assert acked > 15_000
    # What is sent has to be remembered, or nobody could say at the end what was lost; nothing else may pile up.
    grown_bytes = samples[50] - samples[10]
    assert grown_bytes < 40 * 60 * RECORDS_PER_S * BYTES_TO_REMEMBER_A_RECORD, samples
