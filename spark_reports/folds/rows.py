"""From Arrow batches of ordered events to the rows that a fold makes of them: batch by batch, never a whole trace."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any

import pyarrow as pa

Fold = Callable[[Iterator[tuple[Any, ...]]], Iterable[tuple[Any, ...]]]
"""The events of one partition in their order, without the partition -> rows of a result table, without it."""

_Part = tuple[tuple[Any, ...], list[tuple[Any, ...]]]
"""A partition, and some of its rows one after the other."""

_ROWS_AT_ONCE = 2_000
_EVENTS_AT_ONCE = 10_000


@contextmanager
def no_search_for_cycles() -> Iterator[None]:
    """For a block whose many small tuples and dictionaries make no cycles: Python would search all of them for one,
    again and again, for a quarter of the time of a fold."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def fold_table(fold: Fold, schema: pa.Schema, facts: pa.Table) -> Iterator[pa.RecordBatch]:
    """in: events sorted by partition and order, with run, topic and partition in front     out: batches of `schema`"""
    return fold_batches(fold, schema, 3, iter(facts.to_batches(_EVENTS_AT_ONCE)))


def fold_batches(
    fold: Fold, schema: pa.Schema, key_columns: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """in: events sorted by partition and order     out: batches of `schema`

    key_columns: how many stand in front, of events and of rows: run, topic and partition, or others
    """
    with no_search_for_cycles():
        facts = chain.from_iterable(_rows(batch, key_columns) for batch in batches)
        parts: list[_Part] = []
        room = _ROWS_AT_ONCE
        for key, group in groupby(facts, itemgetter(0)):
            made = iter(fold(map(itemgetter(1), group)))
            while rows := list(islice(made, room)):
                parts.append((key, rows))
                room -= len(rows)
                if not room:
                    yield _batch(parts, schema, key_columns)
                    parts, room = [], _ROWS_AT_ONCE
        if parts:
            yield _batch(parts, schema, key_columns)


def _batch(parts: list[_Part], schema: pa.Schema, key_columns: int) -> pa.RecordBatch:
    columns = [
        pa.concat_arrays([pa.repeat(pa.scalar(key[place], field.type), len(rows)) for key, rows in parts])
        for place, field in enumerate(list(schema)[:key_columns])
    ]
    values = zip(*chain.from_iterable(rows for _, rows in parts), strict=True)
    columns += [pa.array(column, field.type) for column, field in zip(values, list(schema)[key_columns:], strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _rows(batch: pa.RecordBatch, key_columns: int) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    columns = [_values(column) for column in batch.columns]
    return zip(zip(*columns[:key_columns], strict=True), zip(*columns[key_columns:], strict=True), strict=True)


def _values(column: pa.Array) -> list[Any]:
    """As to_pylist(), which is several times slower for the most frequent types of trace tables."""
    if pa.types.is_integer(column.type) and not column.null_count:
        return column.to_numpy().tolist()  # type: ignore[no-any-return]
    if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
        coded = column.dictionary_encode()
        words = [*coded.dictionary.to_pylist(), None]
        return [words[code] for code in coded.indices.fill_null(len(words) - 1).to_numpy().tolist()]
    return column.to_pylist()  # type: ignore[no-any-return]
