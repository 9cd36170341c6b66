"""The log of one partition: segments end to end, and what is known about them.

Appends go to the last segment; a reader gets a byte range of one segment file, never the bytes. Data between
`recovery_point` and `log_end_offset` is in the page cache only.

Source: Kafka UnifiedLog, LocalLog. Loading and recovery: log_loader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from replica.causes import RetentionCause
from replica.config import TopicConfig
from replica.errors import ErrorCode, KafkaError
from replica.frozen import dataclass
from replica.ids import LeaderEpoch, Offset, TopicPartition
from replica.log.batches.control_records import marker_in, read_end_transaction_marker
from replica.log.batches.records import (
    CONTROL,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Bytes,
    Record,
    as_sent,
    read_records,
    read_timestamps,
    stamp,
    stamp_append_time,
)
from replica.log.batches.validation import Inspected, check_order, validate_produced, whole_batches
from replica.log.files.checkpoints import sync_directory
from replica.log.files.disk import Disk, DiskFailed
from replica.log.files.open_files import EMPTY_SLICE, FileSlice
from replica.log.loader import LoadedLog, LogLoader, Recovery, rebuild_producers
from replica.log.producers.producer_state import PRODUCER_ID_EXPIRATION_MS
from replica.log.producers.transaction_index import NOT_ASKED_FOR, AbortedTransaction, CompletedTransaction
from replica.log.segment import CLEANED_SUFFIX, Segment
from replica.log.segments import UNLIMITED, LogSegments, RetiredSegments, below_start, too_large, too_old

__all__ = ["AppendInfo", "Log", "Recovery"]


@dataclass(frozen=True, slots=True)
class AppendInfo:
    """The result of an append; of a duplicate, where the original lies. Offsets are inclusive.

    batches: headers as stamped, but for the CRC, which is that of the batch as it was sent
    log_append_time_ms: of the leader's clock, if that is the records' time; of a duplicate, the original's time
    roll_reason: why a new segment was begun (and all before it flushed); None when none was
    """

    first_offset: Offset
    last_offset: Offset
    duplicate: bool
    batches: tuple[BatchHeader, ...]
    size_bytes: int
    log_end_offset: Offset
    roll_reason: str | None = None
    log_append_time_ms: int = NO_TIMESTAMP


def _as_sent(data: Bytes, headers: Sequence[BatchHeader]) -> Iterator[BatchHeader]:
    """Headers of the batches in `data`, with the CRC that each was sent with."""
    position = 0
    for header in headers:
        yield as_sent(memoryview(data)[position : position + header.size_bytes], header)
        position += header.size_bytes


class Log:
    """Batches of one partition in offset order, from `log_start_offset` up to `log_end_offset` (exclusive).

    recovery_point: every byte below it is on disk
    leader_epochs, producers: derived from the batches, kept with the log
    """

    def __init__(
        self,
        directory: Path,
        topic_partition: TopicPartition,
        config: TopicConfig,
        disk: Disk,
        loaded: LoadedLog,
        now_us: int,
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.config = config
        self.disk = disk
        self.log_start_offset: Offset = loaded.log_start_offset
        self.log_end_offset: Offset = loaded.segments.active.next_offset
        self.recovery_point: Offset = loaded.recovery_point
        self.leader_epochs = loaded.leader_epochs
        self.producers = loaded.producers
        self._segments = loaded.segments
        self._new_files = False
        self._now_us = now_us
        self._flushed_at_us = now_us

    @classmethod
    def open(
        cls,
        directory: Path,
        topic_partition: TopicPartition,
        config: TopicConfig,
        disk: Disk,
        *,
        clean: bool,
        recovery_point: Offset = 0,
        log_start_offset: Offset = 0,
        now_us: int = 0,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> tuple[Log, Recovery]:
        """Open the partition's directory, creating it when there is none.

        clean: the broker stopped in order, so nothing is checked; else all segments from `recovery_point` on are
        """
        directory.mkdir(parents=True, exist_ok=True)
        loader = LogLoader(directory, config, disk, now_us, producer_id_expiration_ms)
        loaded = loader.load(clean=clean, recovery_point=recovery_point, log_start_offset=log_start_offset)
        return cls(directory, topic_partition, config, disk, loaded, now_us), loaded.recovery

    @property
    def latest_epoch(self) -> LeaderEpoch | None:
        """The newest leader epoch this log knows, from a batch or from becoming leader."""
        return self.leader_epochs.latest_epoch

    @property
    def segments(self) -> LogSegments:
        """To look at, not to change."""
        return self._segments

    @property
    def first_segment_base(self) -> Offset:
        return self._segments.bases[0]

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """(largest known epoch <= `epoch`, where it ends); (-1, -1) when that is undefined."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # ------------------------------------------------------------------------------------------------------ append

    def append_as_leader(
        self,
        batch: bytearray | memoryview,
        leader_epoch: LeaderEpoch,
        now_us: int,
        inspected: Inspected | None = None,
        *,
        from_client: bool = True,
        guard: int = NOT_ASKED_FOR,
    ) -> AppendInfo:
        """Check a batch, give it the next offsets and the epoch (written into `batch`), and append it.

        A batch that its producer sent before is not appended; the answer names the offsets of the original.
        inspected: its contents, if already known     from_client: else a coordinator's, or a marker
        guard: of the question to the coordinator whether its transaction is open (VerificationStates)
        raises: KafkaError CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP,
                OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, KAFKA_STORAGE_ERROR, INVALID_TXN_STATE,
                TRANSACTION_COORDINATOR_FENCED; nothing was appended then
        """
        received = validate_produced(batch, self.config, now_us, inspected, from_client=from_client)
        header = received.as_written(self.log_end_offset, leader_epoch)
        if header.has_producer_id:
            original = self.producers.find_duplicate(header) if from_client else None
            if original is not None:
                return AppendInfo(
                    original.first_offset,
                    original.last_offset,
                    True,
                    (),
                    0,
                    self.log_end_offset,
                    log_append_time_ms=original.timestamp_ms,
                )
            if header.attributes & CONTROL:
                marker = read_end_transaction_marker(batch)
                if marker is not None:
                    self.producers.validate_marker(header, marker)
            else:
                if header.attributes & TRANSACTIONAL and guard != NOT_ASKED_FOR:
                    self.producers.check_verified(header, guard)
                self.producers.validate(header, from_client=from_client)
        latest = self.leader_epochs.latest_epoch
        assert latest is None or latest <= leader_epoch, "a leader never appends in an older epoch"
        if self.config.is_stamped_by_the_leader:
            header = stamp_append_time(batch, header, now_us // 1000)
        stamp(batch, 0, header.base_offset, leader_epoch)
        info = self._append(batch, (header,), header.size_bytes, now_us)
        return replace(info, log_append_time_ms=header.max_timestamp) if header.attributes & LOG_APPEND_TIME else info

    def append_as_follower(
        self, data: Bytes, now_us: int, max_leader_epoch: LeaderEpoch | None = None
    ) -> AppendInfo | None:
        """Append a leader's batches untouched; a partial batch at the end is left out.

        max_leader_epoch: the epoch in which this was fetched. Batches of a newer one, and all after them, are dropped:
            sendfile read the leader's file later than the leader answered, and the log may have changed between
            (KAFKA-18723). None: no such test.
        returns: None when nothing is left to append
        raises:  KafkaError CORRUPT_MESSAGE, UNKNOWN_SERVER_ERROR (offsets out of order), KAFKA_STORAGE_ERROR;
                 nothing was appended then
        """
        headers, size_bytes = whole_batches(data, max_leader_epoch)
        if not headers:
            return None
        first = headers[0]
        empty = self.log_start_offset == self.log_end_offset
        if empty and first.base_offset < self.log_end_offset <= first.last_offset:
            # Nothing to lose, and the leader's first batch straddles the start of its log
            # (Partition.appendRecordsToFollowerOrFutureReplica).
            self.truncate_fully_and_start_at(first.base_offset)
        check_order(headers, self.log_end_offset)
        whole = data if size_bytes == len(data) else memoryview(data)[:size_bytes]
        return self._append(whole, tuple(headers), size_bytes, now_us)

    def _append(self, data: Bytes, headers: tuple[BatchHeader, ...], size_bytes: int, now_us: int) -> AppendInfo:
        if self.disk.broken or self.disk.full:
            self._check_disk(self.disk.check_writable)
        self._now_us = now_us
        first, last_offset = headers[0], headers[-1].last_offset
        segment = self._segments.active
        attributes = 0
        try:
            for header in headers:
                attributes |= header.attributes
                if header.leader_epoch != self.leader_epochs.latest_epoch:
                    self.leader_epochs.assign(header.leader_epoch, header.base_offset)
            reason = segment.should_roll(first, last_offset, size_bytes, self.config, now_us)
            if reason is not None:
                segment = self._roll(first.base_offset)
            segment.append(data, headers, self.config.index_interval_bytes)
            self.log_end_offset = segment.next_offset
            producers = self.producers
            for header in headers:
                if header.has_producer_id:
                    marker = marker_in(header, data, headers) if header.attributes & CONTROL else None
                    completed = producers.update(header, marker)
                    if completed is not None:
                        self._complete(completed, segment)
            producers.map_end_offset = self.log_end_offset
            if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
                self.flush()
        except OSError as error:
            if not self.disk.sync:
                raise  # A simulated disk does not fail by itself: the machine that simulates it did. The run is void.
            # Kafka takes the whole log directory offline then; here the broker decides, not the log.
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: {error.strerror}") from error
        if attributes & LOG_APPEND_TIME:
            headers = tuple(_as_sent(data, headers))
        return AppendInfo(first.base_offset, last_offset, False, headers, size_bytes, self.log_end_offset, reason)

    def _complete(self, completed: CompletedTransaction, segment: Segment) -> None:
        """A marker was appended to `segment`. source: UnifiedLog.append, LogSegment.updateTxnIndex"""
        transactions = self.producers.transactions
        if completed.is_aborted:
            segment.aborted.append(transactions.aborted(completed))
        transactions.complete(completed)

    def _check_disk(self, check: Callable[[], None]) -> None:
        """raises: KafkaError KAFKA_STORAGE_ERROR; the broker decides about the log directory"""
        try:
            check()
        except DiskFailed as failure:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: {failure.strerror}") from failure

    def _roll(self, base_offset: Offset) -> Segment:
        """Begin a new segment; earlier segments are flushed, so the recovery point moves up to here."""
        self._segments.active.become_inactive()
        self.producers.take_snapshot()
        # Simplified: Kafka flushes the old segments in the background, shortly after.
        self.flush()
        return self._begin_segment(base_offset)

    def _begin_segment(self, base_offset: Offset) -> Segment:
        segment = Segment.create(self.directory, base_offset, self.disk, self._now_us)
        self._segments.add(segment)
        self._new_files = True
        return segment

    # -------------------------------------------------------------------------------------------------------- read

    def read(
        self,
        fetch_offset: Offset,
        max_bytes: int,
        upper_offset: Offset,
        min_one_batch: bool = True,
        *,
        may_cut: bool = False,
    ) -> FileSlice:
        """Locate batches from the one that holds `fetch_offset` on, all of them below `upper_offset`.

        fetch_offset: log_start_offset <= it <= log_end_offset
        max_bytes:    where the range ends, in the middle of a batch, too; the reader drops that part. With
                      `min_one_batch` the first batch comes whole even if it is larger (KIP-74). `may_cut`: else it is
                      cut, too, as before KIP-74
        upper_offset: exclusive: high watermark for consumers, log end offset for followers
        returns: byte range inside one segment file, its first batch whole; length 0 when the reader is caught up
        raises:  KafkaError OFFSET_OUT_OF_RANGE
        source:  UnifiedLog.read, LogSegment.read, FileRecords.slice
        """
        if not self.log_start_offset <= fetch_offset <= self.log_end_offset:
            raise self._out_of_range(fetch_offset)
        if fetch_offset >= upper_offset or fetch_offset == self.log_end_offset:
            return EMPTY_SLICE
        if self.disk.broken:
            self._check_disk(self.disk.check_readable)
        segment, start = self._segments.locate(fetch_offset)
        end = segment.size if upper_offset >= segment.next_offset else segment.locate(upper_offset)
        if end - start > max_bytes:
            first_end = segment.end_of(start)
            smallest = first_end if min_one_batch else start + max_bytes if may_cut else start
            end = start + max_bytes if first_end <= start + max_bytes else smallest
        if end <= start:
            return EMPTY_SLICE
        file = segment.file
        return FileSlice(file.fd, start, end - start, file)

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Below it everything is committed and decided: no transaction is open whose records begin before.

        A transaction counts as open until its marker is below a high watermark that was asked about.
        source: UnifiedLog.lastStableOffset, maybeIncrementFirstUnstableOffset; ProducerStateManager.firstUnstableOffset
        """
        transactions = self.producers.transactions
        if not transactions.ongoing and not transactions.unreplicated:
            return high_watermark
        transactions.replicated(high_watermark)
        unstable = transactions.first_unstable_offset
        return high_watermark if unstable is None else min(max(unstable, self.log_start_offset), high_watermark)

    def aborted_transactions(self, fetch_offset: Offset, found: FileSlice) -> list[AbortedTransaction]:
        """Those that have records in what `read` has found, or between there and their marker.

        Differs from Kafka: there the offset index says how far that is, so the list may name more than is needed.
        source: LocalLog.addAbortedTransactions
        """
        if not found.length or not self._segments.any_aborted_from(fetch_offset):
            return []
        first, start = self._segments.locate(fetch_offset)
        end = first.boundary_before(found.position + found.length, start)
        return self._segments.aborted_between(fetch_offset, first.offset_at(end), first)

    @property
    def size_bytes(self) -> int:
        """Of all segments."""
        return sum(segment.size for segment in self._segments)

    def bytes_available(self, fetch_offset: Offset, upper_offset: Offset) -> int:
        """Bytes that lie between the two offsets, rounded to batches; 0 outside the log."""
        upper_offset = min(upper_offset, self.log_end_offset)
        if not self.log_start_offset <= fetch_offset < upper_offset:
            return 0
        return self._segments.bytes_between(fetch_offset, upper_offset)

    def segment_base_of(self, offset: Offset) -> Offset:
        """Base offset of the segment that `offset` lies in; a fetch whose end is in another one is not made to wait."""
        return self._segments.base_of(offset)

    def _out_of_range(self, offset: Offset) -> KafkaError:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is outside of [{self.log_start_offset}, {self.log_end_offset}]",
            offset=offset,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
        )

    def raw_batches(
        self, start: Offset | None = None, end: Offset | None = None
    ) -> Iterator[tuple[BatchHeader, bytes]]:
        """Whole batches that hold offsets of [start, end), with their bytes; for the checker, not for serving."""
        for segment, position, header in self._scan(start, end):
            yield header, segment.read_batch(position, header)

    def headers(self, start: Offset | None = None, end: Offset | None = None) -> Iterator[BatchHeader]:
        """Headers of the batches that hold offsets of [start, end)."""
        for _, _, header in self._scan(start, end):
            yield header

    def records(self, start: Offset | None = None, end: Offset | None = None) -> Iterator[tuple[BatchHeader, Record]]:
        """The records of [start, end), each with its batch's header."""
        low = self.log_start_offset if start is None else start
        high = self.log_end_offset if end is None else end
        for header, batch in self.raw_batches(start, end):
            for record in read_records(batch):
                if low <= record.offset < high:
                    yield header, record

    def _scan(self, start: Offset | None, end: Offset | None) -> Iterator[tuple[Segment, int, BatchHeader]]:
        low = max(self.log_start_offset, start or 0)
        high = self.log_end_offset if end is None else min(end, self.log_end_offset)
        return self._segments.scan(low, high)

    def offset_for_timestamp(
        self, timestamp_ms: int, timestamps_of: Callable[[bytes], Sequence[tuple[Offset, int]]] = read_timestamps
    ) -> tuple[Offset, int] | None:
        """(offset, timestamp) of the first record whose timestamp is `timestamp_ms` or later; None: all are older.

        timestamps_of: offsets and timestamps of a batch's records; an exception from it ends the search
        """
        for segment in self._segments:
            if segment.max_timestamp_ms < timestamp_ms or segment.next_offset <= self.log_start_offset:
                continue
            start = max(self.log_start_offset, segment.time_index.offset_before(timestamp_ms))
            for position, header in segment.scan(segment.locate(start)):
                if header.max_timestamp < timestamp_ms:
                    continue
                for offset, at_ms in timestamps_of(segment.read_batch(position, header)):
                    if at_ms >= timestamp_ms and offset >= self.log_start_offset:
                        return offset, at_ms
        return None

    @property
    def max_timestamp_ms(self) -> int:
        """The largest in any segment, -1 if there is none. source: UnifiedLog.fetchOffsetByTimestamp, KIP-734

        As in Kafka, records that DeleteRecords has taken from the log's first segment still count.
        """
        return max(segment.max_timestamp_ms for segment in self._segments)

    # -------------------------------------------------------------------------------------------------- compaction

    def begin_cleaned(self, base_offset: Offset, created_us: int) -> Segment:
        """A segment that is not part of the log until `replace_segments`. source: UnifiedLog.createNewCleanedSegment"""
        self._check_disk(self.disk.check_writable)
        return Segment.create(self.directory, base_offset, self.disk, created_us, CLEANED_SUFFIX)

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """A cleaned segment, which is on disk, takes the place of others; their files are to be removed some time later
        (Segment.remove).     source: UnifiedLog.replaceSegments
        """
        self._segments.replace(old, new)
        if self.disk.sync:
            sync_directory(self.directory)
        self.producers.forget_snapshots_at([segment.base_offset for segment in old[1:]])

    # ---------------------------------------------------------------------------------------------------- truncate

    def truncate_to(self, offset: Offset) -> Offset:
        """Drop all records at `offset` and above; the log end offset is `offset` afterwards, or stays when it is lower.

        If `offset` lies inside a batch, that whole batch goes and its first records are missing from then on; Kafka
        does the same, and epoch boundaries are batch boundaries.
        Call LogManager.truncate_to, which also writes the recovery point.          source: UnifiedLog.truncateTo
        """
        self._check_disk(self.disk.check_writable)
        if offset >= self.log_end_offset:
            # An ex-leader that never appended in its epoch still has that epoch's empty entry.
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            return self.log_end_offset
        if offset < self.first_segment_base:
            self.truncate_fully_and_start_at(offset)
            return self.log_end_offset
        self._segments.delete_above(offset)
        self._segments.active.truncate(offset, self._now_us)
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.leader_epochs.truncate_from_end(offset)
        now_ms = self._now_us // 1000
        rebuild_producers(self.producers, self._segments, self.log_start_offset, offset, now_ms)
        return offset

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Empty the log; the next record gets `offset`.     raises: KafkaError KAFKA_STORAGE_ERROR"""
        self._check_disk(self.disk.check_writable)
        self._segments.delete_all()
        self._begin_segment(offset)
        self.log_start_offset = self.log_end_offset = self.recovery_point = offset
        self.leader_epochs.clear()
        self.producers.truncate_fully_and_start_at(offset)

    def set_log_start_offset(self, offset: Offset) -> None:
        """Raise the first readable offset (the caller keeps it at or below the high watermark).

        Segments that lie wholly below it go with the next `retire_old_segments`.

        raises: KafkaError OFFSET_OUT_OF_RANGE beyond the end of the log
        """
        if offset > self.log_end_offset:
            raise self._out_of_range(offset)
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        self.producers.log_begins_at(offset)
        self.leader_epochs.truncate_from_start(offset)

    # --------------------------------------------------------------------------------------------------- retention

    def retire_old_segments(self, high_watermark: Offset, now_us: int) -> list[RetiredSegments]:
        """Take out the segments that retention no longer keeps, for each of its reasons; the caller removes their files
        some time later.     raises: KafkaError KAFKA_STORAGE_ERROR     source: UnifiedLog.deleteOldSegments
        """
        self._check_disk(self.disk.check_writable)
        self._now_us = now_us
        config, segments = self.config, self._segments.all
        found = [self._retire(below_start(segments, self.log_start_offset, high_watermark))]
        if config.is_deleted:
            count = too_large(segments, config, high_watermark)
            found.append(self._retire(count, RetentionCause.SIZE, config.retention_bytes))
            count = too_old(segments, config, high_watermark, now_us // 1000)
            found.append(self._retire(count, RetentionCause.TIME, config.retention_ms))
        return [retired for retired in found if retired.segments]

    def delete_segments_below_start(self) -> None:
        """For good and at once: of the metadata log nothing is read later."""
        start = self.log_start_offset
        for segment in self._segments.retire(below_start(self._segments.all, start, start)):
            segment.remove()

    def _retire(self, count: int, cause: RetentionCause | None = None, limit: int = UNLIMITED) -> RetiredSegments:
        if count == len(self._segments.all):
            self._roll(self.log_end_offset)  # The log must not be without a segment.
        retired = self._segments.retire(count)
        self.producers.forget_snapshots_below(self.first_segment_base)
        if self.first_segment_base > self.log_start_offset:
            self.set_log_start_offset(self.first_segment_base)
        return RetiredSegments(retired, self.log_start_offset, cause, limit)

    # ---------------------------------------------------------------------------------------------- flush and close

    def flush(self) -> None:
        """Bring every byte to the disk; the recovery point is the log end offset afterwards."""
        self._flushed_at_us = self._now_us
        if self.recovery_point == self.log_end_offset:
            return
        for segment in self._segments.from_offset(self.recovery_point):
            segment.flush()
        if self._new_files:
            if self.disk.sync:
                sync_directory(self.directory)
            self._new_files = False
        self.recovery_point = self.log_end_offset

    def flush_if_due(self, now_us: int) -> bool:
        """flush.ms: flush if the last flush is that long ago (LogManager.flushDirtyLogs). True when it did."""
        self._now_us = now_us
        if self.recovery_point == self.log_end_offset or now_us - self._flushed_at_us < self.config.flush_ms * 1000:
            return False
        self.flush()
        return True

    def close(self) -> None:
        """The orderly end: producer snapshot and indexes are written, files closed. Flush first if it shall last."""
        self.producers.take_snapshot()
        for segment in self._segments:
            segment.become_inactive()
        self.abandon()

    def forget_files(self) -> None:
        """The log is about to go: its files no longer count. Open descriptors can still be read until `abandon`."""
        for segment in self._segments:
            self.disk.forget(segment.path)

    def abandon(self) -> None:
        """The process dies: files are closed, nothing is written. The page cache keeps what was appended."""
        self._segments.close()
