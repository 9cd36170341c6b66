"""Reads the batches of one segment file in order and finds damage, in little memory for a file of any size.

Batches are not decompressed, because their headers have the numbers of records.
Source: Kafka LogSegment.recover, FileLogInputStream
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from crc32c import crc32c

from replica.errors import KafkaError
from replica.ids import Offset
from replica.log.batches.codecs import CODECS
from replica.log.batches.records import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CRC_START,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    check_crc,
    read_header,
)
from scenarios.logdirs.directory import OFFSET_MAX, SegmentFile
from scenarios.logdirs.files import open_to_read, readable

CHUNK_BYTES = 1 << 20
HEADER_CHUNK_BYTES = 16 << 10
INT32_MAX = 2**31 - 1
OLD_HEADER_BYTES = 17
"""Bytes of a message from before 0.11 up to and including its magic: offset, length, CRC and magic."""
OLD_CRC_START = 16
OLD_LENGTH_LEAST = 14
"""The smallest length of a message from before 0.11.

Source: LegacyRecord.RECORD_OVERHEAD_V0
"""


class StoredBatch(NamedTuple):
    """A batch and its position in a segment file."""

    file: SegmentFile
    position: int
    header: BatchHeader


class OldMessages(NamedTuple):
    """A message or a compressed set of messages in a format from before Kafka 0.11. Its records are not read."""

    file: SegmentFile
    position: int
    size_bytes: int
    last_offset: Offset
    name: str
    """Name of the format, such as `v1, gzip`."""


class Damage(NamedTuple):
    """Damage at a position of a segment.

    Attributes:
        kind: `crc` (wrong), `order` (of offsets), `length` (impossible), `zeros` (up to the end of the file), `torn`
            (the file ends within the batch), or `format` (a magic that Kafka never writes).
        why: description of the damage.
        cut_to: log end offset after a recovery, which truncates the log here.
        rest: number of bytes up to the end of the file that cannot be read, 0 if the next batch can be found.
        last_offset: last offset of the damaged batch, None if its header is unreadable.
    """

    file: SegmentFile
    position: int
    kind: str
    why: str
    cut_to: Offset
    rest: int = 0
    last_offset: Offset | None = None


class ScanStep(NamedTuple):
    """One step of a scan: a batch or old messages, or damage, or both if the next batch can be found after damage."""

    batch: StoredBatch | None
    damage: Damage | None = None
    old: OldMessages | None = None


def scan(file: SegmentFile, *, check: bool, next_offset: Offset | None = None) -> Iterator[ScanStep]:
    """Yield the batches, old messages and damage in the first `file.size` bytes, up to damage that hides the rest.

    Args:
        check: True to check CRCs, False to read headers only.
        next_offset: smallest valid offset for the first batch, None for the segment's base offset.

    Raises:
        FileNotFoundError, LogDirectoryUnreadable: the file cannot be read.
    """
    with suppress(_End):
        yield from _Scan(file, check, next_offset).run()


class _End(Exception):
    """Raised if the file was truncated while it was read."""


class _Scan:
    def __init__(self, file: SegmentFile, check: bool, next_offset: Offset | None) -> None:
        self._file = file
        self._check = check
        self._next_offset = max(file.base_offset, next_offset or 0)
        self._fd = open_to_read(file.path)
        self._chunk, self._chunk_start = b"", 0

    def run(self) -> Iterator[ScanStep]:
        try:
            position = 0
            while position < self._file.size:
                found = self._at(position)
                yield found
                if found.old is not None:
                    last_offset, size = found.old.last_offset, found.old.size_bytes
                elif found.batch is not None:
                    last_offset, size = found.batch.header.last_offset, found.batch.header.size_bytes
                else:
                    return
                self._next_offset = max(self._next_offset, last_offset + 1)
                position += size
        finally:
            os.close(self._fd)

    def _at(self, position: int) -> ScanStep:
        left = self._file.size - position
        try:
            within = self._have(position, min(BATCH_HEADER_BYTES, left))
            if left >= OLD_HEADER_BYTES and self._chunk[within + 16] in (
                0,
                1,
            ):  # Old messages may be shorter than the header of a batch, so this comes first.
                length = int.from_bytes(self._chunk[within + 8 : within + 12], signed=True)
                if length >= OLD_LENGTH_LEAST:
                    return self._old(position, within, length, left)
            header = read_header(self._chunk, within) if left >= BATCH_HEADER_BYTES else None
        except KafkaError:
            if self._is_zero(position):
                why = "zeros to the end: blocks that were never written, or a file that was preallocated"
                return self._unreadable(position, "zeros", why)
            return self._unreadable(position, "length", self._impossible_length(position))
        if header is None:
            return self._unreadable(position, "torn", f"{left} bytes are too few for the header of a batch")
        if header.magic != MAGIC:
            return self._unreadable(position, "format", f"magic {header.magic}, which no version of Kafka writes")
        if header.size_bytes > left:
            why = f"the batch lacks its last {header.size_bytes - left:,} of {header.size_bytes:,} bytes"
            return self._unreadable(position, "torn", why, header.last_offset)
        problem = _impossible_offsets(header, self._file.base_offset, self._next_offset)
        if problem is not None and not 0 <= header.base_offset <= header.last_offset < OFFSET_MAX:
            return self._unreadable(position, "order", problem)
        batch = StoredBatch(self._file, position, header)
        if self._check and not self._crc_holds(position, header):
            problem, kind = "the batch fails its CRC", "crc"
        else:
            kind = "order"
        if problem is None:
            return ScanStep(batch)
        return ScanStep(batch, Damage(self._file, position, kind, problem, self._next_offset, 0, header.last_offset))

    def _old(self, position: int, within: int, length: int, left: int) -> ScanStep:
        """Return the step for a message in an old format, or for its damage.

        Source: FileLogInputStream, LegacyRecord.ensureValid
        """
        head = self._chunk[within : within + OLD_HEADER_BYTES + 1]
        magic, codec = head[16], head[17] & CODEC_MASK if len(head) > OLD_HEADER_BYTES else 0
        name = f"v{magic}" + (f", {CODECS[codec]}" if 0 < codec < len(CODECS) else "")
        size, offset = LOG_OVERHEAD_BYTES + length, int.from_bytes(head[:8], signed=True)
        if not 0 <= offset < OFFSET_MAX:
            return self._unreadable(position, "order", f"the message has the impossible offset {offset}")
        if size > left:
            why = f"the message ({name}) lacks its last {size - left:,} of {size:,} bytes"
            return self._unreadable(position, "torn", why, offset)
        old = OldMessages(self._file, position, size, offset, name)
        if self._check and self._old_crc(position, size) != int.from_bytes(head[12:16]):
            why = f"the message ({name}) fails its CRC"
            return ScanStep(None, Damage(self._file, position, "crc", why, self._next_offset, 0, offset), old)
        return ScanStep(None, None, old)

    def _old_crc(self, position: int, size: int) -> int:
        crc = 0
        for index in range(position + OLD_CRC_START, position + size, CHUNK_BYTES):
            crc = zlib.crc32(self._read(index, min(CHUNK_BYTES, position + size - index)), crc)
        return crc

    def _unreadable(self, position: int, kind: str, why: str, last_offset: Offset | None = None) -> ScanStep:
        rest = self._file.size - position
        return ScanStep(None, Damage(self._file, position, kind, why, self._next_offset, rest, last_offset))

    def _is_zero(self, position: int) -> bool:
        while position < self._file.size:
            piece = self._read(position, min(CHUNK_BYTES, self._file.size - position))
            if any(piece):
                return False
            position += len(piece)
        return True

    def _impossible_length(self, position: int) -> str:
        within = position - self._chunk_start
        length = int.from_bytes(self._chunk[within + 8 : within + 12], signed=True)
        return f"the batch claims a length of {length} bytes"

    def _crc_holds(self, position: int, header: BatchHeader) -> bool:
        if header.size_bytes <= CHUNK_BYTES:
            within = self._have(position, header.size_bytes)
            return check_crc(self._chunk, within, header)
        crc = 0
        index, end = position + CRC_START, position + header.size_bytes
        while index < end:
            piece = self._read(index, min(CHUNK_BYTES, end - index))
            crc = crc32c(piece, crc)
            index += len(piece)
        return crc == header.crc

    def _have(self, position: int, count: int) -> int:
        """Load at least `count` bytes at `position` into the chunk, unless it has them. Return their index in it."""
        within = position - self._chunk_start
        if within + count > len(self._chunk):
            ahead = CHUNK_BYTES if self._check else HEADER_CHUNK_BYTES
            self._chunk = self._read(position, min(max(ahead, count), self._file.size - position))
            self._chunk_start, within = position, 0
            if len(self._chunk) < count:
                raise _End
        return within

    def _read(self, position: int, count: int) -> bytes:
        with readable(self._file.path):
            found = os.pread(self._fd, count, position)
        if not found:
            raise _End
        return found


def _impossible_offsets(header: BatchHeader, base_offset: Offset, next_offset: Offset) -> str | None:
    if not 0 <= header.base_offset <= header.last_offset < OFFSET_MAX:
        return f"the batch has the impossible offsets {header.base_offset} to {header.last_offset}"
    if header.base_offset < next_offset:
        return f"offset {header.base_offset} follows offset {next_offset - 1}"
    if header.last_offset - base_offset > INT32_MAX:
        return f"offset {header.last_offset} is too far from the segment's first, {base_offset}"
    return None
