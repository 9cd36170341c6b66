"""Events of one kind as columns, and the parts of the tables that they go to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from replica.trace import events as trace
from replica.trace.events import CLASS_OF_EVENT
from scenarios.observe.trace_writer import ROWS_PER_PART, arrow_schema

Ints = np.ndarray[Any, np.dtype[np.int64]]
Columns = dict[str, Any]


class EventColumns:
    """Events of one kind: their times, and their columns as numpy integers or Arrow arrays of the same length."""

    def __init__(self, event: str, at_us: Ints, columns: Columns) -> None:
        self.event = event
        self.at_us = np.ascontiguousarray(at_us, dtype=np.int64)
        self.columns = columns

    def as_table(self, seq: Ints, schema: pa.Schema) -> pa.Table:
        rows = len(seq)
        causes = lists(pa.array(np.maximum(seq - 1, 0)), np.ones(rows, dtype=np.int64), schema.field("causes").type)
        given = {"seq": seq, "at_us": self.at_us, "event": _constant(self.event, rows), "causes": causes}
        given |= self.columns
        columns = [_array(given[field.name], rows, field) for field in schema]
        return pa.table(columns, schema=pa.schema([field.with_nullable(True) for field in schema]))

    def __len__(self) -> int:
        return len(self.at_us)


def _array(values: Any, rows: int, field: pa.Field) -> pa.Array:
    if values is None:
        return pa.nulls(rows, field.type)
    if isinstance(values, str | bool | int):
        return _constant(values, rows)
    return pa.array(values) if isinstance(values, np.ndarray) else values


def _constant(value: str | bool | int, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), rows)


def lists(items: pa.Array, lengths: Ints, kind: pa.DataType) -> pa.Array:
    """Lists of these lengths, one after the other, of the items."""
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.Array.from_buffers(kind, len(lengths), [None, pa.py_buffer(ends)], children=[items])


def picked(names: Sequence[str], places: Ints) -> pa.Array:
    """The names at these places."""
    return pa.array(list(names)).take(pa.array(places))


def filled(event: str, columns: Columns) -> Columns:
    """With null for the columns that only other events of the table have."""
    table = trace.columns_of_table(CLASS_OF_EVENT[event].TABLE)
    return {column.name: columns.get(column.name) for column in table[len(trace.COMMON_COLUMNS) :]}


class Parts:
    """The parts of one table. The first one, empty, is already there."""

    def __init__(self, folder: Path, table: str) -> None:
        self.schema = arrow_schema(table)
        self._folder = folder
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._written = 1

    def append(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self._rows += rows.num_rows
        if self._rows >= ROWS_PER_PART:
            self.close()

    def close(self) -> None:
        """Write what waits."""
        if self._waiting:
            rows = pa.concat_tables(self._waiting)
            part = self._folder / f"part-{self._written:05d}.parquet"
            pq.write_table(pa.table(rows.columns, schema=self.schema), part, compression="zstd")
            self._waiting, self._rows, self._written = [], 0, self._written + 1
