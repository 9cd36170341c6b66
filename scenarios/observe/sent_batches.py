"""The records in every batch that a producer has sent, and its sender."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from replica.ids import TopicPartition
from replica.trace import events as trace
from scenarios.observe.availability import IsGone, drop
from scenarios.observe.columns.names import NameIndex, PackedColumn
from scenarios.observe.columns.record_table import WordTable

# ---------------------------------------------------------------------------------------------------- compacted batches
#
# What compaction has made of the batches of compacted topics: their names after it, and the records that went.
#
# A batch keeps its offsets and its leader epoch when the cleaner writes it anew, but has another CRC, on each
# replica the
# one that fits what it took there. Here such a batch goes by the CRC with which it was appended.


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


_RECENT_MIN = 1024
_RECENT_SHARE = 16
"""Of so many entries one may be in the dict: merging then costs a microsecond or two for each."""
_NOWHERE = -1


class CrcMap:
    """Small numbers by CRC (32 bits, unsigned), eight bytes an entry where a dict takes a hundred and fifty.

    The latest entries are in a dict; when there are enough, they are merged into two arrays in the order of the CRCs.
    """

    __slots__ = ("_crcs", "_numbers", "_recent")

    def __init__(self) -> None:
        self._crcs = array("I")
        self._numbers = array("i")
        self._recent: dict[int, int] = {}

    def get(self, crc: int) -> int:
        """-1 if there is none."""
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
    """Batches of one partition with one CRC: the same words in the same millisecond, or a chance of one in 2^32.

    placed: which of them stands at a base offset     waiting: sent, and as far as anyone knows not appended since
    """

    __slots__ = ("placed", "waiting")

    def __init__(self) -> None:
        self.placed: dict[int, int] = {}
        self.waiting: dict[int, None] = {}

    def appended(self, base_offset: int, latest: int) -> int:
        """Returns which one it is: of those that wait the oldest. They are the same to the byte; acks put it right."""
        number = next(iter(self.waiting), latest)
        self.waiting.pop(number, None)
        self.placed[base_offset] = number
        return number


class PartitionBatches:
    """The batches sent to one partition since its topic was made.

    numbers: of the batch that was sent last, by CRC     former: the same, of the topic of that name before
    twins: by CRC, where several batches have it     firsts: CRC and number of a twin, by its first record
    """

    __slots__ = ("firsts", "former", "numbers", "twins")

    def __init__(self, former: CrcMap | None = None) -> None:
        self.numbers = CrcMap()
        self.former = former
        self.twins: dict[int, Twins] = {}
        self.firsts: dict[str, tuple[int, int]] = {}

    def latest(self, crc: int) -> int:
        """-1 if there is none."""
        number = self.numbers.get(crc)
        return self.former.get(crc) if number < 0 and self.former is not None else number

    def at(self, base_offset: int, crc: int) -> int:
        twins = self.twins.get(crc) if self.twins else None
        latest = self.latest(crc)
        return latest if twins is None else twins.placed.get(base_offset, latest)


class SentBatches:
    """Every batch of every producer, some thirty-five bytes for each and sixteen for each of its records, or less.

    A batch in a log is found by partition, base offset and CRC: clients that we do not know send the same bytes to
    several partitions, and to one partition more than once.

    names: of every record that was in some batch; others may add theirs, to keep their events by place
    compacted: a batch that the cleaner has written anew is the one that was sent
    """

    def __init__(self) -> None:
        self.names = NameIndex()
        self.compacted = CompactedBatches()
        self._partitions: dict[TopicPartition, PartitionBatches] = {}
        self._senders = WordTable()
        # Of each batch: its last sender, place of its last append, and the start of its records; those end where the
        # next batch's begin.
        self._sender = array("i")
        self._base_offset = array("q")
        self._first = array("i", [0])
        self._records = PackedColumn()

    # ----------------------------------------------------------------------------------------------------------- events

    def add(self, partition: TopicPartition, crc: int, client: str, records: tuple[str, ...]) -> None:
        """A batch that is sent again is the same one, whichever producer sends it."""
        known = self._partitions.get(partition)
        if known is None:
            known = self._partitions[partition] = PartitionBatches()
        latest = known.numbers.get(crc)
        number = latest if latest < 0 or self._of(latest) == records else self._twin(known, crc, latest, records)
        if number < 0:
            number = len(self._sender)
            self._sender.append(0)
            self._base_offset.append(_NOWHERE)
            self._records.put(self._first[-1], map(self.names.place_or_add, records))
            self._first.append(self._first[-1] + len(records))
        if number != latest:
            known.numbers[crc] = number
        self._sender[number] = self._senders.place(client)
        if known.twins and crc in known.twins:
            known.twins[crc].waiting[number] = None
            known.firsts[records[0]] = (crc, number)

    def _twin(self, known: PartitionBatches, crc: int, latest: int, records: tuple[str, ...]) -> int:
        """Another batch than `latest` has its CRC. Returns the number of that other one, -1 if it is new."""
        if crc not in known.twins:
            twins = known.twins[crc] = Twins()
            if self._base_offset[latest] == _NOWHERE:
                twins.waiting[latest] = None
            else:
                twins.placed[self._base_offset[latest]] = latest
            known.firsts[self.names.name(self._records[self._first[latest]])] = (crc, latest)
        _, number = known.firsts.get(records[0], (crc, -1))
        return number if number >= 0 and self._of(number) == records else -1

    def appended(self, partition: TopicPartition, base_offset: int, crc: int) -> None:
        """A leader has appended a batch."""
        known = self._partitions.get(partition)
        if known is None:
            return
        number = known.latest(crc)
        if known.twins and crc in known.twins:
            number = known.twins[crc].appended(base_offset, number)
        if number >= 0:
            self._base_offset[number] = base_offset

    def acked(self, partition: TopicPartition, record: str, offset: int) -> None:
        """The answer to a producer shows which of several twins stands where."""
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
        """It was not appended."""
        known = self._partitions.get(partition)
        if known is not None and crc in known.twins and records[0] in known.firsts:
            known.twins[crc].waiting.pop(known.firsts[records[0]][1], None)

    def topic_deleted(self, topic: str) -> None:
        """Batches sent to a topic of that name from now on are unrelated to earlier ones."""
        self.compacted.topic_deleted(topic)
        for partition, known in self._partitions.items():
            if partition.topic == topic:
                self._partitions[partition] = PartitionBatches(known.numbers)

    def forget(self, is_gone: IsGone) -> None:
        """As Forgetful: which batches were sent to its partitions; their records stay."""
        drop(is_gone, self._partitions)
        self.compacted.forget(is_gone)

    # ------------------------------------------------------------------------------------------------------- questions

    def records(self, partition: TopicPartition, base_offset: int, crc: int) -> tuple[str, ...]:
        """Of the batch that stands there, in the order of their offsets; () if its sender is unknown."""
        number = self._at(partition, base_offset, crc)
        return () if number < 0 else self._of(number)

    def places(self, partition: TopicPartition, base_offset: int, crc: int) -> list[int]:
        """As `records`: where `names` has them."""
        number = self._at(partition, base_offset, crc)
        return [] if number < 0 else self._records.between(self._first[number], self._first[number + 1])

    def record(self, partition: TopicPartition, base_offset: int, crc: int, index: int) -> str | None:
        """One of them; None for a batch of unknown sender, or with fewer records."""
        number = self._at(partition, base_offset, crc)
        if number < 0 or self._first[number] + index >= self._first[number + 1]:
            return None
        return self.names.name(self._records[self._first[number] + index])

    def gone(self, partition: TopicPartition, base_offset: int, crc: int) -> frozenset[int]:
        """Offsets of the records that the batch, as it is with this CRC, has lost to compaction."""
        return self.compacted.gone(partition, base_offset, crc)

    def client(self, partition: TopicPartition, base_offset: int, crc: int) -> str | None:
        """The last sender of the batch that stands there; None if it is unknown."""
        number = self._at(partition, base_offset, crc)
        return None if number < 0 else self._senders.get(self._sender[number])

    def number(self, partition: TopicPartition, crc: int) -> int:
        """Of the batch that was sent last with this CRC, for `records_of`; -1 for none."""
        known = self._partitions.get(partition)
        return -1 if known is None else known.numbers.get(crc)

    def records_of(self, number: int) -> tuple[str, ...]:
        return self._of(number)

    def _at(self, partition: TopicPartition, base_offset: int, crc: int) -> int:
        known = self._partitions.get(partition)
        if known is None:
            return -1
        if self.compacted.are_any:
            crc = self.compacted.crc_as_appended(partition, base_offset, crc)
        return known.at(base_offset, crc)

    def _of(self, number: int) -> tuple[str, ...]:
        return tuple(map(self.names.name, self._records.between(self._first[number], self._first[number + 1])))
