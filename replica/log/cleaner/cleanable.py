"""The choice of the log that is compacted next, and of the part to compact.

Source: Kafka LogCleanerManager.cleanableOffsets, grabFilthiestCompactedLog; LogToClean.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from replica.ids import Offset
from replica.log.log import Log
from replica.log.segment import Segment


class LogToClean(NamedTuple):
    """A log that compaction may clean.

    Attributes:
        first_dirty_offset: end of the part that earlier rounds have cleaned.
        upper_offset: exclusive end of the part to clean, the base offset of a segment.
        clean_bytes: size of the segments before `first_dirty_offset`.
        dirty_bytes: size of the segments from `first_dirty_offset` to `upper_offset`.
        is_overdue: True if max.compaction.lag.ms has passed.
        is_reset: True if the cleaner's checkpoint was outside the log.
        kept_end: a batch that ends at this offset is kept even without records. Since 4.4 this is the high watermark.
    """

    log: Log
    first_dirty_offset: Offset
    upper_offset: Offset
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    is_reset: bool
    kept_end: Offset

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)

    @property
    def is_due(self) -> bool:
        if self.is_overdue and self.dirty_bytes > 0:
            return True
        return self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def log_to_clean(log: Log, cleaned_to: Offset | None, last_stable_offset: Offset, now_ms: int) -> LogToClean:
    """Return the part of a log that a round of compaction could clean.

    `cleaned_to` is the log's offset in the cleaner's checkpoint, None if the checkpoint lacks the log.
    """
    segments = log.segments
    first_dirty = log.log_start_offset if cleaned_to is None else cleaned_to
    is_reset = not log.log_start_offset <= first_dirty <= log.log_end_offset
    if is_reset:
        first_dirty = log.log_start_offset
    dirty = segments.between(first_dirty, segments.active.base_offset)
    limits = [last_stable_offset, segments.active.base_offset]
    young = _first_younger_than(dirty, now_ms - log.config.min_compaction_lag_ms)
    if log.config.min_compaction_lag_ms > 0 and young is not None:
        limits.append(young.base_offset)
    uncleanable = max(first_dirty, min(limits))
    # Only whole segments are cleaned.
    upper_offset = segments.all[segments.index_of(uncleanable)].base_offset
    overdue_before_ms = now_ms - log.config.max_compaction_lag_ms
    return LogToClean(
        log,
        first_dirty,
        upper_offset,
        clean_bytes=sum(segment.size for segment in segments if segment.base_offset < first_dirty),
        dirty_bytes=sum(segment.size for segment in segments.between(min(first_dirty, upper_offset), upper_offset)),
        is_overdue=any(0 < segment.first_timestamp_ms < overdue_before_ms for segment in dirty),
        is_reset=is_reset,
        kept_end=upper_offset,
    )


def _first_younger_than(segments: Iterable[Segment], timestamp_ms: int) -> Segment | None:
    return next((segment for segment in segments if segment.largest_timestamp_ms > timestamp_ms), None)


def filthiest(candidates: Iterable[LogToClean]) -> LogToClean | None:
    """Return the log with the largest dirty ratio among the logs that are due; None if no log is due."""
    due = [
        candidate for candidate in candidates if candidate.clean_bytes + candidate.dirty_bytes > 0 and candidate.is_due
    ]
    return max(due, key=lambda item: item.dirty_ratio, default=None)
