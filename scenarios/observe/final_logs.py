"""The content of the disks when the run ended: one log per replica, in columns, and where each record is present."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from replica.ids import TopicPartition
from scenarios.observe.name_index import NameIndex


class LogEntry(NamedTuple):
    """One record of one replica's log when the run ended."""

    offset: int
    record: str
    leader_epoch: int
    crc: int
    seq: int


class _Runs:
    """Integers that mostly count up by one: only where they do not is kept."""

    __slots__ = ("_length", "_next", "_places", "_starts")

    def __init__(self) -> None:
        self._starts = array("q")
        self._places = array("q")
        self._length = 0
        self._next: int | None = None

    def append(self, value: int) -> None:
        if value != self._next:
            self._starts.append(value)
            self._places.append(self._length)
        self._next = value + 1
        self._length += 1

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: int) -> int:
        run = bisect_right(self._places, place) - 1
        return self._starts[run] + place - self._places[run]

    def __iter__(self) -> Iterator[int]:
        for start, first, end in zip(self._starts, self._places, [*self._places[1:], self._length], strict=False):
            yield from range(start, start + end - first)


class LogEntries:
    """The entries of one log, twelve bytes for each; a LogEntry is made when one is looked at.

    names: shared by the logs that hold the same records, so that each name is kept once
    """

    __slots__ = ("_crcs", "_epochs", "_names", "_places", "_seqs", "offsets")

    def __init__(self, entries: Iterable[LogEntry] = (), names: NameIndex | None = None) -> None:
        self.offsets = _Runs()
        self._names = NameIndex() if names is None else names
        self._places = array("i")
        self._epochs = array("i")
        self._crcs = array("I")
        self._seqs = _Runs()
        for entry in entries:
            self.append(*entry)

    def append(self, offset: int, record: str, leader_epoch: int, crc: int, seq: int) -> None:
        self.offsets.append(offset)
        self._places.append(self._names.place_or_add(record))
        self._epochs.append(leader_epoch)
        self._crcs.append(crc)
        self._seqs.append(seq)

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, place: int) -> LogEntry:
        name = self._names.name(self._places[place])
        return LogEntry(self.offsets[place], name, self._epochs[place], self._crcs[place], self._seqs[place])

    @property
    def records(self) -> Iterator[str]:
        """The records in the order of the entries."""
        return map(self._names.name, self._places)

    def __iter__(self) -> Iterator[LogEntry]:
        return map(LogEntry, self.offsets, self.records, self._epochs, self._crcs, self._seqs)

    def in_order(self) -> LogEntries:
        """By offset; the entries themselves if they are."""
        if all(one < other for one, other in pairwise(self.offsets)):
            return self
        return LogEntries(sorted(self), self._names)

    def differences(self, other: LogEntries, limit: int) -> list[tuple[LogEntry, LogEntry]]:
        """Entries of the same offset below `limit` that are not the same record in the same batch; both in order."""
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

    def _same(self, mine: int, other: LogEntries, theirs: int) -> bool:
        if self._crcs[mine] != other._crcs[theirs]:
            return False
        if self._names is other._names:
            return self._places[mine] == other._places[theirs]
        return self._names.name(self._places[mine]) == other._names.name(other._places[theirs])


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
    running: bool = False
    seq: int = -1

    @property
    def found(self) -> bool:
        return self.seq >= 0


class Presence:
    """Where each record is in the final logs: in one partition, unless it was written again to another one."""

    def __init__(self) -> None:
        self._index = NameIndex()
        self._partitions: list[TopicPartition] = []
        self._partition = array("i")
        self._first = array("q")
        self._more: dict[int, list[tuple[int, int]]] = {}
        """Further copies, by partition and offset: a name that no client gave can stand for as many as there are."""

    def add_log(self, partition: TopicPartition, entries: LogEntries) -> None:
        number = len(self._partitions)
        self._partitions.append(partition)
        for offset, record in zip(entries.offsets, entries.records, strict=True):
            place = self._index.place_or_add(record)
            if place == len(self._partition):
                self._partition.append(number)
                self._first.append(offset)
            else:
                self._more.setdefault(place, []).append((number, offset))

    def __contains__(self, record: str) -> bool:
        return self._index.place(record) >= 0

    def copies(self, record: str) -> tuple[tuple[TopicPartition, int], ...]:
        """(partition, offset) of each, in the order of partitions; () for a record that is in no final log."""
        place = self._index.place(record)
        if place < 0:
            return ()
        copies = ((self._partition[place], self._first[place]), *self._more.get(place, ()))
        return tuple((self._partitions[number], offset) for number, offset in copies)

    def has_copies(self, record: str) -> bool:
        """Whether it is there more than once."""
        return self._index.place(record) in self._more
