"""A scenario's expectations of its run: typed, frozen, evaluated by the checker. A field with None is not checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cache

from replica.frozen import dataclass
from replica.ids import TopicPartition
from replica.trace.events import CLASS_OF_EVENT, columns_of_event
from scenarios.language.selectors import Selector

# ----------------------------------------------------------------------------------------------------------- conditions
#
# Conditions on the state of a run, shared by `when`, `check` and `expect`. Data only; the checker evaluates them.
#
# A field that is None is not checked. Times are integer microseconds of virtual time.


@dataclass(frozen=True, slots=True)
class NumberTest:
    """Bounds, both inclusive; None is open. `11` in a file is (11, 11), `{at_least: 8}` is (8, None)."""

    low: int | None = None
    high: int | None = None

    def holds(self, value: int) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        if self.low is not None and self.low == self.high:
            return str(self.low)
        if self.low is not None and self.high is not None:
            return f"{self.low} to {self.high}"
        return f"at least {self.low}" if self.high is None else f"at most {self.high}"


@dataclass(frozen=True, slots=True)
class TimeTest:
    """A window of virtual time, or bounds on a duration; inclusive, microseconds, None is open."""

    low_us: int | None = None
    high_us: int | None = None

    def holds(self, value_us: int) -> bool:
        return (self.low_us is None or value_us >= self.low_us) and (self.high_us is None or value_us <= self.high_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTest:
    """The controller's view of a partition; `hw` and `leo` are those of the leader.

    leader: NO_NODES for `leader: none`       isr, elr: compared as sets
    offline: true when the controller knows no leader for it
    """

    partition: TopicPartition
    leader: Selector | None = None
    epoch: NumberTest | None = None
    isr: Selector | None = None
    elr: Selector | None = None
    hw: NumberTest | None = None
    leo: NumberTest | None = None
    offline: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTest:
    """One node's own view of a partition, which may differ from the controller's."""

    partition: TopicPartition
    hw: NumberTest | None = None
    leo: NumberTest | None = None
    epoch: NumberTest | None = None
    leading: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTest:
    """running: its process is up; fenced: as the controller sees it (brokers only)."""

    node: Selector
    running: bool | None = None
    fenced: bool | None = None
    replicas: tuple[ReplicaTest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTest:
    """Holds when all its parts hold at the same instant."""

    partitions: tuple[PartitionTest, ...] = ()
    nodes: tuple[NodeTest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsTest:
    """A set of records: equal (`at_least` and `at_most` are the same), bounded, or counted.

    kind: acked, failed, unknown, lost, missing, duplicated, reordered or dirty
    """

    kind: str
    at_least: tuple[str, ...] | None = None
    at_most: tuple[str, ...] | None = None
    count: NumberTest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTest:
    """The record names of one log in offset order. `node` None: the leader's log."""

    partition: TopicPartition
    node: str | None
    records: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EndOffsetTest:
    """`client` asks for the end of `partition`; its first answer is an offset or an error. Both None: only ask."""

    client: str
    partition: TopicPartition
    offset: NumberTest | None = None
    error: str | None = None


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


# -------------------------------------------------------------------------------------------------------- event columns
#
# The columns that an `events` entry may name, for each event of the trace, and short words for some of them.

ALIASES_OF_EVENT = {"isr_changed": "isr_committed"}


@cache
def columns_of(event: str) -> dict[str, str]:
    """The word in a file -> the column meant.

    `partition: t-0` stands for topic and partition; `epoch` for leader_epoch; `to` for log_end_offset of a truncation;
    `broker` for the node itself where an event has no column `broker`; `fault` events keep their columns.
    """
    names = [column.name for column in columns_of_event(CLASS_OF_EVENT[event])]
    columns = {name: name for name in names if name not in ("topic", "reason")}
    if "leader_epoch" in names:
        columns["epoch"] = "leader_epoch"
    if event == "log_truncated":
        columns["to"] = "log_end_offset"
    if "broker" not in names and "node" in names:
        columns["broker"] = "node"
    return columns


@cache
def _kinds(event: str) -> dict[str, str]:
    return {column.name: column.type for column in columns_of_event(CLASS_OF_EVENT[event])}


def value_kind(event: str, column: str) -> str:
    """int64, string, bool, list<string> or list<int64>."""
    return _kinds(event)[column]


# ------------------------------------------------------------------------------------------------------------ anomalies
#
# The kinds of anomaly a verdict can name, in the order it names them.

ANOMALIES = (
    "lost",
    "unseen",
    "dirty-read",
    "diverged",
    "duplicated",
    "reordered",
    "offset-regression",
    "poll-skip",
    "invariant",
)


# --------------------------------------------------------------------------------------------------------------- jepsen
#
# Our words for anomalies in a verdict's order, and Jepsen's class beside each (jepsen/tests/kafka.clj).

JEPSEN_CLASS: Mapping[str, str | None] = {
    "lost": "lost-write",
    "unseen": "unseen",
    "dirty-read": "G1a",
    "diverged": "inconsistent-offsets",
    "duplicated": "duplicate",
    "reordered": "nonmonotonic-send",
    "offset-regression": "nonmonotonic-poll",
    "poll-skip": "poll-skip",
    "invariant": None,  # a broken rule of the protocol; Jepsen sees clients only
}
