"""One round of compaction.

A round finds the last offset of each key in the dirty part of a log. Then it rewrites all segments up to the end of
this part, and joins as many as segment.bytes allows. A record is removed if a later record has its key, or if its
transaction was aborted; a tombstone is removed some time later. Offsets do not change, so the log gets gaps.

Source: Kafka Cleaner
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from replica.config import TopicConfig
from replica.errors import ErrorCode, KafkaError
from replica.ids import Offset
from replica.log.batches.records import (
    CONTROL,
    DELETE_HORIZON,
    BatchHeader,
    Record,
    as_sent,
    read_header,
    read_records,
)
from replica.log.cleaner.batch_filter import BatchFilter, LastRecord, check_undamaged
from replica.log.cleaner.cleanable import LogToClean
from replica.log.cleaner.offset_map import OffsetMap
from replica.log.cleaner.transactions import CleanedTransactions
from replica.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from replica.log.log import Log
from replica.log.segment import INT32_MAX, Segment


class CleanedBatch(NamedTuple):
    """A batch that a round has changed. The headers have the CRC of the batch as it was sent.

    Attributes:
        after: new header, None if the batch was removed.
        removed: offsets of the removed records.
        was_aborted: True if the records were removed because their transaction was aborted.
    """

    before: BatchHeader
    after: BatchHeader | None
    removed: tuple[Offset, ...]
    was_aborted: bool


class Cleaned(NamedTuple):
    """The result of a round.

    Attributes:
        end_offset: exclusive end of the round; unless there is a `problem`, all earlier records are clean.
        batches: the changed batches, in offset order.
        retired: the replaced segments, whose files are deleted later.
        problem: error that ended the round early, if any.
    """

    end_offset: Offset
    batches: tuple[CleanedBatch, ...]
    retired: tuple[Segment, ...]
    bytes_before: int
    bytes_after: int
    problem: KafkaError | None = None

    @property
    def records_removed(self) -> int:
        return sum(len(batch.removed) for batch in self.batches)


BatchRead = Callable[[BatchHeader, Sequence[Record]], None]
"""A callback for each dirty batch that was neither aborted nor cleaned before. The header has the CRC as sent."""


def clean(
    to_clean: LogToClean, buffer_bytes: int, now_us: int, batch_read: BatchRead = lambda header, records: None
) -> Cleaned:
    """Compact one log. `buffer_bytes` is log.cleaner.dedupe.buffer.size.

    After a problem, the segments that are not replaced yet are unchanged, and the whole dirty part stays dirty.
    """
    end_offset = to_clean.first_dirty_offset
    batches: list[CleanedBatch] = []
    retired: list[Segment] = []
    bytes_after = 0
    problem: KafkaError | None = None
    try:
        offset_map = build_offset_map(to_clean, buffer_bytes, batch_read)
        end_offset = offset_map.latest_offset + 1
        for group, cleaned, changed in _clean_groups(to_clean, offset_map, now_us // 1000):
            to_clean.log.replace_segments(group, cleaned)
            batches += changed
            retired += group
            bytes_after += cleaned.size
    except KafkaError as error:
        problem = error
    except OSError as failure:
        if not to_clean.log.disk.sync:
            raise  # A simulated disk does not raise other errors, so the real disk failed and the run is invalid.
        problem = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{to_clean.log.topic_partition}: {failure.strerror}")
    bytes_before = sum(segment.size for segment in retired)
    return Cleaned(end_offset, tuple(batches), tuple(retired), bytes_before, bytes_after, problem)


def last_records(log: Log) -> dict[int, LastRecord]:
    """Return the last record of each producer, by producer id. Source: UnifiedLog.lastRecordsOfActiveProducers"""
    return {
        producer_id: LastRecord(entry.batches[-1].last_offset if entry.batches else None, entry.epoch)
        for producer_id, entry in log.producers.producers.items()
    }


# ------------------------------------------------------------------------------------------------------------- reading


def build_offset_map(to_clean: LogToClean, buffer_bytes: int, batch_read: BatchRead) -> OffsetMap:
    """Return the last offset of each key in the dirty part of the log, up to where the map is full.

    Raises:
        KafkaError: CORRUPT_MESSAGE or UNSUPPORTED_COMPRESSION_TYPE if a batch cannot be read.

    Source: Cleaner.buildOffsetMap
    """
    log, start, end = to_clean.log, to_clean.first_dirty_offset, to_clean.upper_offset
    offset_map = OffsetMap(buffer_bytes)
    dirty = log.segments.between(start, end)
    transactions = CleanedTransactions()
    if dirty:
        transactions.expect(log.segments.aborted_between(start, end, dirty[0]))
    ends = [*(segment.base_offset for segment in dirty[1:]), end]
    for segment, segment_end in zip(dirty, ends, strict=True):
        for position, header in segment.scan(segment.locate(start)):
            batch = segment.read_batch(position, header)
            if not _take(offset_map, transactions, header, batch, start, batch_read):
                return offset_map
        # Offsets may be missing at the end of a segment.
        offset_map.latest_offset = segment_end - 1
    return offset_map


def _take(
    offset_map: OffsetMap,
    transactions: CleanedTransactions,
    header: BatchHeader,
    batch: bytes,
    start: Offset,
    batch_read: BatchRead,
) -> bool:
    """Add the records of a batch to the map. Return False if the map is full."""
    check_undamaged(header, batch)
    if header.attributes & CONTROL:
        transactions.control_batch(header, batch)
    elif not transactions.batch(header):
        records = read_records(batch)
        if header.record_count == header.last_offset_delta + 1 and not header.attributes & DELETE_HORIZON:
            batch_read(as_sent(batch, header), records)
        for record in records:
            if record.key is not None and record.offset >= start:
                if offset_map.is_full:
                    return False
                offset_map.put(record.key, record.offset)
    offset_map.latest_offset = header.last_offset
    return True


# ------------------------------------------------------------------------------------------------------------- writing


def group_by_size(segments: Sequence[Segment], config: TopicConfig, upper_offset: Offset) -> list[list[Segment]]:
    """Return groups of adjacent segments to join. Source: Cleaner.groupSegmentsBySize"""
    if not segments:
        return []
    ends = [*(segment.base_offset for segment in segments[1:]), upper_offset]
    groups = [[segments[0]]]
    for (_, segment), end in zip(pairwise(segments), ends[1:], strict=True):
        group = groups[-1]
        together = [*group, segment]
        fits = (
            sum(item.size for item in together) <= config.segment_bytes
            and sum(len(item.index) for item in together) * OFFSET_ENTRY_BYTES <= config.segment_index_bytes
            and sum(len(item.time_index) for item in together) * TIME_ENTRY_BYTES <= config.segment_index_bytes
            and (segment.size == 0 or end - 1 - group[0].base_offset <= INT32_MAX)
        )
        if fits:
            group.append(segment)
        else:
            groups.append([segment])
    return groups


def _clean_groups(
    to_clean: LogToClean, offset_map: OffsetMap, now_ms: int
) -> Iterator[tuple[list[Segment], Segment, list[CleanedBatch]]]:
    """Yield, for each group of segments: the group, the segment that replaces it, and the changed batches."""
    log = to_clean.log
    transactions = CleanedTransactions()
    for group in group_by_size(
        log.segments.between(0, offset_map.latest_offset + 1), log.config, to_clean.upper_offset
    ):
        filters = BatchFilter(
            offset_map,
            transactions,
            last_records(log),
            kept_end=to_clean.kept_end,
            now_ms=now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
        )
        changed: list[CleanedBatch] = []
        yield group, _clean_group(log, group, filters, transactions, changed), changed


def _clean_group(
    log: Log,
    group: Sequence[Segment],
    filters: BatchFilter,
    transactions: CleanedTransactions,
    batches: list[CleanedBatch],
) -> Segment:
    """Write and return the segment that replaces a group. Source: Cleaner.cleanSegments"""
    cleaned = log.begin_cleaned(group[0].base_offset, group[-1].created_us)
    transactions.index = cleaned.aborted
    try:
        for segment in group:
            transactions.expect(log.segments.aborted_between(segment.base_offset, segment.next_offset, segment))
            _clean_into(cleaned, segment, filters, log.config.index_interval_bytes, batches)
        cleaned.become_inactive()
        cleaned.flush()
    except BaseException:
        cleaned.delete()
        raise
    return cleaned


def _clean_into(
    cleaned: Segment, segment: Segment, filters: BatchFilter, index_interval_bytes: int, batches: list[CleanedBatch]
) -> None:
    for position, header in segment.scan():
        batch = segment.read_batch(position, header)
        kept = filters.filter(header, batch)
        after = None if kept.batch is None else read_header(kept.batch)
        if kept.batch is not None and after is not None:
            cleaned.append(kept.batch, (after,), index_interval_bytes)
        if after is None or kept.removed or after.crc != header.crc:
            sent = None if kept.batch is None or after is None else as_sent(kept.batch, after)
            batches.append(CleanedBatch(as_sent(batch, header), sent, kept.removed, kept.was_aborted))
