"""The nodes that are observed, and the clock of the run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """A broker or a controller that is a JVM.

    role: broker or controller
    log_dir: its `log.dirs`; it may be emptied, never moved
    console: the file that its process appends to, life after life; its lines begin with milliseconds since 1970
        (log4j2's `%d{UNIX_MILLIS} %p %m (%c{1})`) or with UTC as in `[2026-01-31 12:00:00,000]`
    address: host and port where it answers clients, past every proxy
    """

    name: str
    node_id: int
    role: str
    log_dir: Path
    console: Path
    address: tuple[str, int]


class RunTime(Protocol):
    """now_us: when the step in progress takes place     epoch_us: the wall clock when the run began"""

    now_us: int
    epoch_us: int

    def enter(self, cause: int | None = None) -> None:
        """A step begins."""
