"""The memory that requests take while they are coming in, of all connections together.

A connection alone is bounded by socket.request.max.bytes; thousands that each send most of a large request are not.
Differs from Kafka: there queued.max.request.bytes, unlimited by default, makes others wait; here those that have
stalled for longest are closed, so that nobody can take the memory from all others by holding it.
"""

from __future__ import annotations

from typing import Protocol

REQUEST_MEMORY_BYTES = 512 << 20
"""In one process."""


class Holder(Protocol):
    """A connection over which a large request is coming in."""

    def give_up(self, reason: str) -> None: ...


class RequestMemory:
    """Who holds how much, those that have stalled for longest first."""

    def __init__(self, limit_bytes: int = REQUEST_MEMORY_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held: dict[Holder, int] = {}
        self.total_bytes = 0

    def grow(self, holder: Holder, size_bytes: int) -> None:
        """More has come in of a holder's request. Whoever has to give way is told, the holder itself last of all."""
        self._held[holder] = self._held.pop(holder, 0) + size_bytes
        self.total_bytes += size_bytes
        while self.total_bytes > self._limit_bytes:
            stalled = next(iter(self._held))
            held_bytes = self._held[stalled]
            self.release(stalled)
            stalled.give_up(
                f"requests that are coming in take more than {self._limit_bytes:,} bytes, and this one, with "
                f"{held_bytes:,}, has stalled for longest"
            )

    def release(self, holder: Holder) -> None:
        """Its request is in, or its connection over."""
        self.total_bytes -= self._held.pop(holder, 0)
