"""Partitions as ranges."""

from __future__ import annotations

import pytest

from replica.trace.alike import ranges_of_partitions


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
