"""The writes that a connection has not finished: bytes by send, file slices by sendfile, as the socket has room.

Source: Kafka's MultiRecordsSend, DefaultRecordsSend: a response is written piece by piece as the socket takes it.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cluster.live.tls import RECORD_BYTES, TlsSocket
from cluster.network.passage import ByteCounts
from cluster.network.world import TornSend
from cluster.node import OnSent, Segment, Sent
from replica.log.files.open_files import FileSlice, OpenFile

MORE = getattr(socket, "MSG_MORE", 0)


def copy_of(part: FileSlice) -> FileSlice:
    """Copy a file slice into a memory file by sendfile, so that later changes of the file do not affect it.

    Raises:
        TornSend: if the file ends before the end of the slice.
    """
    file = OpenFile(os.memfd_create("in flight"))
    copied = 0
    while copied < part.length:
        count = part.sendfile(file.fd, copied)
        if count == 0:
            raise TornSend("a segment file ended before all bytes of the response were sent")
        copied += count
    return FileSlice(file.fd, 0, part.length, file)


@dataclass(slots=True)
class _WatchedFrame:
    """A frame whose sender wants to know when the kernel has all of it. `on_sent` is then called."""

    on_sent: OnSent
    began_us: int
    sendfile_calls: int = 0
    sendfile_bytes: int = 0


class _Piece(NamedTuple):
    """A part of a frame.

    Attributes:
        flags: flags for send.
        watched: the frame, if it has a function to call once it is sent.
        is_last: True for the last piece of its frame.
    """

    segment: Segment
    flags: int
    watched: _WatchedFrame | None
    is_last: bool


class FrameWriter:
    """The unfinished writes of one connection.

    The protocol limits their memory. An accepted connection has one response at a time, besides those that a fault held
    and released together. A connection that this process opened has at most a client's in-flight requests.
    """

    __slots__ = ("_chunk", "_counts", "_is_tls", "_news", "_pieces", "_sent", "_sock", "_stopwatch")

    def __init__(self, sock: socket.socket, counts: ByteCounts, stopwatch: Callable[[], int]) -> None:
        self._sock = sock
        self._is_tls = isinstance(sock, TlsSocket)
        self._chunk = b""
        """File bytes that TLS could not send yet; the same bytes must be passed to it again."""
        self._counts = counts
        self._stopwatch = stopwatch
        self._news: list[tuple[OnSent, Sent]] = []
        self._pieces: deque[_Piece] = deque()
        self._sent = 0
        """The number of bytes of the first piece that the socket has taken."""

    @property
    def pending(self) -> bool:
        return bool(self._pieces)

    def write(self, segments: Sequence[Segment], on_sent: OnSent | None = None) -> bool:
        """Add a frame and write as much as the socket takes. Return True if everything is written.

        Raises:
            TornSend: if a file ends too early.
            OSError: if the connection failed.
        """
        if self._pieces or on_sent is not None or len(segments) != 1 or not isinstance(frame := segments[0], bytes):
            self.add(segments, on_sent)
            return self.flush()
        # This is the usual case except for fetches: one piece, all of which the socket takes.
        try:
            self._sent = self._sock.send(frame)
        except OSError as error:
            self._pieces.append(_Piece(frame, 0, None, True))  # The piece waits, forever if the connection is broken.
            if isinstance(error, BlockingIOError):
                return False
            raise
        if self._sent < len(frame):
            self._pieces.append(_Piece(frame, 0, None, True))
            return False
        self._sent = 0
        self._counts.protocol += len(frame)
        return True

    def add(self, segments: Sequence[Segment], on_sent: OnSent | None = None) -> None:
        """Queue the segments of one frame."""
        watched = None if on_sent is None else _WatchedFrame(on_sent, self._stopwatch())
        parts = [part for part in segments if not isinstance(part, FileSlice) or part.length]
        last = len(parts) - 1
        for index, part in enumerate(parts):
            # With MORE, the kernel waits for the rest of the frame.
            self._pieces.append(_Piece(part, MORE if index < last else 0, watched, index == last))

    def flush(self) -> bool:
        """Write until the socket is full. Return True if everything is written.

        Raises:
            TornSend: if a file ends too early.
            OSError: if the connection failed.
        """
        pieces, sock = self._pieces, self._sock
        while pieces:
            piece = pieces[0]
            segment, sent = piece.segment, self._sent
            try:
                if isinstance(segment, FileSlice) and self._is_tls:
                    size = segment.length
                    count = self._send_read(segment, sent)
                elif isinstance(segment, FileSlice):
                    size = segment.length
                    count = self._sendfile(segment, sent, piece.watched)
                else:
                    size = len(segment)
                    count = sock.send(memoryview(segment)[sent:] if sent else segment, piece.flags)
            except BlockingIOError:
                return False
            if sent + count < size:
                self._sent = sent + count
                continue
            self._sent = 0
            pieces.popleft()
            self._count(segment, size)
            if piece.is_last and piece.watched is not None:
                self._has_left(piece.watched)
        return True

    def _sendfile(self, part: FileSlice, sent: int, watched: _WatchedFrame | None) -> int:
        count = part.sendfile(self._sock.fileno(), sent)
        self._counts.sendfile_calls += 1
        if count == 0:
            raise TornSend("a segment file ended before all bytes of the response were sent")
        if watched is not None:
            watched.sendfile_calls += 1
            watched.sendfile_bytes += count
        return count

    def _send_read(self, part: FileSlice, sent: int) -> int:
        """Send file bytes that TLS has to encrypt.

        Raises:
            TornSend: if the file ends too early.
            OSError: if the connection failed.
        """
        if not self._chunk:
            self._chunk = os.pread(part.fd, min(RECORD_BYTES, part.length - sent), part.position + sent)
            if not self._chunk:
                raise TornSend("a segment file ended before all bytes of the response were sent")
        count = self._sock.send(self._chunk)
        self._chunk = b""
        return count

    def _has_left(self, frame: _WatchedFrame) -> None:
        sent = Sent(frame.began_us, self._stopwatch(), frame.sendfile_calls, frame.sendfile_bytes)
        self._news.append((frame.on_sent, sent))

    @property
    def has_news(self) -> bool:
        return bool(self._news)

    def tell(self) -> None:
        """Call `on_sent` for the frames that are sent completely. Must be called within a step."""
        news, self._news = self._news, []
        for on_sent, sent in news:
            on_sent(sent)

    def _count(self, segment: Segment, size: int) -> None:
        if isinstance(segment, FileSlice) and not self._is_tls:
            self._counts.sendfile += size
        elif isinstance(segment, FileSlice | memoryview):  # Records in memory are memoryviews.
            self._counts.fetch_payload_through_python += size
        else:
            self._counts.protocol += size

    def clear(self) -> None:
        self._news.clear()
        self._pieces.clear()
        self._chunk = b""
        self._sent = 0
