"""The story of a run in lines: each thing is told once, with the partitions it happened to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from replica.signs import sign_of
from spark_reports.report.words import counted

Row = Mapping[str, Any]

PLACES_NAMED = 4


def told_moments(moments: Sequence[Row], *, several_partitions: bool) -> list[dict[str, Any]]:
    """Rows of key_moments in order, one for all partitions to which the same happened at the same instant, and for an
    election and the ISR it writes.

    out: with `where`, the partitions in words, empty where it is about none, or there is only one; and with `sign`, a
        name of signs.SIGNS
    """
    lines: dict[tuple[int, str], dict[str, Any]] = {}
    places: dict[tuple[int, str], dict[str, None]] = {}
    for moment in sorted(moments, key=lambda moment: moment["seq"]):
        key = (moment["at_us"], moment["reason"])
        lines.setdefault(key, dict(moment))
        if several_partitions and moment["topic"] is not None and moment["partition"] is not None:
            places.setdefault(key, {})[f"{moment['topic']}-{moment['partition']}"] = None
    return [
        {**line, "where": _in_words(list(places.get(key, ()))), "sign": sign_of(line["event"], line["verb"])}
        for key, line in lines.items()
    ]


def _in_words(names: Sequence[str]) -> str:
    if len(names) <= PLACES_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:PLACES_NAMED])} and {counted(len(names) - PLACES_NAMED, 'more partition')}"
