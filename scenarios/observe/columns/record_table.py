"""Store every record of a run in columns, at some fifty bytes per record, and only a few in long runs (names.py).

table = RecordTable()
# Indexes count from 0, in sending order.
index = table.add("r12", "p1", TopicPartition("t", 0), -1, at_us, seq)
table.acked_us[index] = at_us
table["r12"].acked_us  # a RecordEntry reads the columns
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from replica.ids import TopicPartition
from scenarios.observe.columns.names import UNKNOWN, LazyNames, NameIndex, PackedColumn, PlaceRuns

FATES = ("", "unknown", "failed", "acked")
UNSENT, SENT, FAILED, ACKED = range(len(FATES))
_ONLY = [bytes(byte == fate for byte in range(256)) for fate in range(len(FATES))]
"""Tables for `bytes.translate` that map one fate to 1 and all others to 0."""

_ANSWERS_AT_ONCE = 1 << 16
"""Number of records whose answers are counted at a time, so that ten million of them need little memory."""


class WordTable:
    """A table that assigns a small number to each distinct string."""

    __slots__ = ("_places", "values")

    def __init__(self) -> None:
        self.values: list[str] = []
        self._places: dict[str, int] = {}

    def place(self, value: str) -> int:
        known = self._places.get(value)
        if known is None:
            known = self._places[value] = len(self.values)
            self.values.append(value)
        return known

    def get(self, index: int) -> str | None:
        return None if index < 0 else self.values[index]


class RecordTable:
    """The records of a run in columns.

    Times (`*_us`) are in microseconds, and `*_seq` are sequence numbers of trace events. Both are UNKNOWN if the event
    did not happen.

    Attributes:
        index: assigns an index to each name; it may also have names that are not in this table.
        fates: UNSENT, SENT, FAILED or ACKED for each index, as far as the producer knows.
        origins: distinct combinations of producer, partition and acks.
        words: distinct strings of the columns acked_by, error and first_reader.
    """

    __slots__ = (
        "_origin",
        "_origins",
        "acked_by",
        "acked_offset",
        "acked_seq",
        "acked_us",
        "committed",
        "count",
        "error",
        "failed_seq",
        "failed_us",
        "fates",
        "first_read_seq",
        "first_read_us",
        "first_reader",
        "handed_over_us",
        "index",
        "is_in_order",
        "last_sent_seq",
        "latency_us",
        "origins",
        "sent_seq",
        "sent_us",
        "unaborted",
        "words",
    )

    def __init__(self, index: NameIndex | None = None) -> None:
        self.index = NameIndex() if index is None else index
        self.fates = bytearray()
        self.count = 0
        self.is_in_order = True
        """True if records were added in the order in which they were sent."""
        self.words = WordTable()
        self.origins: list[tuple[str, TopicPartition, int]] = []
        self._origins: dict[tuple[str, TopicPartition, int], int] = {}
        self._origin = array("i")
        self.sent_us = PackedColumn()
        self.sent_seq = PackedColumn()
        self.last_sent_seq = PackedColumn()
        """Sequence number of the last RecordSent, only for records that a transform sends again."""
        self.acked_us = PackedColumn()
        self.acked_seq = PackedColumn()
        self.acked_offset = PackedColumn()
        self.acked_by = PackedColumn()
        self.handed_over_us = PackedColumn()
        self.failed_us = PackedColumn()
        self.failed_seq = PackedColumn()
        self.error = PackedColumn()
        self.latency_us = PackedColumn()
        self.first_read_us = PackedColumn()
        self.first_read_seq = PackedColumn()
        self.first_reader = PackedColumn()
        self.unaborted = PackedColumn()
        """Number of transactions with the record that were not aborted, only for records of transactions."""
        self.committed = PackedColumn()

    def add(self, name: str, client: str, topic_partition: TopicPartition, acks: int, sent_us: int, seq: int) -> int:
        """Add a new record and return its index."""
        index, end = self.index.place_or_add(name), len(self.fates)
        if index >= end:
            self.fates += bytes(index + 1 - end)
            self._origin.extend([UNKNOWN] * (index + 1 - end))
        else:
            self.is_in_order = False
        self.fates[index] = SENT
        self._origin[index] = self._number((client, topic_partition, acks))
        self.sent_us[index], self.sent_seq[index] = sent_us, seq
        self.count += 1
        return index

    def place(self, name: str) -> int:
        """Return the index of a record, or UNKNOWN if there is no record of that name."""
        index = self.index.place(name)
        return index if self.is_record(index) else UNKNOWN

    def is_record(self, index: int) -> bool:
        return 0 <= index < len(self.fates) and self.fates[index] != UNSENT

    def settle(self, index: int, topic_partition: TopicPartition) -> None:
        """Set the partition of a record that was sent before its producer knew the topic's partitions."""
        client, _, acks = self.origin(index)
        self._origin[index] = self._number((client, topic_partition, acks))

    def _number(self, origin: tuple[str, TopicPartition, int]) -> int:
        number = self._origins.get(origin)
        if number is None:
            number = self._origins[origin] = len(self.origins)
            self.origins.append(origin)
        return number

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[RecordEntry]:
        """Iterate over the records in the order in which they were sent."""
        for index, fate in enumerate(self.fates):
            if fate:
                yield RecordEntry(self, index)

    def named(self, fate: int) -> LazyNames:
        """Return the names of the records with one fate, in the order in which they were sent."""
        return LazyNames(self.index, PlaceRuns.where(self.fates.translate(_ONLY[fate])))

    def get(self, name: str) -> RecordEntry | None:
        index = self.place(name)
        return None if index < 0 else RecordEntry(self, index)

    def __getitem__(self, name: str) -> RecordEntry:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def origin(self, index: int) -> tuple[str, TopicPartition, int]:
        """Return (client, topic_partition, acks) of a record."""
        return self.origins[self._origin[index]]

    def are_sent_in_order(self, index: int, count: int) -> bool:
        """Return True if a producer sent the `count` records from `index` on to one partition, in order, once each."""
        origins = self._origin[index : index + count]
        if not self.is_in_order or len(origins) < count or origins[0] < 0 or origins.count(origins[0]) < count:
            return False
        return index >= self.last_sent_seq.end or self.last_sent_seq.between(index, index + count).max() < 0

    def answers(self) -> dict[str, Answers]:
        """Return the answers to each producer, in the order of the producers' first records."""
        clients = dict.fromkeys(client for client, _, _ in self.origins)
        numbers = {client: number for number, client in enumerate(clients)}
        client_of = np.array([numbers[client] for client, _, _ in self.origins] or [0])
        found = [Answers() for _ in clients]
        for start in range(0, len(self.fates), _ANSWERS_AT_ONCE):
            stop = min(start + _ANSWERS_AT_ONCE, len(self.fates))
            fates = np.frombuffer(self.fates[start:stop], np.uint8)
            of = client_of[np.asarray(self._origin[start:stop])]
            handed_over, latency_us = self.handed_over_us.between(start, stop), self.latency_us.between(start, stop)
            for number, answers in enumerate(found):
                mine = (of == number) & (fates != UNSENT)
                answers.fates.update(_counts(fates[mine]))
                answers.handed_over += int((handed_over[mine] >= 0).sum())
                answers.latencies_us.update(_counts(latency_us[mine & (latency_us >= 0)]))
        return dict(zip(clients, found, strict=True))


