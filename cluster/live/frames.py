"""Frames out of a stream of bytes: a size of four bytes, then as many bytes. source: NetworkReceive"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

SIZE_BYTES = 4
LIMITS = "socket.request.max.bytes; before a login sasl.server.max.receive.size"
SCRATCH_BYTES = 64 * 1024
"""Limit of one read of small frames; one buffer serves all connections, because nothing waits while it is in use."""
LEAST_STEP_BYTES, STEP_BYTES = 16 * 1024, 1 << 20
"""A large frame gets memory as its bytes come, not for what its size promises: at most as much again as it has."""


HTTP_BEGINNINGS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"CONN", b"OPTI", b"TRAC", b"PATC", b"PRI ")
TLS_HANDSHAKE = b"\x16\x03"
"""A record with the handshake of any version from SSL 3.0 to TLS 1.3. source: RFC 8446 5.1"""


class FrameTooLarge(Exception):
    """A size that is negative or above the limit: the connection cannot be read any further."""


class LargeFrame(bytearray):
    """A frame with memory of its own; a weak reference shows when it is no longer used."""

    __slots__ = ("__weakref__",)


class SocketFrameReader:
    """max_bytes: of a frame; None: no limit (a client trusts its brokers, as Kafka's does)"""

    __slots__ = ("_announced", "_buffer", "_filled", "_large", "_large_bytes", "_scratch", "_sock", "max_bytes")

    def __init__(self, sock: socket.socket, scratch: memoryview, max_bytes: int | None = None) -> None:
        self._sock = sock
        self._scratch = scratch
        self.max_bytes = max_bytes
        self._buffer = bytearray()
        self._announced: int | None = None
        """Bytes of the frame that `_buffer` begins with; None while that was not looked at."""
        self._large: LargeFrame | None = None
        self._large_bytes = 0
        self._filled = 0

    def fill(self) -> int:
        """One read; 0 at the end of the stream. raises: BlockingIOError, OSError, FrameTooLarge"""
        if self._large is not None:
            return self._fill_large(self._large)
        count = self._sock.recv_into(self._scratch)
        self._buffer += self._scratch[:count]
        size = self._size()
        if size is not None and size + SIZE_BYTES > max(len(self._buffer), SCRATCH_BYTES):
            self._begin_large(size)
        return count

    def _size(self) -> int | None:
        """Of the frame that comes first, None while that is not known. raises: FrameTooLarge"""
        if self._announced is None and len(self._buffer) >= SIZE_BYTES:
            size = int.from_bytes(self._buffer[:SIZE_BYTES], "big", signed=True)
            if size < 0 or (self.max_bytes is not None and size > self.max_bytes):
                why = _no_length(self._buffer) or f", {self.max_bytes} are allowed ({LIMITS})"
                raise FrameTooLarge(f"a frame of {size} bytes was announced{why}")
            self._announced = size
        return self._announced

    def _begin_large(self, size: int) -> None:
        self._large_bytes, self._filled = size, len(self._buffer) - SIZE_BYTES
        self._large = LargeFrame(memoryview(self._buffer)[SIZE_BYTES:])
        self._buffer, self._announced = bytearray(), None

    def _fill_large(self, frame: bytearray) -> int:
        if self._filled == self._large_bytes:
            raise BlockingIOError  # the next frame is read once this one was taken
        if self._filled == len(frame):
            step = min(STEP_BYTES, max(LEAST_STEP_BYTES, self._filled))
            frame += bytes(min(step, self._large_bytes - self._filled))
        with memoryview(frame) as view:
            count = self._sock.recv_into(view[self._filled :])
        self._filled += count
        return count

    @property
    def large_bytes(self) -> int:
        """The memory that a frame has which is coming in and is too large for what all share; else 0."""
        return 0 if self._large is None else len(self._large)

    @property
    def has_frame(self) -> bool:
        if self._large is not None:
            return self._filled == self._large_bytes
        size = self._size()
        return size is not None and len(self._buffer) >= SIZE_BYTES + size

    def take(self) -> bytearray | None:
        """The next frame, if it is whole, without its size prefix. raises: FrameTooLarge"""
        if not (self._buffer or self._large) or not self.has_frame:
            return None
        if self._large is not None:
            large, self._large = self._large, None
            return large
        end, self._announced = SIZE_BYTES + (self._announced or 0), None
        if len(self._buffer) == end:
            frame, self._buffer = self._buffer, bytearray()
            del frame[:SIZE_BYTES]
        else:
            frame = self._buffer[SIZE_BYTES:end]
            del self._buffer[:end]
        return frame

    def fill_up(self) -> None:
        """Read what has come so far, up to the kernel's own limit of what it keeps."""
        with contextlib.suppress(OSError, FrameTooLarge):
            while self.fill():
                pass

    def keep_while(self, is_kept: Callable[[bytearray], bool]) -> None:
        """Forget the first frame that is not kept, and all behind it; also what is not whole."""
        if self._large is not None:
            if not is_kept(self._large):
                self.clear()
            return
        place = 0
        while True:
            start = place + SIZE_BYTES
            end = start + int.from_bytes(self._buffer[place:start], "big", signed=True)
            if not start <= end <= len(self._buffer) or not is_kept(self._buffer[start:end]):
                break
            place = end
        kept = self._buffer[:place]
        self.clear()
        self._buffer = kept

    def discard(self) -> bool:
        """Read and forget what has come so far; whether there may be more one day."""
        try:
            while self._sock.recv_into(self._scratch):
                pass
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def clear(self) -> None:
        self._buffer, self._announced, self._large = bytearray(), None, None


def _no_length(beginning: bytearray) -> str:
    """What the first bytes are, if they are not the length of a frame."""
    if beginning.startswith(TLS_HANDSHAKE):
        return " (this looks like TLS, and this listener expects none)"
    if beginning.startswith(HTTP_BEGINNINGS):
        return " (this looks like HTTP)"
    return " (a negative length)" if beginning[0] >= 0x80 else ""
