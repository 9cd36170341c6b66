"""Invariants of eligible leader replicas (ELR, KIP-966), and of leader-epoch caches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import on
from scenarios.check.invariants.checker import Invariant, InvariantChecker, Probe
from scenarios.observe.mirror import ReplicaLog
from scenarios.observe.view import PartitionView


class _IsrChange(NamedTuple):
    """The ISR of a partition before and after its latest change, which has `partition_epoch`."""

    partition_epoch: int
    before: tuple[str, ...]
    after: tuple[str, ...]


class ElrBesideIsr(Invariant):
    """S20: the ELR is disjoint from the ISR, and empty once the ISR has min.insync.replicas members.

    * Every member of the ELR was in the ISR or the ELR before.
    * min.insync.replicas is limited to the number of replicas that partition 0 of the topic had before the change.
    * An election from the ELR may leave other members eligible even if the new ISR is large enough.
    * A broker that is no longer a replica stays in the ELR.
    * With ELR switched off, the ELR is empty after any change of the partition.

    A violation is reported only when time has moved on, because one decision causes several events.

    Source: PartitionChangeBuilder.maybePopulateTargetElr, ReplicationControlManager.getTopicEffectiveMinIsr
    """

    NAME = "S20"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.wrong: dict[TopicPartition, list[str]] = {}
        self.isrs: dict[TopicPartition, _IsrChange] = {}

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.isrs,)

    @on(trace.PartitionCreated, trace.LeaderElected, trace.PartitionWentOffline, trace.IsrCommitted)
    def _decided(self, row: TraceRow, event: Any) -> None:
        partition = TopicPartition(event.topic, event.partition)
        state = self.view.partitions[partition]
        known = self.isrs.get(partition, _IsrChange(-1, state.isr, state.isr))
        before = known.before if known.partition_epoch == state.partition_epoch else known.after
        self.isrs[partition] = _IsrChange(state.partition_epoch, before, state.isr)
        self.wrong[partition] = list(self._judge(state, before))
        self.checker.unsettle(row.at_us)

    @on(trace.ElrCommitted)
    def _elr_committed(self, row: TraceRow, event: trace.ElrCommitted) -> None:
        self._decided(row, event)
        partition = TopicPartition(event.topic, event.partition)
        known = (*event.previous_elr, *self.isrs[partition].before)
        for node in event.elr:
            if node not in known:
                self.wrong[partition].append(f"{node} joined the ELR of {partition} without having been in the ISR")

    def _judge(self, state: PartitionView, isr_before: tuple[str, ...]) -> Iterator[str]:
        where, elr = state.topic_partition, ", ".join(state.elr)
        if state.elr and not self.checker.rules.elr:
            yield f"{where} has the ELR {{{elr}}}, but the cluster has no eligible leader replicas"
        for node in state.elr:
            if node in state.isr:
                yield f"{node} is both in the ISR and in the ELR of {where}"
        min_isr = self._min_isr(state)
        is_elected_from_elr = not set(state.isr) & set(isr_before)
        if state.elr and len(state.isr) >= min_isr and not is_elected_from_elr:
            yield f"{where} has the ELR {{{elr}}}, although its ISR has size {len(state.isr)} and min ISR is {min_isr}"

    def _min_isr(self, state: PartitionView) -> int:
        """Return the effective min.insync.replicas that the controller used for the change."""
        first = self.view.partitions.get(TopicPartition(state.topic_partition.topic, 0), state)
        is_changed_now = first is state and state.assigned_since == state.partition_epoch
        return min(state.configured_min_isr, len(state.assigned_before if is_changed_now else first.assigned))

    def settled(self) -> None:
        for partition, sentences in self.wrong.items():
            for sentence in sentences:
                self.broken(sentence, *partition)
        self.wrong.clear()


class LossyIsStruckOut(Invariant):
    """S21: a broker that went down uncleanly, or got a new disk, is in no ISR and no ELR after it has registered.

    By S6 it returns only after it has caught up. A violation is reported only when time has moved on.
    """

    NAME = "S21"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.wrong: list[tuple[TopicPartition, str]] = []

    @on(trace.BrokerRegistered)
    def _registered(self, row: TraceRow, event: trace.BrokerRegistered) -> None:
        node = event.broker
        if node is None or not self.checker.rules.elr:
            return
        known = self.view.nodes[node]
        if known.registered_again or not known.came_in_disorder:
            return
        for partition, state in self.view.partitions.items():
            if node in state.isr or node in state.elr:
                which = "ISR" if node in state.isr else "ELR"
                sentence = f"{node} may have lost records of {partition}, but is in its {which} when it registers"
                self.wrong.append((partition, sentence))
        self.checker.unsettle(row.at_us)

    def settled(self) -> None:
        for partition, sentence in self.wrong:
            self.broken(sentence, *partition)
        self.wrong.clear()


# --------------------------------------------------------------------------------------------------------------- epochs
#
# The invariant of leader-epoch caches, which have the offset at which each epoch of a log begins.


class EpochCacheMatchesLog(Invariant):
    """S15: a leader-epoch cache rises in epoch and offset, and agrees with the batches of the log.

    The last epoch may have no record yet. The epochs of deleted records may be missing or present: a broker that dies
    before it has checkpointed its log start has these records again, and recovery reads their epochs again if the cache
    is empty (LogLoader).

    Weakened: a replica whose disk lost bytes need not agree with its log. Such a leader continues its epoch from an
    earlier offset. Records that it fetches later belong to older epochs, whose start Kafka's cache forgets
    (LeaderEpochFileCache.assign).

    Source: LeaderEpochFileCache
    """

    NAME = "S15"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.lossy: dict[tuple[str, int, str], None] = {}
        self.deleted: dict[tuple[str, int, str], _Deleted] = {}

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.lossy, self.deleted)

    @on(trace.LogStartOffsetAdvanced, trace.RecordsExpired)
    def _log_start_advanced(self, row: TraceRow, event: trace.LogStartOffsetAdvanced | trace.RecordsExpired) -> None:
        key, start = (event.topic, event.partition, event.node), event.log_start_offset
        self.deleted[key] = _Deleted(start, max(start, self.deleted.get(key, _NOTHING).forgotten_below))

    @on(trace.LogRecovered)
    def _recovered(self, row: TraceRow, event: trace.LogRecovered) -> None:
        key = (event.topic, event.partition, event.node)
        if key in self.deleted:
            self.deleted[key] = self.deleted[key]._replace(log_start=event.log_start_offset)
        self._end_stated(row, event)

    @on(trace.LogTruncated, trace.LeadershipBegan, trace.FollowingBegan)
    def _end_stated(
        self,
        row: TraceRow,
        event: trace.LogRecovered | trace.LogTruncated | trace.LeadershipBegan | trace.FollowingBegan,
    ) -> None:
        """Note that after a truncation the cache knows the epochs of later records, even below the former log start."""
        key, end = (event.topic, event.partition, event.node), event.log_end_offset
        known = self.deleted.get(key)
        if known is not None and end < known.forgotten_below:
            self.deleted[key] = _Deleted(min(end, known.log_start), end)

    @on(trace.ReplicaDeleted)
    def _replica_deleted(self, row: TraceRow, event: trace.ReplicaDeleted) -> None:
        self.deleted.pop((event.topic, event.partition, event.node), None)

    @on(trace.DataLost, trace.BatchCorrupted)
    def _lost(self, row: TraceRow, event: trace.DataLost | trace.BatchCorrupted) -> None:
        self.lossy[event.topic, event.partition, event.node] = None

    def probed(self, probe: Probe) -> None:
        for node, partition, entries in probe.epoch_caches():
            log = self.mirror.log(partition, node)
            with_records = entries[:-1] if entries and entries[-1][1] >= log.end else entries
            rising = all(item[0] < two[0] and item[1] < two[1] for item, two in pairwise(entries))
            log_start, forgotten_below = self.deleted.get((*partition, node), _NOTHING)
            first = with_records[0][1] if with_records else forgotten_below
            begins_at = first if log_start <= first < forgotten_below else forgotten_below
            epochs = _epochs_since(begins_at, log)
            matches = list(with_records) == epochs or (*partition, node) in self.lossy
            if not rising or not matches:
                self.broken(f"{node}'s epoch cache of {partition} is {entries}, but its log has {epochs}", *partition)


class _Deleted(NamedTuple):
    """The deleted records at the beginning of a log.

    Attributes:
        log_start: log start offset as the broker reports it.
        forgotten_below: the cache need not know the epochs of records below this offset.
    """

    log_start: int
    forgotten_below: int


_NOTHING = _Deleted(0, 0)


def _epochs_since(start: int, log: ReplicaLog) -> list[tuple[int, int]]:
    """Return the (epoch, start offset) entries from `start` on. An epoch that began before `start` gets `start`."""
    if start == 0 or not log.epochs:
        return log.epochs
    ends = [*(base for _, base in log.epochs[1:]), log.end]
    return [(epoch, max(base, start)) for (epoch, base), end in zip(log.epochs, ends, strict=True) if end > start]


INVARIANTS: tuple[type[Invariant], ...] = (ElrBesideIsr, LossyIsStruckOut, EpochCacheMatchesLog)
