"""The events of a share of a run's partitions in their order, slice by slice, and folds of them.

A partition may have more events than a task is to hold. So a fold gets a slice of them at a time, and says which of
the events so far it needs again for the next slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_reports.folds.codes import begins
from spark_reports.folds.facts import (
    KEY,
    WORD,
    Facts,
    Share,
    each_called,
    first_seq,
    parts_of,
    read_facts,
    read_part,
    together,
)
from spark_reports.folds.rows import Fold, fold_table

SLICE_EVENTS = 1 << 18
"""Some ten megabytes, and a few times as much while they are sorted and folded."""

BEGIN, END = -(1 << 63), (1 << 63) - 1
_PARTITIONS = pa.schema([("topic", pa.string()), ("partition", pa.int64())])

Schemas = Mapping[str, pa.Schema]
"""Of the trace's tables."""


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

Cut = Callable[[pa.Table], pa.Table]
"""Ordered events -> those of them from which a fold makes the same rows, whatever follows."""


class Folding(NamedTuple):
    """How the rows of a table follow from the facts of each partition: `make` gets these columns of them, by partition
    and `seq`.

    facts: `what` among the columns is the name in it; of one seq events come in the order of these
    """

    make: Make
    facts: Mapping[str, Facts]
    columns: Sequence[str]


Foldings = Mapping[str, tuple[Folding, pa.Schema]]
"""By table, with the table's columns."""


def at_the_end(make: Callable[[pa.Schema, pa.Table], Iterable[pa.RecordBatch]], cut: Cut) -> Make:
    """For what is made of so few events, once they are cut, that all may wait for the last."""

    def make_at_the_end(schema: pa.Schema, events: Events) -> Made:
        rows = cut(events.rows)
        return (make(schema, rows), rows.slice(0, 0)) if events.is_last else ((), rows)

    return make_at_the_end


def by_partition(fold: Fold, cut: Cut = lambda rows: rows) -> Make:
    """For a function that gets the facts of one partition at a time, and each fact by itself."""
    return at_the_end(lambda schema, rows: fold_table(fold, schema, rows), cut)


