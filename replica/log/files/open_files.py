"""Open segment files. Their number is limited, independently of the number of partitions.

Differs from Kafka: Kafka keeps every segment open (FileRecords) and maps its indexes, so it needs a high file limit in
the operating system. Here the least recently used file is closed, and opened again when it is needed.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Protocol, final

from replica.frozen import dataclass

OPEN_FILES_MAX = 128
"""Limit per log directory. Three brokers in one process then stay below the usual 1,024 file descriptors."""


class OpenFile:
    """A file descriptor that is closed when its last user releases it.

    A response may still be reading from the file when the log closes it.
    """

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class FileHolder(Protocol):
    def put_aside(self) -> None:
        """Close the file until it is needed again."""


class OpenFiles:
    """The holders of open files, the least recently used first.

    Before it uses its file, a holder that is not `latest` must call `used`.
    """

    def __init__(self, limit: int = OPEN_FILES_MAX) -> None:
        self._limit = limit
        self._holders: OrderedDict[FileHolder, None] = OrderedDict()
        self.latest: FileHolder | None = None

    def used(self, holder: FileHolder) -> None:
        """Record that `holder` uses its file. If too many files are open, close the least recently used one."""
        self.latest = holder
        holders = self._holders
        holders[holder] = None
        holders.move_to_end(holder)
        if len(holders) > self._limit:
            holders.popitem(last=False)[0].put_aside()

    def closed(self, holder: FileHolder) -> None:
        self._holders.pop(holder, None)
        self.latest = None


# ----------------------------------------------------------------------------------------------------------- file slice
#
# A range of a segment file that is sent to a socket without passing through Python.


@final
@dataclass(frozen=True, slots=True)
class FileSlice:
    """Bytes [position, position + length) of the open file `fd`; length 0 means that there is nothing to read.

    `held` keeps `fd` open as long as the slice exists, even if the log closes its file; None if the caller does so.

    Source: Kafka FileRecords.slice, DefaultRecordsSend
    """

    fd: int
    position: int
    length: int
    held: OpenFile | None = None

    def sendfile(self, socket_fd: int, already_sent: int) -> int:
        """Call os.sendfile once, without blocking, and return the number of bytes sent, 0 if the file ended early.

        Raises:
            BlockingIOError: if the socket's buffer is full.
        """
        return os.sendfile(socket_fd, self.fd, self.position + already_sent, self.length - already_sent)


EMPTY_SLICE = FileSlice(-1, 0, 0)
