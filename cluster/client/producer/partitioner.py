"""Which partition a record goes to: murmur2 of its key, or a sticky one. Source: BuiltInPartitioner.java."""

from __future__ import annotations

import bisect
import random
from collections.abc import Sequence
from itertools import accumulate

_SEED = 0x9747B28C
_M = 0x5BD1E995
_R = 24
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2, as an unsigned number. Source: Utils.murmur2"""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ k >> _R) * _M & _MASK
        h = h * _M & _MASK ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """All partitions count, available or not, so a key keeps its partition while brokers come and go."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """Records without a key stay on one partition until it has got `batch.size` bytes (KIP-794).

    The next one is drawn at random, weighted against long queues once every partition has a queue (the adaptive part).
    """

    def __init__(self, sticky_bytes: int, rng: random.Random) -> None:
        self._sticky_bytes = max(1, sticky_bytes)
        self._rng = rng
        self._current: int | None = None
        self._produced_bytes = 0
        self._load: tuple[Sequence[int], Sequence[int]] | None = None

    def current(self, available: Sequence[int], partition_count: int) -> int:
        """The partition of the next record. available: partitions that have a leader, in order"""
        if self._current is None:
            self._current = self._draw(available, partition_count)
        return self._current

    def produced(
        self, partition: int, size_bytes: int, batches_full: bool, available: Sequence[int], partition_count: int
    ) -> None:
        """Count what went to the sticky partition; leave it at a batch boundary, at latest after twice the bytes."""
        if partition != self._current:
            return
        self._produced_bytes += size_bytes
        due = self._produced_bytes >= self._sticky_bytes and batches_full
        if due or self._produced_bytes >= 2 * self._sticky_bytes:
            self._current = self._draw(available, partition_count)
            self._produced_bytes = 0

    def queues(self, lengths: Sequence[tuple[int, int]] | None) -> None:
        """Set the (partition, queued batches) of partitions with a leader; None until every partition has a queue."""
        if lengths is None or len(lengths) < 2:
            self._load = None
            return
        longest = max(length for _, length in lengths)
        if all(length == longest for _, length in lengths):  # nothing to choose by: uniform, as in Kafka
            self._load = None
            return
        weights = accumulate(longest + 1 - length for _, length in lengths)
        self._load = ([partition for partition, _ in lengths], list(weights))

    def _draw(self, available: Sequence[int], partition_count: int) -> int:
        if self._load is not None:
            partitions, cumulative = self._load
            return partitions[bisect.bisect_right(cumulative, self._rng.randrange(cumulative[-1]))]
        if available:
            return available[self._rng.randrange(len(available))]
        return self._rng.randrange(partition_count)
