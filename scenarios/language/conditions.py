"""Conditions on the state of a run, shared by `when`, `check` and `expect`. Data only; the checker evaluates them.

A field that is None is not checked. Times are integer microseconds of virtual time.
"""

from __future__ import annotations

from dataclasses import dataclass

from replica.ids import TopicPartition
from scenarios.language.selectors import Selector


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
