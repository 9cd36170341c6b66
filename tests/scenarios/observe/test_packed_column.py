"""A column with most of its blocks packed, against a plain dict; names that are made when they are asked for."""

from __future__ import annotations

import json
import pickle
from io import StringIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.observe.columns import names
from scenarios.observe.columns.names import (
    BLOCK,
    UNKNOWN,
    LazyNames,
    NameIndex,
    PackedColumn,
    PlaceRuns,
    count_different,
    encodable,
    write_json,
)

PLACES = st.integers(0, 8 * BLOCK)
VALUES = st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**61]) | st.integers(0, 2**61)


@pytest.fixture(autouse=True)
def _few_open_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "OPEN_BLOCKS_MAX", 2)


@given(st.lists(st.tuples(PLACES, VALUES), max_size=30))
def test_a_packed_column_is_a_dict(entries: list[tuple[int, int]]) -> None:
    """Blocks are packed and opened again, in any order."""
    column, expected = PackedColumn(), dict[int, int]()
    for place, value in entries:
        column[place] = expected[place] = value
        assert column[place] == value
    assert all(column[place] == value for place, value in expected.items())
    assert max(expected, default=-1) < column.end
    assert [column[place] for place in range(9 * BLOCK)] == [expected.get(place, UNKNOWN) for place in range(9 * BLOCK)]
    column.put(BLOCK - 1, np.array([5, 6, 7]))
    assert [column[place] for place in range(BLOCK - 1, BLOCK + 2)] == [5, 6, 7]


def test_what_counts_up_or_stays_takes_next_to_nothing() -> None:
    column = PackedColumn()
    count = 100 * BLOCK
    for place in range(count):
        column[place] = place // 100 * 1_000_000
    assert len(column._packed) == 98
    assert sum(map(len, column._packed.values())) < count / 8


@given(st.integers(0, 3 * BLOCK), st.lists(VALUES, max_size=2 * BLOCK))
def test_values_are_put_as_one_by_one(place: int, values: list[int]) -> None:
    column, expected = PackedColumn(), PackedColumn()
    column.put(place, np.array(values, np.int64))
    for at, value in enumerate(values, place):
        expected[at] = value
    assert column.end == expected.end
    assert column.between(0, column.end).tolist() == expected.between(0, expected.end).tolist()


BATCHES = st.tuples(st.sampled_from(["r", "other-", "w x"]), st.integers(0, 60), st.integers(1, 40), st.booleans())


@given(st.lists(BATCHES, max_size=12))
def test_the_names_of_a_batch_are_found_as_one_by_one(batches: list[tuple[str, int, int, bool]]) -> None:
    """Those of a batch that follow one another are not looked up one by one, whether they are known or not."""
    index, expected = NameIndex(), dict[str, int]()
    for prefix, first, count, is_known in batches:
        batch = [f"{prefix}{number}{'!' * (prefix == 'w x')}" for number in range(first, first + count)]
        for name in batch:
            expected.setdefault(name, len(expected))
            if is_known:
                index.place_or_add(name)
        places = index.places_or_add(batch)
        assert places.tolist() == [expected[name] for name in batch]
        assert index.at(places) == batch
    assert index.between(0, len(index)) == list(expected)


def named(*names: str) -> LazyNames:
    index, places = NameIndex(), PlaceRuns()
    for name in names:
        places.append(index.place_or_add(name))
    return LazyNames(index, places)


def test_names_are_a_sequence_and_a_list_for_json_and_other_processes() -> None:
    names = named("r0", "r1", "?7", "r1")
    assert names == ["r0", "r1", "?7", "r1"] == names
    assert names == ("r0", "r1", "?7", "r1") and names != ["r0"] and names != "r0"
    assert (len(names), names[1], names[-1], names[1:3], "?7" in names) == (4, "r1", "r1", ["r1", "?7"], True)
    with pytest.raises(IndexError):
        names[4]
    assert (count_different(names), count_different(["a", "b", "a"])) == (3, 2)
    again = pickle.loads(pickle.dumps(names))
    assert type(again) is list and again == names
    document = {"acked": names, "lost": named(), "sent": 4}
    stream = StringIO()
    write_json(document, stream)
    assert stream.getvalue() == json.dumps({"acked": list(names), "lost": [], "sent": 4}, indent=2) + "\n"
    with pytest.raises(TypeError, match="set is not a JSON value"):
        json.dumps({"x": {1}}, default=encodable)
