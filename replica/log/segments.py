"""The segments of one log in offset order, and the search for the segment of an offset.

Source: Kafka LogSegments, LocalLog
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from replica.causes import RetentionCause
from replica.config import TopicConfig
from replica.ids import Offset
from replica.log.batches.records import BatchHeader
from replica.log.producers.transaction_index import AbortedTransaction
from replica.log.segment import SWAP_SUFFIX, Segment


class LogSegments:
    """The segments of a log, at least one. Appends go to the last segment, `active`."""

    __slots__ = ("_bases", "_segments", "active")

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def all(self) -> list[Segment]:
        """The segments in offset order, which the caller must not change."""
        return self._segments

    @property
    def bases(self) -> list[Offset]:
        """The base offsets, ascending, which the caller must not change."""
        return self._bases

    def add(self, segment: Segment) -> None:
        """Add a new active segment."""
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def index_of(self, offset: Offset) -> int:
        """Return the index of the segment whose range contains `offset`."""
        if offset >= self.active.base_offset:
            return len(self._bases) - 1
        return max(0, bisect_right(self._bases, offset) - 1)

    def base_of(self, offset: Offset) -> Offset:
        """Return the base offset of the segment whose range contains `offset`."""
        if offset >= self.active.base_offset:  # nearly always
            return self.active.base_offset
        return self._bases[self.index_of(offset)]

    def from_offset(self, offset: Offset) -> list[Segment]:
        """Return the segment whose range contains `offset`, and all later segments."""
        return self._segments[self.index_of(offset) :]

    def between(self, low: Offset, high: Offset) -> list[Segment]:
        """Return the segment with `low` and later segments that begin before `high`. Source: LogSegments.values"""
        return [] if low >= high else self._segments[self.index_of(low) : bisect_left(self._bases, high)]

    def locate(self, offset: Offset) -> tuple[Segment, int]:
        """Return segment and position of the first batch that ends at or after `offset`, which is in the log."""
        if offset >= self.active.base_offset:  # Most reads are at the end of the log.
            return self.active, self.active.locate(offset)
        index = self.index_of(offset)
        segment = self._segments[index]
        position = segment.locate(offset)
        while position == segment.size and index + 1 < len(self._segments):
            index += 1
            segment, position = self._segments[index], 0
        return segment, position

    def bytes_between(self, start: Offset, end: Offset) -> int:
        """Return the number of bytes from the start of the batch with `start` to the start of the batch with `end`."""
        first, position = self.locate(start)
        if end <= first.next_offset:
            return first.locate(end) - position
        last = self.index_of(end)
        if self._segments[last] is first:
            return first.size - position  # Compaction has removed the records up to `end`.
        between = self._segments[self.index_of(first.base_offset) + 1 : last]
        return first.size - position + sum(segment.size for segment in between) + self._segments[last].locate(end)

    def any_aborted_from(self, offset: Offset) -> bool:
        """Return True if the segment with `offset` or a later segment has the marker of an aborted transaction."""
        return any(segment.aborted.entries for segment in self.from_offset(offset))

    def aborted_between(self, low: Offset, high: Offset, first: Segment) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap with [low, high); `first` is the segment with `low`.

        Source: LocalLog.collectAbortedTransactions
        """
        aborted: list[AbortedTransaction] = []
        for segment in self.from_offset(first.base_offset):
            if segment.aborted.collect(low, high, aborted):
                break
        return aborted

    def scan(self, low: Offset, high: Offset) -> Iterator[tuple[Segment, int, BatchHeader]]:
        """Yield (segment, position, header) of each batch that overlaps with [low, high)."""
        if low >= high:
            return
        for segment in self.from_offset(low):
            for position, header in segment.scan(segment.locate(low)):
                if header.base_offset >= high:
                    return
                yield segment, position, header

    def delete_above(self, offset: Offset) -> None:
        """Delete the segments whose base offset is above `offset`; at least one segment must remain."""
        self._delete(bisect_right(self._bases, offset), len(self._bases))
        self.active = self._segments[-1]

    def retire(self, count: int) -> tuple[Segment, ...]:
        """Remove the `count` oldest segments from the log and rename their files. The active segment must stay."""
        assert count < len(self._segments), "the active segment stays"
        retired = tuple(self._segments[:count])
        for segment in retired:
            segment.retire()
        del self._segments[:count], self._bases[:count]
        return retired

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace adjacent segments, none of them active, by one cleaned segment.

        A crash leaves either the old files, or the new ones with SWAP_SUFFIX, which the next start moves into place.

        Source: LocalLog.replaceSegments
        """
        first = self._segments.index(old[0])
        assert self._segments[first : first + len(old)] == list(old), "neighbours are replaced"
        new.rename_to(SWAP_SUFFIX)
        for segment in old:
            segment.retire()
        new.rename_to("")
        self._segments[first : first + len(old)] = [new]
        self._bases[first : first + len(old)] = [new.base_offset]

    def delete_all(self) -> None:
        """Delete all files; `add` must follow unless the log itself is deleted."""
        self._delete(0, len(self._bases))

    def _delete(self, first: int, end: int) -> None:
        for segment in self._segments[first:end]:
            segment.delete()
        del self._segments[first:end], self._bases[first:end]

    def close(self) -> None:
        for segment in self._segments:
            segment.close()


# ------------------------------------------------------------------------------------------------------------ retention
#
# The removal of a log's oldest segments: those below the log start, those beyond the size limit, those too old.
#
# Only whole segments are removed, from the oldest on, and only records below the high watermark.
# Source: Kafka UnifiedLog.deleteOldSegments, deletableSegments; LogManager.cleanupLogs
#
# Simplified: the same in every release. In early releases a segment was as old as its file (KIP-33), and records above
# the high watermark could be removed (KAFKA-5634). Here a segment without timestamps is as old as its object in memory.

UNLIMITED = -1


class RetiredSegments(NamedTuple):
    """Segments that were removed from a log. Their files still exist under other names.

    Attributes:
        log_start_offset: start of the log after the removal.
        cause: the retention setting that was exceeded; None for segments that were already below the log start.
        limit: the value of this setting.
    """

    segments: tuple[Segment, ...]
    log_start_offset: Offset
    cause: RetentionCause | None = None
    limit: int = UNLIMITED


def below_start(segments: Sequence[Segment], log_start_offset: Offset, high_watermark: Offset) -> int:
    """Return the number of segments that end below the log start. Source: deleteLogStartOffsetBreachedSegments"""
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= min(log_start_offset, high_watermark):
        count += 1
    return count


def too_large(segments: Sequence[Segment], config: TopicConfig, high_watermark: Offset) -> int:
    """Return the number of oldest segments beyond retention.bytes. Source: deleteRetentionSizeBreachedSegments"""
    if config.retention_bytes == UNLIMITED:
        return 0
    excess = sum(segment.size for segment in segments) - config.retention_bytes

    def is_in_excess(segment: Segment) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return _oldest(segments, high_watermark, is_in_excess)


def too_old(segments: Sequence[Segment], config: TopicConfig, high_watermark: Offset, now_ms: int) -> int:
    """Return the number of segments with only records older than retention.ms.

    Source: deleteRetentionMsBreachedSegments
    """
    if config.retention_ms == UNLIMITED:
        return 0
    return _oldest(
        segments, high_watermark, lambda segment: now_ms - segment.largest_timestamp_ms > config.retention_ms
    )


def _oldest(segments: Sequence[Segment], high_watermark: Offset, goes: Callable[[Segment], bool]) -> int:
    """Return how many of the oldest segments are committed and fulfil `goes`. An empty last segment never counts."""
    ends = [*(segment.base_offset for segment in segments[1:]), segments[-1].next_offset]
    count = 0
    for segment, end in zip(segments, ends, strict=True):
        is_empty_end = count + 1 == len(segments) and not segment.size
        if end > high_watermark or is_empty_end or not goes(segment):
            break
        count += 1
    return count
