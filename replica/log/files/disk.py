"""The contents of a broker's simulated disk: bytes written and bytes flushed, per segment file.

A write goes into the page cache. Unflushed bytes survive the death of the process, but not a power loss. A `Disk`
outlives the broker process, so that a power loss can be simulated after the process has ended.

Simplified: a power loss removes exactly the bytes after the last flush. A real kernel may have written some of these
pages back, in any order. Only segment files can lose bytes: checkpoints are fsynced and renamed when written, indexes
are rebuilt, and truncations and directory entries count as durable immediately.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from replica.ids import Offset, TopicPartition
from replica.log.batches.records import BATCH_HEADER_BYTES, BatchHeader, read_header
from replica.log.files.checkpoints import CLEAN_SHUTDOWN
from replica.log.files.open_files import OpenFiles

# ----------------------------------------------------------------------------------------------------------- disk speed
#
# The time that a disk takes for its operations in virtual time, one after the other.
#
# By default operations take no time. Reads from the page cache do not use the disk, so reads take time only if a read
# time is set (a cold cache). Simplified: fsync, truncation and checkpoints take no time.


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """The time that a slow disk takes for appends and reads.

    Attributes:
        append_us: fixed time of an append.
        read_us: fixed time of a read; if it is 0, reads take no time at all.
        bytes_per_second: rate of the transfer, None for no limit.
    """

    append_us: int = 0
    read_us: int = 0
    bytes_per_second: int | None = None

    def of_append(self, size_bytes: int) -> int:
        return self.append_us + self._transfer_us(size_bytes)

    def of_read(self, size_bytes: int) -> int:
        return self.read_us + self._transfer_us(size_bytes) if self.read_us else 0

    def _transfer_us(self, size_bytes: int) -> int:
        return 0 if self.bytes_per_second is None else size_bytes * 1_000_000 // self.bytes_per_second


class DiskSpeed:
    """The speed of a disk that performs one operation at a time, in the order of arrival.

    `in_force` maps each active fault to the service time that the fault adds.
    """

    __slots__ = ("_busy_until_us", "in_force")

    def __init__(self) -> None:
        self.in_force: dict[str, ServiceTime] = {}
        self._busy_until_us = 0

    def append_ends_us(self, size_bytes: int, now_us: int) -> int:
        """Return the time at which an append requested at `now_us` is complete."""
        if not self.in_force:
            return now_us
        return self._serve(sum(time.of_append(size_bytes) for time in self.in_force.values()), now_us)

    def read_ends_us(self, size_bytes: int, now_us: int) -> int:
        """Return the time at which a read requested at `now_us` is complete."""
        return self._serve(sum(time.of_read(size_bytes) for time in self.in_force.values()), now_us)

    def _serve(self, service_us: int, now_us: int) -> int:
        if service_us == 0:
            return now_us
        self._busy_until_us = max(now_us, self._busy_until_us) + service_us
        return self._busy_until_us


LOG_SUFFIX = ".log"


class DiskFailed(OSError):
    """The error of an operation on a simulated disk that is full (ENOSPC) or broken (EIO)."""


def _whole_batches(path: Path) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position in bytes, header) of each complete batch in a segment file."""
    with path.open("rb") as file:
        position, size_bytes = 0, path.stat().st_size
        while len(head := os.pread(file.fileno(), BATCH_HEADER_BYTES, position)) == BATCH_HEADER_BYTES:
            header = read_header(head)
            if position + header.size_bytes > size_bytes:
                return
            yield position, header
            position += header.size_bytes


class LostBytes(NamedTuple):
    """The number of bytes that one partition's log has lost."""

    topic_partition: TopicPartition
    bytes: int


def partition_of(directory: Path) -> TopicPartition | None:
    """Return the partition of a log directory such as `orders-0`, None for any other directory."""
    topic, dash, number = directory.name.rpartition("-")
    return TopicPartition(topic, int(number)) if dash and topic and number.isdecimal() else None


