"""Measures memory and CPU time of this process and its descendants. Works only on Linux, since it reads /proc."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import NamedTuple, Self

INTERVAL_S = 0.1
_PROC = Path("/proc")


class Usage(NamedTuple):
    """The resources that this process and its descendants have used. All fields are None without /proc.

    Attributes:
        jvm_peak_mb: largest resident memory of a JVM in any sample, in MB.
        python_peak_mb: largest resident memory of all Python processes together in any sample, in MB.
        cpu_s: CPU time of all processes, without that of the sampling thread.
    """

    jvm_peak_mb: int | None
    python_peak_mb: int | None
    cpu_s: float | None


class _Process(NamedTuple):
    parent: int
    name: str
    cpu_ticks: int
    rss_bytes: int


class ProcessWatch:
    """A thread that samples this process and its descendants every INTERVAL_S, so it may miss short peaks."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_until_over, daemon=True)
        self._ticks_before: dict[int, int] = {}
        self._ticks: dict[int, int] = {}
        self._jvm_peak_bytes = self._python_peak_bytes = 0
        self._looking_s = 0.0

    def __enter__(self) -> Self:
        self._ticks_before = {pid: process.cpu_ticks for pid, process in family(os.getpid()).items()}
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def usage(self) -> Usage:
        if not _PROC.is_dir():
            return Usage(None, None, None)
        ticks = sum(ticks - self._ticks_before.get(pid, 0) for pid, ticks in self._ticks.items())
        cpu_s = ticks / os.sysconf("SC_CLK_TCK")
        without_looking_s = max(0.0, cpu_s - self._looking_s)
        return Usage(self._jvm_peak_bytes // 1_000_000, self._python_peak_bytes // 1_000_000, without_looking_s)

    def _look_until_over(self) -> None:
        while not self._over.wait(INTERVAL_S):
            self._look()
        self._looking_s = time.thread_time()

    def _look(self) -> None:
        jvm_bytes = python_bytes = 0
        for pid, process in family(os.getpid()).items():
            self._ticks[pid] = process.cpu_ticks
            if process.name == "java":
                # A child that the JVM has just forked shares its memory, so take the maximum and not the sum.
                jvm_bytes = max(jvm_bytes, process.rss_bytes)
            elif process.name.startswith("python") or pid == os.getpid():
                python_bytes += process.rss_bytes
        self._jvm_peak_bytes = max(self._jvm_peak_bytes, jvm_bytes)
        self._python_peak_bytes = max(self._python_peak_bytes, python_bytes)


def family(root: int) -> dict[int, _Process]:
    """Return a process and all its descendants by process id, {} without /proc."""
    if not _PROC.is_dir():
        return {}
    everyone = {int(path.name): found for path in _PROC.glob("[0-9]*") if (found := _process(path)) is not None}
    members: dict[int, _Process] = {}
    added = [root]
    while added:
        members |= {pid: everyone[pid] for pid in added if pid in everyone}
        added = [pid for pid, process in everyone.items() if process.parent in members and pid not in members]
    return members


def _process(path: Path) -> _Process | None:
    """Read a process from its folder in /proc. Return None if the process has ended. See proc_pid_stat(5)."""
    try:
        before, _, after = (path / "stat").read_text().rpartition(")")
    except OSError:
        return None
    fields = after.split()
    return _Process(
        parent=int(fields[1]),
        name=before.partition("(")[2],
        cpu_ticks=int(fields[11]) + int(fields[12]),
        rss_bytes=int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
    )
