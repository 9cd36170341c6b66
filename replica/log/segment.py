"""One segment of a log: a file of consecutive batches, and its indexes.

The segment translates offsets to file positions; the log decides which offsets may be read or truncated.

Source: Kafka LogSegment, FileRecords
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from replica.config import TopicConfig
from replica.errors import KafkaError
from replica.ids import Offset
from replica.log.batches.records import (
    BATCH_HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    Bytes,
    check_crc,
    read_header,
)
from replica.log.files.disk import LOG_SUFFIX, Disk
from replica.log.files.open_files import OpenFile
from replica.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeIndex
from replica.log.producers.transaction_index import ENTRY_BYTES, TransactionIndex

INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
FILE_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
"""Suffix of the files that the cleaner is writing."""
SWAP_SUFFIX = ".swap"
"""Suffix of complete cleaned files that will replace files of the log."""

INT32_MAX = 2**31 - 1
SCAN_BYTES = 16 << 10
"""The number of bytes that a header scan reads at once. Between index entries there are about 4 KiB."""
RECOVERY_BYTES = 1 << 20
TAIL_BATCHES_MAX = 1024
"""The number of latest batches whose exact positions are kept in memory, because most reads begin at these batches."""


class Segment:
    """A segment file, named `%020d.log` after its base offset, and its index files.

    Attributes:
        next_offset: the last offset plus one.
        size: size of the file in bytes.
        max_timestamp_ms: largest timestamp of a record, -1 without records.
        aborted: the transactions whose ABORT marker is in this segment.
    """

    __slots__ = (
        "_bytes_since_entry",
        "_disk",
        "_file",
        "_first_timestamp_ms",
        "_is_closed",
        "_suffix",
        "_tail_lasts",
        "_tail_positions",
        "_tail_start",
        "_written_aborted",
        "_written_entries",
        "aborted",
        "base_offset",
        "created_us",
        "index",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "next_offset",
        "path",
        "size",
        "time_index",
    )

    def __init__(self, directory: Path, base_offset: Offset, disk: Disk, now_us: int, suffix: str = "") -> None:
        self.path = f"{directory}/{base_offset:020d}{LOG_SUFFIX}{suffix}"
        self._suffix = suffix
        self.base_offset = base_offset
        self.created_us = now_us
        self._disk = disk
        self._file: OpenFile | None = None
        self._is_closed = False
        self._written_aborted = 0
        self._clear()

    def _clear(self) -> None:
        self.size = 0
        self.next_offset = self.base_offset
        self.index = OffsetIndex(self.base_offset)
        self.time_index = TimeIndex(self.base_offset)
        self.aborted = TransactionIndex(self.base_offset)
        self.max_timestamp_ms = -1
        self.max_timestamp_offset = self.base_offset
        self._first_timestamp_ms: int | None = None
        self._bytes_since_entry = 0
        # Last offset and position of the latest batches. They are complete from offset _tail_start on.
        self._tail_lasts: list[Offset] = []
        self._tail_positions: list[int] = []
        self._tail_start = self.base_offset
        self._written_entries: tuple[int, int] | None = None

    @classmethod
    def create(cls, directory: Path, base_offset: Offset, disk: Disk, now_us: int, suffix: str = "") -> Segment:
        """Create an empty segment. `suffix` is CLEANED_SUFFIX for a segment that is not part of the log yet."""
        segment = cls(directory, base_offset, disk, now_us, suffix)
        segment._file = OpenFile(os.open(segment.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644))
        disk.open_files.used(segment)
        disk.forget(segment.path)
        disk.opened(segment.path, 0)
        return segment

    @classmethod
    def load(cls, directory: Path, base_offset: Offset, disk: Disk, now_us: int) -> tuple[Segment, bool]:
        """Load an existing segment with its indexes.

        Returns:
            The segment, and False if indexes are missing or implausible, so that `recover` must be called.
        """
        segment = cls(directory, base_offset, disk, now_us)
        file_size = Path(segment.path).stat().st_size
        disk.opened(segment.path, file_size)
        segment.size = file_size
        return segment, segment._load_indexes()

    @staticmethod
    def end_of_file(path: Path, base_offset: Offset) -> Offset:
        """Return the offset after the last batch in a segment file that is not loaded. Source: readNextOffset"""
        end = base_offset
        with path.open("rb") as file:
            position = 0
            while len(head := os.pread(file.fileno(), BATCH_HEADER_BYTES, position)) == BATCH_HEADER_BYTES:
                header = read_header(head)
                end, position = header.last_offset + 1, position + header.size_bytes
        return end

    @property
    def file(self) -> OpenFile:
        """The open file. The caller must keep a reference as long as the file descriptor is used."""
        file = self._file
        if file is None:
            assert not self._is_closed, f"{self.path} is closed"
            file = self._file = OpenFile(os.open(self.path, os.O_RDWR))
        open_files = self._disk.open_files
        if open_files.latest is not self:
            open_files.used(self)
        return file

    def put_aside(self) -> None:
        """Close the file, because too many are open, until the next use."""
        self._file = None

    # ------------------------------------------------------------------------------------------------------ append

    def append(self, data: Bytes, headers: Sequence[BatchHeader], index_interval_bytes: int) -> None:
        """Append whole batches to the file, without a flush. `headers` are those of the batches in `data`, in order.

        Raises:
            OSError: if the write fails; the segment is then unchanged.
        """
        position = self.size
        self._write(data, position)
        for header in headers:
            self._account(header, position, index_interval_bytes)
            position += header.size_bytes
        self.size = position
        self._disk.wrote(self.path, position)

    def _account(self, header: BatchHeader, position: int, index_interval_bytes: int) -> None:
        """Update the segment's state for a batch at `position`, with index entries every `index_interval_bytes`."""
        last_offset = header.last_offset
        self.next_offset = last_offset + 1
        if header.max_timestamp > self.max_timestamp_ms:
            self.max_timestamp_ms = header.max_timestamp
            self.max_timestamp_offset = last_offset
        if position == 0:
            self._first_timestamp_ms = header.max_timestamp
        # At most one entry per batch, as in Kafka 4.x; up to 3.9 it was one per append, which readers do not notice.
        if self._bytes_since_entry > index_interval_bytes:
            self.index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)
            self._bytes_since_entry = 0
        self._bytes_since_entry += header.size_bytes
        self._tail_lasts.append(last_offset)
        self._tail_positions.append(position)
        if len(self._tail_lasts) > TAIL_BATCHES_MAX:
            half = TAIL_BATCHES_MAX // 2
            self._tail_start = self._tail_lasts[half - 1] + 1
            del self._tail_lasts[:half], self._tail_positions[:half]

    def _write(self, data: Bytes, position: int) -> None:
        file = self.file
        try:
            if os.pwrite(file.fd, data, position) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(file.fd, position)  # Do not leave an incomplete batch in the file.
            raise

    def should_roll(
        self, first: BatchHeader, last_offset: Offset, size_bytes: int, config: TopicConfig, now_us: int
    ) -> str | None:
        """Return the reason why the batches from `first` to `last_offset` need a new segment, None if they do not.

        Source: LogSegment.shouldRoll
        """
        if last_offset - self.base_offset > INT32_MAX:
            return "offsets no longer fit the index"
        if self.size == 0:
            return None
        if self.size + size_bytes > min(config.segment_bytes, INT32_MAX):
            return "segment.bytes"
        if self._waited_ms(first.max_timestamp, now_us) > config.segment_ms:
            return "segment.ms"
        if len(self.index) >= config.segment_index_bytes // OFFSET_ENTRY_BYTES:
            return "offset index is full"
        if len(self.time_index) >= config.segment_index_bytes // TIME_ENTRY_BYTES - 1:
            return "time index is full"
        return None

    def _waited_ms(self, timestamp_ms: int, now_us: int) -> int:
        """Return the age of the segment in ms: at `timestamp_ms` if its records have timestamps, else at `now_us`."""
        first_timestamp_ms = self.first_timestamp_ms
        if first_timestamp_ms >= 0:
            return timestamp_ms - first_timestamp_ms
        return (now_us - self.created_us) // 1000

    @property
    def first_timestamp_ms(self) -> int:
        """The largest timestamp of the first batch in milliseconds, -1 without one. Source: getFirstBatchTimestamp"""
        if self._first_timestamp_ms is None:
            if self.size == 0:
                return -1
            self._first_timestamp_ms = read_header(self._pread(BATCH_HEADER_BYTES, 0)).max_timestamp
        return self._first_timestamp_ms

    @property
    def largest_timestamp_ms(self) -> int:
        """The largest timestamp of a record, or without timestamps the time at which the segment was created.

        Kafka uses the time of the file's last modification instead.
        """
        return self.max_timestamp_ms if self.max_timestamp_ms >= 0 else self.created_us // 1000

    # ------------------------------------------------------------------------------------------------------ locate

    def locate(self, offset: Offset) -> int:
        """Return the position of the first batch that ends at or after `offset`, else the segment's size."""
        if offset >= self.next_offset:
            return self.size
        if offset >= self._tail_start:
            index = bisect_left(self._tail_lasts, offset)
            return self._tail_positions[index] if index < len(self._tail_positions) else self.size
        for position, header in self.scan(self.index.position_before(offset)):
            if header.last_offset >= offset:
                return position
        return self.size

    def boundary_before(self, limit: int, start: int) -> int:
        """Return the last position in [start, limit] at which a batch starts or ends. A batch must start at `start`."""
        if limit >= self.size:
            return self.size
        if self._tail_positions and limit >= self._tail_positions[0]:
            return max(start, self._tail_positions[bisect_right(self._tail_positions, limit) - 1])
        boundary = max(start, self.index.boundary_before(limit))
        for position, _ in self.scan(boundary):
            if position > limit:
                break
            boundary = position
        return boundary

    def end_of(self, position: int) -> int:
        """Return the position at which the batch that starts at `position` ends."""
        return position + read_header(self._pread(BATCH_HEADER_BYTES, position)).size_bytes

    def scan(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Yield (position, header) of each complete batch from `position` on, where a batch must start."""
        chunk, chunk_start = b"", position
        while position + BATCH_HEADER_BYTES <= self.size:
            within = position - chunk_start
            if within + BATCH_HEADER_BYTES > len(chunk):
                chunk = self._pread(min(SCAN_BYTES, self.size - position), position)
                chunk_start, within = position, 0
            header = read_header(chunk, within)
            if position + header.size_bytes > self.size:
                return
            yield position, header
            position += header.size_bytes

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        return self._pread(header.size_bytes, position)

    def offset_at(self, position: int) -> Offset:
        """Return the base offset of the batch that starts at `position`, or the next offset at the end."""
        if position >= self.size:
            return self.next_offset
        return read_header(self._pread(BATCH_HEADER_BYTES, position)).base_offset

    def _pread(self, count: int, position: int) -> bytes:
        file = self.file
        return os.pread(file.fd, count, position)

    # ------------------------------------------------------------------------------------------- truncate, recover

    def truncate(self, offset: Offset, now_us: int) -> int:
        """Remove the batch that contains `offset` and all later batches, and return the number of removed bytes.

        `next_offset` is then `offset`.
        """
        position = self.locate(offset)
        cut = self.size - position
        file = self.file
        os.ftruncate(file.fd, position)
        self._disk.truncated(self.path, position)
        self.size = position
        self.index.truncate(offset)
        self.time_index.truncate(offset)
        self.aborted.truncate(offset)
        self._written_entries = None
        self._rescan_tail()
        self.next_offset = offset
        if position == 0:
            self.created_us = now_us
        self.write_indexes()
        return cut

    def recover(self, on_batch: Callable[[BatchHeader], None], index_interval_bytes: int) -> str | None:
        """Check every batch, rebuild the indexes, and truncate the file at the first incomplete or damaged batch.

        Args:
            on_batch: called with the header of each valid batch, in order.

        Returns:
            Problem of the bad batch, None if all batches were valid.

        Source: LogSegment.recover
        """
        file = self.file
        file_size = os.fstat(file.fd).st_size
        self._clear()
        if Path(self._sibling(TXN_INDEX_SUFFIX)).exists():
            self._written_aborted = -1
        position, problem = 0, None
        chunk, chunk_start = b"", 0
        while position < file_size:
            within = position - chunk_start
            while within + (needed := _bytes_needed(chunk, within, file_size - position)) > len(chunk):
                chunk = os.pread(file.fd, max(RECOVERY_BYTES, needed), position)
                chunk_start, within = position, 0
            header, problem = self._examine(chunk, within)
            if header is None:
                break
            self._account(header, position, index_interval_bytes)
            on_batch(header)
            position += header.size_bytes
        self.size = position
        if position < file_size:
            os.ftruncate(file.fd, position)
            self._disk.truncated(self.path, position)
        if position or any(Path(self._sibling(suffix)).exists() for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)):
            self.write_indexes()  # For an empty segment without index files, they are written when it is closed.
        return problem

    def _examine(self, chunk: bytes, within: int) -> tuple[BatchHeader | None, str | None]:
        """Return the header of the batch at `within` if it is valid, else a description of the problem."""
        try:
            header = read_header(chunk, within)
        except KafkaError as error:
            return None, error.message
        if within + header.size_bytes > len(chunk):
            missing = within + header.size_bytes - len(chunk)
            return None, f"the batch at offset {header.base_offset} lacks its last {missing} bytes"
        if header.magic != MAGIC:
            return None, f"the batch at offset {header.base_offset} has magic {header.magic}"
        if not check_crc(chunk, within, header):
            return None, f"the batch at offset {header.base_offset} fails its CRC"
        if header.base_offset < self.next_offset or header.last_offset - self.base_offset > INT32_MAX:
            return None, f"the batch at offset {header.base_offset} is out of order"
        return header, None

    # ----------------------------------------------------------------------------------------------------- indexes

    def _load_indexes(self) -> bool:
        try:
            offsets = Path(self._sibling(INDEX_SUFFIX)).read_bytes()
            times = Path(self._sibling(TIME_INDEX_SUFFIX)).read_bytes()
        except FileNotFoundError:
            return False
        if not (self.index.decode(offsets, self.size) and self.time_index.decode(times)):
            return False
        self._written_entries = (len(self.index), len(self.time_index))
        if not self._load_aborted():
            return False
        try:
            return self._rescan_tail() == self.size
        except KafkaError:
            return False

    def _load_aborted(self) -> bool:
        """Load the transaction index, if there is one. Return False if it is implausible."""
        path = Path(self._sibling(TXN_INDEX_SUFFIX))
        if not path.exists():
            return True
        self._written_aborted = -1
        if not self.aborted.decode(path.read_bytes()):
            return False
        self._written_aborted = len(self.aborted)
        return True

    def _rescan_tail(self) -> int:
        """Read the headers after the last index entry again, and return the end of the last complete batch."""
        self._bytes_since_entry = 0
        self._tail_lasts.clear()
        self._tail_positions.clear()
        self.max_timestamp_ms, self.max_timestamp_offset = self.time_index.last
        end = self.index.positions[-1] if self.index.positions else 0
        self.next_offset = self.base_offset
        self._first_timestamp_ms = None
        for position, header in self.scan(end):
            if not self._tail_lasts:
                self._tail_start = header.base_offset
            self._account(header, position, self.size)  # An interval this long adds no entries.
            end = position + header.size_bytes
        if not self._tail_lasts:
            self._tail_start = self.base_offset
        return end

    def write_indexes(self) -> None:
        """Write new index entries to the index files. After a truncation, the files are written anew."""
        if self._written_aborted != len(self.aborted):
            first = max(0, min(self._written_aborted, len(self.aborted)))
            _extend(self._sibling(TXN_INDEX_SUFFIX), first * ENTRY_BYTES, self.aborted.encode(first))
            self._written_aborted = len(self.aborted)
        if self._written_entries == (len(self.index), len(self.time_index)):
            return
        offsets, times = self._written_entries or (0, 0)
        _extend(self._sibling(INDEX_SUFFIX), offsets * OFFSET_ENTRY_BYTES, self.index.encode(offsets))
        _extend(self._sibling(TIME_INDEX_SUFFIX), times * TIME_ENTRY_BYTES, self.time_index.encode(times))
        self._written_entries = (len(self.index), len(self.time_index))

    def _sibling(self, suffix: str) -> str:
        return f"{self.path.removesuffix(self._suffix).removesuffix(LOG_SUFFIX)}{suffix}{self._suffix}"

    # ---------------------------------------------------------------------------------------------- flush and close

    def flush(self) -> None:
        """Flush the batches to disk, and write the indexes to their files."""
        self.write_indexes()
        file = self.file
        self._disk.flush(self.path, file.fd)

    def become_inactive(self) -> None:
        """Add the largest timestamp to the time index of a segment that is complete (onBecomeInactiveSegment)."""
        self.time_index.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)
        self.write_indexes()

    def delete(self) -> None:
        """Delete the files. A file that a response still reads from stays open until the response is sent."""
        for suffix in FILE_SUFFIXES:
            Path(self._sibling(suffix)).unlink(missing_ok=True)
        self._disk.forget(self.path)
        self.close()

    def rename_to(self, suffix: str) -> None:
        """Change the suffix of the files; files that belong to the log have none. Source: LogSegment.changeFileSuffixes

        The data file is renamed first, so that, after a crash, a data file with the new suffix shows that all files
        are complete.
        """
        before = {kind: Path(self._sibling(kind)) for kind in FILE_SUFFIXES}
        self._disk.forget(self.path)
        self.path = f"{self.path.removesuffix(self._suffix)}{suffix}"
        self._suffix = suffix
        for kind, path in before.items():
            if path.exists():
                path.rename(self._sibling(kind))
        self._disk.opened(self.path, self.size)

    def retire(self) -> None:
        """Rename the files of a segment that is removed from the log. Source: LocalLog.deleteSegmentFiles

        The files exist until `remove`, because responses may still read from them.
        """
        for suffix in FILE_SUFFIXES:
            path = Path(self._sibling(suffix))
            if path.exists():
                path.rename(f"{path}{DELETED_SUFFIX}")
        self._disk.forget(self.path)
        self.close()

    def remove(self) -> None:
        """Delete the files that `retire` has renamed."""
        for suffix in FILE_SUFFIXES:
            Path(f"{self._sibling(suffix)}{DELETED_SUFFIX}").unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._file = None
        self._is_closed = True
        self._disk.open_files.closed(self)


def _bytes_needed(chunk: bytes, within: int, left: int) -> int:
    """Return how many bytes to read from `within` on: a header, or the whole batch if `chunk` has its header."""
    needed = BATCH_HEADER_BYTES
    if len(chunk) - within >= BATCH_HEADER_BYTES:
        length = int.from_bytes(chunk[within + 8 : within + LOG_OVERHEAD_BYTES], signed=True)
        needed = max(needed, length + LOG_OVERHEAD_BYTES)
    return min(needed, left)


def _extend(path: str, position: int, content: bytes) -> None:
    """Write `content` at `position`, and truncate the file after the content."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(fd, content, position)
        os.ftruncate(fd, position + len(content))
    finally:
        os.close(fd)
