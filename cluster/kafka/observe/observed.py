"""The observed nodes, the clock of the run, and observations that are to be added to the trace."""

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
"""How an event was observed. The values above are those of the trace's column `observed_by`."""

SAMPLE_MS = 100
"""The sampling interval of high watermarks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """A broker or controller that is a JVM.

    Attributes:
        role: broker, controller or registry.
        log_dir: the node's `log.dirs`; the directory may be emptied, but not moved.
        console: file to which all processes of the node append; its lines begin with milliseconds since 1970 (log4j2's
            `%d{UNIX_MILLIS} %p %m (%c{1})`) or with UTC as in `[2026-01-31 12:00:00,000]`.
        address: host and port for clients, which bypass every proxy.
    """

    name: str
    node_id: int
    role: str
    log_dir: Path
    console: Path
    address: tuple[str, int]


class RunTime(Protocol):
    """The clock of the run.

    Attributes:
        now_us: time of the current step.
        epoch_us: wall-clock time at which the run began.
    """

    now_us: int
    epoch_us: int

    def enter(self, cause: int | None = None) -> None:
        """Begin a step at the current time. Its events are caused by the trace event with number `cause`."""


Key = tuple[object, ...]


class Seen(NamedTuple):
    """An event that was observed but is not in the trace yet.

    Attributes:
        observed_by: how it was observed, for instance METADATA_LOG.
        wall_ms: time by the node's clock; None if only the time of the observation is known.
        key: key by which later events refer to this event as their cause.
        after: key of the event that caused this event.
    """

    event: TraceEvent
    observed_by: str
    wall_ms: int | None = None
    key: Key | None = None
    after: Key | None = None


Dated = tuple[int, Iterable[Seen]]
"""A wall-clock time in milliseconds, and the events that the node wrote at this time."""


def leader_key(topic: str, partition: int, leader_epoch: int) -> Key:
    """Return the key of the event that began a leader epoch."""
    return ("leader", topic, partition, leader_epoch)
