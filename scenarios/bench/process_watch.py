"""Memory and processor time of this process and of those below it, while something runs: Linux only (/proc)."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

INTERVAL_S = 0.1
_PROC = Path("/proc")


class Usage(NamedTuple):
    """jvm_peak_mb, python_peak_mb: largest resident memory seen of the JVM, and of all Python processes, in MB
    cpu_s: processor time that all of them took, without the watch's; all None where there is no /proc
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
    """Looks every INTERVAL_S; a shorter peak, or the last moments of a process, may be missed."""

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
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
                # A child that the JVM is about to start has the JVM's memory, not as much again.
                jvm_bytes = max(jvm_bytes, process.rss_bytes)
            elif process.name.startswith("python") or pid == os.getpid():
                python_bytes += process.rss_bytes
        self._jvm_peak_bytes = max(self._jvm_peak_bytes, jvm_bytes)
        self._python_peak_bytes = max(self._python_peak_bytes, python_bytes)


def family(root: int) -> dict[int, _Process]:
    """A process and all below it, by process id."""
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
    """See proc_pid_stat(5); None if it has ended meanwhile."""
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
