"""The content of every replica's log at this instant, batch by batch, rebuilt from the trace.

`LogMirror` is a listener of `replica.trace.TraceLog`. The producers' BatchSent events name the records in a batch; in a
log it is found by its base offset and its CRC, which is the same on every replica.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from replica.errors import INDEFINITE, ErrorCode
from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from scenarios.observe.availability import IsGone, drop
from scenarios.observe.columns.batch_columns import BatchColumns, BatchList, MirroredBatch
from scenarios.observe.sent_batches import SentBatches
from scenarios.observe.taken_records import DELETED, EXPIRED, KeyedPlace, TakenRecords


class ReplicaLog(BatchList):
    """One replica's log, with the batches that compaction has taken since. Its offsets may have gaps at its start, and
    where a follower was sent a log that had been compacted.

    epochs: (leader epoch, base offset of its first batch), oldest first, as the batches say
    doubtful: its disk lost bytes and has not been read since, so its end is not known
    exists: its broker has reported it, and not deleted it since
    compacted: offsets of records that compaction took out of it
    first: its log start offset as last stated; batches below it stay here
    marked: all records below it are noted as deleted or expired
    """

    __slots__ = ("compacted", "doubtful", "end", "epochs", "exists", "first", "marked", "node", "start")

    def __init__(self, columns: BatchColumns, node: str) -> None:
        super().__init__(columns)
        self.node = node
        self.epochs: list[tuple[int, int]] = []
        self.start = 0
        self.end = 0
        """log end offset as the batches show it"""
        self.doubtful = False
        self.exists = False
        self.compacted: set[int] = set()
        self.first = self.marked = 0

    @property
    def last_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def append(self, place: int) -> None:
        super().append(place)
        self.exists = True
        self.end = self.columns.last_offset(place) + 1
        leader_epoch = self.columns.leader_epoch(place)
        if not self.epochs or self.epochs[-1][0] != leader_epoch:
            self.epochs.append((leader_epoch, self.columns.bases[place]))

    def cut_to(self, end: int) -> list[MirroredBatch]:
        dropped = super().cut_to(end)
        while dropped and self.epochs and self.epochs[-1][1] >= dropped[0].base_offset:
            self.epochs.pop()
        self.compacted = {offset for offset in self.compacted if offset < end}
        self.first, self.marked = min(self.first, end), min(self.marked, end)
        if end < self.start or not len(self):
            self.start = end
        self.end = self[-1].last_offset + 1 if len(self) else self.start
        return dropped

    def begin_at(self, start: int) -> None:
        """An empty log whose first record will be at `start`."""
        self.start = self.end = self.first = self.marked = start


class LogMirror(Listener):
    """Logs by partition and node, and the records of every batch any producer has sent."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, dict[str, ReplicaLog]] = {}
        self.sent = SentBatches()
        self.dropped: list[MirroredBatch] = []
        """what the latest event took out of a log"""
        self.deleted = TakenRecords(self.sent.compacted)
        self._doomed: dict[tuple[TopicPartition, str], None] = {}
        """logs of topics that were deleted, until their broker has heard of it"""
        self._columns: dict[TopicPartition, BatchColumns] = {}
        self._last_of_keys: dict[str, int] = {}
        """offset of the last record of each key, in the log that is being compacted"""

    def log(self, partition: TopicPartition, node: str) -> ReplicaLog:
        logs = self.logs.get(partition)
        if logs is None:
            logs = self.logs[TopicPartition(*partition)] = {}
        log = logs.get(node)
        if log is None:
            log = logs[node] = ReplicaLog(self.columns(partition), node)
        return log

    def columns(self, partition: TopicPartition) -> BatchColumns:
        """Every batch of a partition, for callers that keep a list of some."""
        known = self._columns.get(partition)
        if known is None:
            known = self._columns[TopicPartition(*partition)] = BatchColumns()
        return known

    def records(self, partition: TopicPartition, node: str) -> list[tuple[int, str, MirroredBatch]]:
        """(offset, record, batch) of one log, in offset order; a batch of unknown sender is named by its offset, `?12`.

        Such a batch counts as one record: how many it claims to hold is not known to be true.
        """
        found = []
        log = self.log(partition, node)
        for batch in log:
            names = self.sent.records(partition, batch.base_offset, batch.crc) or (f"?{batch.base_offset}",)
            found += [
                (offset, name, batch)
                for offset, name in enumerate(names, batch.base_offset)
                if offset >= log.first and offset not in log.compacted
            ]
        return found

    def names_in(self, partition: TopicPartition, node: str, base_offset: int) -> tuple[str, ...]:
        """Of the batch that begins at `base_offset` in a node's log; () if none does, or its sender is unknown."""
        log = self.logs.get(partition, {}).get(node)
        batch = None if log is None else log.at(base_offset)
        if batch is None or batch.base_offset != base_offset:
            return ()
        return self.sent.records(partition, base_offset, batch.crc)

    @property
    def doomed_topics(self) -> set[str]:
        """Deleted ones of which some broker still has logs."""
        return {partition.topic for partition, _ in self._doomed}

    def forget(self, is_gone: IsGone) -> None:
        """As Forgetful. What was done to their records (`deleted`) is of use as long as the records are."""
        drop(is_gone, self.logs, self._columns)
        self.sent.forget(is_gone)
        self.deleted.forget(is_gone)

    def is_doomed(self, partition: TopicPartition, node: str) -> bool:
        """The node has not heard yet that the topic was deleted: its events are about the former topic."""
        return (partition, node) in self._doomed

    @on(trace.BatchSent)
    def _batch_sent(self, row: TraceRow, event: trace.BatchSent) -> None:
        self.sent.add(TopicPartition(event.topic, event.partition), event.crc, event.client, event.records)

    @on(trace.BatchRefused)
    def _batch_refused(self, row: TraceRow, event: trace.BatchRefused) -> None:
        if ErrorCode[event.error] not in INDEFINITE:
            self.sent.refused(TopicPartition(event.topic, event.partition), event.crc, event.records)

    @on(trace.RecordAcked)
    def _record_acked(self, row: TraceRow, event: trace.RecordAcked) -> None:
        self.sent.acked(TopicPartition(event.topic, event.partition), event.record, event.offset)

    def _place(self, partition: TopicPartition, batch: MirroredBatch) -> int:
        """Of the same batch in another replica's log, if there is one: a long run holds each batch once."""
        for log in self.logs[partition].values():
            place = log.place_of(batch) if log.end > batch.base_offset else -1
            if place >= 0:
                return place
        return self.columns(partition).add(batch)

    @on(trace.BatchAppended)
    def _batch_appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        partition: TopicPartition = (event.topic, event.partition)  # type: ignore[assignment]  # equal to, hashes as it
        log, crc = self.log(partition, event.node), event.crc
        if self.sent.compacted.are_any:
            crc = self.sent.compacted.crc_as_appended(partition, event.base_offset, crc)
        batch = MirroredBatch(
            event.base_offset,
            event.last_offset,
            event.leader_epoch,
            crc,
            event.producer_id,
            event.producer_epoch,
            event.base_sequence,
        )
        log.append(self._place(partition, batch))
        if batch.crc != event.crc:
            log.compacted |= self.sent.compacted.gone(partition, event.base_offset, event.crc)
        if event.role == "leader":
            self.sent.appended(partition, batch.base_offset, batch.crc)
        if (partition, event.node) in self._doomed:
            self._delete(partition, (batch,))
        elif self.deleted and event.role == "leader" and not self._is_deposed(partition, event.leader_epoch):
            for name in self.sent.records(partition, batch.base_offset, batch.crc):
                self.deleted.sent_again(partition, name)

    def _is_deposed(self, partition: TopicPartition, leader_epoch: int) -> bool:
        """Whether records of a later epoch are known: what such a leader still appends, it has to cut off again."""
        return any(
            log.epochs and log.epochs[-1][0] > leader_epoch
            for node, log in self.logs[partition].items()
            if log.exists and (partition, node) not in self._doomed
        )

    @on(trace.LogTruncated, trace.LeadershipBegan, trace.FollowingBegan)
    def _end_stated(
        self,
        row: TraceRow,
        event: trace.LogTruncated | trace.LogRecovered | trace.LeadershipBegan | trace.FollowingBegan,
    ) -> None:
        """A log that says where it ends, after a truncation, a recovery, or on an empty disk that no one announced."""
        log = self.log((event.topic, event.partition), event.node)  # type: ignore[arg-type]
        log.doubtful, log.exists = False, True
        self.dropped = (
            log.cut_to(event.log_end_offset) if event.log_end_offset <= log.end else self._restart(log, event)
        )

    @on(trace.LogRecovered)
    def _recovered(self, row: TraceRow, event: trace.LogRecovered) -> None:
        """A broker that died before its next checkpoint comes back with records that were deleted."""
        self._end_stated(row, event)
        self.log(TopicPartition(event.topic, event.partition), event.node).first = event.log_start_offset

    def _restart(self, log: ReplicaLog, event: Any) -> list[MirroredBatch]:
        """The log ends beyond all that was appended: it was emptied and started anew there."""
        dropped = log.cut_to(0)
        log.begin_at(event.log_end_offset)
        return dropped

    @on(trace.ReplicaDeleted)
    def _replica_deleted(self, row: TraceRow, event: trace.ReplicaDeleted) -> None:
        partition = TopicPartition(event.topic, event.partition)
        log = self.log(partition, event.node)
        self.dropped, log.exists = log.cut_to(0), False
        if (partition, event.node) in self._doomed:
            del self._doomed[partition, event.node]

    @on(trace.TopicDeleted)
    def _topic_deleted(self, row: TraceRow, event: trace.TopicDeleted) -> None:
        for partition, logs in self.logs.items():
            if partition.topic == event.topic:
                for node, log in logs.items():
                    if log.exists:
                        self._doomed[partition, node] = None
                    self._delete(partition, log, log.compacted)
        self.deleted.topic_deleted(event.topic)
        self.sent.topic_deleted(event.topic)

    @on(trace.LogStartOffsetAdvanced)
    def _log_start_advanced(self, row: TraceRow, event: trace.LogStartOffsetAdvanced) -> None:
        """The batches stay in the mirror: until its next checkpoint, a broker that dies comes back with them."""
        if event.role == "leader":
            self._begin_at(event, DELETED)
        self.log(TopicPartition(event.topic, event.partition), event.node).first = event.log_start_offset

    @on(trace.RecordsExpired)
    def _records_expired(self, row: TraceRow, event: trace.RecordsExpired) -> None:
        """On whichever replica: it may lead later, and need not have the records then."""
        self._begin_at(event, EXPIRED)

    @on(trace.KeysAppended)
    def _keys_appended(self, row: TraceRow, event: trace.KeysAppended) -> None:
        self.sent.compacted.keys_appended(event)

    @on(trace.LogCompacted)
    def _log_compacted(self, row: TraceRow, event: trace.LogCompacted) -> None:
        """Of each key, the last record that the cleaner has seen: what it takes is compared with these."""
        partition = TopicPartition(event.topic, event.partition)
        last = self._last_of_keys = {}
        for batch in self.log(partition, event.node).between(0, event.offset):
            for offset, record in self.sent.compacted.keyed(partition, batch.base_offset, batch.leader_epoch):
                last[record.key] = offset

    @on(trace.BatchCompacted)
    def _batch_compacted(self, row: TraceRow, event: trace.BatchCompacted) -> None:
        """A record may go if a later one has its key, if it is a tombstone, or if its transaction was aborted."""
        partition = TopicPartition(event.topic, event.partition)
        self.sent.compacted.compacted(event)
        log = self.log(partition, event.node)
        log.compacted.update(event.removed)
        names = self.names_in(partition, event.node, event.base_offset)
        keyed = dict(self.sent.compacted.keyed(partition, event.base_offset, event.leader_epoch))
        for offset in event.removed if names else ():
            record = keyed.get(offset)
            is_old = record is not None and (record.is_tombstone or self._last_of_keys.get(record.key, -1) > offset)
            if is_old or event.aborted:
                place = KeyedPlace(offset, event.leader_epoch, None if event.aborted else record)
                self.deleted.compacted(partition, names[offset - event.base_offset], place)

    def _begin_at(self, event: trace.LogStartOffsetAdvanced | trace.RecordsExpired, why: str) -> None:
        partition, start = TopicPartition(event.topic, event.partition), event.log_start_offset
        log = self.log(partition, event.node)
        self._delete(partition, log.between(log.marked, start), log.compacted, start, why)
        log.first = log.marked = start

    def _delete(
        self,
        partition: TopicPartition,
        batches: Iterable[MirroredBatch],
        gone: Container[int] = (),
        below: int | None = None,
        why: str = DELETED,
    ) -> None:
        """Note that these records are deleted.

        gone: offsets that compaction had taken before; what is lost by then stays lost
        below: only the records at lower offsets
        """
        for batch in batches:
            names = self.sent.records(partition, batch.base_offset, batch.crc)
            count = len(names) if below is None else below - batch.base_offset
            if not gone:
                self.deleted.update(dict.fromkeys(names[:count], why))
            for offset, name in enumerate(names[:count], batch.base_offset) if gone else ():
                if offset not in gone:
                    self.deleted[name] = why
            if self.sent.compacted.has_keys(partition):
                for offset, record in self.sent.compacted.keyed(partition, batch.base_offset, batch.leader_epoch):
                    if offset not in gone and (below is None or offset < below):
                        self.deleted.key_deleted(partition, record.key, offset)

    @on(trace.DataLost)
    def _data_lost(self, row: TraceRow, event: trace.DataLost) -> None:
        partition = TopicPartition(event.topic, event.partition)
        log = self.log(partition, event.node)
        log.doubtful = True
        if event.size_bytes < 0:  # With its disk; what its broker has of a topic of that name later is not the old log.
            log.exists = False
            self._doomed.pop((partition, event.node), None)
