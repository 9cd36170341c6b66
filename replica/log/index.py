"""The two sparse indexes of a segment: offset -> file position, and timestamp -> offset.

Both have Kafka's file format. A missing or implausible file is rebuilt from the log.

Differs from Kafka, which maps preallocated files into memory; here the entries are compact arrays, written to the file
at roll, flush, truncation and close. Source: Kafka OffsetIndex, TimeIndex, AbstractIndex
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from replica.ids import Offset

_OFFSET_ENTRY = struct.Struct(">ii")  # offset - base offset, file position
_TIME_ENTRY = struct.Struct(">qi")  # timestamp, offset - base offset

OFFSET_ENTRY_BYTES = _OFFSET_ENTRY.size
TIME_ENTRY_BYTES = _TIME_ENTRY.size


class OffsetIndex:
    """Entries (last offset of a batch, position where that batch starts), both strictly increasing."""

    __slots__ = ("base_offset", "offsets", "positions")

    def __init__(self, base_offset: Offset) -> None:
        self.base_offset = base_offset
        self.offsets = array("q")
        self.positions = array("q")

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, last_offset: Offset, position: int) -> None:
        self.offsets.append(last_offset)
        self.positions.append(position)

    def position_before(self, offset: Offset) -> int:
        """Return the file position from which to scan for `offset`: that of the last entry at or below it, or 0."""
        index = bisect_right(self.offsets, offset) - 1
        return self.positions[index] if index >= 0 else 0

    def boundary_before(self, position: int) -> int:
        """Return the greatest known batch start at or below `position`, else 0."""
        index = bisect_right(self.positions, position) - 1
        return self.positions[index] if index >= 0 else 0

    def truncate(self, offset: Offset) -> None:
        """Remove the entries for `offset` and all later offsets."""
        keep = bisect_left(self.offsets, offset)
        del self.offsets[keep:], self.positions[keep:]

    def encode(self, first: int = 0) -> bytes:
        """Return the entries from number `first` on, encoded as in the file."""
        entries = zip(self.offsets[first:], self.positions[first:], strict=True)
        return b"".join([_OFFSET_ENTRY.pack(offset - self.base_offset, position) for offset, position in entries])

    def decode(self, content: bytes, size: int) -> bool:
        """Load the content of an index file. Return False if it cannot belong to a segment of `size` bytes."""
        if len(content) % OFFSET_ENTRY_BYTES:
            return False
        previous = (-1, -1)
        for relative, position in _OFFSET_ENTRY.iter_unpack(content):
            if not (relative > previous[0] and position > previous[1] and position < size):
                return False
            previous = (relative, position)
            self.append(self.base_offset + relative, position)
        return True


class TimestampOffset(NamedTuple):
    """A timestamp in milliseconds, -1 for none, and the offset of a record with this timestamp."""

    timestamp_ms: int
    offset: Offset


class TimeIndex:
    """Entries (largest timestamp so far, offset of a record with it); the timestamps are strictly increasing."""

    __slots__ = ("base_offset", "offsets", "timestamps")

    def __init__(self, base_offset: Offset) -> None:
        self.base_offset = base_offset
        self.timestamps = array("q")
        self.offsets = array("q")

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def last(self) -> TimestampOffset:
        if not self.timestamps:
            return TimestampOffset(-1, self.base_offset)
        return TimestampOffset(self.timestamps[-1], self.offsets[-1])

    def maybe_append(self, timestamp_ms: int, offset: Offset) -> None:
        """Add an entry if the timestamp is higher than those of all entries."""
        if timestamp_ms > self.last.timestamp_ms:
            self.timestamps.append(timestamp_ms)
            self.offsets.append(offset)

    def offset_before(self, timestamp_ms: int) -> Offset:
        """Return an offset before which every record has a timestamp smaller than `timestamp_ms`."""
        index = bisect_left(self.timestamps, timestamp_ms) - 1
        return self.offsets[index] if index >= 0 else self.base_offset

    def truncate(self, offset: Offset) -> None:
        """Remove the entries for `offset` and all later offsets."""
        keep = bisect_left(self.offsets, offset)
        del self.timestamps[keep:], self.offsets[keep:]

    def encode(self, first: int = 0) -> bytes:
        """Return the entries from number `first` on, encoded as in the file."""
        entries = zip(self.timestamps[first:], self.offsets[first:], strict=True)
        return b"".join([_TIME_ENTRY.pack(timestamp, offset - self.base_offset) for timestamp, offset in entries])

    def decode(self, content: bytes) -> bool:
        """Load the content of an index file. Return False if it is implausible."""
        if len(content) % TIME_ENTRY_BYTES:
            return False
        for timestamp, relative in _TIME_ENTRY.iter_unpack(content):
            if relative < 0 or timestamp <= self.last.timestamp_ms or self.base_offset + relative < self.last.offset:
                return False
            self.maybe_append(timestamp, self.base_offset + relative)
        return True
