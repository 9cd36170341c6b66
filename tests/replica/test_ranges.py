"""Partitions as ranges."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.trace.ranges import OffsetRanges, format_record_names, ranges_of_partitions


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((10, 2, 0, 1, 7), "t-0..t-2, t-7, t-10"),
        ((4, 5), "t-4..t-5"),
        ((), ""),
        ((0, 2, 4, 6, 8), "t-0, t-2, t-4, t-6, t-8"),
        ((0, 2, 4, 6, 8, 10), "6 partitions (t-0, t-2, t-4, ..., t-10)"),
        (range(1, 80, 2), "40 partitions (t-1, t-3, t-5, ..., t-79)"),
    ],
)
def test_partitions_are_ranges_in_order(numbers: tuple[int, ...], text: str) -> None:
    assert ranges_of_partitions([("t", number) for number in numbers]) == text


def test_a_range_is_of_one_topic() -> None:
    assert ranges_of_partitions([("t1", 0), ("t", 0), ("t1", 1)]) == "t-0, t1-0..t1-1"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["r0", "r1", "r2", "s5"], "r0..r2, s5"),
        (["r", "r0", "r1"], "r, r0..r1"),
        (["r9", "r10", "r09"], "r9..r10, r09"),
        ([], "none"),
    ],
)
def test_names_as_ranges(names: list[str], text: str) -> None:
    assert format_record_names(names) == text


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9))))
def test_offsets_as_ranges(added: list[tuple[int, int]]) -> None:
    ranges, offsets = OffsetRanges(), set[int]()
    for low, more in added:
        ranges.add(low, low + more)
        offsets.update(range(low, low + more + 1))
    assert [offset for offset in range(-2, 75) if ranges.covers(offset)] == sorted(offsets)
    found = list(ranges)
    assert found == sorted(found)
    assert all(high + 1 < low for (_, high), (low, _) in pairwise(found))
