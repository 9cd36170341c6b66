"""A scenario's expectations of its run: typed, frozen, evaluated by the checker. A field with None is not checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from replica.ids import TopicPartition
from scenarios.language.conditions import LogTest, NumberTest, RecordsTest, StateTest, TimeTest

RECORD_KINDS = (
    "acked", "failed", "unknown", "lost", "missing", "duplicated", "reordered", "dirty", "deleted", "expired",
    "compacted", "aborted",
)  # fmt: skip
LATENCY_STATISTICS = ("min", "mean", "p50", "p90", "p99", "max")

EventValue = str | bool | NumberTest | tuple[str, ...] | None
"""How a column is compared: text (or `@name`), boolean, number, list of names (as a set); None means null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergedTest:
    """`replicas` hold different records at `offsets` of `partition`."""

    partition: TopicPartition
    offsets: tuple[int, ...]
    replicas: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTest:
    """An event of the trace that must (or, with `never`, must not) be found.

    event: its name in the trace      where: column -> value, names already canonical (`topic` + `partition`)
    between: when it happened                 count: how many such events; without it, at least one
    """

    event: str
    never: bool = False
    where: Mapping[str, EventValue] = field(default_factory=dict)
    between: TimeTest | None = None
    count: NumberTest | None = None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTest:
    """Errors a client was answered with (each refused attempt counts); error None: any error."""

    client: str
    error: str | None
    count: NumberTest | None = None
    first: TimeTest | None = None
    last: TimeTest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyTest:
    """Time from the send call to the ack, microseconds. what: one of LATENCY_STATISTICS, or a record name."""

    client: str
    what: str
    bounds: TimeTest


@dataclass(frozen=True, slots=True)
class UnavailableWindow:
    """From the last success before to the first success after; each end may be off by `slack_us`."""

    from_us: int
    to_us: int
    slack_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailableTest:
    """what: writes or reads. Exactly these windows; none at all when empty."""

    partition: TopicPartition
    what: str
    windows: tuple[UnavailableWindow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """verdict: () is `ok`, else the exact kinds of anomaly; None only when the file has no `expect` at all."""

    verdict: tuple[str, ...] | None = None
    records: tuple[RecordsTest, ...] = ()
    logs: tuple[LogTest, ...] = ()
    diverged: tuple[DivergedTest, ...] | None = None
    state: StateTest | None = None
    events: tuple[EventTest, ...] = ()
    errors: tuple[ErrorTest, ...] = ()
    latency: tuple[LatencyTest, ...] = ()
    unavailable: tuple[UnavailableTest, ...] = ()
