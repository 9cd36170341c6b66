"""The memory of large requests, of all connections together: while they come in, and until they are no longer needed.

A connection alone is bounded by socket.request.max.bytes; thousands that each send most of a large request, or whose
requests wait for a handler, are not. Differs from Kafka: there queued.max.request.bytes, unlimited by default, makes
others wait; here those whose request has stalled for longest are closed, so that no client can take the memory from all
others by holding it. Complete requests belong to the broker and stay. source: SimpleMemoryPool
"""

from __future__ import annotations

import weakref
from typing import Protocol

from cluster.live.frames import LargeFrame
from replica.causes import CloseCause

REQUEST_MEMORY_BYTES = 512 << 20
"""In one process."""


class MemoryHolder(Protocol):
    """A connection over which a large request is coming in."""

    def give_up(self, cause: CloseCause, *, amount: int, limit: int) -> None: ...


class RequestMemory:
    """The memory of each holder, those that have stalled for longest first.

    in_progress_bytes: of requests that are in, and wait for a handler or are with one
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
        """More has come in of a holder's request. Others have to give up theirs if need be, the holder itself last."""
        self._held[holder] = self._held.pop(holder, 0) + size_bytes
        self._coming_in_bytes += size_bytes
        while self.total_bytes > self._limit_bytes and self._held:
            stalled = next(iter(self._held))
            held_bytes = self._held[stalled]
            self.release(stalled)
            stalled.give_up(CloseCause.REQUEST_MEMORY, amount=held_bytes, limit=self._limit_bytes)

    def hand_over(self, holder: MemoryHolder, frame: LargeFrame) -> None:
        """Its request is in. Its bytes count until the last reference to them is gone, even if the connection ends
        earlier."""
        self.release(holder)
        size_bytes = len(frame)
        self.in_progress_bytes += size_bytes
        weakref.finalize(frame, self._let_go, size_bytes).atexit = False

    def _let_go(self, size_bytes: int) -> None:
        self.in_progress_bytes -= size_bytes

    def release(self, holder: MemoryHolder) -> None:
        """Nothing more comes in of its request."""
        self._coming_in_bytes -= self._held.pop(holder, 0)
