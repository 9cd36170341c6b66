"""Read result tables for the page: columns stay on disk, and rows become dicts only when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Row = Mapping[str, Any]

_READ_ROWS = 10_000
"""Number of rows that are read in one batch."""
_CODED_ROWS = 65_536
"""Number of rows that are read in one batch if strings stay dictionary-encoded: one row group."""
_DICT_ROWS = 1_000
"""Largest number of rows that exist as dicts at the same time."""
HELD_ROWS = 10_000
"""Largest number of rows of a table that is kept in memory."""


class _Condition(NamedTuple):
    """A condition on a column: its value must be in `values` if `among` is True, otherwise not in `values`.

    None stands for null.
    """

    column: str
    values: Sequence[Any]
    among: bool

    def met(self, batch: Any) -> Any:
        """Return the rows of a batch or a table that meet the condition."""
        column = _comparable(batch.column(self.column))
        found = pc.is_in(column, value_set=pa.array(self.values, column.type))
        return batch.filter(found if self.among else pc.invert(found))


class Rows(Sequence[Row]):
    """The rows of a table, in the table's order.

    For a long table on disk, each loop, len() or selection reads the needed columns again, in batches. Only columns to
    sort or group by are held in memory as a whole, and only while they are used.
    """

    def __init__(self, table: pa.Table | Sequence[Path], conditions: tuple[_Condition, ...] = ()) -> None:
        """Create rows from a table in memory or from Parquet files, limited to rows that meet all conditions."""
        self._table = table
        self._conditions = conditions
        self._schema = table.schema if isinstance(table, pa.Table) else pq.read_schema(table[0])
        self.columns: list[str] = self._schema.names

    @staticmethod
    def stored(folder: Path) -> Rows:
        """Return the rows of a table that was written to `folder`. Raises OSError."""
        return Rows(sorted(folder.glob("*.parquet")))._held()

    def __len__(self) -> int:
        if isinstance(self._table, pa.Table):
            return int(self._table.num_rows)
        if not self._conditions:
            return sum(pq.read_metadata(part).num_rows for part in self._table)
        return sum(batch.num_rows for batch in self.batches([self._conditions[0].column]))

    def __iter__(self) -> Iterator[Row]:
        for batch in self.batches(self.columns):
            for first in range(0, len(batch), _DICT_ROWS):
                yield from batch.slice(first, _DICT_ROWS).to_pylist()

    def values(self, column: str) -> Iterator[Any]:
        """Yield the values of one column, row by row."""
        for batch in self.batches([column]):
            yield from batch.column(0).to_pylist()

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> Row | Rows:
        wanted = range(len(self))[index]
        if isinstance(wanted, range):
            return self.at(np.array(wanted, np.int64))
        return next(iter(self.at(np.array([wanted]))))

    # ------------------------------------------------------------------------------------------------- what is chosen

    def where(self, **values: Any) -> Rows:
        """Return the rows in which each named column has this value; None stands for null."""
        return self._meeting(*(_Condition(column, [value], True) for column, value in values.items()))

    def without(self, column: str, values: Sequence[Any]) -> Rows:
        """Return the rows in which the column has none of these values, including rows with null."""
        return self._meeting(_Condition(column, values, False))

    def in_order(self, *columns: str, most: int | None = None) -> Rows:
        """Return the rows sorted by these columns, nulls last, in memory; with `most` only the first ones.

        Rows with equal values keep their order.
        """
        order = [(column, "ascending") for column in columns]
        return self.at(pc.sort_indices(self._read(columns), sort_keys=order)[:most].to_numpy())

    def groups(self, columns: Sequence[str], by: str, most: int) -> tuple[list[Rows], int]:
        """Group rows by `columns`, and return the first `most` groups and the number of all groups.

        Groups are sorted by their smallest value of `by`, then by their first row. For grouping, a null list equals an
        empty list.
        """
        read = self._read([*columns, by])
        keys = {column: _comparable(read[column]) for column in columns}
        # Arrow's groups have no order, and Arrow keeps the memory of its threads.
        keys |= {"least": read[by], "place": pa.array(np.arange(len(read)))}
        least = [("least", "min"), ("place", "min")]
        found = pa.table(keys).group_by(list(columns), use_threads=False).aggregate(least)
        order = [("least_min", "ascending"), ("place_min", "ascending")]
        first = found.take(pc.sort_indices(found, sort_keys=order)[:most]).select(list(columns))
        near = self._meeting(*(_Condition(column, first[column].unique().to_pylist(), True) for column in columns))
        held = near._held()
        return [held.where(**group) for group in first.to_pylist()], found.num_rows

    def _meeting(self, *conditions: _Condition) -> Rows:
        if not isinstance(self._table, pa.Table):
            return Rows(self._table, (*self._conditions, *conditions))
        table = self._table
        for condition in conditions:
            table = condition.met(table)
        return Rows(table)

    def at(self, wanted: np.ndarray[Any, np.dtype[np.int64]]) -> Rows:
        """Return the rows at these indexes, in this order, in memory. No index may occur twice."""
        if isinstance(self._table, pa.Table):
            return Rows(self._table.take(wanted))
        rising = np.sort(wanted)
        found, before = [], 0
        for batch in self.coded_batches(self.columns):
            here = rising[np.searchsorted(rising, before) : np.searchsorted(rising, before + len(batch))]
            found.append(pa.Table.from_batches([batch.take(pa.array(here - before))]).cast(self._schema))
            before += len(batch)
        return Rows(pa.concat_tables([self._schema.empty_table(), *found]).take(np.searchsorted(rising, wanted)))

    def _held(self) -> Rows:
        return self if len(self) > HELD_ROWS else Rows(self._read(self.columns))

    def _read(self, columns: Sequence[str]) -> pa.Table:
        schema = pa.schema([self._schema.field(column) for column in columns])
        return pa.Table.from_batches(self.batches(list(columns)), schema)

    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Yield Arrow batches of the rows with only these columns, in this order."""
        return self._batches(columns, _READ_ROWS, [])

    def coded_batches(self, columns: list[str]) -> Iterator[Any]:
        """Yield larger Arrow batches of these columns. Strings of a table on disk stay dictionary-encoded.

        Only columns with conditions are decoded.
        """
        plain = {condition.column for condition in self._conditions}
        words = [name for name in columns if pa.types.is_string(self._schema.field(name).type) and name not in plain]
        return self._batches(columns, _CODED_ROWS, words)

    def _batches(self, columns: list[str], rows: int, words: list[str]) -> Iterator[Any]:
        if isinstance(self._table, pa.Table):
            yield from self._table.select(columns).to_batches(rows)
            return
        read = list(dict.fromkeys([*columns, *(condition.column for condition in self._conditions)]))
        for part in self._table:
            # Arrow's datasets keep the columns of a whole file in memory, whatever the size of batches.
            with pq.ParquetFile(part, read_dictionary=words) as file:
                for batch in file.iter_batches(rows, columns=read, use_threads=False):
                    for condition in self._conditions:
                        batch = condition.met(batch)
                    yield batch.select(columns)


def _comparable(column: Any) -> Any:
    """Return the column with lists joined to strings, because Arrow can neither group nor compare lists."""
    if not pa.types.is_list(column.type):
        return column
    joined = pc.binary_join(column.cast(pa.list_(pa.string())), "\n")
    return pc.if_else(pc.equal(joined, ""), None, joined)
