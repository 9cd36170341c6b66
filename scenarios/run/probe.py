"""What the checker may see of the running cores beside the trace: leaders' pending ISRs, fetchers, epoch caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scenarios.check.invariants.checker import EpochCacheSnapshot, FetcherSnapshot, LeaderSnapshot, MetadataLogSnapshot
from scenarios.run.simulation import Simulation


class CoreProbe:
    """Implements invariants.Probe over the brokers of a simulation; looks, never touches."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def leader_states(self) -> Sequence[LeaderSnapshot]:
        names = self._simulation.scenario.cluster.names
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
            for node, broker in self._simulation.brokers().items()
            for name, partition in broker.replicas.partitions.items()
            if partition.leader is not None
        ]

    def fetchers(self) -> Sequence[FetcherSnapshot]:
        names = self._simulation.scenario.cluster.names
        return [
            FetcherSnapshot(node, name, names(source))
            for node, broker in self._simulation.brokers().items()
            for name, source in broker.fetchers.sources()
        ]

    def epoch_caches(self) -> Sequence[EpochCacheSnapshot]:
        return [
            EpochCacheSnapshot(node, name, tuple(partition.log.leader_epochs.entries))
            for node, broker in self._simulation.brokers().items()
            for name, partition in broker.replicas.partitions.items()
        ]

    def metadata_offsets(self) -> tuple[int, Mapping[str, int]]:
        if self._simulation.scenario.rules.membership == "zk-session":
            return 0, {}  # There is no metadata log: brokers know what controllers have told them.
        applied = {node: broker.cache.image.offset + 1 for node, broker in self._simulation.brokers().items()}
        ends = [core.log.end.offset for core in self._simulation.controllers().values()]
        return max(ends or applied.values(), default=0), applied

    def metadata_logs(self) -> Sequence[MetadataLogSnapshot]:
        return [
            MetadataLogSnapshot(
                node,
                tuple(core.log.log.leader_epochs.entries),
                core.log.end.offset,
                core.quorum.high_watermark,
                core.log.log.log_start_offset,
            )
            for node, core in self._simulation.controllers().items()
        ]
