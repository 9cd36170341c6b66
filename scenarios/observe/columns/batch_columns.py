"""Columns for the batches of a partition (24 bytes per batch), and logs as lists of batch indexes (4 bytes each)."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from replica.frozen import dataclass


@dataclass(frozen=True, slots=True)
class MirroredBatch:
    """A batch in one log. Its producer fields are -1 if the producer is not idempotent."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


class BatchColumns:
    """Columns with every batch that was ever appended to any log of one partition, by index.

    A MirroredBatch is created on each access.

    Attributes:
        bases: first offsets of the batches.
        counts: last offset minus first offset of each batch.
    """

    __slots__ = ("_crcs", "_sequences", "_term", "_term_places", "_terms", "bases", "counts")

    def __init__(self) -> None:
        self.bases = array("q")
        self.counts = array("i")
        self._crcs = array("I")
        self._sequences = array("i")
        # The combinations of leader epoch, producer id and producer epoch, of which there are few.
        self._term = array("i")
        self._terms: list[tuple[int, int, int]] = []
        self._term_places: dict[tuple[int, int, int], int] = {}

    def add(self, batch: MirroredBatch) -> int:
        """Add a batch and return its index."""
        term = (batch.leader_epoch, batch.producer_id, batch.producer_epoch)
        known = self._term_places.get(term)
        if known is None:
            known = self._term_places[term] = len(self._terms)
            self._terms.append(term)
        self.bases.append(batch.base_offset)
        self.counts.append(batch.last_offset - batch.base_offset)
        self._crcs.append(batch.crc)
        self._sequences.append(batch.base_sequence)
        self._term.append(known)
        return len(self._term) - 1

    def last_offset(self, index: int) -> int:
        return self.bases[index] + self.counts[index]

    def leader_epoch(self, index: int) -> int:
        return self._terms[self._term[index]][0]

    def crc(self, index: int) -> int:
        return self._crcs[index]

    def holds(self, index: int, batch: MirroredBatch) -> bool:
        """Return True if the batch at this index equals `batch`."""
        return (
            self.bases[index] == batch.base_offset
            and self._crcs[index] == batch.crc
            and self.counts[index] == batch.last_offset - batch.base_offset
            and self._sequences[index] == batch.base_sequence
            and self._terms[self._term[index]] == (batch.leader_epoch, batch.producer_id, batch.producer_epoch)
        )

    def is_same_append(self, index: int, other: int) -> bool:
        """Return True if the batches at two indexes come from the same append by one leader.

        CRC and offset do not identify an append: a batch that is sent again after a failover has the CRC of its first
        copy, which a former leader may have at the same offset in an older epoch.
        """
        return index == other or (
            self._crcs[index] == self._crcs[other]
            and self.bases[index] == self.bases[other]
            and self._terms[self._term[index]][0] == self._terms[self._term[other]][0]
        )

    def __getitem__(self, index: int) -> MirroredBatch:
        base = self.bases[index]
        leader_epoch, producer_id, producer_epoch = self._terms[self._term[index]]
        return MirroredBatch(
            base,
            base + self.counts[index],
            leader_epoch,
            self._crcs[index],
            producer_id,
            producer_epoch,
            self._sequences[index],
        )


class BatchList:
    """The batches of one log in offset order, stored as indexes into the columns."""

    __slots__ = ("_places", "columns")

    def __init__(self, columns: BatchColumns) -> None:
        self.columns = columns
        self._places = array("i")

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> MirroredBatch:
        return self.columns[self._places[index]]

    def __iter__(self) -> Iterator[MirroredBatch]:
        return map(self.columns.__getitem__, self._places)

    def append(self, index: int) -> None:
        """Append the batch with the column index `index`. Its offsets must be above all others in this log."""
        self._places.append(index)

    def place_at(self, index: int) -> int:
        """Return the column index of the batch at position `index` of this log."""
        return self._places[index]

    def place_of(self, batch: MirroredBatch) -> int:
        """Return the column index of a batch, or -1 if this log does not contain it."""
        index = self._index(batch.base_offset)
        if index < 0:
            return -1
        position = self._places[index]
        return position if self.columns.holds(position, batch) else -1

    def at(self, offset: int) -> MirroredBatch | None:
        """Return the batch that contains `offset`, or None."""
        index = self.place_holding(offset)
        return None if index < 0 else self.columns[index]

    def place_holding(self, offset: int) -> int:
        """Return the column index of the batch that contains `offset`, or -1 if there is none."""
        index = self._index(offset)
        if index < 0:
            return -1
        position, columns = self._places[index], self.columns
        return position if columns.bases[position] + columns.counts[position] >= offset else -1

    def places_between(self, low: int, high: int) -> Iterator[int]:
        """Yield the column indexes of the batches that overlap with the offsets [low, high)."""
        places, bases, counts = self._places, self.columns.bases, self.columns.counts
        for index in range(max(self._index(low), 0), len(places)):
            position = places[index]
            base = bases[position]
            if base >= high:
                return
            if base + counts[position] >= low:
                yield position

    def between(self, low: int, high: int) -> Iterator[MirroredBatch]:
        """Return the batches that overlap with the offsets [low, high)."""
        return map(self.columns.__getitem__, self.places_between(low, high))

    def cut_to(self, end: int) -> list[MirroredBatch]:
        """Remove every batch with an offset of `end` or above, and return these batches, oldest first."""
        keep = bisect_left(self._places, end, key=self.columns.bases.__getitem__)
        if keep and self.columns.last_offset(self._places[keep - 1]) >= end:
            keep -= 1
        dropped = [self.columns[index] for index in self._places[keep:]]
        del self._places[keep:]
        return dropped

    def _index(self, offset: int) -> int:
        """Return the position in this log of the last batch that begins at or before `offset`, or -1 for none."""
        places, bases = self._places, self.columns.bases
        if places and bases[places[-1]] <= offset:  # Most lookups are for the end of the log.
            return len(places) - 1
        return bisect_right(places, offset, key=bases.__getitem__) - 1
