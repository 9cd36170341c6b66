"""The memory of one producer: how much of `buffer.memory` is taken. Source: BufferPool.java."""

from __future__ import annotations


class BufferPool:
    """Counts bytes; the sends that wait for some stand in the producer's queue, first come first served.

    Simplified: Kafka keeps a free list of buffers of exactly batch.size; here only their sizes are counted.
    """

    __slots__ = ("available_bytes", "total_bytes", "waiting")

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.available_bytes = total_bytes
        self.waiting = 0

    @property
    def exhausted(self) -> bool:
        """A send call waits for memory: every batch is then ready to be sent, regardless of linger.ms."""
        return self.waiting > 0

    def allocate(self, size_bytes: int) -> bool:
        """Take `size_bytes` if they are free."""
        if size_bytes > self.available_bytes:
            return False
        self.available_bytes -= size_bytes
        return True

    def deallocate(self, size_bytes: int) -> None:
        """Give back what `allocate` gave."""
        self.available_bytes += size_bytes
        assert self.available_bytes <= self.total_bytes, "more memory returned than was taken"
