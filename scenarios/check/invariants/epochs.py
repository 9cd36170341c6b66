"""Invariant of leader-epoch caches: each says where the epochs of its log begin."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from replica.trace import events as trace
from replica.trace.events import Handler, TraceRow
from scenarios.check.invariants.checker import Invariant, Probe
from scenarios.observe.mirror import ReplicaLog


class EpochCacheMatchesLog(Invariant):
    """S15: a leader-epoch cache rises in epoch and offset, and agrees with the batches of the log. One epoch that has
    begun and has no record yet may stand at the end. Source: LeaderEpochFileCache.

    Of records that were deleted it says nothing. A broker that dies before the checkpoint of log starts comes back with
    them, and its cache may know of them then: recovery reads them again if the cache is empty (LogLoader).

    Weakened: a leader whose disk lost bytes leads on in its epoch from an earlier offset. Records that it fetches later
    belong to older epochs, and Kafka's cache forgets where those began (LeaderEpochFileCache.assign).
    """

    NAME = "S15"

    def handlers(self) -> Mapping[type, Handler]:
        self.lossy: dict[tuple[str, int, str], None] = {}
        self.deleted: dict[tuple[str, int, str], _Deleted] = {}
        return {
            trace.DataLost: self._lost,
            trace.BatchCorrupted: self._lost,
            trace.LogStartOffsetAdvanced: self._log_start_advanced,
            trace.RecordsExpired: self._log_start_advanced,
            trace.LogRecovered: self._recovered,
            trace.LogTruncated: self._end_stated,
            trace.LeadershipBegan: self._end_stated,
            trace.FollowingBegan: self._end_stated,
            trace.ReplicaDeleted: self._replica_deleted,
        }

    def kept(self) -> tuple[dict[Any, Any], ...]:
        return (self.lossy, self.deleted)

    def _log_start_advanced(self, row: TraceRow, event: trace.LogStartOffsetAdvanced | trace.RecordsExpired) -> None:
        key, start = (event.topic, event.partition, event.node), event.log_start_offset
        self.deleted[key] = _Deleted(start, max(start, self.deleted.get(key, _NOTHING).forgotten_below))

    def _recovered(self, row: TraceRow, event: trace.LogRecovered) -> None:
        key = (event.topic, event.partition, event.node)
        if key in self.deleted:
            self.deleted[key] = self.deleted[key]._replace(log_start=event.log_start_offset)
        self._end_stated(row, event)

    def _end_stated(
        self,
        row: TraceRow,
        event: trace.LogRecovered | trace.LogTruncated | trace.LeadershipBegan | trace.FollowingBegan,
    ) -> None:
        """A cache knows of all records that come after a cut, even if it lies below what was deleted."""
        key, end = (event.topic, event.partition, event.node), event.log_end_offset
        known = self.deleted.get(key)
        if known is not None and end < known.forgotten_below:
            self.deleted[key] = _Deleted(min(end, known.log_start), end)

    def _replica_deleted(self, row: TraceRow, event: trace.ReplicaDeleted) -> None:
        self.deleted.pop((event.topic, event.partition, event.node), None)

    def _lost(self, row: TraceRow, event: trace.DataLost | trace.BatchCorrupted) -> None:
        self.lossy[event.topic, event.partition, event.node] = None

    def probed(self, probe: Probe) -> None:
        for node, partition, entries in probe.epoch_caches():
            log = self.mirror.log(partition, node)
            with_records = entries[:-1] if entries and entries[-1][1] >= log.end else entries
            rising = all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(entries))
            log_start, forgotten_below = self.deleted.get((*partition, node), _NOTHING)
            first = with_records[0][1] if with_records else forgotten_below
            begins_at = first if log_start <= first < forgotten_below else forgotten_below
            epochs = _epochs_since(begins_at, log)
            matches = list(with_records) == epochs or (*partition, node) in self.lossy
            if not rising or not matches:
                self.broken(f"{node}'s epoch cache of {partition} is {entries}, its log has {epochs}", *partition)


class _Deleted(NamedTuple):
    """log_start: as the broker states it     forgotten_below: of records below, a cache need not know the epochs"""

    log_start: int
    forgotten_below: int


_NOTHING = _Deleted(0, 0)


def _epochs_since(start: int, log: ReplicaLog) -> list[tuple[int, int]]:
    """The epochs of the records from `start` on, the first of them as if it began there."""
    if start == 0 or not log.epochs:
        return log.epochs
    ends = [*(base for _, base in log.epochs[1:]), log.end]
    return [(epoch, max(base, start)) for (epoch, base), end in zip(log.epochs, ends, strict=True) if end > start]


INVARIANTS: tuple[type[Invariant], ...] = (EpochCacheMatchesLog,)
