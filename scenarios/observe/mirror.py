"""The current content of every replica's log, batch by batch, reconstructed from the trace.

`LogMirror` is a listener of `replica.trace.TraceLog`. Producers' BatchSent events have the record names of each batch.
In a log, a batch is identified by its base offset and its CRC, which is the same on every replica.
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
    """The log of one replica, including batches that compaction has removed.

    Offsets may be missing at its start, or where a follower received a compacted log.

    Attributes:
        epochs: (leader epoch, base offset of its first batch), oldest first.
        doubtful: True if the disk has lost bytes and the broker has not read it since, so the log end is unknown.
        exists: True if the broker has reported the log and has not deleted it since.
        compacted: offsets of records that compaction has removed.
        first: last reported log start offset. Batches below this offset stay in this object.
        marked: offset below which all records are marked as deleted or expired.
    """

    __slots__ = ("compacted", "doubtful", "end", "epochs", "exists", "first", "marked", "node", "start")

    def __init__(self, columns: BatchColumns, node: str) -> None:
        super().__init__(columns)
        self.node = node
        self.epochs: list[tuple[int, int]] = []
        self.start = 0
        self.end = 0
        """Log end offset according to the batches."""
        self.doubtful = False
        self.exists = False
        self.compacted: set[int] = set()
        self.first = self.marked = 0

    @property
    def last_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def append(self, index: int) -> None:
        super().append(index)
        self.exists = True
        self.end = self.columns.last_offset(index) + 1
        leader_epoch = self.columns.leader_epoch(index)
        if not self.epochs or self.epochs[-1][0] != leader_epoch:
            self.epochs.append((leader_epoch, self.columns.bases[index]))

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
        """Set the offset at which an empty log begins."""
        self.start = self.end = self.first = self.marked = start


class LogMirror(Listener):
    """Listener that reconstructs every replica's log from the trace, and keeps the records of all sent batches."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, dict[str, ReplicaLog]] = {}
        self.sent = SentBatches()
        self.dropped: list[MirroredBatch] = []
        """The batches that the latest event has removed from a log."""
        self.deleted = TakenRecords(self.sent.compacted)
        self._doomed: dict[tuple[TopicPartition, str], None] = {}
        """Logs (partition, node) of deleted topics that the node has not deleted yet."""
        self._columns: dict[TopicPartition, BatchColumns] = {}
        self._last_of_keys: dict[str, int] = {}
        """Offset of the last record of each key in the log that is being compacted."""

    def log(self, partition: TopicPartition, node: str) -> ReplicaLog:
        logs = self.logs.get(partition)
        if logs is None:
            logs = self.logs[TopicPartition(*partition)] = {}
        log = logs.get(node)
        if log is None:
            log = logs[node] = ReplicaLog(self.columns(partition), node)
        return log

    def columns(self, partition: TopicPartition) -> BatchColumns:
        """Return the columns with all batches of a partition, for callers that store batch indexes."""
        known = self._columns.get(partition)
        if known is None:
            known = self._columns[TopicPartition(*partition)] = BatchColumns()
        return known

    def records(self, partition: TopicPartition, node: str) -> list[tuple[int, str, MirroredBatch]]:
        """Return (offset, record name, batch) for each record in one log, in order of offsets.

        A batch of an unknown sender counts as one record, because the record count in its header may be wrong. That
        record is named after its offset, such as `?12`. A log that no longer exists has no records.
        """
        found = []
        log = self.log(partition, node)
        for batch in log if log.exists else ():
            names = self.sent.records(partition, batch.base_offset, batch.crc) or (f"?{batch.base_offset}",)
            found += [
                (offset, name, batch)
                for offset, name in enumerate(names, batch.base_offset)
                if offset >= log.first and offset not in log.compacted
            ]
        return found

    def names_in(self, partition: TopicPartition, node: str, base_offset: int) -> tuple[str, ...]:
        """Return the record names of the batch at `base_offset` in a node's log, or () if they are unknown."""
        log = self.logs.get(partition, {}).get(node)
        batch = None if log is None else log.at(base_offset)
        if batch is None or batch.base_offset != base_offset:
            return ()
        return self.sent.records(partition, base_offset, batch.crc)

    @property
    def doomed_topics(self) -> set[str]:
        """Return the deleted topics that still have logs on some broker."""
        return {partition.topic for partition, _ in self._doomed}

    def forget(self, is_gone: IsGone) -> None:
        """Drop the state of topics that are gone (see Forgetful)."""
        drop(is_gone, self.logs, self._columns)
        self.sent.forget(is_gone)
        self.deleted.forget(is_gone)

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
        """Return the column index of a batch, which is added if it is new. Equal batches of replicas share an index."""
        for log in self.logs[partition].values():
            index = log.place_of(batch) if log.end > batch.base_offset else -1
            if index >= 0:
                return index
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
        """Return True if a log has records of a later epoch, so a leader of this epoch will truncate its appends."""
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
        """Apply the log end that a broker reports after a truncation, after a recovery, or for an empty disk."""
        log = self.log((event.topic, event.partition), event.node)  # type: ignore[arg-type]
        log.doubtful, log.exists = False, True
        self.dropped = (
            log.cut_to(event.log_end_offset) if event.log_end_offset <= log.end else self._restart(log, event)
        )

    @on(trace.LogRecovered)
    def _recovered(self, row: TraceRow, event: trace.LogRecovered) -> None:
        """Apply a recovery. Deleted records are back if the broker died before it checkpointed the log start."""
        self._end_stated(row, event)
        self.log(TopicPartition(event.topic, event.partition), event.node).first = event.log_start_offset

    def _restart(self, log: ReplicaLog, event: Any) -> list[MirroredBatch]:
        """Restart a log whose reported end is above all its records: it was emptied and begins at that end."""
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
        """Apply a new log start. Batches stay, since they are back if the broker dies before its next checkpoint."""
        if event.role == "leader":
            self._begin_at(event, DELETED)
        self.log(TopicPartition(event.topic, event.partition), event.node).first = event.log_start_offset

    @on(trace.RecordsExpired)
    def _records_expired(self, row: TraceRow, event: trace.RecordsExpired) -> None:
        """Mark records as expired if they expired on any replica, because that replica may lead later."""
        self._begin_at(event, EXPIRED)

    @on(trace.KeysAppended)
    def _keys_appended(self, row: TraceRow, event: trace.KeysAppended) -> None:
        self.sent.compacted.keys_appended(event)

    @on(trace.LogCompacted)
    def _log_compacted(self, row: TraceRow, event: trace.LogCompacted) -> None:
        """Find the last record of each key in the part of the log that the cleaner has read."""
        partition = TopicPartition(event.topic, event.partition)
        last = self._last_of_keys = {}
        for batch in self.log(partition, event.node).between(0, event.offset):
            for offset, record in self.sent.compacted.keyed(partition, batch.base_offset, batch.leader_epoch):
                last[record.key] = offset

    @on(trace.BatchCompacted)
    def _batch_compacted(self, row: TraceRow, event: trace.BatchCompacted) -> None:
        """Record which records compaction has removed correctly.

        Compaction may remove a record if a later record has the same key, if the record is a tombstone, or if its
        transaction was aborted.
        """
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
                entry = KeyedPlace(offset, event.leader_epoch, None if event.aborted else record)
                self.deleted.compacted(partition, names[offset - event.base_offset], entry)

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
        """Mark records as deleted or expired.

        Args:
            gone: offsets that compaction had removed before. These records keep their fate.
            below: offset below which records are marked, None for all records of the batches.
            why: DELETED or EXPIRED.
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
        if event.size_bytes < 0:  # A later log of this broker for a topic of this name is a new one.
            log.exists = False
            self._doomed.pop((partition, event.node), None)
