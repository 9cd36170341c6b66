"""One log whose files another process writes: which batches it got and lost since the last look.

Only headers are read. A batch counts once it is whole; a log is cut where a batch that was there is not there any more,
or another one stands in its place: between two looks a follower may have cut its log and filled it again.

Source: LogSegment (a segment is named by its base offset), UnifiedLog.truncateTo, LocalLog.truncateFullyAndStartAt
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from replica.errors import KafkaError
from replica.ids import Offset
from replica.log.batches.records import BATCH_HEADER_BYTES, LOG_APPEND_TIME, MAGIC, BatchHeader, as_sent, read_header

HEADERS_CHUNK_BYTES = 64 << 10


class SegmentSize(NamedTuple):
    """state: differs whenever the file was written since"""

    base_offset: Offset
    size: int
    state: int = 0


class LogFiles(Protocol):
    """The segments of one log on a disk."""

    def segments(self) -> Sequence[SegmentSize]:
        """As they are now, lowest offset first; none if there is no log."""

    def read(self, base_offset: Offset, position: int, count: int) -> bytes:
        """Of one segment; fewer bytes, or none, if it is shorter now or gone."""


class TailBatch(NamedTuple):
    """Where a batch lies. crc: as it was sent"""

    segment: Offset
    position: int
    header: BatchHeader
    crc: int

    @property
    def end(self) -> int:
        return self.position + self.header.size_bytes

    @property
    def end_offset(self) -> Offset:
        return self.header.last_offset + 1


class TailChange(NamedTuple):
    """First the log was cut to `cut_to`, if that is no None; then it got batches."""

    cut_to: Offset | None
    appended: tuple[TailBatch, ...]


NO_CHANGE = TailChange(None, ())


class LogTail:
    """batches: of the log, in order     start: its first offset, as its files are named"""

    def __init__(self) -> None:
        self.batches: list[TailBatch] = []
        self.start: Offset = 0
        self._seen: Sequence[SegmentSize] = ()

    @property
    def end(self) -> Offset:
        """Log end offset, as the files say."""
        return self.batches[-1].end_offset if self.batches else self.start

    def look(self, files: LogFiles) -> TailChange:
        segments = files.segments()
        if segments == self._seen:
            return NO_CHANGE
        before = self.end
        sizes = {segment.base_offset: segment.size for segment in segments}
        first = segments[0].base_offset if segments else 0
        self._forget_below(first)
        was_cut = self._drop_what_is_gone(files, sizes)
        if not self.batches:
            # Also a log that was emptied and begins anew at a higher offset.
            was_cut = was_cut or first < self.start
            self.start = first
        cut_to = self.end if was_cut and self.end < before else None
        appended = self._read_on(files, segments)
        self.batches += appended
        self._seen = segments
        return TailChange(cut_to, tuple(appended))

    def _forget_below(self, first: Offset) -> None:
        """Segments that were deleted at the log's start are no loss of its end."""
        if self.batches and self.batches[-1].segment >= first > self.start:
            self.batches = [batch for batch in self.batches if batch.segment >= first]
            self.start = first

    def _drop_what_is_gone(self, files: LogFiles, sizes: dict[Offset, int]) -> bool:
        known = len(self.batches)
        while self.batches and not _is_there(files, sizes, self.batches[-1]):
            self.batches.pop()
        return len(self.batches) < known

    def _read_on(self, files: LogFiles, segments: Sequence[SegmentSize]) -> list[TailBatch]:
        found: list[TailBatch] = []
        for base_offset, size, _ in segments:
            last = self.batches[-1] if self.batches else None
            if last is not None and base_offset < last.segment:
                continue
            position = last.end if last is not None and base_offset == last.segment else 0
            found += _whole_batches(files, base_offset, position, size)
        return found


def _is_there(files: LogFiles, sizes: dict[Offset, int], batch: TailBatch) -> bool:
    if batch.end > sizes.get(batch.segment, -1):
        return False
    try:
        return read_header(files.read(batch.segment, batch.position, BATCH_HEADER_BYTES)) == batch.header
    except KafkaError:
        return False  # It was cut while it was looked at.


def _whole_batches(files: LogFiles, segment: Offset, position: int, size: int) -> list[TailBatch]:
    """From a position on, until the file ends or what follows is no whole batch, or not yet."""
    found: list[TailBatch] = []
    chunk, chunk_start = b"", position
    while position + BATCH_HEADER_BYTES <= size:
        if position + BATCH_HEADER_BYTES > chunk_start + len(chunk):
            chunk_start = position
            chunk = files.read(segment, position, min(HEADERS_CHUNK_BYTES, size - position))
        try:
            header = read_header(chunk, position - chunk_start)
        except KafkaError:
            break
        if header.magic != MAGIC or position + header.size_bytes > size:
            break
        crc = header.crc
        if header.attributes & LOG_APPEND_TIME:
            crc = as_sent(files.read(segment, position, header.size_bytes), header).crc
        found.append(TailBatch(segment, position, header, crc))
        position += header.size_bytes
    return found
