"""The current state of the cluster according to the trace: leaders, ISRs, logs, brokers, clients.

`ClusterView` is a listener of `replica.trace.TraceLog` and never asks a broker. Selectors, `when` conditions, `check`
steps and expectations read its state. It must be called first, so that other listeners see the state after the event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from replica.causes import DataLossCause
from replica.ids import OFFSETS_TOPIC, TopicPartition, partition_of
from replica.trace import events as trace
from replica.trace.events import TraceEvent, TraceRow
from replica.trace.listening import Handler, Listener, on
from scenarios.language.spec import Scenario

NEVER_US = 1 << 60


@dataclass(slots=True)
class ReplicaView:
    """One replica as its own broker reports it; for a stopped broker, the last known state.

    Attributes:
        role: `leader` or `follower`, None while the broker is down or has no role yet.
        leader_epoch: epoch in which the replica leads or follows, -1 before the first.
        open: True if the broker has reported the log since its last start (LogRecovered, FollowingBegan,
            LeadershipBegan).
    """

    node: str
    role: str | None = None
    leader_epoch: int = -1
    log_start_offset: int = 0
    log_end_offset: int = 0
    high_watermark: int = 0
    open: bool = False


@dataclass(slots=True)
class PartitionView:
    """One partition as the controller sees it, and its replicas as they see themselves.

    Attributes:
        leader: None while the partition is offline.
        assigned_before, assigned_since: the former replicas, and the partition epoch in which they changed.
        elr: eligible leader replicas; without ELR it is empty, or outdated.
        strays: members of the ELR that were unassigned in the meantime, so their logs may be gone.
        configured_min_isr: min.insync.replicas of the topic.
        min_isr: effective min.insync.replicas, at most the number of replicas (Partition.effectiveMinIsr). Before
            KAFKA-15583 it is the configured value.
        min_isr_before, min_isr_changed_us: the former `min_isr`, and when an operator changed it.
    """

    topic_partition: TopicPartition
    assigned: tuple[str, ...] = ()
    assigned_before: tuple[str, ...] = ()
    assigned_since: int = -1
    leader: str | None = None
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[str, ...] = ()
    elr: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()
    configured_min_isr: int = 1
    min_isr: int = 1
    min_isr_before: int = 1
    min_isr_changed_us: int = -NEVER_US
    replicas: dict[str, ReplicaView] = field(default_factory=dict)

    @property
    def acting_leader(self) -> str | None:
        """Return the leader that the controller chose, or None if that broker has lost its role, as after a restart."""
        known = self.replicas.get(self.leader) if self.leader else None
        is_idle = known is not None and known.role is None and known.leader_epoch >= 0
        return None if is_idle else self.leader

    @property
    def eligible(self) -> tuple[str, ...]:
        """Return the members of the ELR that still are replicas and were so all the time."""
        return tuple(node for node in self.elr if node in self.assigned and node not in self.strays)

    def replica(self, node: str) -> ReplicaView:
        known = self.replicas.get(node)
        if known is None:
            known = self.replicas[node] = ReplicaView(node)
        return known


@dataclass(slots=True)
class NodeView:
    """A broker, controller or client process.

    Attributes:
        fenced, broker_epoch: state of a broker according to the controller.
        in_disorder: True if, since the start of its registered incarnation, the broker stopped without a controlled
            shutdown or its disk was replaced.
        came_in_disorder: value of `in_disorder` when the registered incarnation started.
        starts: (trace sequence number, `in_disorder`) of each start, from that of the registered incarnation on.
        unregistered: True if an operator has unregistered the broker, and it has not registered since.
        registered_again: True if its last registration repeats an earlier one, as a delayed copy does.
    """

    name: str
    running: bool = False
    paused: bool = False
    fenced: bool = True
    broker_epoch: int = -1
    in_disorder: bool = False
    came_in_disorder: bool = False
    unregistered: bool = False
    registered_again: bool = False
    starts: list[tuple[int, bool]] = field(default_factory=list)


class ClusterView(Listener):
    """Listener that keeps the state of the cluster according to the trace. It implements `selectors.ClusterSight`.

    Attributes:
        deleted_topics: names of deleted topics, including those that were created again.
        version: number that rises with every event that can change a `when` condition. Conditions are evaluated only
            when it has changed.
    """

    def __init__(
        self,
        brokers: Sequence[str],
        controllers: Sequence[str] = ("c1",),
        clients: Sequence[str] = (),
        racks: Mapping[str, str] | None = None,
        *,
        registration_fences: bool = True,
        bounds_min_isr: bool = True,
    ) -> None:
        self.brokers = tuple(brokers)
        self.controllers = tuple(controllers)
        self.clients = tuple(clients)
        self.racks: Mapping[str, str] = dict(racks or {})
        self.nodes = {name: NodeView(name) for name in (*self.brokers, *self.controllers, *self.clients)}
        self.partitions: dict[TopicPartition, PartitionView] = {}
        self.deleted_topics: dict[str, None] = {}
        self.version = 0
        self._controller: str | None = None
        self._registration_fences = registration_fences  # KRaft: until the broker has caught up
        self._bounds_min_isr = bounds_min_isr  # since KAFKA-15583

    @classmethod
    def of(cls, scenario: Scenario) -> Self:
        cluster = scenario.cluster
        return cls(
            tuple(cluster.brokers),
            cluster.controllers,
            tuple(scenario.workloads),
            cluster.racks,
            registration_fences=scenario.rules.membership == "registration",
            bounds_min_isr=scenario.rules.hw_advance == "min-isr",
        )

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        found = super().handlers_of(kind)
        return (self._changes, *found) if found else ()

    def _changes(self, row: TraceRow, event: TraceEvent) -> None:
        self.version += 1

    # ------------------------------------------------------------------------------------------ what selectors ask

    @property
    def controller(self) -> str:
        """Return the active controller, or the scenario's first controller before the first election."""
        return self._controller or self.controllers[0]

    @property
    def has_controllers(self) -> bool:
        """Return True if controllers are separate processes (KRaft), False if a broker is the controller."""
        return self._registration_fences

    def leader(self, partition: TopicPartition) -> str | None:
        known = self.partitions.get(partition)
        return known.leader if known else None

    def coordinator(self, key: str, topic: str = OFFSETS_TOPIC) -> str | None:
        """Return the coordinator of a group or transactional.id, None if there is none.

        The coordinator is the leader of the partition that stores the state of `key`.

        Args:
            topic: topic that stores the state; for a transactional.id, the topic of transactions.
        """
        partitions = sum(name.topic == topic for name in self.partitions)
        return self.leader(TopicPartition(topic, partition_of(key, partitions))) if partitions else None

    def isr(self, partition: TopicPartition) -> tuple[str, ...]:
        known = self.partitions.get(partition)
        return known.isr if known else ()

    def eligible(self, partition: TopicPartition) -> tuple[str, ...]:
        known = self.partitions.get(partition)
        return known.eligible if known else ()

    def replicas(self, partition: TopicPartition) -> tuple[str, ...]:
        known = self.partitions.get(partition)
        return known.assigned if known else ()

    # -------------------------------------------------------------------------------------------- what others ask

    def replica(self, partition: TopicPartition, node: str) -> ReplicaView | None:
        known = self.partitions.get(partition)
        return known.replicas.get(node) if known else None

    def leading_replica(self, partition: TopicPartition) -> ReplicaView | None:
        """Return the replica of the partition's leader, or None if its broker is down or does not yet lead."""
        known = self.partitions.get(partition)
        if known is None or known.leader is None or not self.running(known.leader):
            return None
        replica = known.replicas.get(known.leader)
        return replica if replica is not None and replica.role == "leader" else None

    def running(self, node: str) -> bool:
        known = self.nodes.get(node)
        return known is not None and known.running

    # ---------------------------------------------------------------------------------------------------- events

    def _node(self, name: str) -> NodeView:
        known = self.nodes.get(name)
        if known is None:
            known = self.nodes[name] = NodeView(name)
        return known

    def _partition(self, topic: str, number: int) -> PartitionView:
        key = (topic, number)
        known = self.partitions.get(key)  # type: ignore[call-overload]  # a NamedTuple is found by its plain tuple
        if known is None:
            named = TopicPartition(topic, number)
            known = self.partitions[named] = PartitionView(named)
        return known  # type: ignore[no-any-return]

    def _replica(self, event: Any) -> ReplicaView:
        """Return the replica of an event, which is added if it is new. Replicas of deleted topics are not added."""
        partition = self.partitions.get((event.topic, event.partition))  # type: ignore[call-overload]  # as above
        if partition is None:
            if event.topic in self.deleted_topics:
                return ReplicaView(event.node)
            partition = self._partition(event.topic, event.partition)
        return partition.replica(event.node)  # type: ignore[no-any-return]

    @on(trace.NodeStarted)
    def _node_started(self, row: TraceRow, event: trace.NodeStarted) -> None:
        node = self._node(event.node)
        node.running, node.paused = True, False
        if event.role == "broker":
            node.starts.append((row.seq, node.in_disorder))

    @on(trace.NodeStopped)
    def _node_stopped(self, row: TraceRow, event: trace.NodeStopped) -> None:
        node = self._node(event.node)
        node.running, node.paused = False, False
        node.in_disorder = node.in_disorder or event.how != "stop"
        for partition in self.partitions.values():
            replica = partition.replicas.get(event.node)
            if replica is not None:
                replica.role, replica.open = None, False

    @on(trace.ControllerActivated)
    def _controller_activated(self, row: TraceRow, event: trace.ControllerActivated) -> None:
        self._controller = event.node

    @on(trace.BrokerRegistered)
    def _broker_registered(self, row: TraceRow, event: trace.BrokerRegistered) -> None:
        node = self._node(event.broker or event.node)
        node.unregistered = False
        node.registered_again = node.broker_epoch == event.broker_epoch
        if node.registered_again:
            return  # The broker stays fenced or unfenced: ClusterControlManager.registerBroker amends the registration.
        node.broker_epoch = event.broker_epoch
        node.fenced |= self._registration_fences
        # The event may come after that incarnation has ended and the next one has started. How the former ended then
        # counts for the next one.
        sent_seq = max(row.causes, default=row.seq)
        earlier = [start for start in node.starts[1:] if start[0] <= sent_seq]
        del node.starts[: len(earlier)]
        node.came_in_disorder = bool(node.starts) and node.starts[0][1]
        node.in_disorder &= len(node.starts) > 1 or not node.running

    @on(trace.BrokerFenced)
    def _broker_fenced(self, row: TraceRow, event: trace.BrokerFenced) -> None:
        if self._is_from_controller(event.node):
            self._node(event.broker or event.node).fenced = True

    @on(trace.BrokerUnfenced)
    def _broker_unfenced(self, row: TraceRow, event: trace.BrokerUnfenced) -> None:
        if self._is_from_controller(event.node):
            self._node(event.broker or event.node).fenced = False

    @on(trace.BrokerUnregistered)
    def _broker_unregistered(self, row: TraceRow, event: trace.BrokerUnregistered) -> None:
        self._node(event.broker or event.node).unregistered = True

    def _is_from_controller(self, node: str) -> bool:
        """Return False for a deposed controller of the ZooKeeper era.

        A controller that was paused completes its event (KafkaController.onBrokerFailure) before it learns that another
        one was elected. Its events about brokers do not count.
        """
        return self._registration_fences or self._controller in (None, node)

    @on(trace.FaultBegan)
    def _fault_began(self, row: TraceRow, event: trace.FaultBegan) -> None:
        if event.verb in ("pause", "resume"):
            for target in event.targets:
                self._node(target).paused = event.verb == "pause"
        elif event.verb == "wipe":
            for target in event.targets:
                self._node(target).in_disorder = True

    @on(trace.FaultEnded)
    def _fault_ended(self, row: TraceRow, event: trace.FaultEnded) -> None:
        if event.verb == "pause":
            for target in event.targets:
                self._node(target).paused = False

    @on(trace.PartitionCreated)
    def _partition_created(self, row: TraceRow, event: trace.PartitionCreated) -> None:
        partition = self._partition(event.topic, event.partition)
        partition.assigned = partition.assigned_before = event.replicas
        partition.leader, partition.isr = event.broker, event.isr
        partition.leader_epoch, partition.partition_epoch = event.leader_epoch, event.partition_epoch
        partition.configured_min_isr = event.min_isr
        self._bound_min_isr(partition)
        for node in event.replicas:
            partition.replica(node)

    @on(trace.LeaderElected)
    def _leader_elected(self, row: TraceRow, event: trace.LeaderElected) -> None:
        partition = self._partition(event.topic, event.partition)
        partition.leader, partition.isr = event.broker, event.isr
        partition.leader_epoch, partition.partition_epoch = event.leader_epoch, event.partition_epoch

    @on(trace.PartitionWentOffline)
    def _went_offline(self, row: TraceRow, event: trace.PartitionWentOffline) -> None:
        partition = self._partition(event.topic, event.partition)
        partition.leader, partition.isr = None, event.isr
        partition.leader_epoch, partition.partition_epoch = event.leader_epoch, event.partition_epoch

    @on(trace.IsrCommitted)
    def _isr_committed(self, row: TraceRow, event: trace.IsrCommitted) -> None:
        partition = self._partition(event.topic, event.partition)
        partition.isr = event.isr
        partition.leader_epoch, partition.partition_epoch = event.leader_epoch, event.partition_epoch

    @on(trace.ElrCommitted)
    def _elr_committed(self, row: TraceRow, event: trace.ElrCommitted) -> None:
        partition = self._partition(event.topic, event.partition)
        partition.elr = event.elr
        partition.strays = tuple(
            node for node in event.elr if node in partition.strays or node not in partition.assigned
        )
        partition.leader_epoch, partition.partition_epoch = event.leader_epoch, event.partition_epoch

    @on(trace.ReassignmentBegan, trace.ReassignmentCompleted, trace.ReassignmentCancelled)
    def _reassigned(
        self, row: TraceRow, event: trace.ReassignmentBegan | trace.ReassignmentCompleted | trace.ReassignmentCancelled
    ) -> None:
        partition = self._partition(event.topic, event.partition)
        if event.partition_epoch != partition.assigned_since:  # A reassignment may begin and end with the same event.
            partition.assigned_before, partition.assigned_since = partition.assigned, event.partition_epoch
        partition.assigned, partition.partition_epoch = event.replicas, event.partition_epoch
        gone = (node for node in partition.elr if node not in event.replicas and node not in partition.strays)
        partition.strays += tuple(gone)
        self._bound_min_isr(partition)
        for node in event.replicas:
            partition.replica(node)

    def _bound_min_isr(self, partition: PartitionView) -> None:
        partition.min_isr = partition.configured_min_isr
        if self._bounds_min_isr:
            partition.min_isr = min(partition.min_isr, len(partition.assigned))

    @on(trace.ReplicaDeleted)
    def _replica_deleted(self, row: TraceRow, event: trace.ReplicaDeleted) -> None:
        """Remove a replica that its broker has deleted, or empty it if it is still assigned."""
        partition = self.partitions.get(TopicPartition(event.topic, event.partition))
        if partition is not None and event.node in partition.assigned:
            partition.replicas[event.node] = ReplicaView(event.node)
        elif partition is not None:
            partition.replicas.pop(event.node, None)

    @on(trace.TopicDeleted)
    def _topic_deleted(self, row: TraceRow, event: trace.TopicDeleted) -> None:
        self.deleted_topics[event.topic] = None
        for name in [name for name in self.partitions if name.topic == event.topic]:
            del self.partitions[name]

    @on(trace.LogStartOffsetAdvanced, trace.RecordsExpired)
    def _log_start_advanced(self, row: TraceRow, event: trace.LogStartOffsetAdvanced | trace.RecordsExpired) -> None:
        self._replica(event).log_start_offset = event.log_start_offset

    @on(trace.ConfigAltered)
    def _config_altered(self, row: TraceRow, event: trace.ConfigAltered) -> None:
        if event.topic is not None and event.min_isr is not None:
            for name, partition in self.partitions.items():
                if name.topic == event.topic and partition.configured_min_isr != event.min_isr:
                    partition.min_isr_before, partition.min_isr_changed_us = partition.min_isr, row.at_us
                    partition.configured_min_isr = event.min_isr
                    self._bound_min_isr(partition)

    @on(trace.LeadershipBegan)
    def _leadership_began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        replica = self._replica(event)
        replica.role, replica.leader_epoch, replica.open = "leader", event.leader_epoch, True
        replica.log_end_offset, replica.high_watermark = event.log_end_offset, event.high_watermark

    @on(trace.FollowingBegan)
    def _following_began(self, row: TraceRow, event: trace.FollowingBegan) -> None:
        replica = self._replica(event)
        replica.role, replica.leader_epoch, replica.open = "follower", event.leader_epoch, True
        replica.log_end_offset, replica.high_watermark = event.log_end_offset, event.high_watermark

    @on(trace.LogTruncated)
    def _log_truncated(self, row: TraceRow, event: trace.LogTruncated) -> None:
        replica = self._replica(event)
        replica.log_end_offset, replica.high_watermark = event.log_end_offset, event.high_watermark

    @on(trace.LogRecovered)
    def _log_recovered(self, row: TraceRow, event: trace.LogRecovered) -> None:
        replica = self._replica(event)
        replica.log_start_offset, replica.open = event.log_start_offset, True
        replica.log_end_offset, replica.high_watermark = event.log_end_offset, event.high_watermark

    @on(trace.DataLost)
    def _data_lost(self, row: TraceRow, event: trace.DataLost) -> None:
        """Shorten a replica to what its disk has left. Its broker reports the log only after its next start."""
        if event.cause is not DataLossCause.DISK_FAILED:
            replica, end = self._replica(event), event.log_end_offset
            replica.log_start_offset = min(replica.log_start_offset, end)
            replica.log_end_offset = min(replica.log_end_offset, end)
            replica.high_watermark = min(replica.high_watermark, end)

    @on(trace.LogDirFailed)
    def _log_dir_failed(self, row: TraceRow, event: trace.LogDirFailed) -> None:
        offline = set(event.replicas_offline)
        for partition, state in self.partitions.items():
            if str(partition) in offline:
                replica = state.replica(event.node)
                replica.role, replica.open = None, False

    @on(trace.BatchAppended)
    def _batch_appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        self._replica(event).log_end_offset = event.log_end_offset

    @on(trace.HighWatermarkAdvanced, trace.HighWatermarkLearned)
    def _high_watermark_moved(
        self, row: TraceRow, event: trace.HighWatermarkAdvanced | trace.HighWatermarkLearned
    ) -> None:
        self._replica(event).high_watermark = event.high_watermark
