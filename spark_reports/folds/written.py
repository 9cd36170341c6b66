"""Tables as files of Parquet, which tasks write share by share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from spark_reports.folds.events import FoldedShare, Folding
from spark_reports.folds.files import Facts, Share, chunks_here
from spark_reports.folds.slices import SLICE_EVENTS, Chunk, slices

RowsOf = Callable[[Share, Sequence[Chunk]], Iterable[pa.RecordBatch]]
"""The rows of a table that follow from the events of one share."""

WRITTEN_ROWS = 65_536
"""As many are a row group of a table's file."""


def rows_of(
    folding: Folding, out: pa.Schema, schemas: Mapping[str, pa.Schema], share: Share, chunks: Sequence[Chunk]
) -> Iterator[pa.RecordBatch]:
    """The rows of a table, with the columns `out`, that follow from one share. raises: DamagedPart"""
    folded = FoldedShare(folding, out, schemas, share)
    for piece in slices(chunks, folding.along, functools.partial(_most, [folded])):
        yield from folded.rows(piece)
        del piece  # It is not held while the next one is read.


def _most(folded: Sequence[FoldedShare]) -> int:
    """Of a slice: folds look again at what they hold."""
    return max(SLICE_EVENTS, *(one.held for one in folded))


class WrittenTable(NamedTuple):
    """A table with these columns, whose files are to stand in a folder."""

    folding: Folding
    out: pa.Schema
    folder: Path


def write_share(
    tables: Sequence[WrittenTable], schemas: Mapping[str, pa.Schema], share: Share, chunks: Sequence[Chunk]
) -> Iterator[pa.RecordBatch]:
    """Write the rows of several tables, whose facts are all in one order, as a file of each: it is there, even without
    rows. Nothing is left to be told to Spark. raises: DamagedPart"""
    folded = [FoldedShare(table.folding, table.out, schemas, share) for table in tables]
    with ExitStack() as stack:
        name = f"{share.run}-{share.place:05}.parquet"
        files = [stack.enter_context(RowGroups(table.folder / name, table.out)) for table in tables]
        for piece in slices(chunks, tables[0].folding.along, functools.partial(_most, folded)):
            for one, file in zip(folded, files, strict=True):
                file.write(one.rows(piece))
            del piece
    yield from ()


class RowGroups:
    """A file of a table; rows wait until they are a row group."""

    def __init__(self, file: Path, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(file, schema, **encoded(schema))
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []

    def __enter__(self) -> RowGroups:
        return self

    def __exit__(self, *raised: object) -> None:
        if raised == (None, None, None):
            self._flush()
        self._writer.close()

    def write(self, rows: Iterable[pa.RecordBatch]) -> None:
        for batch in rows:
            self._waiting.append(batch)
            if sum(map(len, self._waiting)) >= WRITTEN_ROWS:
                self._flush()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema), WRITTEN_ROWS)
        self._waiting = []


def encoded(schema: pa.Schema) -> dict[str, Any]:
    """How a table's files are written. Times and offsets rise from row to row: their differences take a tenth of the
    room that a dictionary of them takes, and half the time."""
    numbers = [field.name for field in schema if pa.types.is_integer(field.type)]
    return {
        "compression": "zstd",
        "use_dictionary": [field.name for field in schema if pa.types.is_string(field.type)],
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    }


def write_rows(rows: pa.Table, file: Path) -> None:
    pq.write_table(rows, file, WRITTEN_ROWS, **encoded(rows.schema))


def each_share(
    rows: RowsOf, kinds: Mapping[str, Facts], schemas: Mapping[str, pa.Schema], along: str, shares: Sequence[Share],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """batches: numbers of shares, as Spark spreads them     raises: DamagedPart"""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from rows(shares[number], chunks_here(shares[number], kinds, schemas, along))
