"""The last offset of each key in the dirty part of a log, as far as there is memory for.

Source: Kafka OffsetMap, SkimpyOffsetMap.
"""

from __future__ import annotations

from replica.ids import Offset

ENTRY_BYTES = 24
"""An entry of Kafka: an MD5 of the key, and an offset."""
LOAD_FACTOR = 0.9
"""log.cleaner.io.buffer.load.factor"""
NOTHING: Offset = -1


class OffsetMap:
    """latest_offset: what lies at or below it is in the map; -1 at first

    Simplified: here the keys themselves are kept; only their number is bounded as in Kafka.
    """

    __slots__ = ("_last", "_limit", "latest_offset")

    def __init__(self, buffer_bytes: int) -> None:
        """buffer_bytes: log.cleaner.dedupe.buffer.size"""
        self._last: dict[bytes, Offset] = {}
        self._limit = max(1, int(buffer_bytes // ENTRY_BYTES * LOAD_FACTOR))
        self.latest_offset = NOTHING

    @property
    def is_full(self) -> bool:
        return len(self._last) >= self._limit

    def put(self, key: bytes, offset: Offset) -> None:
        assert not self.is_full, "there is no memory for another key"
        self._last[key] = self.latest_offset = offset

    def get(self, key: bytes) -> Offset:
        """-1 for a key that the map does not know."""
        return self._last.get(key, NOTHING)
