"""The last offset of each key in the dirty part of a log, within a memory limit.

Source: Kafka OffsetMap, SkimpyOffsetMap.
"""

from __future__ import annotations

from replica.ids import Offset

ENTRY_BYTES = 24
"""Size of an entry in Kafka: an MD5 of the key, and an offset."""
LOAD_FACTOR = 0.9
"""The setting log.cleaner.io.buffer.load.factor."""
NOTHING: Offset = -1


class OffsetMap:
    """The last offset of each key. `latest_offset` is the offset added last, -1 at first.

    Simplified: the map has whole keys, not hashes; their number is limited as in Kafka.
    """

    __slots__ = ("_last", "_limit", "latest_offset")

    def __init__(self, buffer_bytes: int) -> None:
        """Create an empty map for as many keys as Kafka has in `buffer_bytes` (log.cleaner.dedupe.buffer.size)."""
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
        """Return the last offset of a key, -1 for an unknown key."""
        return self._last.get(key, NOTHING)
