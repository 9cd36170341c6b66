"""Segment files that are open: so many at most, however many partitions there are.

Differs from Kafka, which keeps every segment open (FileRecords), maps its indexes, and wants an operating system that
allows for it. A file that was put aside is opened again when it is needed.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Protocol, final

from replica.frozen import dataclass

OPEN_FILES_MAX = 128
"""Of each log directory. Three brokers in one process then live within the usual limit of 1,024 descriptors."""


class OpenFile:
    """A descriptor that is closed when the last one who holds it lets go: a response may still be reading from it."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class FileHolder(Protocol):
    def put_aside(self) -> None:
        """Let go of the file, to open it again when it is needed."""


class OpenFiles:
    """The holders of open files; the most recent user is last.

    latest: that user, which need not say so again
    """

    def __init__(self, limit: int = OPEN_FILES_MAX) -> None:
        self._limit = limit
        self._holders: OrderedDict[FileHolder, None] = OrderedDict()
        self.latest: FileHolder | None = None

    def used(self, holder: FileHolder) -> None:
        """It has its file open; if there are too many, the one unused for longest puts its file aside."""
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
# A stretch of a segment file that goes to a socket without passing through Python.


@final
@dataclass(frozen=True, slots=True)
class FileSlice:
    """Bytes [position, position + length) of the open file `fd`; length 0 means there is nothing to read.

    held: keeps `fd` open as long as this lives, even if the log closes it; None if the caller keeps it open
    source: Kafka FileRecords.slice / DefaultRecordsSend
    """

    fd: int
    position: int
    length: int
    held: OpenFile | None = None

    def sendfile(self, socket_fd: int, already_sent: int) -> int:
        """One non-blocking os.sendfile of what is left; returns the bytes sent, 0 if the file ended early.

        raises: BlockingIOError when the socket is full
        """
        return os.sendfile(socket_fd, self.fd, self.position + already_sent, self.length - already_sent)


EMPTY_SLICE = FileSlice(-1, 0, 0)
