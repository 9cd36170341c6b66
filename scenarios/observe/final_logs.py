"""The content of the disks when the run ended: one log per replica, in columns, and where each record is present."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import NamedTuple

from replica.ids import TopicPartition
from scenarios.observe.columns.names import UNKNOWN, LazyNames, NameIndex, PlaceRuns


class LogEntry(NamedTuple):
    """One record of one replica's log when the run ended."""

    offset: int
    record: str
    leader_epoch: int
    crc: int
    seq: int


class _Runs(NamedTuple):
    """Stretches of a log in which offset, place of the name and place in the trace count up by one: where they begin.

    firsts: entry     offsets, places, seqs: of that entry
    """

    firsts: array[int]
    offsets: array[int]
    places: array[int]
    seqs: array[int]


class _Batches(NamedTuple):
    """Stretches of a log with one leader epoch and CRC: the entry with which each begins, and these two."""

    firsts: array[int]
    epochs: array[int]
    crcs: array[int]


class LogEntries:
    """The entries of one log, twelve bytes for each batch; a LogEntry is made when one is looked at.

    names: shared by the logs that hold the same records, so that each name is kept once
    """

    __slots__ = ("_batch", "_batches", "_length", "_names", "_next", "_runs")

    def __init__(self, entries: Iterable[LogEntry] = (), names: NameIndex | None = None) -> None:
        self._names = NameIndex() if names is None else names
        self._runs = _Runs(array("q"), array("q"), array("q"), array("q"))
        self._batches = _Batches(array("q"), array("i"), array("I"))
        self._length = 0
        self._next = (UNKNOWN, UNKNOWN, UNKNOWN)
        self._batch = (UNKNOWN, UNKNOWN)
        for entry in entries:
            self.append(*entry)

    def append(self, offset: int, record: str, leader_epoch: int, crc: int, seq: int) -> None:
        self.extend(offset, self._names.place_or_add(record), 1, leader_epoch, crc, seq)

    def extend(self, offset: int, place: int, count: int, leader_epoch: int, crc: int, seq: int) -> None:
        """Entries of one batch, whose offsets, places of names and places in the trace count up by one."""
        length = self._length
        if self._next != (offset, place, seq):
            runs = self._runs
            runs.firsts.append(length)
            runs.offsets.append(offset)
            runs.places.append(place)
            runs.seqs.append(seq)
        if self._batch != (leader_epoch, crc):
            self._batch = (leader_epoch, crc)
            batches = self._batches
            batches.firsts.append(length)
            batches.epochs.append(leader_epoch)
            batches.crcs.append(crc)
        self._next, self._length = (offset + count, place + count, seq + count), length + count

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> LogEntry:
        runs, batches = self._runs, self._batches
        run, batch = bisect_right(runs.firsts, index) - 1, bisect_right(batches.firsts, index) - 1
        behind = index - runs.firsts[run]
        name = self._names.name(runs.places[run] + behind)
        return LogEntry(
            runs.offsets[run] + behind, name, batches.epochs[batch], batches.crcs[batch], runs.seqs[run] + behind
        )

    @property
    def offsets(self) -> Iterator[int]:
        """In the order of the entries."""
        return chain.from_iterable(range(offset, offset + count) for offset, _, count in self.stretches())

    @property
    def records(self) -> LazyNames:
        """The records in the order of the entries."""
        places = PlaceRuns()
        for _, place, count in self.stretches():
            places.append(place, count)
        return LazyNames(self._names, places)

    def stretches(self) -> Iterator[tuple[int, int, int]]:
        """(offset, place of the name, number of entries) where both count up by one"""
        ends = pairwise(chain(self._runs.firsts, (self._length,)))
        for offset, place, (first, end) in zip(self._runs.offsets, self._runs.places, ends, strict=True):
            yield offset, place, end - first

    def stretches_in(self, low: int, high: int) -> Iterator[tuple[int, int, int]]:
        """Those of the offsets from `low` to `high`, of entries in order."""
        starts = self._runs.offsets
        for run in range(max(bisect_right(starts, low) - 1, 0), bisect_right(starts, high)):
            end = self._runs.firsts[run + 1] if run + 1 < len(starts) else self._length
            first, last = max(low, starts[run]), min(high, starts[run] + end - self._runs.firsts[run] - 1)
            if first <= last:
                yield first, self._runs.places[run] + first - starts[run], last - first + 1

    def __iter__(self) -> Iterator[LogEntry]:
        return map(self.__getitem__, range(self._length))

    def _place(self, index: int) -> int:
        """Of an entry's name."""
        run = bisect_right(self._runs.firsts, index) - 1
        return self._runs.places[run] + index - self._runs.firsts[run]

    def _crc(self, index: int) -> int:
        return self._batches.crcs[bisect_right(self._batches.firsts, index) - 1]

    def in_order(self) -> LogEntries:
        """By offset; the entries themselves if they are."""
        if all(offset + count <= behind for (offset, _, count), (behind, _, _) in pairwise(self.stretches())):
            return self
        return LogEntries(sorted(self), self._names)

    def differences(self, other: LogEntries, limit: int) -> list[tuple[LogEntry, LogEntry]]:
        """Entries of the same offset below `limit` that are not the same record in the same batch; both in order."""
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
        """The same records in the same batches, whatever their places in the trace."""
        same = self._names is other._names and self._batches == other._batches
        return same and self._runs[:3] == other._runs[:3]

    def _same(self, mine: int, other: LogEntries, theirs: int) -> bool:
        if self._crc(mine) != other._crc(theirs):
            return False
        place, their_place = self._place(mine), other._place(theirs)
        if self._names is other._names:
            return place == their_place
        return self._names.name(place) == other._names.name(their_place)


