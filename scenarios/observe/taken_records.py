"""Records that are in no log any more for a good reason, and whether that reason still holds when the run is over.

1. What an operator deleted, or retention took, was given up for good: nothing brings the promise back.
2. Compaction promises to keep the last record of each key. A record that it took is accounted for as long as a later
   record of its key is in the log that counts, was deleted or has expired, or is a tombstone that went by right.
   Where the later record was cut off (unclean election, damage), the earlier one is lost with it.
3. A tombstone may go once delete.retention.ms has passed. But where the log that counts was cut off below its place
   and still holds an earlier record of its key, it is the cut that took the deletion.
4. What went with an aborted transaction was never promised.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from replica.ids import TopicPartition
from scenarios.observe.availability import IsGone, drop
from scenarios.observe.compacted_batches import CompactedBatches, KeyedRecord
from scenarios.observe.final_logs import FinalReplica, LogEntries

DELETED, EXPIRED, COMPACTED = "deleted", "expired", "compacted"
"""Why a record is in no log any more: an operator has deleted it (DeleteRecords, or its topic), retention has, or
compaction."""


class KeyedPlace(NamedTuple):
    """Where a record stood that compaction took. record: None for one of an aborted transaction"""

    offset: int
    leader_epoch: int
    record: KeyedRecord | None


class TakenRecords(dict[str, str]):
    """By name, why a record was taken out of some log: DELETED, EXPIRED or COMPACTED."""

    def __init__(self, batches: CompactedBatches) -> None:
        super().__init__()
        self._batches = batches
        self._compacted: dict[TopicPartition, dict[str, KeyedPlace]] = {}
        self._deleted_up_to: dict[TopicPartition, dict[str, int]] = {}
        """By key, the last offset of its records that were deleted or have expired."""

    def compacted(self, partition: TopicPartition, name: str, place: KeyedPlace) -> None:
        self.setdefault(name, COMPACTED)
        self._compacted.setdefault(partition, {})[name] = place

    def key_deleted(self, partition: TopicPartition, key: str, offset: int) -> None:
        known = self._deleted_up_to.setdefault(partition, {})
        known[key] = max(offset, known.get(key, -1))

    def sent_again(self, partition: TopicPartition, name: str) -> None:
        """A leader has appended it once more, so it is judged anew."""
        self.pop(name, None)
        if self._compacted:
            self._compacted.get(partition, {}).pop(name, None)

    def topic_deleted(self, topic: str) -> None:
        """What compaction had taken of it is settled: what was lost by now stays lost."""
        for partition in [partition for partition in self._compacted if partition.topic == topic]:
            for name in self._untenable(partition, None, lambda partition, offset: False):
                self.pop(name, None)
            del self._compacted[partition]
        drop(lambda one: one == topic, self._deleted_up_to)

    def forget(self, is_gone: IsGone) -> None:
        """As Forgetful: the reasons stay, as the records do."""
        drop(is_gone, self._compacted, self._deleted_up_to)

    def untenable(
        self,
        log_of: Callable[[TopicPartition], FinalReplica | None],
        is_aborted: Callable[[TopicPartition, int], bool],
    ) -> dict[str, None]:
        """Return the records whose reason does not hold beside the logs that count."""
        found = (self._untenable(partition, log_of(partition), is_aborted) for partition in self._compacted)
        return dict.fromkeys(chain.from_iterable(found))

    def _untenable(
        self,
        partition: TopicPartition,
        replica: FinalReplica | None,
        is_aborted: Callable[[TopicPartition, int], bool],
    ) -> Iterator[str]:
        entries = LogEntries() if replica is None else replica.entries.in_order()
        end = 0 if replica is None else replica.log_end_offset
        offsets, epochs = [], []
        standing: dict[str, tuple[int, int]] = {}
        """By key, the first and the last offset in the log."""
        keys = self._batches.keys_by_place(partition)
        for entry in entries:
            offsets.append(entry.offset)
            epochs.append(entry.leader_epoch)
            key = keys.get((entry.offset, entry.leader_epoch))
            if key is not None and not is_aborted(partition, entry.offset):
                standing[key] = (standing.get(key, (entry.offset, 0))[0], entry.offset)

        def was_cut(place: KeyedPlace) -> bool:
            index = bisect_right(offsets, place.offset) - 1
            return end <= place.offset or (index >= 0 and epochs[index] > place.leader_epoch)

        compacted = self._compacted[partition]
        replaced_up_to = dict(self._deleted_up_to.get(partition, {}))
        lost_tombstones: dict[str, None] = {}
        for name, place in compacted.items():
            if place.record is None or not place.record.is_tombstone:
                continue
            first, last = standing.get(place.record.key, (place.offset, place.offset))
            if first < place.offset and last <= place.offset and was_cut(place):
                lost_tombstones[name] = None
            else:
                key = place.record.key
                replaced_up_to[key] = max(place.offset, replaced_up_to.get(key, -1))
        for name, place in compacted.items():
            if self.get(name) != COMPACTED or place.record is None:
                continue
            if place.record.is_tombstone:
                is_lost = name in lost_tombstones
            else:
                last = standing.get(place.record.key, (0, -1))[1]
                is_lost = max(last, replaced_up_to.get(place.record.key, -1)) <= place.offset
            if is_lost:
                yield name
