"""What a screen tells of a run: its key events with their reasons, and who was in the ISR, leading or down, over
time."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from replica.ids import OFFSETS_TOPIC, TopicPartition
from replica.trace import events as trace
from replica.trace.columns import GroupFact
from replica.trace.events import EVENT_NAMES, TraceRow
from replica.trace.signs import sign_of
from scenarios.observe.view import ClusterView, PartitionView


class StoryLine(NamedTuple):
    """One key event. sign: a name of signs.SIGNS"""

    at_us: int
    sign: str
    text: str


class Levels:
    """A number over time, as pairs (from microsecond, value), sixteen bytes for each."""

    __slots__ = ("_from_us", "_values")

    def __init__(self) -> None:
        self._from_us = array("q")
        self._values = array("q")

    def append(self, at_us: int, value: int) -> None:
        self._from_us.append(at_us)
        self._values.append(value)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._from_us, self._values, strict=True)


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """How a partition stood over time. states: (from microsecond, a sign per replica), when it changed.

    replicas: all it ever had, in the order of their coming; those that came later have no sign in earlier states, and
    one that is gone has an empty one
    high_watermark: (from microsecond, the largest HW any leader had reached)
    """

    replicas: list[str]
    states: list[tuple[int, tuple[str, ...]]]
    high_watermark: Levels


_TOLD_BY_THEIR_NODE = ("kill", "power_off", "stop", "start", "restart")
"""Verbs whose effect is told by NodeStopped and NodeStarted."""

REFUSALS_MAX = 500


def _is_internal(event: trace.TraceEvent) -> bool:
    """Of one of the many partitions of the offsets topic; what it means is told by the groups that are kept there."""
    return getattr(event, "topic", None) == OFFSETS_TOPIC and not isinstance(event, GroupFact)


class Story:
    """Listener, after the view it is given. `lines` in order; `histories` per partition."""

    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self.lines: list[StoryLine] = []
        self.histories: dict[TopicPartition, PartitionHistory] = {}
        self.end_us = 0
        self._refused: dict[tuple[str, str, str], None] = {}
        self._proposals: dict[tuple[str, int], tuple[frozenset[str], str]] = {}
        self._handlers: dict[type, Callable[[TraceRow, Any], None]] = {
            trace.FaultBegan: self._fault_began,
            trace.FaultEnded: self._fault_ended,
            trace.NodeStopped: self._node_stopped,
            trace.NodeStarted: self._node_started,
            trace.QuorumLeaderElected: self._controller_elected,
            trace.ControllerResigned: self._controller_resigned,
            trace.BrokerFenced: self._broker_fenced,
            trace.LeaderElected: self._elected,
            trace.PartitionWentOffline: self._went_offline,
            trace.ElectionRefused: self._election_refused,
            trace.ReassignmentBegan: self._reassigned,
            trace.ReassignmentCompleted: self._reassigned,
            trace.ReassignmentCancelled: self._reassigned,
            trace.ReplicaDeleted: self._replica_deleted,
            trace.TopicDeleted: self._topic_deleted,
            trace.LogStartOffsetAdvanced: self._log_start_advanced,
            trace.IsrProposed: self._isr_proposed,
            trace.IsrCommitted: self._isr_committed,
            trace.ElrCommitted: self._elr_committed,
            trace.IsrRejected: self._isr_rejected,
            trace.LogRecovered: self._recovered,
            trace.LogTruncated: self._truncated,
            trace.DataLost: self._data_lost,
            trace.BatchCorrupted: self._data_lost,
            trace.LogDirFailed: self._data_lost,
            trace.ProduceRefused: self._produce_refused,
            trace.ConnectionClosed: self._connection_closed,
            trace.RequestCrashed: self._connection_closed,
            trace.CheckMade: self._check_made,
            trace.InvariantBroken: self._invariant_broken,
            trace.GroupsLoaded: self._group_fact,
            trace.GroupMemberLeft: self._group_fact,
            trace.GroupRebalanced: self._group_fact,
            trace.PartitionCreated: self._sample,
            trace.HighWatermarkAdvanced: self._high_watermark,
        }

    @classmethod
    def of(cls, view: ClusterView, rows: Iterable[TraceRow]) -> Self:
        """From a finished trace; `view` is fed along."""
        story = cls(view)
        for row in rows:
            view(row)
            story(row)
        return story

    def wants(self, kind: type) -> bool:
        return kind in self._handlers or kind is trace.RunFinished

    def __call__(self, row: TraceRow) -> None:
        handler = self._handlers.get(type(row.event))
        self.end_us = row.at_us
        if handler is not None and not _is_internal(row.event):
            handler(row, row.event)

    # ------------------------------------------------------------------------------------------------------- lines

    def _say(self, row: TraceRow, text: str) -> None:
        sign = sign_of(EVENT_NAMES[type(row.event)], getattr(row.event, "verb", None))
        line = StoryLine(row.at_us, sign, text)
        if line not in self.lines[-8:]:  # the same words at the same moment, of another partition
            self.lines.append(line)

    def _fault_began(self, row: TraceRow, event: trace.FaultBegan) -> None:
        self._sample(row, event)
        if event.verb not in _TOLD_BY_THEIR_NODE:
            self._say(row, event.reason)

    def _fault_ended(self, row: TraceRow, event: trace.FaultEnded) -> None:
        self._sample(row, event)
        if event.verb not in _TOLD_BY_THEIR_NODE:
            self._say(row, event.reason)

    def _node_stopped(self, row: TraceRow, event: trace.NodeStopped) -> None:
        self._sample(row, event)
        self._say(row, event.reason)

    def _node_started(self, row: TraceRow, event: trace.NodeStarted) -> None:
        self._sample(row, event)
        if row.at_us > 0 and event.role in ("broker", "controller"):
            self._say(row, event.reason)

    def _controller_elected(self, row: TraceRow, event: trace.QuorumLeaderElected) -> None:
        if len(self.view.controllers) > 1:
            self._say(row, event.reason)

    def _controller_resigned(self, row: TraceRow, event: trace.ControllerResigned) -> None:
        self._say(row, event.reason)

    def _broker_fenced(self, row: TraceRow, event: trace.BrokerFenced) -> None:
        if self.view.partitions:
            self._say(row, event.reason)

    def _elected(self, row: TraceRow, event: trace.LeaderElected) -> None:
        self._sample(row, event)
        self._say(row, f"{event.reason} (epoch {event.leader_epoch})")

    def _went_offline(self, row: TraceRow, event: trace.PartitionWentOffline) -> None:
        self._sample(row, event)
        self._say(row, event.reason)

    def _election_refused(self, row: TraceRow, event: trace.ElectionRefused) -> None:
        self._say(row, event.reason)

    def _reassigned(self, row: TraceRow, event: Any) -> None:
        self._sample(row, event)
        self._say(row, event.reason)

    def _replica_deleted(self, row: TraceRow, event: trace.ReplicaDeleted) -> None:
        self._sample(row, event)
        if event.topic not in self.view.deleted_topics:
            self._say(row, event.reason)

    def _topic_deleted(self, row: TraceRow, event: trace.TopicDeleted) -> None:
        self._sample(row, event)
        self._say(row, event.reason)

    def _log_start_advanced(self, row: TraceRow, event: trace.LogStartOffsetAdvanced) -> None:
        if event.role == "leader":
            self._say(row, event.reason)

    def _isr_proposed(self, row: TraceRow, event: trace.IsrProposed) -> None:
        self._proposals[event.topic, event.partition] = (frozenset(event.isr), event.reason)

    def _isr_committed(self, row: TraceRow, event: trace.IsrCommitted) -> None:
        """The controller's word; the reason is the leader's, if it is the leader who asked for it."""
        self._sample(row, event)
        isr, reason = self._proposals.pop((event.topic, event.partition), (None, ""))
        why = reason if event.proposed_by is not None and isr == frozenset(event.isr) else event.reason
        self._say(row, f"ISR {{{', '.join(event.isr)}}}: {why}")

    def _elr_committed(self, row: TraceRow, event: trace.ElrCommitted) -> None:
        self._sample(row, event)
        self._say(row, f"ELR {{{', '.join(event.elr)}}}: {event.reason}")

    def _isr_rejected(self, row: TraceRow, event: trace.IsrRejected) -> None:
        self._say(row, f"{event.error}: {event.reason}")

    def _recovered(self, row: TraceRow, event: trace.LogRecovered) -> None:
        if event.size_bytes:
            self._say(row, event.reason)

    def _truncated(self, row: TraceRow, event: trace.LogTruncated) -> None:
        self._say(row, event.reason)

    def _data_lost(self, row: TraceRow, event: trace.DataLost | trace.BatchCorrupted | trace.LogDirFailed) -> None:
        self._say(row, event.reason)

    def _produce_refused(self, row: TraceRow, event: trace.ProduceRefused) -> None:
        """The first refusal of its kind; the others are counted elsewhere."""
        kind = (event.node, f"{event.topic}-{event.partition}", event.error)
        self._say_once(row, kind, f"{event.error}: {event.reason}")

    def _connection_closed(self, row: TraceRow, event: trace.ConnectionClosed | trace.RequestCrashed) -> None:
        why = re.sub(r"\d+", "#", event.reason.rpartition(f"{event.peer}: ")[2])
        self._say_once(row, (event.node, "", why), event.reason)

    def _say_once(self, row: TraceRow, kind: tuple[str, str, str], text: str) -> None:
        """Clients make such events, as many as they like: the first of a kind is told, and only so many kinds."""
        if kind not in self._refused and len(self._refused) < REFUSALS_MAX:
            self._refused[kind] = None
            self._say(row, text)

    def _check_made(self, row: TraceRow, event: trace.CheckMade) -> None:
        if not event.held:
            self._say(row, event.reason)

    def _invariant_broken(self, row: TraceRow, event: trace.InvariantBroken) -> None:
        self._say(row, f"invariant {event.invariant} is broken: {event.reason}")

    def _group_fact(self, row: TraceRow, event: Any) -> None:
        self._say(row, event.reason)

    # ---------------------------------------------------------------------------------------------------- histories

    def _history(self, partition: PartitionView) -> PartitionHistory:
        known = self.histories.get(partition.topic_partition)
        if known is None:
            known = PartitionHistory(list(partition.assigned), [], Levels())
            self.histories[partition.topic_partition] = known
        return known

    def _sample(self, row: TraceRow, event: object) -> None:
        for partition in self.view.partitions.values():
            if partition.topic_partition.topic == OFFSETS_TOPIC:
                continue
            history = self._history(partition)
            states = history.states
            history.replicas.extend(node for node in partition.assigned if node not in history.replicas)
            now = tuple(self._sign(partition, node) if node in partition.assigned else "" for node in history.replicas)
            if not states or states[-1][1] != now:
                states.append((row.at_us, now))

    def _sign(self, partition: PartitionView, node: str) -> str:
        if not self.view.running(node):
            return "gone"
        inside = node in partition.isr
        if self.view.nodes[node].paused:
            return "frozen-in" if inside else "frozen-out"
        if partition.leader == node:
            return "leads"
        return "in" if inside else "out"

    def _high_watermark(self, row: TraceRow, event: trace.HighWatermarkAdvanced) -> None:
        partition = self.view.partitions.get(TopicPartition(event.topic, event.partition))
        if partition is not None and event.role == "leader":
            self._history(partition).high_watermark.append(row.at_us, event.high_watermark)


def value_at(changes: Iterable[tuple[int, Any]], at_us: int) -> Any:
    """The value in force at a moment, None before the first change."""
    found = None
    for since_us, value in changes:
        if since_us > at_us:
            break
        found = value
    return found
