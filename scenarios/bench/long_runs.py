"""Memory and time of `highwater run` as its records grow a thousandfold: each run is a process of its own.

A producer with acks=all sends batches of 100 records of 100 bytes, 10,000 records a second, to three replicas; a
consumer reads them; every invariant is checked and the trace is written. The run's own expectations say whether all
records were acked, and nothing was lost, repeated or read wrongly.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from scenarios.language.spec import RUN_RECORDS_MAX
from scenarios.process.own_python import environment

COUNT_MAX = RUN_RECORDS_MAX
RATE, BATCH = 10_000, 100
_START_S, _REST_S = 1, 5

_TEXT = """\
schema: 1
id: bench-long
title: {count} records in batches of {batch}
seed: 1
duration: {duration_ms}ms
profile: kafka-3.9
cluster:
  controllers: [c1]
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
topics:
  t: {{partitions: {{0: [b1, b2, b3]}}, config: {{min.insync.replicas: 2}}}}
workloads:
  p1:
    {{kind: producer, topic: t, rate: {rate}/s, batch: {batch}, start: {start_ms}ms, stop: {stop_ms}ms,
      config: {{acks: all}}}}
  c1r: {{kind: consumer, topic: t, config: {{auto.offset.reset: earliest}}}}
timeline: []
expect: {{verdict: ok, records: {{acked: {{count: {count}}}}}}}
"""


class LongRun(NamedTuple):
    """held: whether the run's expectations did     peak_mb: largest resident memory, 10^6 bytes"""

    records: int
    held: bool
    peak_mb: float
    wall_s: float
    cpu_s: float


def long_run_text(count: int) -> str:
    """count: records, in whole batches"""
    stop_ms = _START_S * 1000 + count * 1000 // RATE
    return _TEXT.format(
        count=count,
        batch=BATCH,
        rate=RATE,
        start_ms=_START_S * 1000,
        stop_ms=stop_ms,
        duration_ms=stop_ms + _REST_S * 1000,
    )


def measure_long_runs(counts: Sequence[int], progress: Callable[[float], None]) -> Iterator[LongRun]:
    for done, count in enumerate(counts):
        progress(sum(counts[:done]) / sum(counts))
        yield _measure(count)


def _measure(count: int) -> LongRun:
    with TemporaryDirectory(prefix="highwater-") as folder:
        file = Path(folder) / "bench-long.yaml"
        file.write_text(long_run_text(count), encoding="utf-8")
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "scenarios.cli", "run", str(file), "--no-logs"],
            cwd=folder,
            env=environment(),
            stdout=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - began
    return LongRun(
        count, process.returncode == 0, usage.ru_maxrss * 1024 / 1e6, wall_s, usage.ru_utime + usage.ru_stime
    )
