"""The nodes that are observed, the clock of the run, and what is seen before it is in the trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from replica.trace.events import TraceEvent

METADATA_LOG = "metadata log"
REGISTRY_LOG = "registry log"
LOG_DIRECTORY = "log directory"
WIRE = "wire"
CONSOLE = "console log"
"""Values of the column `observed_by`."""

SAMPLE_MS = 100
"""High watermarks are sampled so often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """A broker or a controller that is a JVM.

    role: broker, controller or registry
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


Key = tuple[object, ...]


class Seen(NamedTuple):
    """An event and where it was seen.

    wall_ms: when it happened by the clock of the node that says it; None where only the time of the look is known
    key: under which later events name it as their cause     after: the key of the event that led to it
    """

    event: TraceEvent
    observed_by: str
    wall_ms: int | None = None
    key: Key | None = None
    after: Key | None = None


Dated = tuple[int, Iterable[Seen]]
"""When something was written, in milliseconds of the wall clock, and its events."""


def leader_key(topic: str, partition: int, leader_epoch: int) -> Key:
    """Of the decision that began a leader epoch."""
    return ("leader", topic, partition, leader_epoch)
