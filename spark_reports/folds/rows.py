"""Apply folds to Arrow batches of ordered events, and return the resulting rows as Arrow batches."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any

import pyarrow as pa

Fold = Callable[[Iterator[tuple[Any, ...]]], Iterable[tuple[Any, ...]]]
"""A function from the ordered events of one partition to rows of a result table, without the partition's columns."""

_Part = tuple[tuple[Any, ...], list[tuple[Any, ...]]]
"""A partition's key, and some consecutive rows of the partition."""

_ROWS_AT_ONCE = 2_000
_EVENTS_AT_ONCE = 10_000


@contextmanager
def no_search_for_cycles() -> Iterator[None]:
    """Disable Python's garbage collector in a block that creates many small objects without cycles.

    The collector would examine these objects repeatedly, which takes a quarter of a fold's time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def fold_table(fold: Fold, schema: pa.Schema, facts: pa.Table) -> Iterator[pa.RecordBatch]:
    """Fold a table of events, and yield batches of `schema`.

    The table is sorted by partition and `seq`, and begins with the columns run, topic and partition.
    """
    return fold_batches(fold, schema, 3, iter(facts.to_batches(_EVENTS_AT_ONCE)))


def fold_batches(
    fold: Fold, schema: pa.Schema, key_columns: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Fold batches of events that are sorted by key and `seq`, and yield batches of `schema`.

    `key_columns` is the number of key columns (usually run, topic and partition) at the start of events and rows.
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
        pa.concat_arrays([pa.repeat(pa.scalar(key[key_index], field.type), len(rows)) for key, rows in parts])
        for key_index, field in enumerate(list(schema)[:key_columns])
    ]
    values = zip(*chain.from_iterable(rows for _, rows in parts), strict=True)
    columns += [pa.array(column, field.type) for column, field in zip(values, list(schema)[key_columns:], strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _rows(batch: pa.RecordBatch, key_columns: int) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    columns = [_values(column) for column in batch.columns]
    return zip(zip(*columns[:key_columns], strict=True), zip(*columns[key_columns:], strict=True), strict=True)


def _values(column: pa.Array) -> list[Any]:
    """Return the values as `to_pylist()` does, but several times faster for the most frequent types."""
    if pa.types.is_integer(column.type) and not column.null_count:
        return column.to_numpy().tolist()  # type: ignore[no-any-return]
    if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
        coded = column.dictionary_encode()
        words = [*coded.dictionary.to_pylist(), None]
        return [words[code] for code in coded.indices.fill_null(len(words) - 1).to_numpy().tolist()]
    return column.to_pylist()  # type: ignore[no-any-return]