class Disk:
    """The disk of one log directory of a broker, with its page cache.

    A `full` disk refuses writes; a `broken` disk also refuses reads. `on_failure` is called before such an operation
    raises DiskFailed (LogDirFailureChannel).

    Args:
        root: the log directory.
        sync: True to flush with a real fsync; False in simulated mode, which only counts bytes.
    """

    def __init__(self, root: Path, *, sync: bool = True) -> None:
        self.root = root
        self.sync = sync
        self.speed = DiskSpeed()
        self.open_files = OpenFiles()
        self.full = False
        self.broken = False
        self.on_failure: Callable[[Disk, str], None] | None = None
        self._written: dict[str, int] = {}
        self._flushed: dict[str, int] = {}

    def volume_bytes(self) -> tuple[int, int]:
        """Return the total and the free bytes of the volume."""
        usage = shutil.disk_usage(self.root)
        return usage.total, usage.free

    def check_readable(self) -> None:
        if self.broken:
            self._refuse(errno.EIO)

    def check_writable(self) -> None:
        self.check_readable()
        if self.full:
            self._refuse(errno.ENOSPC)

    def _refuse(self, number: int) -> None:
        why = os.strerror(number)
        if self.on_failure is not None:
            self.on_failure(self, why)
        raise DiskFailed(number, why)

    def opened(self, path: str, size: int) -> None:
        """Start to track a segment file of `size` bytes, which count as flushed."""
        if path not in self._written:
            self._written[path] = self._flushed[path] = size

    def wrote(self, path: str, size: int) -> None:
        """Record that a file now has `size` bytes. New bytes are only in the page cache."""
        self._written[path] = size

    def truncated(self, path: str, size: int) -> None:
        """Record that a file was truncated to `size` bytes."""
        self._written[path] = size
        self._flushed[path] = min(self._flushed.get(path, 0), size)

    def flush(self, path: str, fd: int) -> None:
        """Flush a file: with an fsync if `sync` is set, else only by counting its bytes as flushed."""
        if self.sync:
            os.fsync(fd)
        self._flushed[path] = self._written[path]

    def kept(self, path: str, size: int) -> None:
        """Record that another process has flushed the first `size` bytes of a file."""
        self._flushed[path] = size

    def look(self) -> None:
        """Read the sizes of all segment files again, because another process writes them."""
        for file in sorted(self.root.glob(f"*/*{LOG_SUFFIX}")):
            self._written[str(file)] = file.stat().st_size

    def forget(self, path: str) -> None:
        """Stop tracking a deleted file."""
        self._written.pop(path, None)
        self._flushed.pop(path, None)

    def unflushed_bytes(self, topic_partition: TopicPartition | None = None) -> int:
        """Return the number of bytes that a power loss would remove now, from one partition or from all."""
        return sum(
            size - self._flushed.get(path, 0)
            for path, size in self._written.items()
            if topic_partition is None or partition_of(Path(path).parent) == topic_partition
        )

    def lose_unflushed(self) -> list[LostBytes]:
        """Truncate every file to its flushed size, as a power loss does, and return the losses, sorted by partition.

        All logs must be closed.
        """
        lost: dict[TopicPartition, int] = {}
        for path, size in sorted(self._written.items()):
            flushed = self._flushed.get(path, 0)
            if flushed < size:
                os.truncate(path, flushed)
                self._written[path] = flushed
                topic_partition = partition_of(Path(path).parent)
                assert topic_partition is not None, path
                lost[topic_partition] = lost.get(topic_partition, 0) + size - flushed
        return [LostBytes(topic_partition, count) for topic_partition, count in sorted(lost.items())]

    def flip_bit(self, topic_partition: TopicPartition, offset: Offset) -> BatchHeader | None:
        """Change one bit in the records of the batch that contains `offset`. Open files show the change, too.

        Returns:
            The batch's header; None if the log does not contain the offset.
        """
        found = self._batch_with(topic_partition, offset)
        if found is None:
            return None
        path, position, header = found
        with path.open("r+b") as file:
            middle = position + (BATCH_HEADER_BYTES + header.size_bytes) // 2
            (byte,) = os.pread(file.fileno(), 1, middle)
            os.pwrite(file.fileno(), bytes([byte ^ 1]), middle)
        return header

    def holds(self, topic_partition: TopicPartition, offset: Offset) -> bool:
        return self._batch_with(topic_partition, offset) is not None

    def _batch_with(self, topic_partition: TopicPartition, offset: Offset) -> tuple[Path, int, BatchHeader] | None:
        """Return segment, position in bytes and header of the batch with `offset`; None if the log lacks the offset."""
        paths = sorted((self.root / str(topic_partition)).glob(f"*{LOG_SUFFIX}"))
        for path in [path for path in paths if int(path.stem) <= offset][-1:]:
            for position, header in _whole_batches(path):
                if header.last_offset >= offset:
                    return path, position, header
        return None

    def log_end_offset(self, topic_partition: TopicPartition) -> Offset:
        """Return the offset after the last complete batch in a partition's closed log; 0 without a log."""
        end = 0
        for path in sorted((self.root / str(topic_partition)).glob(f"*{LOG_SUFFIX}")):
            end, position = int(path.stem), 0
            for position, header in _whole_batches(path):
                end, position = header.last_offset + 1, position + header.size_bytes
            if position < path.stat().st_size:
                break
        return end

    def tear(self, topic_partition: TopicPartition, count: int) -> LostBytes:
        """Remove `count` bytes, flushed or not, from the end of a partition's closed log.

        The clean-shutdown file is removed, too, so that the next start recovers the log.

        Returns:
            The loss, which is less than `count` if the log was shorter.
        """
        left = count
        for path in sorted((self.root / str(topic_partition)).glob(f"*{LOG_SUFFIX}"), reverse=True):
            if left == 0:
                break
            size = path.stat().st_size
            cut = min(left, size)
            os.truncate(path, size - cut)
            left -= cut
            self.opened(str(path), size)
            self.truncated(str(path), size - cut)
            if cut == size and left:
                # Delete the emptied segment, since an empty file means that the log continues at its base offset.
                path.unlink()
                self.forget(str(path))
        (self.root / CLEAN_SHUTDOWN).unlink(missing_ok=True)
        return LostBytes(topic_partition, count - left)
