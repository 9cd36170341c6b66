"""Compute Kafka's own gauges and counters of each broker and controller from the events of a trace.

As in Kafka, a process that is down exports nothing, and no broker's gauge counts a partition without a leader. So an
alert on such a gauge misses what no process reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from replica.ids import TopicPartition, without
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from scenarios.observe.view import ClusterView


@dataclass(slots=True)
class BrokerGauges:
    """Gauges and counters of one broker since its process started (ReplicaManager)."""

    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    isr_shrinks: int = 0
    """Number of ISR shrinks that this broker proposed as leader. Removals by the controller do not count."""
    isr_expands: int = 0


class _Led(NamedTuple):
    """The state of a partition as a leader knows it, which may be outdated."""

    isr: tuple[str, ...]
    under_replicated: bool
    under_min_isr: bool
    at_min_isr: bool


class ClusterGauges(Listener):
    """Listener that keeps the gauges of all brokers and controllers.

    Args:
        view: state of the cluster. It must get each event before this listener.
        is_sampled: True if the events come from `highwater watch`, where an old leader may fail to answer. Its counts
            are then removed when another leader is elected or the partition goes offline.

    Attributes:
        brokers: gauges of the running brokers, by name.
        controllers: True for the active controller, False for every other running process that may be the controller.
        offline: partitions without a leader.
        isr_shrinks, isr_expands, unclean_elections: total numbers since the run began.
    """

    def __init__(self, view: ClusterView, *, is_sampled: bool = False) -> None:
        self.is_sampled = is_sampled
        self.brokers: dict[str, BrokerGauges] = {}
        self.controllers: dict[str, bool] = {}
        self.offline: dict[TopicPartition, None] = {}
        self.isr_shrinks = self.isr_expands = self.unclean_elections = 0
        self._view = view
        self._led: dict[TopicPartition, dict[str, _Led]] = {}
        """State of each partition on every broker that believes it leads it, which may be several brokers."""
        self._adding: dict[TopicPartition, tuple[str, ...]] = {}

    def is_scraped(self, node: str) -> bool:
        """Return True if metrics can be read from a process: it is neither down nor frozen."""
        known = self._view.nodes.get(node)
        return known is None or (known.running and not known.paused)

    def scraped_brokers(self) -> Iterator[tuple[str, BrokerGauges]]:
        return ((name, gauges) for name, gauges in self.brokers.items() if self.is_scraped(name))

    def scraped_controllers(self) -> Iterator[tuple[str, bool]]:
        return ((name, is_active) for name, is_active in self.controllers.items() if self.is_scraped(name))

    # ---------------------------------------------------------------------------------------------------- processes

    @on(trace.NodeStarted)
    def _started(self, row: TraceRow, event: trace.NodeStarted) -> None:
        if event.role == "broker":
            self.brokers[event.node] = BrokerGauges()
        if event.role == ("controller" if self._view.has_controllers else "broker"):
            self.controllers[event.node] = False

    @on(trace.NodeStopped)
    def _stopped(self, row: TraceRow, event: trace.NodeStopped) -> None:
        self.controllers.pop(event.node, None)
        if self.brokers.pop(event.node, None) is not None:
            for leaders in self._led.values():
                leaders.pop(event.node, None)

    @on(trace.ControllerActivated)
    def _activated(self, row: TraceRow, event: trace.ControllerActivated) -> None:
        self.controllers[event.node] = True

    @on(trace.ControllerResigned)
    def _resigned(self, row: TraceRow, event: trace.ControllerResigned) -> None:
        if event.node in self.controllers:
            self.controllers[event.node] = False

    # ------------------------------------------------------------------------------------------------------- leaders

    @on(trace.LeadershipBegan)
    def _leads(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        self._state(TopicPartition(event.topic, event.partition), event.node, event.isr)

    @on(trace.FollowingBegan, trace.ReplicaDeleted)
    def _leads_not(self, row: TraceRow, event: trace.FollowingBegan | trace.ReplicaDeleted) -> None:
        self._state(TopicPartition(event.topic, event.partition), event.node, None)

    @on(trace.IsrCommitted)
    def _isr_committed(self, row: TraceRow, event: trace.IsrCommitted) -> None:
        """Update the leader's ISR.

        # Simplified: the leader knows the new ISR immediately, not only when it gets the response or the metadata. A
        deposed leader that does not know of its successor keeps its own ISR.
        """
        partition = TopicPartition(event.topic, event.partition)
        leader = self._view.leader(partition)
        if leader is None or leader not in self._led.get(partition, {}):
            return
        self._state(partition, leader, event.isr)
        gauges = self.brokers.get(leader)
        if event.proposed_by == leader and gauges is not None:  # Source: AlterPartitionListener.markIsrShrink
            shrinks, expands = without(event.previous_isr, event.isr), without(event.isr, event.previous_isr)
            gauges.isr_shrinks += bool(shrinks)
            gauges.isr_expands += bool(expands)
            self.isr_shrinks += bool(shrinks)
            self.isr_expands += bool(expands)

    @on(trace.PartitionCreated, trace.LeaderElected)
    def _has_leader(self, row: TraceRow, event: trace.PartitionCreated | trace.LeaderElected) -> None:
        partition = TopicPartition(event.topic, event.partition)
        self.offline.pop(partition, None)
        if isinstance(event, trace.LeaderElected):
            self.unclean_elections += not event.clean
            self._forget_former_leaders(partition)
        elif event.broker is None:
            self.offline[partition] = None

    @on(trace.PartitionWentOffline)
    def _went_offline(self, row: TraceRow, event: trace.PartitionWentOffline) -> None:
        partition = TopicPartition(event.topic, event.partition)
        self.offline[partition] = None
        self._forget_former_leaders(partition)

    def _forget_former_leaders(self, partition: TopicPartition) -> None:
        if self.is_sampled:
            for node in list(self._led.get(partition, ())):
                self._state(partition, node, None)

    @on(trace.ReassignmentBegan, trace.ReassignmentCompleted, trace.ReassignmentCancelled)
    def _reassigned(
        self, row: TraceRow, event: trace.ReassignmentBegan | trace.ReassignmentCompleted | trace.ReassignmentCancelled
    ) -> None:
        partition = TopicPartition(event.topic, event.partition)
        self._adding.pop(partition, None)
        if isinstance(event, trace.ReassignmentBegan) and event.adding:
            self._adding[partition] = event.adding
        self._look_again(partition)

    @on(trace.ConfigAltered)
    def _config_altered(self, row: TraceRow, event: trace.ConfigAltered) -> None:
        if event.min_isr is not None:
            for partition in [name for name in self._led if name.topic == event.topic]:
                self._look_again(partition)

    @on(trace.TopicDeleted)
    def _topic_deleted(self, row: TraceRow, event: trace.TopicDeleted) -> None:
        for partition in [name for name in self._led if name.topic == event.topic]:
            for node in list(self._led[partition]):
                self._state(partition, node, None)
            del self._led[partition]
        for partition in [name for name in self.offline if name.topic == event.topic]:
            del self.offline[partition]

    def _look_again(self, partition: TopicPartition) -> None:
        for node, led in list(self._led.get(partition, {}).items()):
            self._state(partition, node, led.isr)

    def _state(self, partition: TopicPartition, node: str, isr: tuple[str, ...] | None) -> None:
        """Update the gauges of a broker for one partition. `isr` is None if the broker does not lead the partition."""
        leaders = self._led.setdefault(partition, {})
        gauges, before = self.brokers.get(node), leaders.pop(node, None)
        if gauges is not None and before is not None:
            _count(gauges, before, -1)
        known = self._view.partitions.get(partition)
        if isr is None or gauges is None or known is None:
            return
        # Replicas that a reassignment adds do not count (KIP-352). Source: OngoingReassignmentState.replicationFactor
        replicas = len(without(known.assigned, self._adding.get(partition, ())))
        min_isr = known.min_isr
        leaders[node] = led = _Led(isr, len(isr) < replicas, len(isr) < min_isr, len(isr) == min_isr)
        _count(gauges, led, 1)


def _count(gauges: BrokerGauges, led: _Led, sign: int) -> None:
    gauges.leaders += sign
    gauges.under_replicated += sign * led.under_replicated
    gauges.under_min_isr += sign * led.under_min_isr
    gauges.at_min_isr += sign * led.at_min_isr


class GroupLags(Listener):
    """Listener that computes the lag of groups as kafka_exporter does: high watermark minus committed offset.

    Attributes:
        committed: committed offset of each group, by partition; for a share group, its start offset plus the number of
            settled records.
    """

    def __init__(self, view: ClusterView) -> None:
        self.committed: dict[TopicPartition, dict[str, int]] = {}
        self._view = view

    def lag(self, partition: TopicPartition, group: str) -> int:
        """Return the lag of a group that has a committed offset; 0 while the partition has no leader."""
        leading = self._view.leading_replica(partition)
        return 0 if leading is None else max(0, leading.high_watermark - self.committed[partition][group])

    @on(trace.OffsetCommitted)
    def _committed(self, row: TraceRow, event: trace.OffsetCommitted) -> None:
        self.committed.setdefault(TopicPartition(event.topic, event.partition), {})[event.group] = event.offset

    @on(trace.SharePartitionLoaded)
    def _share_loaded(self, row: TraceRow, event: trace.SharePartitionLoaded) -> None:
        """Start to count the settled records of a share group, which need not be consecutive. Source: KIP-1226"""
        groups = self.committed.setdefault(TopicPartition(event.topic, event.partition), {})
        groups.setdefault(event.group, event.start_offset)

    @on(trace.ShareRecordsSettled)
    def _share_settled(self, row: TraceRow, event: trace.ShareRecordsSettled) -> None:
        groups = self.committed.get(TopicPartition(event.topic, event.partition), {})
        if event.state != "available" and event.group in groups:
            groups[event.group] += event.last - event.first + 1

    @on(trace.CommittedOffsetRemoved)
    def _offset_removed(self, row: TraceRow, event: trace.CommittedOffsetRemoved) -> None:
        self.committed.get(TopicPartition(event.topic, event.partition), {}).pop(event.group, None)

    @on(trace.GroupRemoved)
    def _group_removed(self, row: TraceRow, event: trace.GroupRemoved) -> None:
        for groups in self.committed.values():
            groups.pop(event.group, None)

    @on(trace.TopicDeleted)
    def _topic_deleted(self, row: TraceRow, event: trace.TopicDeleted) -> None:
        for partition in [name for name in self.committed if name.topic == event.topic]:
            del self.committed[partition]
