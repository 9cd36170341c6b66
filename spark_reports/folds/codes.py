"""Functions for columns of events as numpy arrays, with numbers in place of strings, and for groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def of_kind(facts: pa.Table, *kinds: str) -> Any:
    """Return a mask of the events whose kind (column `what`) is one of `kinds`."""
    return is_one_of(facts["what"], kinds)


def is_one_of(column: pa.ChunkedArray, values: Sequence[str | bool | None]) -> Any:
    """Return a mask of the items that are in `values`. A dictionary column is checked once per distinct item."""
    if not pa.types.is_dictionary(column.type):
        return pc.is_in(column, value_set=pa.array(values, column.type)).to_numpy(zero_copy_only=False)
    found = [np.zeros(0, bool)]
    for chunk in column.chunks:
        words = [*chunk.dictionary.to_pylist(), None]
        among = np.array([word in values for word in words])
        found.append(among[chunk.indices.fill_null(len(words) - 1).to_numpy()])
    return np.concatenate(found)


def codes(facts: pa.Table, *columns: str) -> Any:
    """Return a number for each row. Rows have equal numbers only if they have equal values in `columns`."""
    number = np.zeros(len(facts), np.int64)
    for column in columns:
        values = facts[column].combine_chunks()
        if not pa.types.is_dictionary(values.type):
            values = values.dictionary_encode()
        here = values.indices.fill_null(len(values.dictionary)).to_numpy().astype(np.int64)
        number = number * (len(values.dictionary) + 1) + here
    return number


def numbers(facts: pa.Table, column: str, instead: int = 0) -> Any:
    """Return a column of integers, with `instead` in place of nulls."""
    return facts[column].fill_null(instead).to_numpy()


def begins(*keys: Any) -> Any:
    """Return a mask of the rows at which a group of equal keys begins. The keys must be sorted."""
    first = np.zeros(len(keys[0]), bool)
    first[:1] = True
    for key in keys:
        first[1:] |= key[1:] != key[:-1]
    return first


def ends(first: Any) -> Any:
    """Return a mask of the rows at which a group ends; `first` is from begins()."""
    return np.append(first[1:], np.ones(min(len(first), 1), bool))


def last_of(stated: Any, first: Any) -> Any:
    """Return for each index the latest index of its group so far where `stated` is True, else the group's start.

    `first` is from begins().
    """
    return np.maximum.accumulate(np.where(stated | first, np.arange(len(stated)), 0))


def first_place(groups: Any, stated: Any, count: int) -> Any:
    """Return for each of `count` groups the first index where `stated` is True, -1 if there is none."""
    stated_at = np.flatnonzero(stated)[::-1]
    found = np.full(count, -1)
    found[groups[stated_at]] = stated_at
    return found


def highest_so_far(values: Any, first: Any) -> Any:
    """Return for each index the highest value of its group so far; `first` is from begins()."""
    highest = values.copy()
    for part in np.split(highest, np.flatnonzero(first)[1:]):
        np.maximum.accumulate(part, out=part)
    return highest
