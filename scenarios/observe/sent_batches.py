"""Find the sender and the record names of any batch that a producer has sent."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from replica.ids import TopicPartition
from replica.trace import events as trace
from scenarios.observe.availability import IsGone, drop
from scenarios.observe.columns.names import Integers, NameIndex, PackedColumn
from scenarios.observe.columns.record_table import WordTable

# ---------------------------------------------------------------------------------------------------- compacted batches
#
# How compaction changed batches: their new CRC, and the removed records.
#
# A batch that the cleaner rewrites keeps its offsets and its leader epoch, but gets a new CRC, which depends on the
# records that were removed on that replica. Here a batch is identified by the CRC with which it was appended.


class KeyedRecord(NamedTuple):
    """A record of a compacted topic."""

    key: str
    is_tombstone: bool


class _Rewritten(NamedTuple):
    """A batch that the cleaner has rewritten: its original CRC, and the offsets of its removed records."""

    crc: int
    gone: frozenset[int]


class CompactedBatches:
    """The batches that compaction has changed; empty in runs without compacted topics.

    Attributes:
        are_any: True if some log of the run has been compacted. Check this first, because it is cheap.
    """

    def __init__(self) -> None:
        self.are_any = False
        self._rewritten: dict[TopicPartition, dict[tuple[int, int], _Rewritten]] = {}
        self._removed: dict[TopicPartition, dict[int, int]] = {}
        """Batches that compaction has removed completely on some replica: their last offsets by base offset."""
        self._keys: dict[TopicPartition, dict[tuple[int, int], tuple[KeyedRecord, ...]]] = {}

    def keys_appended(self, event: trace.KeysAppended) -> None:
        known = self._keys.setdefault(TopicPartition(event.topic, event.partition), {})
        known[event.base_offset, event.leader_epoch] = tuple(
            KeyedRecord(key, offset in event.tombstones) for offset, key in enumerate(event.keys, event.base_offset)
        )

    def compacted(self, event: trace.BatchCompacted) -> None:
        partition = TopicPartition(event.topic, event.partition)
        before = self._rewritten_batch(partition, event.base_offset, event.crc)
        self.are_any = True
        if event.new_crc is None:
            self._removed.setdefault(partition, {})[event.base_offset] = event.last_offset
        elif event.new_crc != before.crc:
            after = _Rewritten(before.crc, before.gone.union(event.removed))
            self._rewritten.setdefault(partition, {})[event.base_offset, event.new_crc] = after

    def topic_deleted(self, topic: str) -> None:
        """Drop the batches of a deleted topic, because a new topic of the same name is unrelated."""
        for partition in [*self._rewritten, *self._removed, *self._keys]:
            if partition.topic == topic:
                self._rewritten.pop(partition, None)
                self._removed.pop(partition, None)
                self._keys.pop(partition, None)

    def forget(self, is_gone: IsGone) -> None:
        drop(is_gone, self._rewritten, self._removed, self._keys)

    # ------------------------------------------------------------------------------------------------------- questions

    def _rewritten_batch(self, partition: TopicPartition, base_offset: int, crc: int) -> _Rewritten:
        found = self._rewritten.get(partition, {}).get((base_offset, crc)) if self._rewritten else None
        return _Rewritten(crc, frozenset()) if found is None else found

    def crc_as_appended(self, partition: TopicPartition, base_offset: int, crc: int) -> int:
        """Return the CRC that a batch had when it was appended, before any rewrite by the cleaner."""
        return self._rewritten_batch(partition, base_offset, crc).crc if self._rewritten else crc

    def gone(self, partition: TopicPartition, base_offset: int, crc: int) -> frozenset[int]:
        """Return the offsets of the records that compaction has removed from the batch with this new CRC."""
        return self._rewritten_batch(partition, base_offset, crc).gone

    def are_gone(self, partition: TopicPartition, low: int, high: int) -> bool:
        """Return True if the offsets [low, high) belong to batches that compaction has removed on some replica."""
        removed = self._removed.get(partition, {})
        while low < high:
            last_offset = removed.get(low)
            if last_offset is None:
                return False
            low = last_offset + 1
        return low == high

    def has_any(self, partition: TopicPartition) -> bool:
        """Return True if the partition has been compacted on some replica."""
        return partition in self._rewritten or partition in self._removed

    def has_keys(self, partition: TopicPartition) -> bool:
        """Return True if the keys of records are known: the topic was compacted when they were appended."""
        return partition in self._keys

    def keys_by_place(self, partition: TopicPartition) -> dict[tuple[int, int], str]:
        """Return the key of each record of a partition, by (offset, leader epoch)."""
        return {
            (offset, leader_epoch): record.key
            for (base_offset, leader_epoch), records in self._keys.get(partition, {}).items()
            for offset, record in enumerate(records, base_offset)
        }

    def keyed(
        self, partition: TopicPartition, base_offset: int, leader_epoch: int
    ) -> Iterator[tuple[int, KeyedRecord]]:
        """Yield (offset, record) of each record of a batch; nothing if its topic was not compacted at its append."""
        known = self._keys.get(partition, {}).get((base_offset, leader_epoch), ())
        return iter(enumerate(known, base_offset))


_RECENT_MIN = 1024
_RECENT_SHARE = 16
"""The dict may have 1/16 as many entries as the arrays, so that merging costs one or two microseconds per entry."""
_NOWHERE = -1


class CrcMap:
    """A map from CRCs (32 bits, unsigned) to batch numbers, at 8 bytes per entry instead of about 150 in a dict.

    The latest entries are in a dict. From time to time they are merged into two arrays sorted by CRC.
    """

    __slots__ = ("_crcs", "_numbers", "_recent")

    def __init__(self) -> None:
        self._crcs = array("I")
        self._numbers = array("i")
        self._recent: dict[int, int] = {}

    def get(self, crc: int) -> int:
        """Return the number of a CRC, or -1 if there is none."""
        found = self._recent.get(crc)
        if found is not None:
            return found
        at = bisect_left(self._crcs, crc)
        return self._numbers[at] if at < len(self._crcs) and self._crcs[at] == crc else -1

    def __setitem__(self, crc: int, number: int) -> None:
        self._recent[crc] = number
        if len(self._recent) > max(_RECENT_MIN, len(self._crcs) // _RECENT_SHARE):
            self._merge()

    def _merge(self) -> None:
        crcs, numbers, copied = array("I"), array("i"), 0
        for crc, number in sorted(self._recent.items()):
            at = bisect_left(self._crcs, crc, copied)
            crcs += self._crcs[copied:at]
            numbers += self._numbers[copied:at]
            crcs.append(crc)
            numbers.append(number)
            copied = at + 1 if at < len(self._crcs) and self._crcs[at] == crc else at
        self._crcs, self._numbers = crcs + self._crcs[copied:], numbers + self._numbers[copied:]
        self._recent = {}


class Twins:
    """Batches of one partition with different records but the same CRC.

    They had equal bytes in one millisecond, or have equal CRCs by chance (one in 2^32).

    Attributes:
        placed: number of the batch at each base offset.
        waiting: numbers of the batches that were sent and not yet appended, as far as is known.
        senders: producers that have sent any of the batches.
    """

    __slots__ = ("placed", "senders", "waiting")

    def __init__(self) -> None:
        self.senders: set[int] = set()
        self.placed: dict[int, int] = {}
        self.waiting: dict[int, None] = {}

    def appended(self, base_offset: int, latest: int) -> int:
        """Mark the oldest waiting batch as appended at `base_offset`, and return its number.

        Args:
            latest: number to use if no batch is waiting.

        An ack corrects a wrong choice later.
        """
        number = next(iter(self.waiting), latest)
        self.waiting.pop(number, None)
        self.placed[base_offset] = number
        return number


class PartitionBatches:
    """The batches sent to one partition since its topic was created.

    Attributes:
        numbers: number of the batch sent last, by CRC.
        former: `numbers` of a deleted topic of the same name, None if there was none.
        twins: batches that share a CRC, by CRC.
        firsts: CRC and number of each twin, by the name of its first record.
    """

    __slots__ = ("firsts", "former", "numbers", "twins")

    def __init__(self, former: CrcMap | None = None) -> None:
        self.numbers = CrcMap()
        self.former = former
        self.twins: dict[int, Twins] = {}
        self.firsts: dict[str, tuple[int, int]] = {}

    def latest(self, crc: int) -> int:
        """Return the number of the batch sent last with this CRC, or -1 if there is none."""
        number = self.numbers.get(crc)
        return self.former.get(crc) if number < 0 and self.former is not None else number

    def at(self, base_offset: int, crc: int) -> int:
        twins = self.twins.get(crc) if self.twins else None
        latest = self.latest(crc)
        return latest if twins is None else twins.placed.get(base_offset, latest)


class SentBatches:
    """Every batch of every producer, in at most 35 bytes per batch and 16 per record.

    A batch in a log is identified by partition, base offset and CRC, because external clients may send equal bytes to
    several partitions, and more than once to one partition.

    Attributes:
        names: names of all records in the batches. Other classes may add names.
        compacted: finds the original of a batch that the cleaner has rewritten.
    """

    def __init__(self) -> None:
        self.names = NameIndex()
        self.compacted = CompactedBatches()
        self._partitions: dict[TopicPartition, PartitionBatches] = {}
        self._senders = WordTable()
        # For each batch: its last sender, the offset of its last append, and the start of its records, which end where
        # those of the next batch begin.
        self._sender = array("i")
        self._base_offset = array("q")
        self._first = array("i", [0])
        self._records = PackedColumn()

    # ----------------------------------------------------------------------------------------------------------- events

    def add(self, partition: TopicPartition, crc: int, client: str, records: tuple[str, ...]) -> None:
        """Add a batch that was sent. A batch with the CRC and records of an earlier one is the same batch."""
        known = self._partitions.get(partition)
        if known is None:
            known = self._partitions[partition] = PartitionBatches()
        latest = known.numbers.get(crc)
        number = (
            latest if latest < 0 or self._record_names(latest) == records else self._twin(known, crc, latest, records)
        )
        if number < 0:
            number = len(self._sender)
            self._sender.append(0)
            self._base_offset.append(_NOWHERE)
            self._records.put(self._first[-1], self.names.places_or_add(records))
            self._first.append(self._first[-1] + len(records))
        if number != latest:
            known.numbers[crc] = number
        self._sender[number] = self._senders.place(client)
        if known.twins and crc in known.twins:
            known.twins[crc].senders.add(self._sender[number])
            known.twins[crc].waiting[number] = None
            known.firsts[records[0]] = (crc, number)

    def _twin(self, known: PartitionBatches, crc: int, latest: int, records: tuple[str, ...]) -> int:
        """Return the number of the earlier batch that shares the CRC of `latest` and has these records, -1 for none."""
        if crc not in known.twins:
            twins = known.twins[crc] = Twins()
            twins.senders.add(self._sender[latest])
            if self._base_offset[latest] == _NOWHERE:
                twins.waiting[latest] = None
            else:
                twins.placed[self._base_offset[latest]] = latest
            known.firsts[self.names.name(self._records[self._first[latest]])] = (crc, latest)
        _, number = known.firsts.get(records[0], (crc, -1))
        return number if number >= 0 and self._record_names(number) == records else -1

    def appended(self, partition: TopicPartition, base_offset: int, crc: int) -> None:
        """Note that a leader has appended a batch."""
        known = self._partitions.get(partition)
        if known is None:
            return
        number = known.latest(crc)
        if known.twins and crc in known.twins:
            number = known.twins[crc].appended(base_offset, number)
        if number >= 0:
            self._base_offset[number] = base_offset

    def acked(self, partition: TopicPartition, record: str, offset: int) -> None:
        """Use the offset of an acked record to tell batches with equal CRC apart."""
        known = self._partitions.get(partition)
        if known is None or record not in known.firsts:
            return
        crc, number = known.firsts[record]
        twins = known.twins[crc]
        other = twins.placed.get(offset)
        if other is None:
            return
        twins.waiting.pop(number, None)
        if other == number:
            return
        before = self._base_offset[number]
        if twins.placed.get(before) == number:
            twins.placed[before] = other
            self._base_offset[other] = before
        else:
            twins.waiting[other] = None
        twins.placed[offset] = number
        self._base_offset[number] = offset

    def refused(self, partition: TopicPartition, crc: int, records: tuple[str, ...]) -> None:
        """Note that a batch was refused, so that a later append of another batch is not taken for this one."""
        known = self._partitions.get(partition)
        if known is not None and crc in known.twins and records[0] in known.firsts:
            known.twins[crc].waiting.pop(known.firsts[records[0]][1], None)

    def topic_deleted(self, topic: str) -> None:
        """Start again for a topic that was deleted, because a new topic of that name is unrelated."""
        self.compacted.topic_deleted(topic)
        for partition, known in self._partitions.items():
            if partition.topic == topic:
                self._partitions[partition] = PartitionBatches(known.numbers)

    def forget(self, is_gone: IsGone) -> None:
        """Drop the batches of topics that are gone (see Forgetful), but not the names of their records."""
        drop(is_gone, self._partitions)
        self.compacted.forget(is_gone)

    # ------------------------------------------------------------------------------------------------------- questions

    def records(self, partition: TopicPartition, base_offset: int, crc: int) -> tuple[str, ...]:
        """Return the names of the records in a batch, in offset order, or () if its sender is unknown."""
        number = self._at(partition, base_offset, crc)
        return () if number < 0 else self._record_names(number)

    def places(self, partition: TopicPartition, base_offset: int, crc: int) -> Integers:
        """Return the name indexes of the records in a batch, or an empty array if its sender is unknown."""
        number = self._at(partition, base_offset, crc)
        if number < 0:
            return np.empty(0, np.int64)
        return self._records.between(self._first[number], self._first[number + 1])

    def record(self, partition: TopicPartition, base_offset: int, crc: int, index: int) -> str | None:
        """Return the name of one record of a batch, or None if the sender is unknown or the batch has fewer records."""
        number = self._at(partition, base_offset, crc)
        if number < 0 or self._first[number] + index >= self._first[number + 1]:
            return None
        return self.names.name(self._records[self._first[number] + index])

    def gone(self, partition: TopicPartition, base_offset: int, crc: int) -> frozenset[int]:
        """Return the offsets of the records that compaction has removed from the batch with this CRC."""
        return self.compacted.gone(partition, base_offset, crc)

    def client(self, partition: TopicPartition, base_offset: int, crc: int) -> str | None:
        """Return the last sender of a batch, or None if it is unknown."""
        number = self._at(partition, base_offset, crc)
        return None if number < 0 else self._senders.get(self._sender[number])

    def has_several_senders(self, partition: TopicPartition, crc: int) -> bool:
        """Return True if several producers sent batches with this CRC. Until an ack, a copy's sender is unknown."""
        known = self._partitions.get(partition)
        twins = None if known is None else known.twins.get(crc)
        return twins is not None and len(twins.senders) > 1

    def number(self, partition: TopicPartition, crc: int) -> int:
        """Return the number of the batch sent last with this CRC, for `records_of`, or -1 if there is none."""
        known = self._partitions.get(partition)
        return -1 if known is None else known.numbers.get(crc)

    def records_of(self, number: int) -> tuple[str, ...]:
        return self._record_names(number)

    def _at(self, partition: TopicPartition, base_offset: int, crc: int) -> int:
        known = self._partitions.get(partition)
        if known is None:
            return -1
        if self.compacted.are_any:
            crc = self.compacted.crc_as_appended(partition, base_offset, crc)
        return known.at(base_offset, crc)

    def _record_names(self, number: int) -> tuple[str, ...]:
        return tuple(self.names.at(self._records.between(self._first[number], self._first[number + 1])))
