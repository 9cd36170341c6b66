"""What compaction has made of the batches of compacted topics: their names after it, and the records that went.

A batch keeps its offsets and its leader epoch when the cleaner writes it anew, but has another CRC, on each replica the
one that fits what it took there. Here such a batch goes by the CRC with which it was appended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from replica.ids import TopicPartition
from replica.trace import events as trace
from scenarios.observe.availability import IsGone, drop


class KeyedRecord(NamedTuple):
    """A record of a compacted topic."""

    key: str
    is_tombstone: bool


class _Rewritten(NamedTuple):
    """crc: as it was appended     gone: offsets of the records that it lacks"""

    crc: int
    gone: frozenset[int]


class CompactedBatches:
    """Empty for runs without compacted topics.

    are_any: whether any log of the run has been compacted; asked first, for it costs nothing
    """

    def __init__(self) -> None:
        self.are_any = False
        self._rewritten: dict[TopicPartition, dict[tuple[int, int], _Rewritten]] = {}
        self._removed: dict[TopicPartition, dict[int, int]] = {}
        """whole batches that some replica lacks: base offset -> last offset"""
        self._keys: dict[TopicPartition, dict[tuple[int, int], tuple[KeyedRecord, ...]]] = {}

    def keys_appended(self, event: trace.KeysAppended) -> None:
        known = self._keys.setdefault(TopicPartition(event.topic, event.partition), {})
        known[event.base_offset, event.leader_epoch] = tuple(
            KeyedRecord(key, offset in event.tombstones) for offset, key in enumerate(event.keys, event.base_offset)
        )

    def compacted(self, event: trace.BatchCompacted) -> None:
        partition = TopicPartition(event.topic, event.partition)
        before = self._of(partition, event.base_offset, event.crc)
        self.are_any = True
        if event.new_crc is None:
            self._removed.setdefault(partition, {})[event.base_offset] = event.last_offset
        elif event.new_crc != before.crc:
            after = _Rewritten(before.crc, before.gone.union(event.removed))
            self._rewritten.setdefault(partition, {})[event.base_offset, event.new_crc] = after

    def topic_deleted(self, topic: str) -> None:
        """What is written to a topic of that name from now on is unrelated."""
        for partition in [*self._rewritten, *self._removed, *self._keys]:
            if partition.topic == topic:
                self._rewritten.pop(partition, None)
                self._removed.pop(partition, None)
                self._keys.pop(partition, None)

    def forget(self, is_gone: IsGone) -> None:
        """As Forgetful."""
        drop(is_gone, self._rewritten, self._removed, self._keys)

    # ------------------------------------------------------------------------------------------------------- questions

    def _of(self, partition: TopicPartition, base_offset: int, crc: int) -> _Rewritten:
        found = self._rewritten.get(partition, {}).get((base_offset, crc)) if self._rewritten else None
        return _Rewritten(crc, frozenset()) if found is None else found

    def crc_as_appended(self, partition: TopicPartition, base_offset: int, crc: int) -> int:
        """The same, if the cleaner has not written that batch."""
        return self._of(partition, base_offset, crc).crc if self._rewritten else crc

    def gone(self, partition: TopicPartition, base_offset: int, crc: int) -> frozenset[int]:
        """Offsets of the records that a batch with this CRC no longer has."""
        return self._of(partition, base_offset, crc).gone

    def are_gone(self, partition: TopicPartition, low: int, high: int) -> bool:
        """Whether the offsets [low, high) are those of batches that compaction has removed, on some replica."""
        removed = self._removed.get(partition, {})
        while low < high:
            last_offset = removed.get(low)
            if last_offset is None:
                return False
            low = last_offset + 1
        return low == high

    def has_any(self, partition: TopicPartition) -> bool:
        """Whether the partition has been compacted on some replica."""
        return partition in self._rewritten or partition in self._removed

    def has_keys(self, partition: TopicPartition) -> bool:
        """Whether anything was appended to it while it was a compacted topic's."""
        return partition in self._keys

    def keys_by_place(self, partition: TopicPartition) -> dict[tuple[int, int], str]:
        """The key of each record, by offset and leader epoch."""
        return {
            (offset, leader_epoch): record.key
            for (base_offset, leader_epoch), records in self._keys.get(partition, {}).items()
            for offset, record in enumerate(records, base_offset)
        }

    def keyed(
        self, partition: TopicPartition, base_offset: int, leader_epoch: int
    ) -> Iterator[tuple[int, KeyedRecord]]:
        """(offset, record) of a batch; nothing if its topic was not compacted when it was appended."""
        known = self._keys.get(partition, {}).get((base_offset, leader_epoch), ())
        return iter(enumerate(known, base_offset))
