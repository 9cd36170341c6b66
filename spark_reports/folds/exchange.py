"""What tasks send each other: those that read files to those that need all of some records, or of some partitions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_reports.folds.events import Events
from spark_reports.folds.files import Facts, PartFiles, Share, facts_in, partition_numbers, together
from spark_reports.folds.parcels import (
    NumbersOf,
    Part,
    apart,
    cut_along,
    each_parcel,
    nothing_for_each,
    parcels,
    unpacked,
)
from spark_reports.folds.slices import UNKNOWN, Chunk, Its, Kind, slices
from spark_reports.folds.written import RowGroups, RowsOf

_LETTERS = 8
_MIXED = np.uint64(0x9E37_79B9_7F4A_7C15)
"""Fibonacci hashing: 2**64 by the golden ratio."""

_ROWS: Kind = ("rows",)

SLICE_RECORDS = 1 << 16
"""Of partitions at a time: what is known of a record takes as much memory as several events."""

_MOST_PIECES = 64
"""For one slice: a parcel is read as a whole, and tasks send so many for it together; but more, if they are more."""

Step = Callable[[pa.Table], pa.Table]

MakeRows = Callable[[Events], tuple[pa.Table, pa.Table]]
"""Rows of some partitions, slice by slice -> the rows of the table that follow from the new ones, and those that are
needed for the next slice's, to which it may add columns."""


class Steps(NamedTuple):
    """found:         facts of one kind in a file -> what of them is needed
    of_records:    all of that of some records, whatever their partitions -> rows with a partition
    of_partitions: all those rows of some partitions, in slices along this column of theirs -> the rows of the table
    """

    found: Step
    of_records: Step
    of_partitions: MakeRows
    along: str


def record_numbers(rows: pa.Table) -> Any:
    """By the last letters of each record's name, the same in every process."""
    names = rows["record"].combine_chunks()
    ends = np.frombuffer(names.buffers()[1], np.int32)[names.offset : names.offset + len(names) + 1]
    letters = np.concatenate([np.zeros(_LETTERS, np.uint8), np.frombuffer(names.buffers()[2] or b"", np.uint8)])
    last = np.ndarray((len(letters) - _LETTERS + 1,), "<u8", letters.data, strides=(1,))[ends[1:]]
    others = _LETTERS - np.minimum(np.diff(ends), _LETTERS)  # Letters of the name before it.
    mine = np.where(others == _LETTERS, 0, last >> (8 * (others % _LETTERS)).astype(np.uint64))
    return (mine.astype(np.uint64) * _MIXED >> np.uint64(40)).astype(np.int64)


def all_of_it(facts: pa.Table) -> pa.Table:
    return facts


def one_number(rows: pa.Table) -> Any:
    """For rows that all go to one place."""
    return np.zeros(len(rows), np.int64)


