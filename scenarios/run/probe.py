"""Reads the state of running nodes that no event reports, such as pending ISRs, fetchers and leader epoch caches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

from cluster.broker.broker import BrokerCore
from cluster.broker.replicas.partition import Partition
from cluster.controller_node.node import ControllerCore
from replica.ids import TopicPartition
from scenarios.check.invariants.checker import (
    EpochCacheSnapshot,
    FetcherSnapshot,
    LeaderSnapshot,
    MetadataLogSnapshot,
    StableOffsetSnapshot,
)
from scenarios.observe.view import ClusterView
from scenarios.run.cluster_under_test import ClusterUnderTest

PARTITIONS_PER_PROBE = 128
"""The most partitions of which one probe reads all. A larger cluster is probed in rounds, to bound the cost."""


class PartitionRounds:
    """Selects the partitions that each probe reads.

    A small cluster is probed as a whole. In a large one, a probe takes the partitions of the events since the last
    probe, and the next PARTITIONS_PER_PROBE others in turn, because a node's state also changes without events.

    Args:
        touched: partitions of the events since the last probe; `take` empties it.
    """

    def __init__(self, view: ClusterView, touched: dict[tuple[str, int], None]) -> None:
        self._view = view
        self._touched = touched
        self._round: list[TopicPartition] = []

    def take(self) -> list[TopicPartition] | None:
        """Return the partitions of the next probe, None for all, and empty `touched`."""
        known = self._view.partitions
        if len(known) <= PARTITIONS_PER_PROBE:
            self._touched.clear()
            return None
        chosen = {TopicPartition(*name): None for name in self._touched}
        self._touched.clear()
        if not self._round:
            self._round = list(known)
        chosen.update(dict.fromkeys(self._round[-PARTITIONS_PER_PROBE:]))
        del self._round[-PARTITIONS_PER_PROBE:]
        return list(chosen)


class CoreProbe:
    """A reader of the nodes in this process, which it does not change. Implements invariants.Probe and CoresNow."""

    def __init__(self, cluster: ClusterUnderTest) -> None:
        self._cluster = cluster
        self._names = cluster.scenario.cluster.names
        self._among: Sequence[TopicPartition] | None = None
        self._brokers: Mapping[str, BrokerCore] = {}
        self._controllers: Mapping[str, ControllerCore] = {}

    def look(self, among: Sequence[TopicPartition] | None = None) -> Self:
        """Select the nodes that run now, from which other methods read until the next call. Return this probe.

        Args:
            among: partitions to read, None for all.
        """
        self._among = among
        self._brokers = self._cluster.brokers()
        self._controllers = self._cluster.controllers()
        return self

    def _partitions(self, broker: BrokerCore) -> Iterator[tuple[TopicPartition, Partition]]:
        known = broker.replicas.partitions
        if self._among is None:
            yield from known.items()
        else:
            yield from ((name, known[name]) for name in self._among if name in known)

    def leader_states(self) -> Sequence[LeaderSnapshot]:
        names = self._names
        return [
            LeaderSnapshot(
                node,
                name,
                partition.leader.leader_epoch,
                partition.leader.partition_epoch,
                tuple(map(names, partition.leader.in_sync_replicas)),
                tuple(map(names, partition.leader.maximal_isr)),
                partition.leader.pending_isr is not None,
            )
            for node, broker in self._brokers.items()
            for name, partition in self._partitions(broker)
            if partition.leader is not None
        ]

    def min_isr(self, node: str, topic_partition: TopicPartition) -> int | None:
        broker = self._cluster.brokers().get(node)
        partition = None if broker is None else broker.replicas.partitions.get(topic_partition)
        if partition is None or partition.leader is None:
            return None
        # This limit comes from the log's configuration and not from the leader's state, which may be wrong.
        configured = partition.log.config.min_insync_replicas
        is_bounded = self._cluster.scenario.rules.hw_advance == "min-isr"
        return min(configured, len(partition.leader.assigned_replicas)) if is_bounded else configured

    def partition_epoch(self, node: str, topic_partition: TopicPartition) -> int | None:
        broker = self._cluster.brokers().get(node)
        partition = None if broker is None else broker.replicas.partitions.get(topic_partition)
        return None if partition is None or partition.leader is None else partition.leader.partition_epoch

    def clocks_apart_us(self) -> int:
        clocks = [machine.clock for machine in self._cluster.machines.values()]
        return max(clock.most_us for clock in clocks) - min(clock.least_us for clock in clocks)

    def fetchers(self) -> Sequence[FetcherSnapshot]:
        return [
            FetcherSnapshot(node, name, self._names(source))
            for node, broker in self._brokers.items()
            for name, source in broker.fetchers.sources(self._among)
        ]

    def epoch_caches(self) -> Sequence[EpochCacheSnapshot]:
        return [
            EpochCacheSnapshot(node, name, tuple(partition.log.leader_epochs.entries))
            for node, broker in self._brokers.items()
            for name, partition in self._partitions(broker)
        ]

    def stable_offsets(self) -> Sequence[StableOffsetSnapshot]:
        return [
            StableOffsetSnapshot(node, name, partition.high_watermark, partition.last_stable_offset)
            for node, broker in self._brokers.items()
            for name, partition in self._partitions(broker)
            if partition.leader is not None
        ]

    def committed_readers(self) -> Sequence[str]:
        workloads = self._cluster.scenario.workloads.values()
        consumers = [workload for workload in workloads if workload.kind == "consumer"]
        return [
            consumer.name for consumer in consumers if consumer.consumer_config().isolation_level == "read_committed"
        ]

    def metadata_offsets(self) -> tuple[int, Mapping[str, int]]:
        if self._cluster.scenario.rules.membership == "zk-session":
            return 0, {}  # There is no metadata log, because brokers learn everything from requests of the controller.
        applied = {node: broker.cache.image.offset + 1 for node, broker in self._brokers.items()}
        ends = [core.log.end_offset for core in self._controllers.values()]
        return max(ends or applied.values(), default=0), applied

    def metadata_logs(self) -> Sequence[MetadataLogSnapshot]:
        return [
            MetadataLogSnapshot(
                node,
                tuple(core.log.log.leader_epochs.entries),
                core.log.end_offset,
                core.quorum.high_watermark,
                core.log.log.log_start_offset,
            )
            for node, core in self._controllers.items()
        ]
