"""Limits the memory of large requests over all connections, from their arrival until they are handled.

socket.request.max.bytes limits the size of one request, but not the sum over thousands of connections that send most of
a large request or wait for a handler.

Differs from Kafka: there, queued.max.request.bytes (unlimited by default) makes other connections wait. Here, the
connections whose requests have stalled longest are closed, so that no client can take all memory. Complete requests
belong to the broker and are kept.

Source: SimpleMemoryPool
"""

from __future__ import annotations

import weakref
from typing import Protocol

from cluster.live.frames import LargeFrame
from replica.causes import CloseCause

REQUEST_MEMORY_BYTES = 512 << 20
"""The limit in bytes for one process."""


class MemoryHolder(Protocol):
    """A connection over which a large request is arriving."""

    def give_up(self, cause: CloseCause, *, amount: int, limit: int) -> None: ...


class RequestMemory:
    """The memory of the incoming request on each connection, longest stalled first.

    Attributes:
        in_progress_bytes: size of the complete requests that wait for a handler or are being handled.
    """

    def __init__(self, limit_bytes: int = REQUEST_MEMORY_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held: dict[MemoryHolder, int] = {}
        self._coming_in_bytes = 0
        self.in_progress_bytes = 0

    @property
    def total_bytes(self) -> int:
        return self._coming_in_bytes + self.in_progress_bytes

    def grow(self, holder: MemoryHolder, size_bytes: int) -> None:
        """Record that the incoming request of a connection takes more memory.

        If that exceeds the limit, close the connections that have stalled longest.
        """
        self._held[holder] = self._held.pop(holder, 0) + size_bytes
        self._coming_in_bytes += size_bytes
        while self.total_bytes > self._limit_bytes and self._held:
            stalled = next(iter(self._held))
            held_bytes = self._held[stalled]
            self.release(stalled)
            stalled.give_up(CloseCause.REQUEST_MEMORY, amount=held_bytes, limit=self._limit_bytes)

    def hand_over(self, holder: MemoryHolder, frame: LargeFrame) -> None:
        """Record that a request is complete.

        It counts until nothing refers to `frame`, even if the connection ends earlier.
        """
        self.release(holder)
        size_bytes = len(frame)
        self.in_progress_bytes += size_bytes
        weakref.finalize(frame, self._let_go, size_bytes).atexit = False

    def _let_go(self, size_bytes: int) -> None:
        self.in_progress_bytes -= size_bytes

    def release(self, holder: MemoryHolder) -> None:
        """Release the memory of a connection's incoming request."""
        self._coming_in_bytes -= self._held.pop(holder, 0)
