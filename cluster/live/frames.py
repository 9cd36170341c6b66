"""Splits a stream of bytes into frames. A frame is preceded by its size in four bytes.

Source: NetworkReceive
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

SIZE_BYTES = 4
LIMITS = "socket.request.max.bytes, or sasl.server.max.receive.size before authentication"
SCRATCH_BYTES = 64 * 1024
"""The size in bytes of the buffer for small frames, and so of one read.

All connections share this buffer, because no task waits while it uses it.
"""
LEAST_STEP_BYTES, STEP_BYTES = 16 * 1024, 1 << 20
"""The smallest and the largest step in bytes in which a large frame gets memory.

Memory is added as the bytes arrive, up to twice the bytes that have arrived.
"""


HTTP_BEGINNINGS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"CONN", b"OPTI", b"TRAC", b"PATC", b"PRI ")
TLS_HANDSHAKE = b"\x16\x03"
"""The first bytes of a TLS handshake record of any version from SSL 3.0 to TLS 1.3 (RFC 8446 5.1)."""


class FrameTooLarge(Exception):
    """The size of a frame is negative or above the limit, so that nothing more can be read from the connection."""


class LargeFrame(bytearray):
    """A frame with its own memory. A weak reference to it shows when it is no longer used."""

    __slots__ = ("__weakref__",)


class SocketFrameReader:
    """Reads frames from a socket.

    Args:
        max_bytes: maximum size of a frame; None for no limit, because clients trust their brokers, as in Kafka.
    """

    __slots__ = ("_announced", "_buffer", "_filled", "_large", "_large_bytes", "_scratch", "_sock", "max_bytes")

    def __init__(self, sock: socket.socket, scratch: memoryview, max_bytes: int | None = None) -> None:
        self._sock = sock
        self._scratch = scratch
        self.max_bytes = max_bytes
        self._buffer = bytearray()
        self._announced: int | None = None
        """The size of the first frame in `_buffer`, None if it is not known yet."""
        self._large: LargeFrame | None = None
        self._large_bytes = 0
        self._filled = 0

    def fill(self) -> int:
        """Read once from the socket. Return the number of bytes, 0 at the end of the stream.

        Raises:
            BlockingIOError: if no data is there.
            OSError: if the connection failed.
            FrameTooLarge: if the announced size is not allowed.
        """
        if self._large is not None:
            return self._fill_large(self._large)
        count = self._sock.recv_into(self._scratch)
        self._buffer += self._scratch[:count]
        size = self._size()
        if size is not None and size + SIZE_BYTES > max(len(self._buffer), SCRATCH_BYTES):
            self._begin_large(size)
        return count

    def _size(self) -> int | None:
        """Return the size of the first frame, None if it is not known yet.

        Raises:
            FrameTooLarge: if the size is not allowed.
        """
        if self._announced is None and len(self._buffer) >= SIZE_BYTES:
            size = int.from_bytes(self._buffer[:SIZE_BYTES], "big", signed=True)
            if size < 0 or (self.max_bytes is not None and size > self.max_bytes):
                why = _no_length(self._buffer) or f"; at most {self.max_bytes} are allowed ({LIMITS})"
                raise FrameTooLarge(f"a frame claims {size} bytes{why}")
            self._announced = size
        return self._announced

    def _begin_large(self, size: int) -> None:
        self._large_bytes, self._filled = size, len(self._buffer) - SIZE_BYTES
        self._large = LargeFrame(memoryview(self._buffer)[SIZE_BYTES:])
        self._buffer, self._announced = bytearray(), None

    def _fill_large(self, frame: bytearray) -> int:
        if self._filled == self._large_bytes:
            raise BlockingIOError  # The next frame is read after this one is taken.
        if self._filled == len(frame):
            step = min(STEP_BYTES, max(LEAST_STEP_BYTES, self._filled))
            frame += bytes(min(step, self._large_bytes - self._filled))
        with memoryview(frame) as view:
            count = self._sock.recv_into(view[self._filled :])
        self._filled += count
        return count

    @property
    def large_bytes(self) -> int:
        """The memory in bytes of an incomplete frame that is too large for the shared buffer; 0 if there is none."""
        return 0 if self._large is None else len(self._large)

    @property
    def has_frame(self) -> bool:
        if self._large is not None:
            return self._filled == self._large_bytes
        size = self._size()
        return size is not None and len(self._buffer) >= SIZE_BYTES + size

    def take(self) -> bytearray | None:
        """Remove the next whole frame, and return it without its size prefix; None if none is complete.

        Raises:
            FrameTooLarge: if the announced size is not allowed.
        """
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
        """Read all data that the kernel has received so far."""
        with contextlib.suppress(OSError, FrameTooLarge):
            while self.fill():
                pass

    def keep_while(self, is_kept: Callable[[bytearray], bool]) -> None:
        """Drop the first frame that `is_kept` rejects, everything after it, and incomplete frames."""
        if self._large is not None:
            if not is_kept(self._large):
                self.clear()
            return
        position = 0
        while True:
            start = position + SIZE_BYTES
            end = start + int.from_bytes(self._buffer[position:start], "big", signed=True)
            if not start <= end <= len(self._buffer) or not is_kept(self._buffer[start:end]):
                break
            position = end
        kept = self._buffer[:position]
        self.clear()
        self._buffer = kept

    def discard(self) -> bool:
        """Read and drop all received data. Return True if more data may come."""
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
    """Return a guess at what was sent, for a frame with an invalid size: for instance TLS or HTTP."""
    if beginning.startswith(TLS_HANDSHAKE):
        return " (this looks like TLS, but this listener is not encrypted)"
    if beginning.startswith(HTTP_BEGINNINGS):
        return " (this looks like HTTP)"
    return " (a negative length)" if beginning[0] >= 0x80 else ""