def _counts(values: npt.NDArray[Any]) -> dict[int, int]:
    distinct, counts = np.unique(values, return_counts=True)
    return dict(zip(distinct.tolist(), counts.tolist(), strict=True))


@dataclass(slots=True)
class Answers:
    """The answers to one producer's records.

    Attributes:
        fates: number of records by fate.
        handed_over: number of records that were handed over with acks=0.
        latencies_us: number of records by latency in microseconds.
    """

    fates: Counter[int] = field(default_factory=Counter)
    handed_over: int = 0
    latencies_us: Counter[int] = field(default_factory=Counter)


class RecordEntry:
    """One record of a RecordTable. Its properties read the columns.

    Times are in microseconds. If an event did not happen, its time is None and its `*_seq` is -1.
    """

    __slots__ = ("_table", "place")

    def __init__(self, table: RecordTable, index: int) -> None:
        self._table = table
        self.place = index

    @property
    def name(self) -> str:
        return self._table.index.name(self.place)

    @property
    def client(self) -> str:
        return self._table.origin(self.place)[0]

    @property
    def topic_partition(self) -> TopicPartition:
        return self._table.origin(self.place)[1]

    @property
    def acks(self) -> int:
        return self._table.origin(self.place)[2]

    @property
    def sent_us(self) -> int:
        return self._table.sent_us[self.place]

    @property
    def sent_seq(self) -> int:
        return self._table.sent_seq[self.place]

    @property
    def last_sent_seq(self) -> int:
        again = self._table.last_sent_seq[self.place]
        return self.sent_seq if again < 0 else again

    @property
    def acked_us(self) -> int | None:
        return _or_none(self._table.acked_us[self.place])

    @property
    def acked_seq(self) -> int:
        return self._table.acked_seq[self.place]

    @property
    def acked_by(self) -> str | None:
        return self._table.words.get(self._table.acked_by[self.place])

    @property
    def acked_offset(self) -> int:
        return self._table.acked_offset[self.place]

    @property
    def handed_over_us(self) -> int | None:
        return _or_none(self._table.handed_over_us[self.place])

    @property
    def failed_us(self) -> int | None:
        return _or_none(self._table.failed_us[self.place])

    @property
    def failed_seq(self) -> int:
        return self._table.failed_seq[self.place]

    @property
    def error(self) -> str | None:
        return self._table.words.get(self._table.error[self.place])

    @property
    def latency_us(self) -> int | None:
        return _or_none(self._table.latency_us[self.place])

    @property
    def first_read_us(self) -> int | None:
        return _or_none(self._table.first_read_us[self.place])

    @property
    def first_read_seq(self) -> int:
        return self._table.first_read_seq[self.place]

    @property
    def first_reader(self) -> str | None:
        return self._table.words.get(self._table.first_reader[self.place])

    @property
    def acked(self) -> bool:
        return self._table.fates[self.place] == ACKED

    @property
    def failed(self) -> bool:
        """Return True if the record was definitely not written, and never acked."""
        return self._table.fates[self.place] == FAILED

    @property
    def unknown(self) -> bool:
        return self._table.fates[self.place] == SENT

    @property
    def aborted(self) -> bool:
        """Return True if every transaction in which the record was sent was aborted."""
        return self._table.unaborted[self.place] == 0

    @property
    def committed(self) -> bool:
        """Return True if the record was sent in a transaction that was committed."""
        return self._table.committed[self.place] > 0

    @property
    def fate(self) -> str:
        return FATES[self._table.fates[self.place]]


def _or_none(value: int) -> int | None:
    return None if value < 0 else value
