"""The real contents of a broker's disk: bytes written and bytes flushed, per segment file.

A write lands in the page cache; it survives the death of the process, but not the loss of power, until it is flushed.
A `Disk` outlives the broker process, so the world can take the power away after the process is gone.

Simplified: power loss takes exactly the bytes after the last flush. A real kernel may have written some of them back,
in any order of pages. Only segment files can lose bytes: checkpoints are fsynced and renamed when written, indexes are
rebuilt, and truncations and directory entries count as durable at once.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from replica.ids import Offset, TopicPartition
from replica.log.batches.records import BATCH_HEADER_BYTES, BatchHeader, read_header
from replica.log.files.checkpoints import CLEAN_SHUTDOWN
from replica.log.files.open_files import OpenFiles

# ----------------------------------------------------------------------------------------------------------- disk speed
#
# How long a disk takes: a server that does one operation after the other, in virtual time.
#
# A fast disk takes no time at all, and then nothing waits. Reads from the page cache do not use the disk, so reads
# take
# time only where a read time is given (a cold cache). Simplified: fsync, truncation and checkpoints take no time.


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """append_us, read_us: per operation, 0 for none     bytes_per_second: of what passes the disk, None unlimited"""

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
    """The service times in force, by the fault that brought them; they add up. First come, first served."""

    __slots__ = ("_busy_until_us", "in_force")

    def __init__(self) -> None:
        self.in_force: dict[str, ServiceTime] = {}
        self._busy_until_us = 0

    def append_ends_us(self, size_bytes: int, now_us: int) -> int:
        """When an append that is asked for now has been written."""
        if not self.in_force:
            return now_us
        return self._serve(sum(time.of_append(size_bytes) for time in self.in_force.values()), now_us)

    def read_ends_us(self, size_bytes: int, now_us: int) -> int:
        """When a read that is asked for now has its bytes."""
        return self._serve(sum(time.of_read(size_bytes) for time in self.in_force.values()), now_us)

    def _serve(self, service_us: int, now_us: int) -> int:
        if service_us == 0:
            return now_us
        self._busy_until_us = max(now_us, self._busy_until_us) + service_us
        return self._busy_until_us


LOG_SUFFIX = ".log"


class DiskFailed(OSError):
    """A simulated disk refuses: it is full (ENOSPC) or broken (EIO)."""


class LostBytes(NamedTuple):
    """Bytes that one partition's log lost."""

    topic_partition: TopicPartition
    bytes: int


def partition_of(directory: Path) -> TopicPartition | None:
    """`orders-0` -> (orders, 0); None for a directory that is no partition's."""
    topic, dash, number = directory.name.rpartition("-")
    return TopicPartition(topic, int(number)) if dash and topic and number.isdecimal() else None


class Disk:
    """The page cache of one broker's log directory.

    root: the broker's log directory, the same path its LogManager is given
    full: refuses writes     broken: refuses reads as well
    on_failure: called when an operation fails for that reason, before DiskFailed is raised (LogDirFailureChannel)
    sync: flush with a real fsync. False in the simulated world, where only the bookkeeping counts.
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
        """How much the volume below it holds, and how much of that is free."""
        usage = shutil.disk_usage(self.root)
        return usage.total, usage.free

    def check_readable(self) -> None:
        """raises: DiskFailed"""
        if self.broken:
            self._refuse(errno.EIO)

    def check_writable(self) -> None:
        """raises: DiskFailed"""
        self.check_readable()
        if self.full:
            self._refuse(errno.ENOSPC)

    def _refuse(self, number: int) -> None:
        why = os.strerror(number)
        if self.on_failure is not None:
            self.on_failure(self, why)
        raise DiskFailed(number, why)

    def opened(self, path: str, size: int) -> None:
        """A segment file begins to be tracked; its earlier bytes count as flushed."""
        if path not in self._written:
            self._written[path] = self._flushed[path] = size

    def wrote(self, path: str, size: int) -> None:
        """The file has `size` bytes now, the new ones in the page cache only."""
        self._written[path] = size

    def truncated(self, path: str, size: int) -> None:
        """The file was cut to `size` bytes."""
        self._written[path] = size
        self._flushed[path] = min(self._flushed.get(path, 0), size)

    def flush(self, path: str, fd: int) -> None:
        """Bring everything written so far to the disk."""
        if self.sync:
            os.fsync(fd)
        self._flushed[path] = self._written[path]

    def kept(self, path: str, size: int) -> None:
        """Another process has flushed so much of the file."""
        self._flushed[path] = size

    def look(self) -> None:
        """See how much another process has written."""
        for file in sorted(self.root.glob(f"*/*{LOG_SUFFIX}")):
            self._written[str(file)] = file.stat().st_size

    def forget(self, path: str) -> None:
        """The file was deleted."""
        self._written.pop(path, None)
        self._flushed.pop(path, None)

    def unflushed_bytes(self, topic_partition: TopicPartition | None = None) -> int:
        """Bytes that a power loss would take now: of one partition, or of all."""
        return sum(
            size - self._flushed.get(path, 0)
            for path, size in self._written.items()
            if topic_partition is None or partition_of(Path(path).parent) == topic_partition
        )

    def lose_unflushed(self) -> list[LostBytes]:
        """The power goes: cut every file to what was flushed. Call it when all logs are closed.

        returns: the partitions that lost bytes, in order
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
        """Change one bit of the records of the batch that holds `offset`, as a disk does that lies: no size and no time
        stamp of the file betrays it, and a reader that has the file open reads the change.

        returns: the batch, None when the log does not hold the offset
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
        """Its segment, its place there in bytes, and its header."""
        paths = sorted((self.root / str(topic_partition)).glob(f"*{LOG_SUFFIX}"))
        for path in [path for path in paths if int(path.stem) <= offset][-1:]:
            with path.open("rb") as file:
                position = 0
                while len(head := os.pread(file.fileno(), BATCH_HEADER_BYTES, position)) == BATCH_HEADER_BYTES:
                    header = read_header(head)
                    if header.last_offset >= offset:
                        return path, position, header
                    position += header.size_bytes
        return None

    def tear(self, topic_partition: TopicPartition, count: int) -> LostBytes:
        """Cut `count` bytes off the end of a partition's log, flushed or not. Call it when the log is closed.

        A disk that lost bytes was not shut down in order: the clean-shutdown marker goes too, else recovery is skipped.
        returns: the bytes cut, less than `count` when the log was shorter
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
                # A whole segment is gone; its empty file would claim that the log goes on at its base offset.
                path.unlink()
                self.forget(str(path))
        (self.root / CLEAN_SHUTDOWN).unlink(missing_ok=True)
        return LostBytes(topic_partition, count - left)
