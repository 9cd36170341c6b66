"""The story of a run in lines: each thing once, with the partitions it happened to."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from replica.trace.alike import Alike, Told, together
from replica.trace.ranges import ranges_of_partitions
from replica.trace.signs import sign_of
from spark_reports.report.rows import Row, Rows

MOMENTS_READ = 8_000
"""The moments that are held: after thousands of failovers there are more, and a page shows few lines. What is said of
more partitions at once is in the tables alone."""


def told_moments(
    moments: Rows, *, several_partitions: bool, most: int, names: Collection[str] = ()
) -> tuple[list[dict[str, Any]], int]:
    """The first lines of the story in order, and how many moments are in none of them: one line for all partitions to
    which the same happened within a second, and for an election and the ISR it writes.

    in:  rows of key_moments        most: lines     names: as in alike.together
    out: with `where`, the partitions in words, empty where it is about none, or there is only one; and with `sign`, a
        name of signs.SIGNS
    """
    rows = list(moments.in_order("at_us", "seq", most=MOMENTS_READ))
    lines = together((_told(row, number) for number, row in enumerate(rows)), names)[:most]
    left_out = len(moments) - sum(len(line.numbers) for line in lines)
    return [_line(rows[line.first.number], line, several_partitions) for line in lines], left_out


def _told(moment: Row, number: int) -> Told:
    is_of_one = moment["topic"] is not None and moment["partition"] is not None
    place = (moment["topic"], moment["partition"]) if is_of_one else None
    return Told(
        moment["at_us"], moment["reason"], place, number, sign_of(moment["event"], moment["verb"], moment["how"])
    )


def _line(first: Row, line: Alike, several_partitions: bool) -> dict[str, Any]:
    where = ranges_of_partitions(line.places) if several_partitions else ""
    return {**first, "reason": line.text, "where": where, "sign": line.first.sign}