@dataclass(slots=True)
class FinalReplica:
    """One replica when the run ended, its log in offset order. `seq` is the place of its ReplicaFound in the trace."""

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
        """Lowest of the log that counts: the leader, who may be elected cleanly, who has the latest records."""
        who = (not self.is_leader, not self.in_isr, not self.in_elr)
        return (*who, -self.leader_epoch, -self.log_end_offset, self.node)


class Presence:
    """Where each record is in the final logs: in one partition, unless it was written again to another one.

    flags: 1 for each place in the index of names that is in some log
    """

    def __init__(self, names: NameIndex) -> None:
        self.flags = bytearray(len(names))
        self._names = names
        self._partitions: list[TopicPartition] = []
        self._firsts: list[tuple[int, int, int, int]] = []
        """First copies: (place, number of places, partition, offset), where place and offset count up by one."""
        self._is_sorted = True
        self._more: dict[int, list[tuple[int, int]]] = {}
        """Further copies, by partition and offset: a name that no client gave can stand for as many as there are."""

    def add_log(self, partition: TopicPartition, entries: LogEntries) -> None:
        number, flags = len(self._partitions), self.flags
        self._partitions.append(partition)
        self._is_sorted = False
        for offset, place, count in entries.stretches():
            start = place
            while (end := _until(flags, start, place + count)) < place + count:
                if end > start:
                    self._firsts.append((start, end - start, number, offset + start - place))
                self._more.setdefault(end, []).append((number, offset + end - place))
                start = end + 1
            if end > start:
                self._firsts.append((start, end - start, number, offset + start - place))
            flags[place : place + count] = b"\1" * count

    def __contains__(self, record: str) -> bool:
        place = self._names.place(record)
        return 0 <= place < len(self.flags) and self.flags[place] > 0

    def copies(self, record: str) -> tuple[tuple[TopicPartition, int], ...]:
        """(partition, offset) of each, in the order of partitions; () for a record that is in no final log."""
        if record not in self:
            return ()
        if not self._is_sorted:
            self._firsts.sort()
            self._is_sorted = True
        place = self._names.place(record)
        first, _, number, offset = self._firsts[bisect_right(self._firsts, (place + 1,)) - 1]
        copies = ((number, offset + place - first), *self._more.get(place, ()))
        return tuple((self._partitions[number], offset) for number, offset in copies)

    def repeated(self) -> Iterator[str]:
        """Those that are there more than once."""
        return map(self._names.name, self._more)


def _until(flags: bytearray, start: int, end: int) -> int:
    """The first place with a 1, `end` if there is none before."""
    found = flags.find(1, start, end)
    return end if found < 0 else found