def send_found(
    tasks: Sequence[PartFiles], facts: Mapping[str, Facts], schemas: Mapping[str, pa.Schema], found: Step,
    numbers_of: NumbersOf, shares: int, folder: Path | None, batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """batches: numbers of tasks, as Spark spreads them     folder: for the files of parcels     out: PARCELS
    raises: DamagedPart"""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            parts = apart(found_in(tasks[number], facts, schemas, found), numbers_of, shares)
            yield from parcels(parts, _file(folder, "found", number))


def _file(folder: Path | None, name: str, number: int) -> Path | None:
    return None if folder is None else folder / f"{name}-{number:05}.arrows"


def found_in(parts: PartFiles, facts: Mapping[str, Facts], schemas: Mapping[str, pa.Schema], found: Step) -> pa.Table:
    """Of one file after the other, so that what is not needed is not held. raises: DamagedPart"""
    each = [found(rows) for rows in facts_in(parts, facts, schemas)]
    return pa.concat_tables(each, promote_options="default").unify_dictionaries()


def send_rows(rows: Step, shares: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """batches: rows that Spark has, with a record in each     out: PARCELS, by record"""
    for batch in batches:
        yield from parcels(apart(rows(pa.Table.from_batches([batch])), record_numbers, shares))


def send_to_shares(
    tasks: Sequence[PartFiles], kinds: Mapping[str, Facts], schemas: Mapping[str, pa.Schema], along: str,
    shares: Sequence[Share], folder: Path | None, batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Each share of a run gets the facts of its partitions, of one file after the other; and all get a parcel, even of
    no rows.

    batches: numbers of tasks, as Spark spreads them     folder: for the files of parcels     out: PARCELS
    raises:  DamagedPart
    """
    first = {share.run_dir: number for number, share in enumerate(shares) if share.place == 0}

    def along_of(rows: pa.Table) -> str | None:
        return along if len(rows) and not kinds[rows["what"][0].as_py()].ahead else None

    def parts_of(number: int) -> Iterator[Part]:
        if number == 0:
            yield from nothing_for_each(len(shares))
        parts = tasks[number]
        begin = first[parts.run_dir]
        for rows in facts_in(parts, kinds, schemas):
            yield from apart(rows, partition_numbers, shares[begin].shares, begin, along_of(rows))

    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from parcels(parts_of(number), _file(folder, "read", number))


def of_share(
    rows: RowsOf, kinds: Mapping[str, Facts], shares: Sequence[Share], schema: pa.Schema, values: pa.Table
) -> pa.Table:
    """What follows from all that one share was sent. kinds: by the `what` of their events     in: PARCELS"""
    share = shares[values["share"][0].as_py()]
    chunks = _chunks(values, functools.partial(_by_kind, kinds))
    return pa.Table.from_batches(rows(share, chunks), schema)


def _chunks(parcels: pa.Table, its: Callable[[pa.Table], Its]) -> list[Chunk]:
    """its: from the rows of a parcel"""
    return [
        Chunk(UNKNOWN if lowest is None else lowest, lowest is None, functools.partial(_read, its, read))
        for lowest, read in each_parcel(parcels)
    ]


def _read(its: Callable[[pa.Table], Its], read: Callable[[], pa.Table]) -> Its:
    return its(read())


def _by_kind(kinds: Mapping[str, Facts], rows: pa.Table) -> Its:
    """in: events of one `what`"""
    return {kinds[rows["what"][0].as_py()].kind: rows} if len(rows) else {}


def send_on(make: Step, along: str, shares: int, folder: Path | None, values: pa.Table) -> pa.Table:
    """What follows from all rows of one share of the records. in: PARCELS     out: PARCELS, by partition and `along`"""
    rows = make(unpacked(values))
    in_order = rows.take(pa.array(np.argsort(rows[along].to_numpy(), kind="stable")))
    parts = cut_along(apart(in_order, partition_numbers, shares), along, -(-SLICE_RECORDS // min(shares, _MOST_PIECES)))
    return pa.Table.from_batches(parcels(parts, _file(folder, "on", values["share"][0].as_py())), values.schema)


def plain_step(step: Step) -> Step:
    """The same for applyInArrow of PySpark 4.3, which fails on a partial function whose annotations are words."""
    return lambda values: step(values)


def at_once(steps: Steps, facts: pa.Table) -> pa.Table:
    """The rows of a table that follow from all that was found."""
    rows = steps.of_records(facts)
    return steps.of_partitions(Events(rows, np.ones(len(rows), bool), True))[0]


def end(make: MakeRows, along: str, schema: pa.Schema, folder: Path | None, values: pa.Table) -> pa.Table:
    """The rows of a table that follow from all of one share of the partitions; or none, if they are written as a file
    in `folder`. in: PARCELS, by `along`
    """
    tables = (rows.select(schema.names).cast(schema) for rows in _made(make, along, values))
    if folder is None:
        return pa.concat_tables(tables)
    share: int = values["share"][0].as_py()
    with RowGroups(folder / f"share-{share:05}.parquet", schema) as file:
        for rows in tables:
            file.write(rows.to_batches())
    return values.select(["share"]).slice(0, 0)


def _made(make: MakeRows, along: str, values: pa.Table) -> Iterator[pa.Table]:
    """Slice by slice."""
    needed: list[pa.Table] = []

    def most() -> int:
        return max(SLICE_RECORDS, sum(map(len, needed)))

    for piece in slices(_chunks(values, _its), along, most):
        rows = together([*needed, *piece.its.values()])
        is_new = np.arange(len(rows)) >= sum(map(len, needed))
        made, kept = make(Events(rows, is_new, piece.is_last))
        needed[:] = [kept]
        del piece, rows  # They are not held while the next slice is read.
        yield made


def _its(rows: pa.Table) -> Its:
    return {_ROWS: rows}
