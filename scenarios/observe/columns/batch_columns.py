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

    def last_offset(self, place: int) -> int:
        return self.bases[place] + self.counts[place]

    def leader_epoch(self, place: int) -> int:
        return self._terms[self._term[place]][0]

    def crc(self, place: int) -> int:
        return self._crcs[place]

    def holds(self, place: int, batch: MirroredBatch) -> bool:
        """Return True if the batch at this index equals `batch`."""
        return (
            self.bases[place] == batch.base_offset
            and self._crcs[place] == batch.crc
            and self.counts[place] == batch.last_offset - batch.base_offset
            and self._sequences[place] == batch.base_sequence
            and self._terms[self._term[place]] == (batch.leader_epoch, batch.producer_id, batch.producer_epoch)
        )

    def is_same_append(self, place: int, other: int) -> bool:
        """Return True if the batches at two indexes come from the same append by one leader.

        CRC and offset do not identify an append: a batch that is sent again after a failover has the CRC of its first
        copy, which a former leader may have at the same offset in an older epoch.
        """
        return place == other or (
            self._crcs[place] == self._crcs[other]
            and self.bases[place] == self.bases[other]
            and self._terms[self._term[place]][0] == self._terms[self._term[other]][0]
        )

    def __getitem__(self, place: int) -> MirroredBatch:
        base = self.bases[place]
        leader_epoch, producer_id, producer_epoch = self._terms[self._term[place]]
        return MirroredBatch(
            base,
            base + self.counts[place],
            leader_epoch,
            self._crcs[place],
            producer_id,
            producer_epoch,
            self._sequences[place],
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

    def append(self, place: int) -> None:
        """Append the batch with the column index `place`. Its offsets must be above all others in this log."""
        self._places.append(place)

    def place_at(self, index: int) -> int:
        """Return the column index of the batch at position `index` of this log."""
        return self._places[index]

    def place_of(self, batch: MirroredBatch) -> int:
        """Return the column index of a batch, or -1 if this log does not contain it."""
        index = self._index(batch.base_offset)
        if index < 0:
            return -1
        place = self._places[index]
        return place if self.columns.holds(place, batch) else -1

    def at(self, offset: int) -> MirroredBatch | None:
        """Return the batch that contains `offset`, or None."""
        place = self.place_holding(offset)
        return None if place < 0 else self.columns[place]

    def place_holding(self, offset: int) -> int:
        """Return the column index of the batch that contains `offset`, or -1 if there is none."""
        index = self._index(offset)
        if index < 0:
            return -1
        place, columns = self._places[index], self.columns
        return place if columns.bases[place] + columns.counts[place] >= offset else -1

    def places_between(self, low: int, high: int) -> Iterator[int]:
        """Yield the column indexes of the batches that overlap with the offsets [low, high)."""
        places, bases, counts = self._places, self.columns.bases, self.columns.counts
        for index in range(max(self._index(low), 0), len(places)):
            place = places[index]
            base = bases[place]
            if base >= high:
                return
            if base + counts[place] >= low:
                yield place

    def between(self, low: int, high: int) -> Iterator[MirroredBatch]:
        """Return the batches that overlap with the offsets [low, high)."""
        return map(self.columns.__getitem__, self.places_between(low, high))

    def cut_to(self, end: int) -> list[MirroredBatch]:
        """Remove every batch with an offset of `end` or above, and return these batches, oldest first."""
        keep = bisect_left(self._places, end, key=self.columns.bases.__getitem__)
        if keep and self.columns.last_offset(self._places[keep - 1]) >= end:
            keep -= 1
        dropped = [self.columns[place] for place in self._places[keep:]]
        del self._places[keep:]
        return dropped

    def _index(self, offset: int) -> int:
        """Return the position in this log of the last batch that begins at or before `offset`, or -1 for none."""
        places, bases = self._places, self.columns.bases
        if places and bases[places[-1]] <= offset:  # Most lookups are for the end of the log.
            return len(places) - 1
        return bisect_right(places, offset, key=bases.__getitem__) - 1
