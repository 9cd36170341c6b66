"""The log of one partition: its segments, and the state derived from them.

Appends go to the last segment. A read returns a byte range of one segment file, not the bytes. Data between
`recovery_point` and `log_end_offset` is only in the page cache. loader.py loads and recovers a log.

Source: Kafka UnifiedLog, LocalLog
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
    """The result of an append. For a duplicate, the offsets are those of the original batch.

    Attributes:
        last_offset: inclusive.
        batches: headers as written, but each with the CRC of the batch as it was sent.
        roll_reason: why a new segment was begun, after a flush of all earlier segments; None without a new segment.
        log_append_time_ms: append time of the records, -1 if they keep the producer's time.
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
    """Yield the headers of the batches in `data`, each with the CRC of the batch as it was sent."""
    position = 0
    for header in headers:
        yield as_sent(memoryview(data)[position : position + header.size_bytes], header)
        position += header.size_bytes


class Log:
    """Batches of one partition in offset order, from `log_start_offset` up to `log_end_offset` (exclusive).

    Every byte below `recovery_point` is on disk. `leader_epochs` and `producers` are derived from the batches.
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
        """Open the log in a partition's directory, or create both.

        Args:
            clean: True after a clean shutdown; otherwise all segments from `recovery_point` on are checked.
        """
        directory.mkdir(parents=True, exist_ok=True)
        loader = LogLoader(directory, config, disk, now_us, producer_id_expiration_ms)
        loaded = loader.load(clean=clean, recovery_point=recovery_point, log_start_offset=log_start_offset)
        return cls(directory, topic_partition, config, disk, loaded, now_us), loaded.recovery

    @property
    def latest_epoch(self) -> LeaderEpoch | None:
        """The latest leader epoch, from a batch or from an election of this broker; None without epochs."""
        return self.leader_epochs.latest_epoch

    @property
    def segments(self) -> LogSegments:
        """The segments, which the caller must not change."""
        return self._segments

    @property
    def first_segment_base(self) -> Offset:
        return self._segments.bases[0]

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """Return the largest known epoch <= `epoch` and its end offset (LeaderEpochCache.end_offset_for)."""
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
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Check a batch, write the next offsets and the epoch into it, and append it.

        A batch that its producer has sent before is not appended; the result has the offsets of the original batch.

        Args:
            inspected: the result of `validation.inspect`, if the records were checked already.
            from_client: False for batches of a coordinator and for markers.
            guard: guard of the verification that the batch's transaction is open (VerificationStates).
            transaction_version: for a marker, the transaction.version of its transaction, 0 if the coordinator does not
                state it (KIP-1228).

        Raises:
            KafkaError: CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP,
                OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, KAFKA_STORAGE_ERROR, INVALID_TXN_STATE,
                TRANSACTION_COORDINATOR_FENCED; nothing was appended then.
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
                    self.producers.validate_marker(header, marker, transaction_version)
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
        """Append a leader's batches unchanged, except an incomplete batch at the end. Return None if nothing is left.

        Args:
            max_leader_epoch: the epoch of the fetch, None for no limit. Batches from the first later epoch on are
                dropped, because sendfile reads the leader's file after the leader has answered, and the file may have
                changed before (KAFKA-18723).

        Raises:
            KafkaError: CORRUPT_MESSAGE, UNKNOWN_SERVER_ERROR (offsets out of order) or KAFKA_STORAGE_ERROR; nothing was
                appended then.
        """
        headers, size_bytes = whole_batches(data, max_leader_epoch)
        if not headers:
            return None
        first = headers[0]
        empty = self.log_start_offset == self.log_end_offset
        if empty and first.base_offset < self.log_end_offset <= first.last_offset:
            # The log is empty, and the leader's first batch begins before the leader's log start
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
                raise  # A simulated disk does not raise other errors, so the real disk failed and the run is invalid.
            # Kafka takes the whole log directory offline in this case; here the broker decides that, not the log.
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: {error.strerror}") from error
        if attributes & LOG_APPEND_TIME:
            headers = tuple(_as_sent(data, headers))
        return AppendInfo(first.base_offset, last_offset, False, headers, size_bytes, self.log_end_offset, reason)

    def _complete(self, completed: CompletedTransaction, segment: Segment) -> None:
        """Record the end of a transaction in the indexes. Source: UnifiedLog.append, LogSegment.updateTxnIndex"""
        transactions = self.producers.transactions
        if completed.is_aborted:
            segment.aborted.append(transactions.aborted(completed))
        transactions.complete(completed)

    def _check_disk(self, check: Callable[[], None]) -> None:
        """Call `check`, and raise KafkaError KAFKA_STORAGE_ERROR, which the broker handles, if the disk has failed."""
        try:
            check()
        except DiskFailed as failure:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition}: {failure.strerror}") from failure

    def _roll(self, base_offset: Offset) -> Segment:
        """Flush the log, which advances the recovery point to the log end, and begin a segment at `base_offset`."""
        self._segments.active.become_inactive()
        self.producers.take_snapshot()
        # Simplified: Kafka flushes the old segments shortly afterwards, in the background.
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
        """Locate batches below `upper_offset`, starting with the batch that contains `fetch_offset`.

        Args:
            fetch_offset: between log_start_offset and log_end_offset, both inclusive.
            max_bytes: limit of the range, which may end inside a batch; the reader drops the incomplete batch.
            upper_offset: exclusive; the high watermark for consumers, the log end offset for followers.
            min_one_batch: True to return the first batch even if it is larger than `max_bytes` (KIP-74).
            may_cut: True to return only a part of a larger first batch, as before KIP-74.

        Returns:
            A byte range inside one segment file; length 0 if the reader is caught up.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE if `fetch_offset` is outside the log.

        Source: UnifiedLog.read, LogSegment.read, FileRecords.slice
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
        """Return the offset below which all records are committed and belong to no open transaction.

        A transaction counts as open until its marker is below the `high_watermark` of this or an earlier call.
        Source: UnifiedLog.lastStableOffset, ProducerStateManager.firstUnstableOffset
        """
        transactions = self.producers.transactions
        if not transactions.ongoing and not transactions.unreplicated:
            return high_watermark
        transactions.replicated(high_watermark)
        unstable = transactions.first_unstable_offset
        return high_watermark if unstable is None else min(max(unstable, self.log_start_offset), high_watermark)

    def aborted_transactions(self, fetch_offset: Offset, found: FileSlice) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap with `found`, the result of `read`.

        Differs from Kafka: Kafka rounds the range up with the offset index, so that its list may have more entries.
        Source: LocalLog.addAbortedTransactions
        """
        if not found.length or not self._segments.any_aborted_from(fetch_offset):
            return []
        first, start = self._segments.locate(fetch_offset)
        end = first.boundary_before(found.position + found.length, start)
        return self._segments.aborted_between(fetch_offset, first.offset_at(end), first)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def bytes_available(self, fetch_offset: Offset, upper_offset: Offset) -> int:
        """Return the number of bytes between two offsets, rounded to batches; 0 outside the log."""
        upper_offset = min(upper_offset, self.log_end_offset)
        if not self.log_start_offset <= fetch_offset < upper_offset:
            return 0
        return self._segments.bytes_between(fetch_offset, upper_offset)

    def segment_base_of(self, offset: Offset) -> Offset:
        """Return the base offset of the segment with `offset`."""
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
        """Yield (header, bytes) of the batches that overlap with [start, end); for the checker, not for fetches."""
        for segment, position, header in self._scan(start, end):
            yield header, segment.read_batch(position, header)

    def headers(self, start: Offset | None = None, end: Offset | None = None) -> Iterator[BatchHeader]:
        """Yield the headers of the batches that overlap with [start, end)."""
        for _, _, header in self._scan(start, end):
            yield header

    def records(self, start: Offset | None = None, end: Offset | None = None) -> Iterator[tuple[BatchHeader, Record]]:
        """Yield (header of the batch, record) for each record in [start, end)."""
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
        """Return (offset, timestamp) of the first record at or after `timestamp_ms`, None if all are older.

        Args:
            timestamps_of: returns offsets and timestamps of a batch's records. Its exceptions are not caught.
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
        """The largest timestamp in milliseconds, -1 without records. Source: UnifiedLog.fetchOffsetByTimestamp, KIP-734

        As in Kafka, records in the first segment still count after DeleteRecords has removed them.
        """
        return max(segment.max_timestamp_ms for segment in self._segments)

    # -------------------------------------------------------------------------------------------------- compaction

    def begin_cleaned(self, base_offset: Offset, created_us: int) -> Segment:
        """Create a segment for `replace_segments`. Source: UnifiedLog.createNewCleanedSegment"""
        self._check_disk(self.disk.check_writable)
        return Segment.create(self.directory, base_offset, self.disk, created_us, CLEANED_SUFFIX)

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace segments by a cleaned segment, which is on disk already.

        The files of the old segments are removed later (Segment.remove). Source: UnifiedLog.replaceSegments
        """
        self._segments.replace(old, new)
        if self.disk.sync:
            sync_directory(self.directory)
        self.producers.forget_snapshots_at([segment.base_offset for segment in old[1:]])

    # ---------------------------------------------------------------------------------------------------- truncate

    def truncate_to(self, offset: Offset) -> Offset:
        """Remove all records from `offset` on. The log then ends at `offset`, or earlier if it was shorter.

        If `offset` is inside a batch, the whole batch is removed, including its records below `offset`, as in Kafka.
        Callers use LogManager.truncate_to, which also writes the recovery point.

        Source: UnifiedLog.truncateTo
        """
        self._check_disk(self.disk.check_writable)
        if offset >= self.log_end_offset:
            # A former leader that never appended in its epoch still has an empty entry for the epoch.
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
        """Delete all records, so that the next record gets `offset`. Raises KafkaError KAFKA_STORAGE_ERROR."""
        self._check_disk(self.disk.check_writable)
        self._segments.delete_all()
        self._begin_segment(offset)
        self.log_start_offset = self.log_end_offset = self.recovery_point = offset
        self.leader_epochs.clear()
        self.producers.truncate_fully_and_start_at(offset)

    def set_log_start_offset(self, offset: Offset) -> None:
        """Advance the first readable offset to `offset`, which must be at or below the high watermark.

        The next `retire_old_segments` removes segments that end below the offset. Raises KafkaError OFFSET_OUT_OF_RANGE
        beyond the end of the log.
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
        """Remove expired segments from the log, and return them by cause. The caller must remove their files later.

        Raises KafkaError KAFKA_STORAGE_ERROR. Source: UnifiedLog.deleteOldSegments
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
        """Delete the segments below the log start, and their files immediately; for the metadata log."""
        start = self.log_start_offset
        for segment in self._segments.retire(below_start(self._segments.all, start, start)):
            segment.remove()

    def _retire(self, count: int, cause: RetentionCause | None = None, limit: int = UNLIMITED) -> RetiredSegments:
        if count == len(self._segments.all):
            self._roll(self.log_end_offset)  # A log always has a segment.
        retired = self._segments.retire(count)
        self.producers.forget_snapshots_below(self.first_segment_base)
        if self.first_segment_base > self.log_start_offset:
            self.set_log_start_offset(self.first_segment_base)
        return RetiredSegments(retired, self.log_start_offset, cause, limit)

    # ---------------------------------------------------------------------------------------------- flush and close

    def flush(self) -> None:
        """Flush the log, and advance the recovery point to the log end offset."""
        if self.recovery_point == self.log_end_offset:
            return
        for segment in self._segments.from_offset(self.recovery_point):
            segment.flush()
        if self._new_files:
            if self.disk.sync:
                sync_directory(self.directory)
            self._new_files = False
        self.recovery_point = self.log_end_offset

    def close(self) -> None:
        """Write the producer snapshot and the indexes, and close the files without a flush."""
        self.producers.take_snapshot()
        for segment in self._segments:
            segment.become_inactive()
        self.abandon()

    def forget_files(self) -> None:
        """Stop tracking the files of a deleted log on the disk. The files can be read until `abandon`."""
        for segment in self._segments:
            self.disk.forget(segment.path)

    def abandon(self) -> None:
        """Close the files of a dead process without writing. Appended batches stay in the page cache."""
        self._segments.close()
