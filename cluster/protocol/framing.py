"""Splitting of a byte stream into frames: a size in four bytes, big endian, followed by that many bytes.

    >>> reader = FrameReader(max_bytes=1024)
    >>> reader.feed(b"\\x00\\x00\\x00\\x02hi\\x00\\x00")       # one whole frame and half a prefix
    [bytearray(b'hi')]
    >>> reader.feed(b"\\x00\\x01!")
    [bytearray(b'!')]

Each frame is a new bytearray without the prefix, because a broker writes offsets into a producer's batch in place.
Memory grows with the bytes that have arrived, not with the size that a peer claims.
"""

from __future__ import annotations

from cluster.protocol.primitives import INT32
from replica.errors import PeerViolation

PREFIX_BYTES = 4


class FrameReader:
    """Splits the bytes of one connection into frames. Source: NetworkReceive

    Args:
        max_bytes: maximum size of a frame, without prefix (socket.request.max.bytes).
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._prefix = bytearray()
        self._frame: bytearray | None = None
        self._size = 0

    def feed(self, chunk: bytes | bytearray | memoryview) -> list[bytearray]:
        """Add a chunk of bytes, and return the frames that it completes, oldest first.

        Raises:
            PeerViolation: if a size is negative or above the maximum; the connection must then be closed.
        """
        frames: list[bytearray] = []
        rest = memoryview(chunk)
        while True:
            if self._frame is None:
                rest = self._read_prefix(rest)
            frame = self._frame
            if frame is None:
                return frames
            missing = self._size - len(frame)
            frame += rest[:missing]
            rest = rest[missing:]
            if len(frame) < self._size:
                return frames
            frames.append(frame)
            self._frame = None

    def _read_prefix(self, rest: memoryview) -> memoryview:
        missing = PREFIX_BYTES - len(self._prefix)
        self._prefix += rest[:missing]
        if len(self._prefix) == PREFIX_BYTES:
            (size,) = INT32.unpack(self._prefix)
            if not 0 <= size <= self.max_bytes:
                raise PeerViolation(f"a frame claims {size} bytes; 0 to {self.max_bytes} are allowed")
            self._prefix.clear()
            self._size, self._frame = size, bytearray()
        return rest[missing:]
