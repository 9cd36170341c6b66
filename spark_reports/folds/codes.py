"""Columns of events as numpy sees them: numbers for words, and what stands together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def of_kind(facts: pa.Table, *kinds: str) -> Any:
    """Whether each event is one of these, by the fold's names."""
    return is_one_of(facts["what"], kinds)


def is_one_of(column: pa.ChunkedArray, values: Sequence[str | bool | None]) -> Any:
    """Whether each value is one of these. Of words by number each word is looked at once, and not each value."""
    if not pa.types.is_dictionary(column.type):
        return pc.is_in(column, value_set=pa.array(values, column.type)).to_numpy(zero_copy_only=False)
    found = [np.zeros(0, bool)]
    for chunk in column.chunks:
        words = [*chunk.dictionary.to_pylist(), None]
        among = np.array([word in values for word in words])
        found.append(among[chunk.indices.fill_null(len(words) - 1).to_numpy()])
    return np.concatenate(found)


def codes(facts: pa.Table, *columns: str) -> Any:
    """A number for the values of these columns: equal for equal values."""
    number = np.zeros(len(facts), np.int64)
    for column in columns:
        values = facts[column].combine_chunks()
        if not pa.types.is_dictionary(values.type):
            values = values.dictionary_encode()
        here = values.indices.fill_null(len(values.dictionary)).to_numpy().astype(np.int64)
        number = number * (len(values.dictionary) + 1) + here
    return number


def numbers(facts: pa.Table, column: str, instead: int = 0) -> Any:
    """A column of integers; `instead` of nulls."""
    return facts[column].fill_null(instead).to_numpy()


def begins(*keys: Any) -> Any:
    """Whether each place of sorted keys is the first with its values."""
    first = np.zeros(len(keys[0]), bool)
    first[:1] = True
    for key in keys:
        first[1:] |= key[1:] != key[:-1]
    return first


def ends(first: Any) -> Any:
    """Whether each place is the last of its group. first: as of begins()"""
    return np.append(first[1:], np.ones(min(len(first), 1), bool))


def last_of(stated: Any, first: Any) -> Any:
    """For each place the last one, up to it, where something is stated; or where its group begins.

    first: as of begins()
    """
    return np.maximum.accumulate(np.where(stated | first, np.arange(len(stated)), 0))


def first_place(groups: Any, stated: Any, count: int) -> Any:
    """Of each of `count` groups the first place where something is stated, -1 if there is none."""
    places = np.flatnonzero(stated)[::-1]
    found = np.full(count, -1)
    found[groups[places]] = places
    return found


def highest_so_far(values: Any, first: Any) -> Any:
    """The highest value of each group up to each place. first: as of begins()"""
    highest = values.copy()
    for one in np.split(highest, np.flatnonzero(first)[1:]):
        np.maximum.accumulate(one, out=one)
    return highest
