"""Measures the simulation of a small cluster under steady load with all invariants, and the time of whole commands."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario
from scenarios.process.own_python import environment
from scenarios.run.runner import run_scenario

_TEXT = """\
schema: 1
id: bench-steady
title: Steady load on a class cluster, all invariants on
seed: 1
duration: {seconds}s
profile: kafka-3.9
cluster:
  controllers: [c1]
  brokers: {{{brokers}}}
topics:
  t: {{{partitions}, config: {{min.insync.replicas: 2}}}}
workloads:
{producer}  c1r: {{kind: consumer, topic: t, config: {{auto.offset.reset: earliest}}}}
timeline: []
expect: {{verdict: ok}}
"""
_ONE_PARTITION = "partitions: {0: [b1, b2, b3]}"
_MORE = "partitions: {count}, replication_factor: 3"
_PRODUCER = "  p1: {{kind: producer, topic: t, rate: {rate}/s, start: 1s, config: {{acks: all}}}}\n"


def steady(seconds: int, rate: int, *, partitions: int = 1, brokers: int = 3) -> Scenario:
    """Return a scenario with RF 3, a producer with acks=all, and a consumer.

    Args:
        seconds: duration of the run.
        rate: records per second, 0 for no producer.
    """
    text = _TEXT.format(
        seconds=seconds,
        producer=_PRODUCER.format(rate=rate) if rate else "",
        brokers=", ".join(f"b{number}: {{}}" for number in range(1, brokers + 1)),
        partitions=_ONE_PARTITION if partitions == 1 else _MORE.format(count=partitions),
    )
    return load_text(text, "bench").scenario


def measure_steady(seconds: int, rate: int, repeat: int) -> dict[str, Any]:
    """Return the median speed of `repeat` runs. `events` are rows of the trace, `items` are deliveries and timers."""
    scenario, walls_s = steady(seconds, rate), []
    for _ in range(repeat):
        began = time.perf_counter()
        summary = run_scenario(scenario, runs_dir=None).summary
        walls_s.append(time.perf_counter() - began)
    wall_s, events, items = statistics.median(walls_s), summary["events"], summary["steps"]
    return {
        "virtual_s": seconds,
        "events": events,
        "items": items,
        "wall_s": round(wall_s, 3),
        "events_per_s": round(events / wall_s),
        "events_and_items_per_s": round((events + items) / wall_s),
        "virtual_s_per_s": round(seconds / wall_s),
        "events_per_virtual_s": round(events / seconds, 1),
    }


def process_s(arguments: Sequence[str]) -> float:
    """Run `highwater` with these arguments in a new process in an empty folder. Return the seconds that it took."""
    with tempfile.TemporaryDirectory(prefix="highwater-") as scratch:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "scenarios.cli", *arguments],
            cwd=scratch,
            env=environment(),
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - began
