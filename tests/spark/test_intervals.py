"""Joins of intervals against the same result by loops."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from spark_reports.transforms.intervals import first_after, overlapping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KEY = ("run", "node")
OPEN_END = (1 << 63) - 2
Interval = tuple[str, str, int, int, int]


def intervals_of(draw: random.Random) -> list[Interval]:
    """Of two runs of very different length; some touch, some are as short as can be, some never end."""
    found: list[Interval] = []
    for run, longest in (("short", 4), ("long", 900)):
        for node in ("b1", "b2"):
            seq = draw.randrange(longest)
            for number in range(draw.randrange(12)):
                until = seq + draw.randrange(longest)
                found.append((run, node, seq, until, number))
                seq = until + 1 + draw.randrange(2) * draw.randrange(longest)
            found.append((run, node, seq, OPEN_END, 99))
    return found


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_intervals_that_share_time_meet_once(seed: int, spark: SparkSession) -> None:
    draw = random.Random(seed)
    ones = intervals_of(draw)
    # Others without length, some at the very ends of one, overlapping each other, and of a run and a node alone.
    others = [*intervals_of(draw), *((run, node, at, at, 50) for run, node, *ends, _ in ones for at in ends)]
    others += [("none", "b1", 0, 9, 60), ("long", "b9", 0, 9, 61), ("short", "b1", 10**12, 10**12 + 5, 62)]
    pairs = sorted(
        (*one[:2], *one[2:], *other[2:])
        for one in ones
        for other in set(others)
        if one[:2] == other[:2] and one[2] < other[3] and other[2] < one[3]
    )
    spans = spark.createDataFrame(ones, "run string, node string, from_us long, until_us long, number long")
    met = spark.createDataFrame(
        sorted(set(others)), "run string, node string, other_from_us long, other_until_us long, other long"
    )
    columns = (*KEY, "from_us", "until_us", "number", "other_from_us", "other_until_us", "other")
    found = overlapping(spans, met, KEY).select(*columns).collect()
    assert sorted(tuple(row) for row in found) == pairs


@pytest.mark.soak
def test_what_came_first_after_a_row(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("r", "b1", -1, "a"), ("r", "b1", 4, "b"), ("r", "b1", 9, "c"), ("r", "b2", 0, "d")],
                                 "run string, node string, from_seq long, name string")  # fmt: skip
    facts = spark.createDataFrame([("r", "b1", 4, "four"), ("r", "b1", 9, "nine"), ("s", "b2", 1, "other run")],
                                  "run string, node string, seq long, what string")  # fmt: skip
    found = first_after(rows, facts, KEY, "from_seq", "next").orderBy("name")
    told = [tuple(row) for row in found.select("name", "next.what", F.col("next.seq")).collect()]
    assert told == [("a", "four", 4), ("b", "nine", 9), ("c", None, None), ("d", None, None)]
