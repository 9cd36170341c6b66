"""Result tables as the page reads them: columns on disk, of which a row becomes a dict when it is looked at."""

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
"""As many are read at once,"""
_CODED_ROWS = 65_536
"""or this many, where words stay numbers: a row group."""
_DICT_ROWS = 1_000
"""and so many of them are dicts."""
HELD_ROWS = 10_000
"""At most this many are read once, and held as columns."""


class _Condition(NamedTuple):
    """`among`: whether a row must have one of the values, or none of them. None stands for null."""

    column: str
    values: Sequence[Any]
    among: bool

    def met(self, batch: Any) -> Any:
        """The rows of a batch or a table that meet it."""
        column = _comparable(batch.column(self.column))
        found = pc.is_in(column, value_set=pa.array(self.values, column.type))
        return batch.filter(found if self.among else pc.invert(found))


class Rows(Sequence[Row]):
    """Rows of a table, in its order. Of a long one on disk each loop, len() or choice reads what it needs anew, a batch
    at a time; only columns to sort or group by are held whole, for as long as that takes.
    """

    def __init__(self, table: pa.Table | Sequence[Path], conditions: tuple[_Condition, ...] = ()) -> None:
        """table: in memory, or the parts of one on disk"""
        self._table = table
        self._conditions = conditions
        self._schema = table.schema if isinstance(table, pa.Table) else pq.read_schema(table[0])
        self.columns: list[str] = self._schema.names

    @staticmethod
    def stored(folder: Path) -> Rows:
        """A table as Spark wrote it. raises: OSError"""
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
        """One column alone."""
        for batch in self.batches([column]):
            yield from batch.column(0).to_pylist()

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: int | slice) -> Row | Rows:
        places = range(len(self))[index]
        if isinstance(places, range):
            return self.at(np.array(places, np.int64))
        return next(iter(self.at(np.array([places]))))

    # ------------------------------------------------------------------------------------------------- what is chosen

    def where(self, **values: Any) -> Rows:
        """Those with these values; None stands for null."""
        return self._meeting(*(_Condition(column, [value], True) for column, value in values.items()))

    def without(self, column: str, values: Sequence[Any]) -> Rows:
        """Those with none of these values; with null they stay."""
        return self._meeting(_Condition(column, values, False))

    def in_order(self, *columns: str, most: int | None = None) -> Rows:
        """The first `most` by these columns, nulls last, or all of them: read now, and only they are held.

        Those that are equal stay as they stand.
        """
        order = [(column, "ascending") for column in columns]
        return self.at(pc.sort_indices(self._read(columns), sort_keys=order)[:most].to_numpy())

    def groups(self, columns: Sequence[str], by: str, most: int) -> tuple[list[Rows], int]:
        """Rows with equal values in `columns` together: the first `most` groups in order of their least `by`, and how
        many groups there are. Of groups that are equal there, the one whose first row stands first is first.

        columns: a list that is null equals one without anything in it
        """
        read = self._read([*columns, by])
        keys = {column: _comparable(read[column]) for column in columns}
        # Arrow's groups stand in no order, and what its threads took it keeps.
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

    def at(self, places: np.ndarray[Any, np.dtype[np.int64]]) -> Rows:
        """The rows at these places, each but once, in memory."""
        if isinstance(self._table, pa.Table):
            return Rows(self._table.take(places))
        rising = np.sort(places)
        found, before = [], 0
        for batch in self.coded_batches(self.columns):
            here = rising[np.searchsorted(rising, before) : np.searchsorted(rising, before + len(batch))]
            found.append(pa.Table.from_batches([batch.take(pa.array(here - before))]).cast(self._schema))
            before += len(batch)
        return Rows(pa.concat_tables([self._schema.empty_table(), *found]).take(np.searchsorted(rising, places)))

    def _held(self) -> Rows:
        """In memory, if they are few."""
        return self if len(self) > HELD_ROWS else Rows(self._read(self.columns))

    def _read(self, columns: Sequence[str]) -> pa.Table:
        schema = pa.schema([self._schema.field(column) for column in columns])
        return pa.Table.from_batches(self.batches(list(columns)), schema)

    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Batches of these columns, in this order."""
        return self._batches(columns, _READ_ROWS, [])

    def coded_batches(self, columns: list[str]) -> Iterator[Any]:
        """The same, larger; words of a table on disk as numbers of words, as they stand there, but for those by which
        rows are chosen."""
        plain = {condition.column for condition in self._conditions}
        words = [name for name in columns if pa.types.is_string(self._schema.field(name).type) and name not in plain]
        return self._batches(columns, _CODED_ROWS, words)

    def _batches(self, columns: list[str], rows: int, words: list[str]) -> Iterator[Any]:
        if isinstance(self._table, pa.Table):
            yield from self._table.select(columns).to_batches(rows)
            return
        read = list(dict.fromkeys([*columns, *(condition.column for condition in self._conditions)]))
        for part in self._table:
            # Arrow's datasets hold columns of a whole part at once, for any size of batches.
            with pq.ParquetFile(part, read_dictionary=words) as file:
                for batch in file.iter_batches(rows, columns=read, use_threads=False):
                    for condition in self._conditions:
                        batch = condition.met(batch)
                    yield batch.select(columns)


def _comparable(column: Any) -> Any:
    """A list of words as one word, for Arrow neither groups by lists nor finds them."""
    if not pa.types.is_list(column.type):
        return column
    joined = pc.binary_join(column.cast(pa.list_(pa.string())), "\n")
    return pc.if_else(pc.equal(joined, ""), None, joined)
