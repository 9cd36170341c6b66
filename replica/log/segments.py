"""The segments of one log in offset order, and which of them holds an offset.

Source: Kafka LogSegments, LocalLog.
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
    """At least one segment; appends go to the last one, `active`."""

    __slots__ = ("_bases", "_segments", "active")

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def all(self) -> list[Segment]:
        """In offset order; to look at, not to change."""
        return self._segments

    @property
    def bases(self) -> list[Offset]:
        """Base offsets, ascending; to look at, not to change."""
        return self._bases

    def add(self, segment: Segment) -> None:
        """A new active segment."""
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def index_of(self, offset: Offset) -> int:
        """Which segment `offset` lies in, or would."""
        if offset >= self.active.base_offset:
            return len(self._bases) - 1
        return max(0, bisect_right(self._bases, offset) - 1)

    def base_of(self, offset: Offset) -> Offset:
        """Base offset of the segment `offset` lies in, or would."""
        if offset >= self.active.base_offset:  # As good as always.
            return self.active.base_offset
        return self._bases[self.index_of(offset)]

    def from_offset(self, offset: Offset) -> list[Segment]:
        """The segment `offset` lies in and all after it."""
        return self._segments[self.index_of(offset) :]

    def between(self, low: Offset, high: Offset) -> list[Segment]:
        """The segment that `low` lies in, and those behind it that begin before `high`. source: LogSegments.values"""
        return [] if low >= high else self._segments[self.index_of(low) : bisect_left(self._bases, high)]

    def locate(self, offset: Offset) -> tuple[Segment, int]:
        """Segment and position of the first batch that ends at or after `offset`, which lies below the log's end."""
        if offset >= self.active.base_offset:  # As good as always it is the end that is read.
            return self.active, self.active.locate(offset)
        index = self.index_of(offset)
        segment = self._segments[index]
        position = segment.locate(offset)
        while position == segment.size and index + 1 < len(self._segments):
            index += 1
            segment, position = self._segments[index], 0
        return segment, position

    def bytes_between(self, start: Offset, end: Offset) -> int:
        """Bytes from the batch that holds `start` up to the batch that holds `end`, exclusive."""
        first, position = self.locate(start)
        if end <= first.next_offset:
            return first.locate(end) - position
        last = self.index_of(end)
        if self._segments[last] is first:
            return first.size - position  # The offsets up to `end` were compacted away.
        between = self._segments[self.index_of(first.base_offset) + 1 : last]
        return first.size - position + sum(segment.size for segment in between) + self._segments[last].locate(end)

    def any_aborted_from(self, offset: Offset) -> bool:
        """Whether a transaction was aborted whose marker lies in the segment of `offset` or after it."""
        return any(segment.aborted.entries for segment in self.from_offset(offset))

    def aborted_between(self, low: Offset, high: Offset, first: Segment) -> list[AbortedTransaction]:
        """Those that overlap with [low, high); `first` is the segment that `low` lies in.

        source: LocalLog.collectAbortedTransactions
        """
        aborted: list[AbortedTransaction] = []
        for segment in self.from_offset(first.base_offset):
            if segment.aborted.collect(low, high, aborted):
                break
        return aborted

    def scan(self, low: Offset, high: Offset) -> Iterator[tuple[Segment, int, BatchHeader]]:
        """(segment, position, header) of each batch that holds offsets of [low, high)."""
        if low >= high:
            return
        for segment in self.from_offset(low):
            for position, header in segment.scan(segment.locate(low)):
                if header.base_offset >= high:
                    return
                yield segment, position, header

    def delete_above(self, offset: Offset) -> None:
        """Delete the segments whose base offset is above `offset`; the first one must not be."""
        self._delete(bisect_right(self._bases, offset), len(self._bases))
        self.active = self._segments[-1]

    def retire(self, count: int) -> tuple[Segment, ...]:
        """Take the oldest ones out, but not the active one; their files stay, under other names."""
        assert count < len(self._segments), "the active segment stays"
        retired = tuple(self._segments[:count])
        for segment in retired:
            segment.retire()
        del self._segments[:count], self._bases[:count]
        return retired

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Put a cleaned segment in the place of neighbours; the active one is none of them.

        A crash leaves either the old files, or the new ones with SWAP_SUFFIX, which the next start puts into their
        place. source: LocalLog.replaceSegments
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
        """Delete every file; `add` must follow unless the log itself goes."""
        self._delete(0, len(self._bases))

    def _delete(self, first: int, end: int) -> None:
        for segment in self._segments[first:end]:
            segment.delete()
        del self._segments[first:end], self._bases[first:end]

    def close(self) -> None:
        """Close all files."""
        for segment in self._segments:
            segment.close()


# ------------------------------------------------------------------------------------------------------------ retention
#
# Which of a log's oldest segments go: those below its start, those too many by size, those too old.
#
# Only whole segments go, from the oldest on, and only records below the high watermark.
# source: Kafka UnifiedLog.deleteOldSegments, deletableSegments; LogManager.cleanupLogs
#
# Simplified: the same in every era. Earlier a segment was as old as its file (KIP-33), and records above the high
# watermark could go (KAFKA-5634). Here a segment whose records have no timestamps is as old as its object in memory.

UNLIMITED = -1


class RetiredSegments(NamedTuple):
    """Segments that were taken out of a log and still have their files, under other names.

    log_start_offset: of the log since     cause: None for segments that lay below the start already
    limit: value of the setting that the cause names
    """

    segments: tuple[Segment, ...]
    log_start_offset: Offset
    cause: RetentionCause | None = None
    limit: int = UNLIMITED


def below_start(segments: Sequence[Segment], log_start_offset: Offset, high_watermark: Offset) -> int:
    """How many lie wholly below the start of the log. source: deleteLogStartOffsetBreachedSegments"""
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= min(log_start_offset, high_watermark):
        count += 1
    return count


def too_large(segments: Sequence[Segment], config: TopicConfig, high_watermark: Offset) -> int:
    """How many the log can lose and still have retention.bytes. source: deleteRetentionSizeBreachedSegments"""
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
    """How many have no record that is younger than retention.ms. source: deleteRetentionMsBreachedSegments"""
    if config.retention_ms == UNLIMITED:
        return 0
    return _oldest(
        segments, high_watermark, lambda segment: now_ms - segment.largest_timestamp_ms > config.retention_ms
    )


def _oldest(segments: Sequence[Segment], high_watermark: Offset, goes: Callable[[Segment], bool]) -> int:
    """How many segments in a row go; an empty one at the end stays."""
    ends = [*(segment.base_offset for segment in segments[1:]), segments[-1].next_offset]
    count = 0
    for segment, end in zip(segments, ends, strict=True):
        is_empty_end = count + 1 == len(segments) and not segment.size
        if end > high_watermark or is_empty_end or not goes(segment):
            break
        count += 1
    return count
