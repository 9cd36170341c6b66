"""Size-prefixed frames out of a byte stream: four bytes of length, big endian, then that many bytes.

    >>> reader = FrameReader(max_bytes=1024)
    >>> reader.feed(b"\\x00\\x00\\x00\\x02hi\\x00\\x00")       # one whole frame and half a prefix
    [bytearray(b'hi')]
    >>> reader.feed(b"\\x00\\x01!")
    [bytearray(b'!')]

A frame is a fresh bytearray without its prefix: a producer's batch is stamped in place in it. Memory grows with the
bytes that arrived, never with the size a peer claims.
"""

from __future__ import annotations

from cluster.protocol.primitives import INT32
from replica.errors import PeerViolation

PREFIX_BYTES = 4


def with_size(body: bytes) -> bytes:
    """The frame of a body: its size and then the body."""
    return INT32.pack(len(body)) + body


class FrameReader:
    """Cuts one connection's bytes into frames, however they were chunked on the way.

    max_bytes: largest frame allowed, prefix excluded (socket.request.max.bytes)     source: NetworkReceive
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._prefix = bytearray()
        self._frame: bytearray | None = None
        self._size = 0

    def feed(self, chunk: bytes | bytearray | memoryview) -> list[bytearray]:
        """Frames that this chunk completes, oldest first.

        raises: PeerViolation on a size that is negative or above the maximum; the connection is then useless
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

    @property
    def is_between_frames(self) -> bool:
        """True when the stream may end here without cutting a frame in half."""
        return self._frame is None and not self._prefix

    def _read_prefix(self, rest: memoryview) -> memoryview:
        missing = PREFIX_BYTES - len(self._prefix)
        self._prefix += rest[:missing]
        if len(self._prefix) == PREFIX_BYTES:
            (size,) = INT32.unpack(self._prefix)
            if not 0 <= size <= self.max_bytes:
                raise PeerViolation(f"a frame claims {size} bytes; allowed are 0 to {self.max_bytes}")
            self._prefix.clear()
            self._size, self._frame = size, bytearray()
        return rest[missing:]
