"""The expectations of a scenario about its run, which the checker evaluates. A field that is None is not checked."""

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
# Conditions on the state of a run, shared by `when`, `check` and `expect`. The checker evaluates them.
#
# A field that is None is not checked. Times are in microseconds of virtual time.


@dataclass(frozen=True, slots=True)
class NumberTest:
    """Inclusive bounds of a number; None means no bound. `11` in a file is (11, 11), `{at_least: 8}` is (8, None)."""

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
    """Inclusive bounds of a moment of virtual time or of a duration, in microseconds; None means no bound."""

    low_us: int | None = None
    high_us: int | None = None

    def holds(self, value_us: int) -> bool:
        return (self.low_us is None or value_us >= self.low_us) and (self.high_us is None or value_us <= self.high_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTest:
    """A condition on the controller's view of a partition, and on the leader's `hw` and `leo`.

    Attributes:
        leader: NO_NODES for `leader: none`.
        isr: compared as a set.
        elr: compared as a set.
        offline: true if the controller knows no leader of the partition.
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
    """A condition on a node's own view of a partition, which may differ from the controller's view."""

    partition: TopicPartition
    hw: NumberTest | None = None
    leo: NumberTest | None = None
    epoch: NumberTest | None = None
    leading: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTest:
    """A condition on a node.

    Attributes:
        running: whether its process is up.
        fenced: whether the controller considers it fenced (brokers only).
    """

    node: Selector
    running: bool | None = None
    fenced: bool | None = None
    replicas: tuple[ReplicaTest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTest:
    """A condition that holds when all its parts hold at the same moment."""

    partitions: tuple[PartitionTest, ...] = ()
    nodes: tuple[NodeTest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsTest:
    """A condition on the set of records of one kind.

    Attributes:
        kind: one of RECORD_KINDS, such as `acked` or `lost`.
        at_least: names of records that the set must contain; None for no condition.
        at_most: names of all records that the set may contain; None for no condition.
        count: bounds of the number of records.
    """

    kind: str
    at_least: tuple[str, ...] | None = None
    at_most: tuple[str, ...] | None = None
    count: NumberTest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTest:
    """A condition on a log: the names of its records in offset order.

    Attributes:
        node: the broker that has the log; None for the leader.
    """

    partition: TopicPartition
    node: str | None
    records: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EndOffsetTest:
    """A ListOffsets request of `client` for the end of `partition`, and the expected answer: an offset or an error.

    Any answer is accepted if both are None.
    """

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
"""The expected value of a column: text or `@name`, boolean, number, a list compared as a set, or None for null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergedTest:
    """An expected divergence: `replicas` hold different records at `offsets` of `partition`."""

    partition: TopicPartition
    offsets: tuple[int, ...]
    replicas: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTest:
    """An event that the trace must contain or, with `never`, must not contain.

    Attributes:
        event: name of the event in the trace.
        where: expected values by column, with canonical names (`topic` and `partition`).
        between: bounds of the time of the event.
        count: bounds of the number of such events; at least one if None.
        line: line in the scenario's file; 0 if unknown.
    """

    event: str
    never: bool = False
    where: Mapping[str, EventValue] = field(default_factory=dict)
    between: TimeTest | None = None
    count: NumberTest | None = None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTest:
    """A condition on the errors that a client received. Each refused attempt counts.

    Attributes:
        error: name of the error; None for any error.
        count: bounds of the number of errors.
        first: bounds of the time of the first error.
        last: bounds of the time of the last error.
    """

    client: str
    error: str | None
    count: NumberTest | None = None
    first: TimeTest | None = None
    last: TimeTest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyTest:
    """Bounds of the time between the send call and the ack, in microseconds.

    Attributes:
        what: one of LATENCY_STATISTICS, or the name of a record.
    """

    client: str
    what: str
    bounds: TimeTest


@dataclass(frozen=True, slots=True)
class UnavailableWindow:
    """A period from the last success before an outage to the first success after it.

    Attributes:
        slack_us: tolerance for each end of the period.
    """

    from_us: int
    to_us: int
    slack_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailableTest:
    """The expected outages of a partition, which must match exactly; empty if there must be none.

    Attributes:
        what: `writes` or `reads`.
    """

    partition: TopicPartition
    what: str
    windows: tuple[UnavailableWindow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """Everything that a scenario expects of its run.

    Attributes:
        verdict: the exact kinds of anomalies, () for `ok`; None only if the file has no `expect`.
        verdict_is_written: False if `expect` has no `verdict`, so that `ok` is assumed.
    """

    verdict: tuple[str, ...] | None = None
    verdict_is_written: bool = field(default=True, compare=False)
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
# The columns that an `events` entry may name for each event of the trace, and short names for some of them.

ALIASES_OF_EVENT = {"isr_changed": "isr_committed"}


@cache
def columns_of(event: str) -> dict[str, str]:
    """Return the columns that a scenario file may name for an event.

    `partition: t-0` stands for topic and partition, `epoch` for leader_epoch, and `to` for the log_end_offset of a
    truncation. `broker` stands for the node if the event has no column `broker`. `fault` events keep their column
    names.

    Returns:
        The column of the trace by the name that a file uses.
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
    """Return the type of a column: int64, string, bool, list<string> or list<int64>."""
    return _kinds(event)[column]


# ------------------------------------------------------------------------------------------------------------ anomalies
#
# The kinds of anomalies that a verdict can name, in the order in which it names them.

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
# Highwater's names of anomalies in a verdict's order, with Jepsen's class of each (jepsen/tests/kafka.clj).

JEPSEN_CLASS: Mapping[str, str | None] = {
    "lost": "lost-write",
    "unseen": "unseen",
    "dirty-read": "G1a",
    "diverged": "inconsistent-offsets",
    "duplicated": "duplicate",
    "reordered": "nonmonotonic-send",
    "offset-regression": "nonmonotonic-poll",
    "poll-skip": "poll-skip",
    "invariant": None,  # A broken rule of the protocol. Jepsen sees only clients.
}
