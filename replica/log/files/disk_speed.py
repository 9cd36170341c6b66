"""How long a disk takes: a server that does one operation after the other, in virtual time.

A fast disk takes no time at all, and then nothing waits. Reads from the page cache do not use the disk, so reads take
time only where a read time is given (a cold cache). Simplified: fsync, truncation and checkpoints take no time.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """append_us, read_us: per operation, 0 for none     bytes_per_second: of what passes the disk, None unlimited"""

    append_us: int = 0
    read_us: int = 0
    bytes_per_second: int | None = None

    def of_append(self, size_bytes: int) -> int:
        return self.append_us + self._transfer_us(size_bytes)

    def of_read(self, size_bytes: int) -> int:
        return self.read_us + self._transfer_us(size_bytes) if self.read_us else 0

    def _transfer_us(self, size_bytes: int) -> int:
        return 0 if self.bytes_per_second is None else size_bytes * 1_000_000 // self.bytes_per_second


class DiskSpeed:
    """The service times in force, by the fault that brought them; they add up. First come, first served."""

    __slots__ = ("_busy_until_us", "in_force")

    def __init__(self) -> None:
        self.in_force: dict[str, ServiceTime] = {}
        self._busy_until_us = 0

    def append_ends_us(self, size_bytes: int, now_us: int) -> int:
        """When an append that is asked for now has been written."""
        if not self.in_force:
            return now_us
        return self._serve(sum(time.of_append(size_bytes) for time in self.in_force.values()), now_us)

    def read_ends_us(self, size_bytes: int, now_us: int) -> int:
        """When a read that is asked for now has its bytes."""
        return self._serve(sum(time.of_read(size_bytes) for time in self.in_force.values()), now_us)

    def _serve(self, service_us: int, now_us: int) -> int:
        if service_us == 0:
            return now_us
        self._busy_until_us = max(now_us, self._busy_until_us) + service_us
        return self._busy_until_us
