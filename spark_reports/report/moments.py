"""The story of a run in lines: each thing once, with the partitions it happened to."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from replica.trace.alike import TOGETHER_US, Alike, Told, together
from replica.trace.partition_ranges import ranges_of_partitions
from replica.trace.signs import sign_of
from spark_reports.report.rows import Row, Rows

ROWS_READ = 4_000
"""The moments that are held at first: after thousands of failovers there are more, and a page shows few lines."""


def told_moments(
    moments: Rows, *, several_partitions: bool, most: int, names: Collection[str] = ()
) -> tuple[list[dict[str, Any]], int]:
    """The first lines of the story in order, and how many moments are in none of them: one line for all partitions to
    which the same happened within a second, and for an election and the ISR it writes.

    in:  rows of key_moments        most: lines     names: as in alike.together
    out: with `where`, the partitions in words, empty where it is about none, or there is only one; and with `sign`, a
        name of signs.SIGNS
    """
    rows, lines = _first_lines(moments, most, names)
    left_out = len(moments) - sum(len(line.numbers) for line in lines)
    return [_line(rows[line.first.number], line, several_partitions) for line in lines], left_out


def _first_lines(moments: Rows, most: int, names: Collection[str]) -> tuple[list[Row], list[Alike]]:
    """As few rows as nothing can follow that belongs to a line that is shown."""
    read, whole = ROWS_READ, len(moments)
    while True:
        rows = list(moments.in_order("at_us", "seq", most=read))
        lines = together((_told(row, number) for number, row in enumerate(rows)), names)
        if read >= whole or (len(lines) > most and rows[-1]["at_us"] > lines[most - 1].first.at_us + TOGETHER_US):
            return rows, lines[:most]
        read *= 4


def _told(moment: Row, number: int) -> Told:
    is_of_one = moment["topic"] is not None and moment["partition"] is not None
    place = (moment["topic"], moment["partition"]) if is_of_one else None
    return Told(
        moment["at_us"], moment["reason"], place, number, sign_of(moment["event"], moment["verb"], moment["how"])
    )


def _line(first: Row, line: Alike, several_partitions: bool) -> dict[str, Any]:
    where = ranges_of_partitions(line.places) if several_partitions else ""
    return {**first, "reason": line.text, "where": where, "sign": line.first.sign}
