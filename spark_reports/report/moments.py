"""The story of a run in lines: each thing once, with the partitions it happened to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replica.trace.signs import sign_of
from spark_reports.report.rows import Rows

PLACES_NAMED = 4


def told_moments(moments: Rows, *, several_partitions: bool, most: int) -> tuple[list[dict[str, Any]], int]:
    """The first lines of the story in order, and how many more there are: one line for all partitions to which the same
    happened at the same instant, and for an election and the ISR it writes.

    in:  rows of key_moments        most: lines
    out: with `where`, the partitions in words, empty where it is about none, or there is only one; and with `sign`, a
        name of signs.SIGNS
    """
    told, in_all = moments.groups(("at_us", "reason"), "seq", most)
    return [_line(together.in_order("seq"), several_partitions) for together in told], in_all - len(told)


def _line(together: Rows, several_partitions: bool) -> dict[str, Any]:
    line = together[0]
    places = [
        f"{moment['topic']}-{moment['partition']}"
        for moment in together
        if several_partitions and moment["topic"] is not None and moment["partition"] is not None
    ]
    where = _in_words(list(dict.fromkeys(places)))
    return {**line, "where": where, "sign": sign_of(line["event"], line["verb"], line["how"])}


def _in_words(names: Sequence[str]) -> str:
    if len(names) <= PLACES_NAMED + 1:  # "1 more partition" is no shorter than its name
        return ", ".join(names)
    return f"{', '.join(names[:PLACES_NAMED])} and {len(names) - PLACES_NAMED:,} more partitions"