def fold_share(share: Share, foldings: Foldings, schemas: Schemas) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of several tables that follow from the events of a share, each with its table's name: every file is read
    once for all tables.

    raises: DamagedPart
    """
    folds = {name: TableFold(folding, out, schemas, share) for name, (folding, out) in foldings.items()}
    read = columns_read([folding for folding, _ in foldings.values()], schemas)

    def most() -> int:  # Folds look again at what they hold.
        return max(SLICE_EVENTS, *(fold.held for fold in folds.values()))

    for piece in slices(share, read, most):
        for name, fold in folds.items():
            for batch in fold.rows(piece):
                yield name, batch
        del piece  # It is not held while the next one is read.


def columns_read(foldings: Iterable[Folding], schemas: Schemas) -> Schemas:
    """What is needed of the tables that are read slice by slice."""
    names: dict[str, dict[str, None]] = {}
    for facts in (facts for folding in foldings for facts in folding.facts.values() if facts.is_sliced):
        names.setdefault(str(facts.source), dict.fromkeys((*KEY, "seq"))).update(dict.fromkeys(facts.read))
    return {table: pa.schema([schemas[table].field(name) for name in its]) for table, its in names.items()}


class Slice(NamedTuple):
    """By table of the trace: all events of a share before a place in the order that no slice has had so far."""

    rows: Mapping[str, pa.Table]
    since: int
    until: int

    @property
    def is_last(self) -> bool:
        return self.until == END


def slices(share: Share, tables: Schemas, most: Callable[[], int]) -> Iterator[Slice]:
    """File after file is read, and given away as soon as those to come can have nothing that belongs before it.

    tables: the columns of each     most: so many events are enough for a slice     raises: DamagedPart
    """
    in_order = sorted((first_seq(part), part) for part in parts_of(share.run_dir, tables))
    held = {table: schema.empty_table() for table, schema in tables.items()}
    since = BEGIN
    for part, following in zip_longest(in_order, in_order[1:]):
        if part is not None:
            table = part[1].parent.name
            rows = share.of(_by_seq(read_part(part[1], tables[table])))
            held[table] = pa.concat_tables([held[table], rows])
        if following is None or sum(map(len, held.values())) < most():
            continue
        bounds = {table: _place(rows, following[0]) for table, rows in held.items()}
        if sum(bounds.values()) >= most():
            yield Slice({table: rows.slice(0, bounds[table]) for table, rows in held.items()}, since, following[0])
            held = {table: rows.slice(bounds[table]) for table, rows in held.items()}
            since = following[0]
    yield Slice(held, since, END)


def _by_seq(rows: pa.Table) -> pa.Table:
    seq = rows["seq"].to_numpy()
    return rows.sort_by("seq") if (seq[1:] < seq[:-1]).any() else rows


def _place(rows: pa.Table, seq: int) -> int:
    """How many rows are before this one."""
    return int(np.searchsorted(rows["seq"].to_numpy(), seq))


class TableFold:
    """The rows of a table that follow from one share, slice by slice.

    raises: DamagedPart
    """

    def __init__(self, folding: Folding, out: pa.Schema, schemas: Schemas, share: Share) -> None:
        self._folding, self._out, self._run = folding, out, share.run
        self._at_hand = {
            what: read_facts(share, facts, schemas.get(facts.source) if isinstance(facts.source, str) else None)
            for what, facts in folding.facts.items()
            if not facts.is_sliced
        }
        self._partitions: dict[tuple[str, int], None] = {}
        self._needed: pa.Table | None = None

    @property
    def held(self) -> int:
        """So many events stay from slice to slice."""
        return 0 if self._needed is None else len(self._needed)

    def rows(self, piece: Slice) -> Iterable[pa.RecordBatch]:
        found = self._facts(piece)
        if not piece.is_last and not any(map(len, found)):
            return ()
        made, self._needed = self._folding.make(self._out, self._events(found, piece.is_last))
        return made

    def _facts(self, piece: Slice) -> list[pa.Table]:
        """All new ones, those of each kind by themselves."""
        facts = self._folding.facts
        read = {
            what: one.chosen(piece.rows[str(one.source)]) if one.is_sliced else self._told(what, piece.since, piece)
            for what, one in facts.items()
            if not one.everywhere
        }
        known = together([rows.select(KEY) for rows in read.values()]).cast(_PARTITIONS)
        known = known.group_by(list(KEY), use_threads=False).aggregate([])
        fresh = [place for place in map(tuple, map(dict.values, known.to_pylist())) if place not in self._partitions]
        found = []
        for what, one in facts.items():
            if one.everywhere:
                found.append(_in_each(self._told(what, piece.since, piece), [*self._partitions], what))
                found.append(_in_each(self._told(what, BEGIN, piece), fresh, what))
            else:
                found.append(each_called(read[what], "what", what))
        self._partitions.update(dict.fromkeys(fresh))
        return found

    def _told(self, what: str, since: int, piece: Slice) -> pa.Table:
        """Of facts at hand those from this place on that belong into the slice."""
        rows = self._at_hand[what]
        if self._folding.facts[what].ahead:
            return rows if since == BEGIN else rows.slice(0, 0)
        first, end = _place(rows, since), len(rows) if piece.is_last else _place(rows, piece.until)
        return rows.slice(first, end - first)

    def _events(self, found: list[pa.Table], is_last: bool) -> Events:
        needed, columns = self._needed, [*self._folding.columns]
        kept = 0
        if needed is not None and len(needed):
            found = [needed.drop_columns("run"), *found]
            columns = [*dict.fromkeys([*columns, *needed.column_names[len(("run", *KEY)) :]])]
            kept = len(needed)
        rows = together(found).select([*KEY, *dict.fromkeys([*columns, "seq"])])
        order = _order(rows)
        rows = rows.select([*KEY, *columns]).take(pa.array(order))
        return Events(each_called(rows, "run", self._run), order >= kept, is_last)


def _order(events: pa.Table) -> Any:
    """By partition and seq."""
    seq, topic = events["seq"].to_numpy(), events["topic"].combine_chunks().indices.to_numpy().astype(np.int64)
    number = (topic << 32) + events["partition"].to_numpy()
    # Sorting goes along what is sorted already: not by partition, if there is one.
    return np.lexsort((seq, number)) if begins(number).sum() > 1 else np.argsort(seq, kind="stable")


def _in_each(rows: pa.Table, partitions: Sequence[tuple[str, int]], what: str) -> pa.Table:
    """Every row in each partition."""
    place = pa.array(np.repeat(np.arange(len(partitions)), len(rows)))
    repeated = rows.take(pa.array(np.tile(np.arange(len(rows)), len(partitions))))
    whose = pa.Table.from_pylist([dict(zip(KEY, one, strict=True)) for one in partitions], _PARTITIONS).take(place)
    repeated = repeated.append_column("topic", whose["topic"].cast(WORD)).append_column("partition", whose["partition"])
    return each_called(repeated, "what", what)
