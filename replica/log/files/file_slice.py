"""A stretch of a segment file that goes to a socket without passing through Python."""

from __future__ import annotations

import os

from replica.frozen import dataclass
from replica.log.files.open_files import OpenFile


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
