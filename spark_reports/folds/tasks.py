"""What a Spark task makes of a share of a run: rows for Spark, or files of result tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_reports.folds.events import Folding, Foldings, Schemas, fold_share
from spark_reports.folds.facts import Share

WRITTEN_ROWS = 65_536
"""As many are a row group of a table's file."""


def rows_of(folding: tuple[Folding, pa.Schema], schemas: Schemas, share: Share) -> Iterator[pa.RecordBatch]:
    return (batch for _, batch in fold_share(share, {"": folding}, schemas))


def write_tables(folder: Path, foldings: Foldings, schemas: Schemas, share: Share) -> Iterator[pa.RecordBatch]:
    """A file of each table, even without rows; nothing is left to be told to Spark."""
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(_RowGroups(folder / name / f"{share.run}-{share.place:05}.parquet", out))
            for name, (_, out) in foldings.items()
        }
        for name, batch in fold_share(share, foldings, schemas):
            files[name].write(batch)
    yield from ()


class _RowGroups:
    """A file of a table; rows wait until they are a row group."""

    def __init__(self, file: Path, schema: pa.Schema) -> None:
        numbers = [field.name for field in schema if pa.types.is_integer(field.type)]
        # Times and offsets rise from row to row: their differences take a tenth of the room of a dictionary of them.
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
