"""Starts the live cluster that `highwater bench` measures, in a separate process."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.live.sockets import LOOPBACK, ports_in_a_row
from scenarios.bench.process_watch import family
from scenarios.process.own_python import environment

BROKERS, PARTITIONS = 3, 3
SIZES = (100, 1024)
"""Sizes of records in bytes. Each size has its own topic."""
FIRST_PORT, LAST_PORT = 20_000, 32_000
"""Range of ports for brokers, below those that the kernel assigns to clients."""
PATIENCE_S = 40
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class ClusterFailed(Exception):
    """Raised if the measured cluster does not start, or does not process all records. The message has the details."""


@dataclass(frozen=True, slots=True)
class MeasuredCluster:
    """A running cluster to measure.

    Attributes:
        pid: process id of the brokers' process, whose descendants count, too; None if it cannot be measured.
        start_s: seconds until readiness from the start of the process, and from the start of the brokers in it.
    """

    name: str
    bootstrap: str
    pid: int | None
    start_s: tuple[float, float] = (0.0, 0.0)

    def cpu_s(self) -> float:
        return 0.0 if self.pid is None else _cpu_of_tree(self.pid)


@contextmanager
def highwater(
    *, in_processes: bool, at_end: Callable[[Path], object] = lambda record: None
) -> Iterator[MeasuredCluster]:
    """Run a Highwater cluster for the duration of the block. Raises ClusterFailed.

    Args:
        in_processes: True for a process per broker.
        at_end: called with the folder of the kept run after the cluster has stopped.
    """
    port = ports_in_a_row(BROKERS, range(FIRST_PORT + os.getpid() % 9000, LAST_PORT, BROKERS))
    if port is None:
        raise ClusterFailed(f"no {BROKERS} free ports in a row on {LOOPBACK} below {LAST_PORT}")
    words = ["--brokers", str(BROKERS), "--port", str(port), "--no-client-records"]
    topics = [word for size_bytes in SIZES for word in ("--topic", f"{topic_of(size_bytes)}:{PARTITIONS}:3")]
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
            env=environment(),
        )
        try:
            yield _ready(process, began, "processes" if in_processes else "tasks", Path(scratch))
        finally:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=PATIENCE_S)
            process.kill()
        at_end(Path(scratch))


@contextmanager
def _quiet(scratch: str) -> Iterator[Any]:
    with (Path(scratch) / "stderr.txt").open("w", encoding="utf-8") as log:
        yield log


def _ready(process: subprocess.Popen[str], began: float, name: str, scratch: Path) -> MeasuredCluster:
    assert process.stdout is not None
    brokers_s = 0.0
    for line in process.stdout:
        up = re.search(r"up in ([\d.]+) s", line)
        brokers_s = float(up[1]) if up else brokers_s
        match = re.search(r"bootstrap.servers=(\S+)", line)
        if match:
            return MeasuredCluster(
                f"highwater, {name}", match[1], process.pid, (time.perf_counter() - began, brokers_s)
            )
    raise ClusterFailed((scratch / "stderr.txt").read_text(encoding="utf-8").strip()[-2000:])


def topic_of(size_bytes: int) -> str:
    return f"bench-{size_bytes}"


# -------------------------------------------------------------------------------------------------------- the system


def _cpu_of_tree(pid: int) -> float:
    """Return the user and system time of a process and all its living descendants, in seconds."""
    return sum(process.cpu_ticks for process in family(pid).values()) * TICK_S
