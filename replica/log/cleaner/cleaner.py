"""One round of compaction: the dirty part of a log is read for the last offset of each key, then all segments up to
there are written anew, as many into one as segment.bytes allows.

What is not the last record of its key goes, a tombstone some time later, and what was aborted. Offsets stay: what goes
leaves holes. Source: Kafka Cleaner.
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
    """A batch that a round has changed. Both headers have the CRC of a batch as it was sent.

    after: None: it is gone     removed: offsets of the records that went now
    was_aborted: with its transaction
    """

    before: BatchHeader
    after: BatchHeader | None
    removed: tuple[Offset, ...]
    was_aborted: bool


class Cleaned(NamedTuple):
    """end_offset: of the round (exclusive), and without a problem of what is clean now
    batches: in the order of their offsets
    retired: segments that were replaced; their files are to be removed some time later
    problem: what kept the round from coming to its end
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
"""Is given each batch of the dirty part that was neither aborted nor changed by a cleaner, as it was sent."""


def clean(
    given: LogToClean, buffer_bytes: int, now_us: int, batch_read: BatchRead = lambda header, records: None
) -> Cleaned:
    """buffer_bytes: log.cleaner.dedupe.buffer.size

    After a problem the segments that were not replaced yet are as before, and the log is as dirty as it was.
    """
    end_offset = given.first_dirty_offset
    batches: list[CleanedBatch] = []
    retired: list[Segment] = []
    bytes_after = 0
    problem: KafkaError | None = None
    try:
        found = build_offset_map(given, buffer_bytes, batch_read)
        end_offset = found.latest_offset + 1
        for group, cleaned, changed in _clean_groups(given, found, now_us // 1000):
            given.log.replace_segments(group, cleaned)
            batches += changed
            retired += group
            bytes_after += cleaned.size
    except KafkaError as error:
        problem = error
    except OSError as failure:
        if not given.log.disk.sync:
            raise  # A simulated disk does not fail by itself: the machine that simulates it did. The run is void.
        problem = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{given.log.topic_partition}: {failure.strerror}")
    bytes_before = sum(segment.size for segment in retired)
    return Cleaned(end_offset, tuple(batches), tuple(retired), bytes_before, bytes_after, problem)


def last_records(log: Log) -> dict[int, LastRecord]:
    """source: UnifiedLog.lastRecordsOfActiveProducers"""
    return {
        producer_id: LastRecord(entry.batches[-1].last_offset if entry.batches else None, entry.epoch)
        for producer_id, entry in log.producers.producers.items()
    }


# ------------------------------------------------------------------------------------------------------------- reading


def build_offset_map(given: LogToClean, buffer_bytes: int, batch_read: BatchRead) -> OffsetMap:
    """Of the records in the dirty part; when the map is full, only what it holds is cleaned this time.

    raises: KafkaError CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE     source: Cleaner.buildOffsetMap
    """
    log, start, end = given.log, given.first_dirty_offset, given.upper_offset
    found = OffsetMap(buffer_bytes)
    dirty = log.segments.between(start, end)
    transactions = CleanedTransactions()
    if dirty:
        transactions.expect(log.segments.aborted_between(start, end, dirty[0]))
    ends = [*(segment.base_offset for segment in dirty[1:]), end]
    for segment, segment_end in zip(dirty, ends, strict=True):
        for position, header in segment.scan(segment.locate(start)):
            batch = segment.read_batch(position, header)
            if not _take(found, transactions, header, batch, start, batch_read):
                return found
        # Offsets may be missing at the end of a segment.
        found.latest_offset = segment_end - 1
    return found


def _take(
    found: OffsetMap,
    transactions: CleanedTransactions,
    header: BatchHeader,
    batch: bytes,
    start: Offset,
    batch_read: BatchRead,
) -> bool:
    """False: the map is full."""
    check_undamaged(header, batch)
    if header.attributes & CONTROL:
        transactions.control_batch(header, batch)
    elif not transactions.batch(header):
        records = read_records(batch)
        if header.record_count == header.last_offset_delta + 1 and not header.attributes & DELETE_HORIZON:
            batch_read(as_sent(batch, header), records)
        for record in records:
            if record.key is not None and record.offset >= start:
                if found.is_full:
                    return False
                found.put(record.key, record.offset)
    found.latest_offset = header.last_offset
    return True


# ------------------------------------------------------------------------------------------------------------- writing


def group_by_size(segments: Sequence[Segment], config: TopicConfig, upper_offset: Offset) -> list[list[Segment]]:
    """Neighbours that become one segment. source: Cleaner.groupSegmentsBySize"""
    if not segments:
        return []
    ends = [*(segment.base_offset for segment in segments[1:]), upper_offset]
    groups = [[segments[0]]]
    for (_, segment), end in zip(pairwise(segments), ends[1:], strict=True):
        group = groups[-1]
        together = [*group, segment]
        fits = (
            sum(one.size for one in together) <= config.segment_bytes
            and sum(len(one.index) for one in together) * OFFSET_ENTRY_BYTES <= config.segment_index_bytes
            and sum(len(one.time_index) for one in together) * TIME_ENTRY_BYTES <= config.segment_index_bytes
            and (segment.size == 0 or end - 1 - group[0].base_offset <= INT32_MAX)
        )
        if fits:
            group.append(segment)
        else:
            groups.append([segment])
    return groups


def _clean_groups(
    given: LogToClean, found: OffsetMap, now_ms: int
) -> Iterator[tuple[list[Segment], Segment, list[CleanedBatch]]]:
    """Group by group: its segments, the one that is to replace them, and what is different in it.

    raises: KafkaError CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE, KAFKA_STORAGE_ERROR, OSError
    """
    log = given.log
    transactions = CleanedTransactions()
    for group in group_by_size(log.segments.between(0, found.latest_offset + 1), log.config, given.upper_offset):
        filters = BatchFilter(
            found,
            transactions,
            last_records(log),
            upper_offset=given.upper_offset,
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
    """The segment that replaces the group, on disk. source: Cleaner.cleanSegments"""
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
            told = None if kept.batch is None or after is None else as_sent(kept.batch, after)
            batches.append(CleanedBatch(as_sent(batch, header), told, kept.removed, kept.was_aborted))
