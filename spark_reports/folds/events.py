"""A share's events as a fold wants them: of all its facts together, by partition and in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_reports.folds.codes import begins
from spark_reports.folds.files import WORD, Facts, Share, each_called, facts_at_hand, facts_of_kind, together
from spark_reports.folds.parts import KEY
from spark_reports.folds.slices import END, UNKNOWN, Slice

_PARTITIONS = pa.schema([("topic", pa.string()), ("partition", pa.int64())])


class Events(NamedTuple):
    """rows:    run, *KEY and the columns of a fold: the events of one slice, and before them those of earlier slices
    that the fold needs for these
    is_new:  of each whether it is of this slice
    is_last: no slice follows
    """

    rows: pa.Table
    is_new: Any
    is_last: bool

    def taken(self, order: Any) -> Events:
        """The same in this order."""
        return self._replace(rows=self.rows.take(pa.array(order)), is_new=self.is_new[order])

    def needed(self, chosen: Any) -> pa.Table:
        """Of all slices so far those events, by a mask, which the next one cannot be folded without."""
        return self.rows.slice(0, 0) if self.is_last else self.rows.filter(pa.array(chosen))


Made = tuple[Iterable[pa.RecordBatch], pa.Table]
"""The rows of the table that follow from the new events, and the events that are needed for the next slice's. The fold
may add columns to these."""

Make = Callable[[pa.Schema, Events], Made]
"""The columns of a table, and the next slice of the events of one share of a run."""

MakeAll = Callable[[pa.Schema, pa.Table], Iterable[pa.RecordBatch]]
"""The same of all events at once."""

Cut = Callable[[pa.Table], pa.Table]
"""Ordered events -> those of them from which a fold makes the same rows, whatever follows."""


class Folding(NamedTuple):
    """How the rows of a table follow from the facts of each partition: `make` gets these columns of them, in the order
    of `columns`.

    facts:      `what` among the columns is the name in it; of one place in the order events come in the order of these
    along:      the column by which events are in order, of the sources and of facts that are not sent
    is_ordered: whether `make` gets the events of a slice by partition and in that order, or in none
    """

    make: Make
    facts: Mapping[str, Facts]
    columns: Sequence[str]
    along: str = "seq"
    is_ordered: bool = True


def at_the_end(make: MakeAll, cut: Cut, schema: pa.Schema, events: Events) -> Made:
    """For what is made of so few events, once they are cut, that all may wait for the last."""
    rows = cut(events.rows)
    return (make(schema, rows), rows.slice(0, 0)) if events.is_last else ((), rows)


class FoldedShare:
    """The rows of a table that follow from one share, slice by slice.

    schemas: of the trace's tables     raises: DamagedPart, as does rows()
    """

    def __init__(self, folding: Folding, out: pa.Schema, schemas: Mapping[str, pa.Schema], share: Share) -> None:
        self._folding, self._out, self._schemas, self._run = folding, out, schemas, share.run
        self._at_hand = {
            what: self._by_place(facts_at_hand(share, one, schemas))
            for what, one in folding.facts.items()
            if not one.is_sent
        }
        self._partitions: dict[tuple[str, int], None] = {}
        self._since = UNKNOWN
        self._needed: pa.Table | None = None

    @property
    def held(self) -> int:
        """So many events stay from slice to slice."""
        return 0 if self._needed is None else len(self._needed)

    def rows(self, piece: Slice) -> Iterable[pa.RecordBatch]:
        """What follows from the next slice. Of each kind that is missing in it there are no events."""
        found = self._facts(piece)
        if not piece.is_last and not any(map(len, found)):
            return ()
        made, self._needed = self._folding.make(self._out, self._events(found, piece.is_last))
        return made

    def _by_place(self, rows: pa.Table) -> pa.Table:
        order = np.argsort(rows[self._folding.along].to_numpy(), kind="stable")
        return rows.take(pa.array(order))

    def _facts(self, piece: Slice) -> list[pa.Table]:
        """All new ones, those of each kind by themselves."""
        read = {
            what: facts_of_kind(piece.its, one, self._schemas) if one.is_sent else self._told(what, self._since, piece)
            for what, one in self._folding.facts.items()
            if not one.everywhere
        }
        known = _distinct(pa.concat_tables([rows.select(KEY) for rows in read.values()]))
        fresh = [partition for partition in known if partition not in self._partitions]
        found = []
        for what, one in self._folding.facts.items():
            if one.everywhere:
                found.append(_in_each(self._told(what, self._since, piece), [*self._partitions], what))
                found.append(_in_each(self._told(what, UNKNOWN, piece), fresh, what))
            else:
                found.append(each_called(read[what], 0, "what", what))
        self._partitions.update(dict.fromkeys(fresh))
        self._since = piece.until
        return found

    def _told(self, what: str, since: int, piece: Slice) -> pa.Table:
        """Of facts at hand those from this place on that belong before the slice's end."""
        rows = self._at_hand[what]
        if since == UNKNOWN and piece.until == END:
            return rows
        begin, end = np.searchsorted(rows[self._folding.along].to_numpy(), [since, piece.until])
        return rows.slice(begin, end - begin)

    def _events(self, found: list[pa.Table], is_last: bool) -> Events:
        needed, columns = self._needed, [*self._folding.columns]
        kept = 0
        if needed is not None and len(needed):
            found = [needed.drop_columns("run"), *found]
            columns = [*dict.fromkeys([*columns, *needed.column_names[len(("run", *KEY)) :]])]
            kept = len(needed)
        rows = together(found).select([*KEY, *columns])
        events = Events(each_called(rows, 0, "run", self._run), np.arange(len(rows)) >= kept, is_last)
        return events.taken(_order(rows, self._folding.along)) if self._folding.is_ordered else events


def _order(events: pa.Table, along: str) -> Any:
    """By partition and this column."""
    place, topic = events[along].to_numpy(), events["topic"].combine_chunks().indices.to_numpy().astype(np.int64)
    number = (topic << 32) + events["partition"].to_numpy()
    # Sorting goes along what is sorted already: not by partition, if there is one.
    return np.lexsort((place, number)) if begins(number).sum() > 1 else np.argsort(place, kind="stable")


def _distinct(partitions: pa.Table) -> list[tuple[str, int]]:
    found = partitions.cast(_PARTITIONS).group_by(list(KEY), use_threads=False).aggregate([])
    return [(row["topic"], row["partition"]) for row in found.to_pylist()]


def _in_each(rows: pa.Table, partitions: Sequence[tuple[str, int]], what: str) -> pa.Table:
    """Every row in each partition."""
    place = pa.array(np.repeat(np.arange(len(partitions)), len(rows)))
    repeated = rows.take(pa.array(np.tile(np.arange(len(rows)), len(partitions))))
    whose = pa.Table.from_pylist([dict(zip(KEY, one, strict=True)) for one in partitions], _PARTITIONS).take(place)
    repeated = repeated.append_column("topic", whose["topic"].cast(WORD)).append_column("partition", whose["partition"])
    return each_called(repeated, 0, "what", what)
