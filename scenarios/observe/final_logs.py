"""The content of the disks at the end of a run: the log of each replica, and the positions of each record."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import NamedTuple

from replica.ids import TopicPartition
from scenarios.observe.columns.names import UNKNOWN, LazyNames, NameIndex, PlaceRuns


class LogEntry(NamedTuple):
    """A record in the log of one replica at the end of the run. `seq` is the trace event that reports it."""

    offset: int
    record: str
    leader_epoch: int
    crc: int
    seq: int


class _Runs(NamedTuple):
    """Ranges of a log in which offset and name index are consecutive.

    Attributes:
        firsts: index of the first entry of each range.
        offsets, places: offset and name index of that entry.
    """

    firsts: array[int]
    offsets: array[int]
    places: array[int]


class _Batches(NamedTuple):
    """Ranges of a log with the same leader epoch, CRC and trace event.

    Attributes:
        firsts: index of the first entry of each range.
        epochs, crcs, seqs: leader epoch, CRC and sequence number of the trace event of each range.
    """

    firsts: array[int]
    epochs: array[int]
    crcs: array[int]
    seqs: array[int]


class LogEntries:
    """The entries of one log, stored in 24 bytes per batch. A LogEntry is created on each access.

    Args:
        names: index that all logs share, so that each record name is stored once.
    """

    __slots__ = ("_batch", "_batches", "_length", "_names", "_next", "_runs")

    def __init__(self, entries: Iterable[LogEntry] = (), names: NameIndex | None = None) -> None:
        self._names = NameIndex() if names is None else names
        self._runs = _Runs(array("q"), array("q"), array("q"))
        self._batches = _Batches(array("q"), array("i"), array("I"), array("q"))
        self._length = 0
        self._next = (UNKNOWN, UNKNOWN)
        self._batch = (UNKNOWN, UNKNOWN, UNKNOWN)
        for offset, record, leader_epoch, crc, seq in entries:
            self.extend(offset, (record,), leader_epoch, crc, seq)

    def extend(self, offset: int, records: Sequence[str], leader_epoch: int, crc: int, seq: int) -> None:
        """Add records of one batch with consecutive offsets, the first of which is `offset`."""
        if self._batch != (leader_epoch, crc, seq):
            self._batch = (leader_epoch, crc, seq)
            for column, value in zip(self._batches, (self._length, *self._batch), strict=True):
                column.append(value)
        for index, count in self._names.runs_of(records):
            if self._next != (offset, index):
                for column, value in zip(self._runs, (self._length, offset, index), strict=True):
                    column.append(value)
            offset += count
            self._next = (offset, index + count)
            self._length += count

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> LogEntry:
        runs, batches = self._runs, self._batches
        run, batch = bisect_right(runs.firsts, index) - 1, bisect_right(batches.firsts, index) - 1
        behind = index - runs.firsts[run]
        name = self._names.name(runs.places[run] + behind)
        return LogEntry(
            runs.offsets[run] + behind, name, batches.epochs[batch], batches.crcs[batch], batches.seqs[batch]
        )

    @property
    def offsets(self) -> Iterator[int]:
        """Return the offsets in the order of the entries."""
        return chain.from_iterable(range(offset, offset + count) for offset, _, count in self.stretches())

    @property
    def records(self) -> LazyNames:
        """Return the names of the records in the order of the entries."""
        places = PlaceRuns()
        for _, index, count in self.stretches():
            places.append(index, count)
        return LazyNames(self._names, places)

    def stretches(self) -> Iterator[tuple[int, int, int]]:
        """Yield (offset, name index, count) of each range in which offsets and name indexes are consecutive."""
        ends = pairwise(chain(self._runs.firsts, (self._length,)))
        for offset, index, (first, end) in zip(self._runs.offsets, self._runs.places, ends, strict=True):
            yield offset, index, end - first

    def stretches_in(self, low: int, high: int) -> Iterator[tuple[int, int, int]]:
        """Yield the part of `stretches` with offsets from `low` to `high` (inclusive) of a log in offset order."""
        starts = self._runs.offsets
        for run in range(max(bisect_right(starts, low) - 1, 0), bisect_right(starts, high)):
            end = self._runs.firsts[run + 1] if run + 1 < len(starts) else self._length
            first, last = max(low, starts[run]), min(high, starts[run] + end - self._runs.firsts[run] - 1)
            if first <= last:
                yield first, self._runs.places[run] + first - starts[run], last - first + 1

    def entries_in(self, low: int, high: int) -> Iterator[LogEntry]:
        """Yield the entries with offsets from `low` to `high` (inclusive) of a log in offset order."""
        for offset, _, count in self.stretches_in(low, high):
            run = bisect_right(self._runs.offsets, offset) - 1
            start = self._runs.firsts[run] + offset - self._runs.offsets[run]
            yield from map(self.__getitem__, range(start, start + count))

    def __iter__(self) -> Iterator[LogEntry]:
        return map(self.__getitem__, range(self._length))

    def _place(self, index: int) -> int:
        run = bisect_right(self._runs.firsts, index) - 1
        return self._runs.places[run] + index - self._runs.firsts[run]

    def _crc(self, index: int) -> int:
        return self._batches.crcs[bisect_right(self._batches.firsts, index) - 1]

    def in_order(self) -> LogEntries:
        """Return the entries sorted by offset, or this object if they are sorted already."""
        if all(offset + count <= behind for (offset, _, count), (behind, _, _) in pairwise(self.stretches())):
            return self
        return LogEntries(sorted(self), self._names)

    def differences(self, other: LogEntries, limit: int) -> list[tuple[LogEntry, LogEntry]]:
        """Return the pairs of entries that differ at one offset below `limit`. Both logs must be in offset order."""
        if self._is_same_log(other):
            return []
        found = []
        behind = enumerate(other.offsets)
        theirs, their_offset = next(behind, (0, limit))
        for mine, offset in enumerate(self.offsets):
            while their_offset < offset < limit:
                theirs, their_offset = next(behind, (0, limit))
            if offset >= limit or their_offset >= limit:
                break
            if their_offset == offset and not self._same(mine, other, theirs):
                found.append((self[mine], other[theirs]))
        return found

    def _is_same_log(self, other: LogEntries) -> bool:
        """Return True if both logs have the same records in the same batches. Trace sequence numbers may differ."""
        same = self._names is other._names and self._runs == other._runs
        return same and self._batches[:3] == other._batches[:3]

    def _same(self, mine: int, other: LogEntries, theirs: int) -> bool:
        if self._crc(mine) != other._crc(theirs):
            return False
        index, their_place = self._place(mine), other._place(theirs)
        if self._names is other._names:
            return index == their_place
        return self._names.name(index) == other._names.name(their_place)


@dataclass(slots=True)
class FinalReplica:
    """A replica at the end of the run, with its log in offset order.

    `seq` is the sequence number of its ReplicaFound event, -1 if there is none.
    """

    node: str
    entries: LogEntries = field(default_factory=LogEntries)
    log_start_offset: int = 0
    log_end_offset: int = 0
    high_watermark: int = 0
    is_leader: bool = False
    in_isr: bool = False
    in_elr: bool = False
    running: bool = False
    leader_epoch: int = -1
    seq: int = -1

    @property
    def found(self) -> bool:
        return self.seq >= 0

    @property
    def rank(self) -> tuple[bool | int | str, ...]:
        """Return a sort key. The replica with the lowest key has the final log of its partition.

        The leader is first, then a member of the ISR, then of the ELR, then the replica with the latest log.
        """
        who = (not self.is_leader, not self.in_isr, not self.in_elr)
        return (*who, -self.leader_epoch, -self.log_end_offset, self.node)


class Presence:
    """The positions of each record in the final logs.

    A record that was written again may be in several partitions.

    Attributes:
        flags: 1 for each name index that is in some final log, otherwise 0.
    """

    def __init__(self, names: NameIndex) -> None:
        self.flags = bytearray(len(names))
        self._names = names
        self._partitions: list[TopicPartition] = []
        self._firsts: list[tuple[int, int, int, int]] = []
        """First copies as ranges (name index, count, partition, offset) with consecutive name indexes and offsets."""
        self._is_sorted = True
        self._more: dict[int, list[tuple[int, int]]] = {}
        """Further copies by name index, as (partition, offset).

        A name that stands for the record of an unknown client may have many copies.
        """

    def add_log(self, partition: TopicPartition, entries: LogEntries) -> None:
        number, flags = len(self._partitions), self.flags
        self._partitions.append(partition)
        self._is_sorted = False
        for offset, index, count in entries.stretches():
            start = index
            while (end := _until(flags, start, index + count)) < index + count:
                if end > start:
                    self._firsts.append((start, end - start, number, offset + start - index))
                self._more.setdefault(end, []).append((number, offset + end - index))
                start = end + 1
            if end > start:
                self._firsts.append((start, end - start, number, offset + start - index))
            flags[index : index + count] = b"\1" * count

    def __contains__(self, record: str) -> bool:
        index = self._names.place(record)
        return 0 <= index < len(self.flags) and self.flags[index] > 0

    def copies(self, record: str) -> tuple[tuple[TopicPartition, int], ...]:
        """Return (partition, offset) of each copy, in the order of partitions."""
        if record not in self:
            return ()
        if not self._is_sorted:
            self._firsts.sort()
            self._is_sorted = True
        index = self._names.place(record)
        first, _, number, offset = self._firsts[bisect_right(self._firsts, (index + 1,)) - 1]
        copies = ((number, offset + index - first), *self._more.get(index, ()))
        return tuple((self._partitions[number], offset) for number, offset in copies)

    def repeated(self) -> Iterator[str]:
        """Return the names of the records with more than one copy."""
        return map(self._names.name, self._more)


def _until(flags: bytearray, start: int, end: int) -> int:
    """Return the index of the first 1 in `flags` between `start` and `end`, or `end` if there is none."""
    found = flags.find(1, start, end)
    return end if found < 0 else found
