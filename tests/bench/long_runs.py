"""Memory and time of `highwater run` as its records grow a thousandfold: each run is a process of its own.

A producer with acks=all sends batches of 100 records of 100 bytes, 10,000 records a second, to three replicas; a
consumer reads them; every invariant is checked and the trace is written. The run's own expectations say whether all
records were acked, and nothing was lost, repeated or read wrongly.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from replica.wording import spelt_out
from scenarios.language.spec import RUN_RECORDS_MAX
from scenarios.process.own_python import environment
from scenarios.terminal.interruption import ExitCode

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
    """held: whether the run's expectations did     why: the run says what failed, empty if nothing did
    peak_mb: largest resident memory, 10^6 bytes
    """

    records: int
    held: bool
    why: str
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
        said = Path(folder) / "said.txt"
        with said.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "scenarios.cli", "run", str(file), "--no-logs"],
                cwd=folder,
                env=environment(),
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - began
        why = why_it_failed(process.returncode, said.read_text(encoding="utf-8", errors="replace"))
    cpu_s = usage.ru_utime + usage.ru_stime
    return LongRun(count, not why, why, usage.ru_maxrss * 1024 / 1e6, wall_s, cpu_s)


def why_it_failed(exit_code: int, said: str) -> str:
    """Of a run's process; empty if its expectations held. said: on stderr"""
    match exit_code:
        case ExitCode.HELD:
            return ""
        case ExitCode.EXPECTATION_FAILED:
            return "its verdict is not what it must be"
        case ExitCode.OUR_BUG:
            why = "an invariant broke, or the program failed"
        case _ if exit_code < 0:
            name = signal.Signals(-exit_code).name
            memory = ", as where memory is short" if name == "SIGKILL" else ""
            why = f"{name} ended it{memory}"
        case _:
            why = f"it ended with exit code {exit_code}"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"{why}: {spelt_out(lines[-1])}" if lines else why
