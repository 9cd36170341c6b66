"""Follows a log whose files another process writes, and finds appended and truncated batches.

Only batch headers are read. A batch counts once it is complete. Between two looks at the files a follower may truncate
its log and fill it again. So a log counts as truncated where a known batch is missing or was replaced.

Source: LogSegment (a segment is named by its base offset), UnifiedLog.truncateTo, LocalLog.truncateFullyAndStartAt
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from cluster.kafka.observe.metadata_events import WrittenRecord
from cluster.kafka.observe.metadata_records import decode_leader_change, decode_record
from controller.metadata import MetadataRecord, RemoveTopicRecord, TopicRecord
from replica.errors import KafkaError
from replica.ids import Offset
from replica.log.batches.records import (
    BATCH_HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    BatchHeader,
    Record,
    as_sent,
    read_header,
    read_records,
)

HEADERS_CHUNK_BYTES = 64 << 10


class SegmentSize(NamedTuple):
    """A segment file and its size in bytes. `state` changes with every write."""

    base_offset: Offset
    size: int
    state: int = 0


class LogFiles(Protocol):
    """The segments of one log on a disk."""

    def segments(self) -> Sequence[SegmentSize]:
        """Return the current segments, lowest offset first; none if there is no log."""

    def read(self, base_offset: Offset, position: int, count: int) -> bytes:
        """Read up to `count` bytes from a segment; return fewer, or none, if the segment was truncated or removed."""


class TailBatch(NamedTuple):
    """A batch and its position in the files.

    Attributes:
        segment: base offset of the segment.
        position: position in the segment's file in bytes.
        crc: CRC of the batch as the producer sent it.
    """

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
    """The change since the last look: a truncation to offset `cut_to` (None without one), then appended batches."""

    cut_to: Offset | None
    appended: tuple[TailBatch, ...]


NO_CHANGE = TailChange(None, ())


class LogTail:
    """The contents of one log at the last look.

    Attributes:
        batches: batches of the log, in order.
        start: first offset, from the names of its files.
    """

    def __init__(self) -> None:
        self.batches: list[TailBatch] = []
        self.start: Offset = 0
        self._seen: Sequence[SegmentSize] = ()

    @property
    def end(self) -> Offset:
        """The log end offset at the last look."""
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
            # This includes a log that was emptied and begins again at a higher offset.
            was_cut = was_cut or first < self.start
            self.start = first
        cut_to = self.end if was_cut and self.end < before else None
        appended = self._read_on(files, segments)
        self.batches += appended
        self._seen = segments
        return TailChange(cut_to, tuple(appended))

    def _forget_below(self, first: Offset) -> None:
        """Forget the segments that were deleted at the start of the log. Their deletion is no truncation."""
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
        return False  # Truncated during the look.


def _whole_batches(files: LogFiles, segment: Offset, position: int, size: int) -> list[TailBatch]:
    """Read the headers of complete batches from `position` on, up to an incomplete batch or the end of the file."""
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


# --------------------------------------------------------------------------------------------------------- metadata log
#
# The committed part of the controllers' metadata log: the batches on a majority of their disks.
#
# Source: KRaft's high watermark is the largest offset that a majority of the voters has.


class MetadataTail:
    """Follows the committed part of the metadata log. `logs` are the logs of all voters, by name."""

    def __init__(self, logs: Mapping[str, LogFiles]) -> None:
        self._logs = dict(logs)
        self._tails = {name: LogTail() for name in logs}
        self._next = 0
        self._topics: dict[UUID, str] = {}

    def look(self) -> Iterator[list[WrittenRecord]]:
        """Yield the batches committed since the last call, each as a list of its records.

        Raises:
            PeerViolation, KafkaError: if a file is not a metadata log.
        """
        for name, tail in self._tails.items():
            tail.look(self._logs[name])
        while (found := self._committed()) is not None:
            name, batch = found
            self._next = batch.end_offset
            yield self._records(name, batch)

    def _committed(self) -> tuple[str, TailBatch] | None:
        """Return the next batch that a majority of the voters has, and the name of such a voter; None without one."""
        holders: Counter[BatchHeader] = Counter()
        for name, tail in self._tails.items():
            index = bisect_left(tail.batches, self._next, key=lambda batch: batch.header.base_offset)
            if index < len(tail.batches):
                batch = tail.batches[index]
                holders[batch.header] += 1
                if holders[batch.header] > len(self._tails) // 2:
                    return name, batch
        return None

    def _records(self, name: str, batch: TailBatch) -> list[WrittenRecord]:
        header = batch.header
        data = self._logs[name].read(batch.segment, batch.position, header.size_bytes)
        found = []
        for record in read_records(data):
            decided = self._decoded(header, record)
            if isinstance(decided, TopicRecord):
                self._topics[decided.topic_id] = decided.name
            elif isinstance(decided, RemoveTopicRecord):
                del self._topics[decided.topic_id]
            if decided is not None:
                found.append(WrittenRecord(record.offset, record.timestamp_ms, decided))
        return found

    def _decoded(self, header: BatchHeader, record: Record) -> MetadataRecord | None:
        if header.is_control:
            return decode_leader_change(header, record)
        return decode_record(record.value or b"", self._topics)
