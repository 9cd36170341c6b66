"""Which of a log's oldest segments go: those below its start, those too many by size, those too old.

Only whole segments go, from the oldest on, and only records below the high watermark.
source: Kafka UnifiedLog.deleteOldSegments, deletableSegments; LogManager.cleanupLogs

Simplified: the same in every era. Earlier a segment was as old as its file (KIP-33), and records above the high
watermark could go (KAFKA-5634). Here a segment whose records have no timestamps is as old as its object in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from replica.config import TopicConfig
from replica.ids import Offset
from replica.log.segment import Segment

UNLIMITED = -1


class RetiredSegments(NamedTuple):
    """Segments that were taken out of a log and still have their files, under other names.

    log_start_offset: of the log since     why: in words, None for segments that lay below the start already
    """

    segments: tuple[Segment, ...]
    log_start_offset: Offset
    why: str | None


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
