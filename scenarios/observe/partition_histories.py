"""The history of each partition: its replicas, their roles, and its high watermark over time."""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from scenarios.observe.availability import IsGone
from scenarios.observe.view import ClusterView

GONE_DRAWN = 8
"""Number of deleted partitions, and of earlier incarnations of each partition, that a report draws."""


class Levels:
    """A number that changes over time, as pairs (start in microseconds, value) of sixteen bytes each."""

    __slots__ = ("_from_us", "_values")

    def __init__(self) -> None:
        self._from_us = array("q")
        self._values = array("q")

    def append(self, at_us: int, value: int) -> None:
        self._from_us.append(at_us)
        self._values.append(value)

    def cut_before(self, at_us: int) -> None:
        keep = bisect_left(self._from_us, at_us)
        del self._from_us[:keep], self._values[:keep]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._from_us, self._values, strict=True)


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """The states of a partition over time.

    Attributes:
        replicas: all replicas that the partition ever had, in the order of their arrival.
        states: (start in microseconds, one sign per replica, such as `leads` or `gone-in`). A replica that came later
            has no sign in earlier states, and a replica that has left has an empty sign.
        high_watermark: high watermark of the leader over time.
    """

    replicas: list[str]
    states: list[tuple[int, tuple[str, ...]]]
    high_watermark: Levels


class Standing(NamedTuple):
    """The replicas, leader and ISR of a partition from one event until the next.

    `assigned` is None once the partition is deleted. `leads` is False while the leader has no role after a restart.
    """

    seq: int
    at_us: int
    assigned: tuple[str, ...] | None
    leader: str | None
    isr: tuple[str, ...]
    leads: bool = False


class NodeChange(NamedTuple):
    """A change of a node's state by one event: from then on it is running or not, and paused or not."""

    seq: int
    at_us: int
    node: str
    running: bool
    paused: bool


class PartitionHistories(Listener):
    """Listener that stores every change of a partition's or node's state. `until_now` creates histories from these.

    The handling of an event does not search other partitions, because with 10,000 partitions the death of a broker
    causes tens of thousands of events.
    """

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._standings: dict[TopicPartition, list[Standing]] = {}
        self._node_changes: list[NodeChange] = []
        self._node_states: dict[str, tuple[bool, bool]] = {}
        self._high_watermarks: defaultdict[TopicPartition, Levels] = defaultdict(Levels)

    @on(
        trace.PartitionCreated, trace.LeaderElected, trace.PartitionWentOffline, trace.IsrCommitted, trace.ElrCommitted,
        trace.ReassignmentBegan, trace.ReassignmentCompleted, trace.ReassignmentCancelled, trace.LeadershipBegan,
    )  # fmt: skip
    def _changed(self, row: TraceRow, event: Any) -> None:
        name = TopicPartition(event.topic, event.partition)
        partition = self._view.partitions.get(name)
        if partition is not None:
            who = (partition.assigned, partition.leader, partition.isr, partition.acting_leader is not None)
            self._standings.setdefault(name, []).append(Standing(row.seq, row.at_us, *who))

    @on(trace.NodeStarted, trace.NodeStopped, trace.FaultBegan, trace.FaultEnded)
    def _nodes_changed(self, row: TraceRow, event: trace.TraceEvent) -> None:
        for node in self._view.nodes.values():
            state = (node.running, node.paused)
            if self._node_states.get(node.name, (False, False)) != state:
                self._node_states[node.name] = state
                self._node_changes.append(NodeChange(row.seq, row.at_us, node.name, *state))

    @on(trace.TopicDeleted)
    def _topic_deleted(self, row: TraceRow, event: trace.TopicDeleted) -> None:
        for name, standings in self._standings.items():
            if name.topic == event.topic:
                standings.append(Standing(row.seq, row.at_us, None, None, ()))
                if name in self._high_watermarks:
                    self._high_watermarks[name].append(row.at_us, 0)

    @on(trace.HighWatermarkAdvanced)
    def _high_watermark(self, row: TraceRow, event: trace.HighWatermarkAdvanced) -> None:
        name = TopicPartition(event.topic, event.partition)
        if event.role == "leader" and name in self._view.partitions:
            self._high_watermarks[name].append(row.at_us, event.high_watermark)

    def forget(self, is_gone: IsGone) -> None:
        """Drop the state of gone topics (see Forgetful), except the partitions and incarnations that reports draw."""
        gone = [name for name in self._standings if is_gone(name.topic)]
        drawn = set(sorted(gone, key=lambda name: self._standings[name][-1].seq)[-GONE_DRAWN:])
        for name in gone:
            if name not in drawn:
                del self._standings[name]
                self._high_watermarks.pop(name, None)
        for name, standings in self._standings.items():
            ends = [index for index, standing in enumerate(standings) if standing.assigned is None]
            if len(ends) > GONE_DRAWN:
                del standings[: ends[-GONE_DRAWN - 1] + 1]
                if name in self._high_watermarks:
                    self._high_watermarks[name].cut_before(standings[0].at_us)

    def until_now(self) -> dict[TopicPartition, PartitionHistory]:
        return {name: self._history(name, standings) for name, standings in self._standings.items()}

    def _history(self, name: TopicPartition, standings: list[Standing]) -> PartitionHistory:
        replicas: list[str] = []
        states: list[tuple[int, tuple[str, ...]]] = []
        nodes: dict[str, NodeChange] = {}
        now: Standing | None = None
        sources: tuple[Iterable[Standing | NodeChange], ...] = (standings, self._node_changes)
        for change in heapq.merge(*sources, key=attrgetter("seq")):
            if isinstance(change, NodeChange):
                nodes[change.node] = change
                if now is not None and now.leader == change.node and not change.running:
                    now = now._replace(leads=False)
            else:
                now = change
            if now is None:
                continue
            if now.assigned is None:  # The topic is deleted, and may be created again.
                if states and any(states[-1][1]):
                    states.append((change.at_us, ("",) * len(replicas)))
                continue
            replicas.extend(node for node in now.assigned if node not in replicas)
            signs = tuple(_sign(now, node, nodes.get(node)) if node in now.assigned else "" for node in replicas)
            if not states or states[-1][1] != signs:
                states.append((change.at_us, signs))
        return PartitionHistory(replicas, states, self._high_watermarks.get(name, Levels()))


def _sign(standing: Standing, node: str, known: NodeChange | None) -> str:
    inside = node in standing.isr
    if known is None or not known.running:
        return "gone-in" if inside else "gone"
    if known.paused:
        return "frozen-in" if inside else "frozen-out"
    if standing.leader == node and standing.leads:
        return "leads"
    return "in" if inside else "out"


def value_at(changes: Iterable[tuple[int, Any]], at_us: int) -> Any:
    """Return the value at a point in time, or None before the first change."""
    found = None
    for since_us, value in changes:
        if since_us > at_us:
            break
        found = value
    return found
