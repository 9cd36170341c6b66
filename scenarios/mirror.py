"""What every replica's log holds at this instant, batch by batch, rebuilt from the trace.

`LogMirror` is a listener of `replica.trace.TraceLog`. A batch is known by its CRC, which is the same on every replica;
the producers' BatchSent facts tell which records are in it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from replica import trace
from replica.ids import TopicPartition
from replica.trace import TraceRow


class MirroredBatch(NamedTuple):
    """One batch in one log; producer fields are -1 without idempotence."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


class ReplicaLog:
    """One replica's log. Offsets of a log may have gaps only at its start.

    epochs: (leader epoch, base offset of its first batch), oldest first, as the batches say
    doubtful: its disk lost bytes and has not been read since, so its end is not known
    """

    __slots__ = ("bases", "batches", "doubtful", "epochs", "node", "start")

    def __init__(self, node: str) -> None:
        self.node = node
        self.batches: list[MirroredBatch] = []
        self.bases: list[int] = []
        self.epochs: list[tuple[int, int]] = []
        self.start = 0
        self.doubtful = False

    @property
    def end(self) -> int:
        """Log end offset as far as batches tell."""
        return self.batches[-1].last_offset + 1 if self.batches else self.start

    def append(self, batch: MirroredBatch) -> None:
        self.batches.append(batch)
        self.bases.append(batch.base_offset)
        if not self.epochs or self.epochs[-1][0] != batch.leader_epoch:
            self.epochs.append((batch.leader_epoch, batch.base_offset))

    def cut_to(self, end: int) -> list[MirroredBatch]:
        """Drop every batch that reaches `end` or beyond; returns them, oldest first."""
        keep = bisect_left(self.bases, end)
        if keep and self.batches[keep - 1].last_offset >= end:
            keep -= 1
        dropped = self.batches[keep:]
        if dropped:
            del self.batches[keep:]
            del self.bases[keep:]
            while self.epochs and self.epochs[-1][1] >= dropped[0].base_offset:
                self.epochs.pop()
        if end < self.start or not self.batches:
            self.start = end
        return dropped

    def at(self, offset: int) -> MirroredBatch | None:
        """The batch that holds `offset`."""
        place = bisect_right(self.bases, offset) - 1
        if place < 0 or self.batches[place].last_offset < offset:
            return None
        return self.batches[place]

    def between(self, low: int, high: int) -> Iterator[MirroredBatch]:
        """Batches with an offset in [low, high)."""
        place = max(bisect_right(self.bases, low) - 1, 0)
        for batch in self.batches[place:]:
            if batch.base_offset >= high:
                return
            if batch.last_offset >= low:
                yield batch


class LogMirror:
    """Logs by partition and node, and the records of every batch any producer has sent."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, dict[str, ReplicaLog]] = {}
        self.records_of_crc: dict[int, tuple[str, ...]] = {}
        self.dropped: list[MirroredBatch] = []
        """what the latest fact took out of a log"""
        self.handlers: dict[type, Callable[[Any], None]] = {
            trace.BatchSent: self._batch_sent,
            trace.BatchAppended: self._batch_appended,
            trace.LogTruncated: self._end_stated,
            trace.LogRecovered: self._end_stated,
            trace.LeadershipBegan: self._end_stated,
            trace.FollowingBegan: self._end_stated,
            trace.DataLost: self._data_lost,
            trace.ReplicaDeleted: self._replica_deleted,
        }

    def wants(self, kind: type) -> bool:
        return kind in self.handlers

    def __call__(self, row: TraceRow) -> None:
        handler = self.handlers.get(type(row.event))
        if handler is not None:
            handler(row.event)

    def log(self, partition: TopicPartition, node: str) -> ReplicaLog:
        logs = self.logs.get(partition)
        if logs is None:
            logs = self.logs[TopicPartition(*partition)] = {}
        log = logs.get(node)
        if log is None:
            log = logs[node] = ReplicaLog(node)
        return log

    def records(self, partition: TopicPartition, node: str) -> list[tuple[int, str, MirroredBatch]]:
        """(offset, record, batch) of one log, in offset order; a batch nobody sent is named by its offset, `?12`."""
        found = []
        for batch in self.log(partition, node).batches:
            names = self.records_of_crc.get(batch.crc)
            for place, offset in enumerate(range(batch.base_offset, batch.last_offset + 1)):
                found.append((offset, names[place] if names else f"?{offset}", batch))
        return found

    def _batch_sent(self, event: trace.BatchSent) -> None:
        self.records_of_crc[event.crc] = event.records

    def _shared(self, event: trace.BatchAppended, batch: MirroredBatch) -> MirroredBatch:
        """The same batch in another replica's log, if there is one: a long run holds each batch once."""
        for log in self.logs[TopicPartition(event.topic, event.partition)].values():
            place = bisect_left(log.bases, batch.base_offset)
            if place < len(log.bases) and log.batches[place] == batch:
                return log.batches[place]
        return batch

    def _batch_appended(self, event: trace.BatchAppended) -> None:
        log = self.log((event.topic, event.partition), event.node)  # type: ignore[arg-type]  # equal to, hashes as it
        batch = MirroredBatch(
            event.base_offset,
            event.last_offset,
            event.leader_epoch,
            event.crc,
            event.producer_id,
            event.producer_epoch,
            event.base_sequence,
        )
        log.append(self._shared(event, batch))

    def _end_stated(
        self, event: trace.LogTruncated | trace.LogRecovered | trace.LeadershipBegan | trace.FollowingBegan
    ) -> None:
        """A log that says where it ends, after a truncation, a recovery, or on an empty disk that no one announced."""
        log = self.log((event.topic, event.partition), event.node)  # type: ignore[arg-type]
        log.doubtful = False
        self.dropped = (
            log.cut_to(event.log_end_offset) if event.log_end_offset <= log.end else self._restart(log, event)
        )

    def _restart(self, log: ReplicaLog, event: Any) -> list[MirroredBatch]:
        """The log ends beyond all that was appended: it was emptied and started anew there."""
        dropped = log.cut_to(0)
        log.start = event.log_end_offset
        return dropped

    def _replica_deleted(self, event: trace.ReplicaDeleted) -> None:
        log = self.log((event.topic, event.partition), event.node)  # type: ignore[arg-type]
        self.dropped = log.cut_to(0)
        log.start = 0

    def _data_lost(self, event: trace.DataLost) -> None:
        self.log((event.topic, event.partition), event.node).doubtful = True  # type: ignore[arg-type]
