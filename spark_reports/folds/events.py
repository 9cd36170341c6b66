"""Read the events of a share of a run's partitions in order, slice by slice, and fold them.

A partition may have more events than fit into a task's memory. A fold therefore gets one slice of them at a time, and
returns the events that it needs again with the next slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

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
"""Number of events in a slice: about 10 MB, and several times as much while they are sorted and folded."""

BEGIN, END = -(1 << 63), (1 << 63) - 1
_PARTITIONS = pa.schema([("topic", pa.string()), ("partition", pa.int64())])

Schemas = Mapping[str, pa.Schema]
"""The schema of each table of the trace."""


class Events(NamedTuple):
    """The events of one slice.

    Attributes:
        rows: events with run, topic, partition and the fold's columns, including events kept from earlier slices.
        is_new: mask of the rows that were not kept from earlier slices.
        is_last: True if no slice follows.
    """

    rows: pa.Table
    is_new: Any
    is_last: bool

    def taken(self, order: Any) -> Events:
        """Return the events at the indexes in `order`, in that order."""
        return self._replace(rows=self.rows.take(pa.array(order)), is_new=self.is_new[order])

    def needed(self, chosen: Any) -> pa.Table:
        """Return the events in mask `chosen` for the next slice, or no events if this is the last slice."""
        return self.rows.slice(0, 0) if self.is_last else self.rows.filter(pa.array(chosen))


Made = tuple[Iterable[pa.RecordBatch], pa.Table]
"""The result of a fold for one slice: rows of the table, and the events that the next slice needs.

The fold may add columns to these events.
"""

Make = Callable[[pa.Schema, Events], Made]
"""A fold over slices: called with the result table's schema and the next slice of events of one share of a run."""

Cut = Callable[[pa.Table], pa.Table]
"""A function that drops events that cannot influence the rows of a fold, whatever events follow."""


class Folding(NamedTuple):
    """A method to compute a table from the events of each partition.

    Attributes:
        make: fold over slices of events, which are sorted by partition and `seq`.
        facts: kinds of events by name; the column `what` has the name. Events of equal `seq` have this mapping's order.
        columns: columns of the events that the fold gets, besides run, topic and partition.
    """

    make: Make
    facts: Mapping[str, Facts]
    columns: Sequence[str]


Foldings = Mapping[str, tuple[Folding, pa.Schema]]
"""The folding and the schema of each result table, by the table's name."""


def at_the_end(make: Callable[[pa.Schema, pa.Table], Iterable[pa.RecordBatch]], cut: Cut) -> Make:
    """Return a `Make` that folds all events in the last slice. Until then it keeps the events that `cut` leaves."""

    def make_at_the_end(schema: pa.Schema, events: Events) -> Made:
        rows = cut(events.rows)
        return (make(schema, rows), rows.slice(0, 0)) if events.is_last else ((), rows)

    return make_at_the_end


def by_partition(fold: Fold, cut: Cut = lambda rows: rows) -> Make:
    """Return a `Make` for a fold over the events of one partition at a time, as tuples."""
    return at_the_end(lambda schema, rows: fold_table(fold, schema, rows), cut)


def fold_share(share: Share, foldings: Foldings, schemas: Schemas) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield (table name, batch of rows) for the partitions of one share. Raises DamagedPart.

    Every file is read once for all tables.
    """
    folds = {name: TableFold(folding, out, schemas, share) for name, (folding, out) in foldings.items()}
    read = columns_read([folding for folding, _ in foldings.values()], schemas)

    def most() -> int:  # Folds change how many events they keep.
        return max(SLICE_EVENTS, *(fold.held for fold in folds.values()))

    for piece in slices(share, read, most):
        for name, fold in folds.items():
            for batch in fold.rows(piece):
                yield name, batch
        del piece  # Free the memory before the next slice is read.


def columns_read(foldings: Iterable[Folding], schemas: Schemas) -> Schemas:
    """Return the schema of each of the trace's tables that is read slice by slice, with only the needed columns."""
    names: dict[str, dict[str, None]] = {}
    for facts in (facts for folding in foldings for facts in folding.facts.values() if facts.is_sliced):
        names.setdefault(str(facts.source), dict.fromkeys((*KEY, "seq"))).update(dict.fromkeys(facts.read))
    return {table: pa.schema([schemas[table].field(name) for name in its]) for table, its in names.items()}


class Slice(NamedTuple):
    """The events of a share with since <= seq < until, by table of the trace."""

    rows: Mapping[str, pa.Table]
    since: int
    until: int

    @property
    def is_last(self) -> bool:
        return self.until == END


