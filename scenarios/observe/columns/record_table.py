"""Every record of a run in columns, some fifty bytes for each, and of long runs a few (names.py).

table = RecordTable()
place = table.add("r12", "p1", TopicPartition("t", 0), -1, at_us, seq)         # places count from 0, in sending order
table.acked_us[place] = at_us
table["r12"].acked_us                                                         # a RecordEntry reads the columns
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from replica.ids import TopicPartition
from scenarios.observe.columns.names import BLOCK, UNKNOWN, LazyNames, NameIndex, PackedColumn, PlaceRuns

FATES = ("", "unknown", "failed", "acked")
UNSENT, SENT, FAILED, ACKED = range(len(FATES))
_ONLY = [bytes(byte == fate for byte in range(256)) for fate in range(len(FATES))]
"""For `translate`: 1 where it is that fate, else 0."""


class WordTable:
    """Few different values, a small number for each."""

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

    def get(self, place: int) -> str | None:
        return None if place < 0 else self.values[place]


class RecordTable:
    """The records by place. Times in microseconds; `*_seq` are places in the trace; UNKNOWN when it did not happen.

    index: names, also of others than records of this table
    fates: of each place UNSENT, or what the sender of the record knows so far
    origins: a record's sender and partition, and its acks
    words: the values of the columns acked_by, error, first_reader
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
        """Whether a record that was sent later has a higher place."""
        self.words = WordTable()
        self.origins: list[tuple[str, TopicPartition, int]] = []
        self._origins: dict[tuple[str, TopicPartition, int], int] = {}
        self._origin = array("i")
        self.sent_us = PackedColumn()
        self.sent_seq = PackedColumn()
        self.last_sent_seq = PackedColumn()
        """Of the few that are sent more than once: a transform does its work again."""
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
        """Of records of transactions: how often it was sent in one that has not been aborted."""
        self.committed = PackedColumn()

    def add(self, name: str, client: str, topic_partition: TopicPartition, acks: int, sent_us: int, seq: int) -> int:
        """Returns the place of a record that is not there yet."""
        place, end = self.index.place_or_add(name), len(self.fates)
        if place >= end:
            self.fates += bytes(place + 1 - end)
            self._origin.extend([UNKNOWN] * (place + 1 - end))
        else:
            self.is_in_order = False
        self.fates[place] = SENT
        self._origin[place] = self._number((client, topic_partition, acks))
        self.sent_us[place], self.sent_seq[place] = sent_us, seq
        self.count += 1
        return place

    def place(self, name: str) -> int:
        """UNKNOWN if it is no record."""
        place = self.index.place(name)
        return place if self.is_record(place) else UNKNOWN

    def is_record(self, place: int) -> bool:
        return 0 <= place < len(self.fates) and self.fates[place] != UNSENT

    def settle(self, place: int, topic_partition: TopicPartition) -> None:
        """The record was sent before its producer knew the partitions of the topic; this is the one that it got."""
        client, _, acks = self.origin(place)
        self._origin[place] = self._number((client, topic_partition, acks))

    def _number(self, origin: tuple[str, TopicPartition, int]) -> int:
        number = self._origins.get(origin)
        if number is None:
            number = self._origins[origin] = len(self.origins)
            self.origins.append(origin)
        return number

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[RecordEntry]:
        """In sending order."""
        for place, fate in enumerate(self.fates):
            if fate:
                yield RecordEntry(self, place)

    def named(self, fate: int) -> LazyNames:
        """Names of the records of one fate, in sending order."""
        return LazyNames(self.index, PlaceRuns.where(self.fates.translate(_ONLY[fate])))

    def get(self, name: str) -> RecordEntry | None:
        place = self.place(name)
        return None if place < 0 else RecordEntry(self, place)

    def __getitem__(self, name: str) -> RecordEntry:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def origin(self, place: int) -> tuple[str, TopicPartition, int]:
        """(client, topic_partition, acks)"""
        return self.origins[self._origin[place]]

    def are_sent_in_order(self, place: int, count: int) -> bool:
        """Whether one sender has sent the records of these places in their order, to one partition, and once."""
        origins = self._origin[place : place + count]
        if not self.is_in_order or len(origins) < count or origins[0] < 0 or origins.count(origins[0]) < count:
            return False
        return place >= self.last_sent_seq.end or max(self.last_sent_seq.between(place, place + count)) < 0

    def answers(self) -> dict[str, Answers]:
        """What each sender was answered, in the order of their first records."""
        found = {client: Answers() for client, _, _ in self.origins}
        by_number = [found[client] for client, _, _ in self.origins]
        for (number, fate), count in Counter(zip(self._origin, self.fates, strict=True)).items():
            if fate:
                by_number[number].fates[fate] += count
        ends = range(0, len(self.fates), BLOCK)
        for start, origins in ((start, self._origin[start : start + BLOCK]) for start in ends):
            stop = start + len(origins)
            if start < self.handed_over_us.end:
                handed = zip(origins, self.handed_over_us.between(start, stop), strict=True)
                for number, count in Counter(number for number, at_us in handed if at_us >= 0).items():
                    by_number[number].handed_over += count
            if start < self.latency_us.end:
                latencies = zip(origins, self.latency_us.between(start, stop), strict=True)
                for (number, latency_us), count in Counter(latencies).items():
                    if latency_us >= 0:
                        by_number[number].latencies_us[latency_us] += count
        return found


@dataclass(slots=True)
class Answers:
    """How many records of one sender have each fate, were handed over, were answered after so many microseconds."""

    fates: Counter[int] = field(default_factory=Counter)
    handed_over: int = 0
    latencies_us: Counter[int] = field(default_factory=Counter)


class RecordEntry:
    """One record, read from the columns. Times in microseconds, None when it did not happen; `*_seq` -1 for none."""

    __slots__ = ("_table", "place")

    def __init__(self, table: RecordTable, place: int) -> None:
        self._table = table
        self.place = place

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
        """Definitely not written, and never acked."""
        return self._table.fates[self.place] == FAILED

    @property
    def unknown(self) -> bool:
        return self._table.fates[self.place] == SENT

    @property
    def aborted(self) -> bool:
        """Every transaction that it was sent in was aborted."""
        return self._table.unaborted[self.place] == 0

    @property
    def committed(self) -> bool:
        """It was sent in a transaction, and that was committed."""
        return self._table.committed[self.place] > 0

    @property
    def fate(self) -> str:
        return FATES[self._table.fates[self.place]]


def _or_none(value: int) -> int | None:
    return None if value < 0 else value
