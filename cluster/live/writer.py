"""What a connection has yet to write: bytes by send, stretches of files by sendfile, resumed where the socket was full.

source: Kafka's MultiRecordsSend, DefaultRecordsSend: a response is written piece by piece as the socket takes it.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cluster.network.passage import ByteCounts
from cluster.network.world import TornSend
from cluster.node import OnSent, Segment, Sent
from replica.log.file_slice import FileSlice

MORE = getattr(socket, "MSG_MORE", 0)


class _OwnFile:
    """A file descriptor of our own, closed when nobody needs it any more."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


@dataclass(frozen=True, slots=True)
class KeptSlice(FileSlice):
    """A slice that stays readable whatever becomes of the log it came from."""

    file: _OwnFile

    @classmethod
    def of(cls, part: FileSlice) -> KeptSlice:
        """The same stretch of the same file: what is in it when it is sent, is sent."""
        file = _OwnFile(os.dup(part.fd))
        return cls(file.fd, part.position, part.length, file)

    @classmethod
    def copy(cls, part: FileSlice) -> KeptSlice:
        """Its bytes as they are now; they do not pass through Python. raises: TornSend"""
        file = _OwnFile(os.memfd_create("in flight"))
        copied = 0
        while copied < part.length:
            count = part.sendfile(file.fd, copied)
            if count == 0:
                raise TornSend("a segment file ended before the bytes its frame had promised")
            copied += count
        return cls(file.fd, 0, part.length, file)


@dataclass(slots=True)
class _WatchedFrame:
    """A frame that somebody wants to know of when it has left."""

    on_sent: OnSent
    began_us: int
    sendfile_calls: int = 0
    sendfile_bytes: int = 0


class FrameWriter:
    """Its memory is bounded by the protocol: one response at a time on an accepted connection, and what a client may
    have in flight on one that was opened here."""

    __slots__ = ("_counts", "_news", "_segments", "_sent", "_sock", "_stopwatch", "_watched")

    def __init__(self, sock: socket.socket, counts: ByteCounts, stopwatch: Callable[[], int]) -> None:
        self._sock = sock
        self._counts = counts
        self._stopwatch = stopwatch
        self._watched: _WatchedFrame | None = None
        self._news: list[tuple[OnSent, Sent]] = []
        self._segments: deque[tuple[Segment, int]] = deque()
        """with the flags of send: more of the same frame follows, so the kernel need not hurry"""
        self._sent = 0

    @property
    def pending(self) -> bool:
        return bool(self._segments)

    def add(self, segments: Sequence[Segment], on_sent: OnSent | None = None) -> None:
        last = len(segments) - 1
        for place, segment in enumerate(segments):
            if not isinstance(segment, FileSlice) or segment.length:
                self._segments.append((segment, MORE if place < last else 0))
        if on_sent is not None:
            assert self._watched is None, "an answer leaves before the next request is read"
            self._watched = _WatchedFrame(on_sent, self._stopwatch())

    def flush(self) -> bool:
        """Write until all is written (true) or the socket is full. raises: TornSend, OSError"""
        segments, sock = self._segments, self._sock
        while segments:
            segment, flags = segments[0]
            sent = self._sent
            try:
                if isinstance(segment, FileSlice):
                    size = segment.length
                    count = segment.sendfile(sock.fileno(), sent)
                    self._counts.sendfile_calls += 1
                    if count == 0:
                        raise TornSend("a segment file ended before the bytes its frame had promised")
                    if self._watched is not None:
                        self._watched.sendfile_calls += 1
                        self._watched.sendfile_bytes += count
                else:
                    size = len(segment)
                    count = sock.send(memoryview(segment)[sent:] if sent else segment, flags)
            except BlockingIOError:
                return False
            if sent + count < size:
                self._sent = sent + count
                continue
            self._sent = 0
            segments.popleft()
            self._count(segment, size)
        if self._watched is not None:
            frame, self._watched = self._watched, None
            sent_all = Sent(frame.began_us, self._stopwatch(), frame.sendfile_calls, frame.sendfile_bytes)
            self._news.append((frame.on_sent, sent_all))
        return True

    @property
    def has_news(self) -> bool:
        return bool(self._news)

    def tell(self) -> None:
        """Tell of what has left whole; within a step."""
        news, self._news = self._news, []
        for on_sent, sent in news:
            on_sent(sent)

    def _count(self, segment: Segment, size: int) -> None:
        if isinstance(segment, FileSlice):
            self._counts.sendfile += size
        elif isinstance(segment, memoryview):  # Records that are in memory travel as memoryviews.
            self._counts.fetch_payload_through_python += size
        else:
            self._counts.protocol += size

    def keep_files(self) -> None:
        """What waits must not depend on a log that may be closed meanwhile."""
        self._segments = deque(
            (KeptSlice.of(segment) if type(segment) is FileSlice else segment, flags)
            for segment, flags in self._segments
        )

    def clear(self) -> None:
        self._watched = None
        self._news.clear()
        self._segments.clear()
        self._sent = 0