def slices(share: Share, tables: Schemas, most: Callable[[], int]) -> Iterator[Slice]:
    """Yield the slices of a share in order of `seq`.

    Args:
        tables: schemas of the trace's tables, with the columns to read.
        most: returns the smallest number of events of a slice that is not the last one.

    Raises:
        DamagedPart: if a file of the trace cannot be read.
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
    return int(np.searchsorted(rows["seq"].to_numpy(), seq))


class TableFold:
    """Computes a result table's rows for one share, slice by slice. Raises DamagedPart."""

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
        """Number of events that are kept for the next slice."""
        return 0 if self._needed is None else len(self._needed)

    def rows(self, piece: Slice) -> Iterable[pa.RecordBatch]:
        found = self._facts(piece)
        if not piece.is_last and not any(map(len, found)):
            return ()
        made, self._needed = self._folding.make(self._out, self._events(found, piece.is_last))
        return made

    def _facts(self, piece: Slice) -> list[pa.Table]:
        """Return the new events of a slice, one table per kind of event."""
        facts = self._folding.facts
        read = {
            what: item.chosen(piece.rows[str(item.source)])
            if item.is_sliced
            else self._read_at_once(what, piece.since, piece)
            for what, item in facts.items()
            if not item.everywhere
        }
        known = together([rows.select(KEY) for rows in read.values()]).cast(_PARTITIONS)
        known = known.group_by(list(KEY), use_threads=False).aggregate([])
        fresh = [key for key in map(tuple, map(dict.values, known.to_pylist())) if key not in self._partitions]
        found = []
        for what, item in facts.items():
            if item.everywhere:
                found.append(_in_each(self._read_at_once(what, piece.since, piece), [*self._partitions], what))
                found.append(_in_each(self._read_at_once(what, BEGIN, piece), fresh, what))
            else:
                found.append(each_called(read[what], "what", what))
        self._partitions.update(dict.fromkeys(fresh))
        return found

    def _read_at_once(self, what: str, since: int, piece: Slice) -> pa.Table:
        """Return the events from `since` to the end of the slice, for a kind that was read as a whole at the start."""
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
    seq, topic = events["seq"].to_numpy(), events["topic"].combine_chunks().indices.to_numpy().astype(np.int64)
    number = (topic << 32) + events["partition"].to_numpy()
    # Sorting sorted data is faster, so do not sort by partition if there is only one.
    return np.lexsort((seq, number)) if begins(number).sum() > 1 else np.argsort(seq, kind="stable")


def _in_each(rows: pa.Table, partitions: Sequence[tuple[str, int]], what: str) -> pa.Table:
    """Return all rows once for each partition, with the columns topic, partition and `what`."""
    owner = pa.array(np.repeat(np.arange(len(partitions)), len(rows)))
    repeated = rows.take(pa.array(np.tile(np.arange(len(rows)), len(partitions))))
    owners = pa.Table.from_pylist(
        [dict(zip(KEY, partition, strict=True)) for partition in partitions], _PARTITIONS
    ).take(owner)
    repeated = repeated.append_column("topic", owners["topic"].cast(WORD)).append_column(
        "partition", owners["partition"]
    )
    return each_called(repeated, "what", what)


WRITTEN_ROWS = 65_536
"""Smallest number of rows in a row group of a result file, except the last."""


def rows_of(folding: tuple[Folding, pa.Schema], schemas: Schemas, share: Share) -> Iterator[pa.RecordBatch]:
    return (batch for _, batch in fold_share(share, {"": folding}, schemas))


def write_tables(folder: Path, foldings: Foldings, schemas: Schemas, share: Share) -> Iterator[pa.RecordBatch]:
    """Write one Parquet file per table for a share, even if it has no rows. Yield nothing: Spark needs no result."""
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(_RowGroups(folder / name / f"{share.run}-{share.number:05}.parquet", out))
            for name, (_, out) in foldings.items()
        }
        for name, batch in fold_share(share, foldings, schemas):
            files[name].write(batch)
    yield from ()


class _RowGroups:
    """Writes a table's Parquet file, collecting rows until they fill a row group."""

    def __init__(self, file: Path, schema: pa.Schema) -> None:
        numbers = [field.name for field in schema if pa.types.is_integer(field.type)]
        # Times and offsets rise from row to row: their deltas take a tenth of the space of a dictionary.
        self._writer = pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            use_dictionary=[field.name for field in schema if pa.types.is_string(field.type)],
            column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        )
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []

    def __enter__(self) -> _RowGroups:
        return self

    def __exit__(self, *raised: object) -> None:
        if raised == (None, None, None):
            self._flush()
        self._writer.close()

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        if sum(map(len, self._waiting)) >= WRITTEN_ROWS:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema), WRITTEN_ROWS)
        self._waiting = []
