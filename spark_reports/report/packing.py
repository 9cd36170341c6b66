"""Charts' data as columns, each word once: a third of the room of one object per point. page.js unpacks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def packed(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Points with the same keys -> their columns: a list of values, or of words {"of": words, "at": places in it}.

    raises: ValueError if a point has other keys than the first
    """
    if any(point.keys() != points[0].keys() for point in points):
        raise ValueError("the points of one dataset have different keys")
    return {name: _column([point[name] for point in points]) for name in points[0]} if points else {}


def _column(values: list[Any]) -> Any:
    if not all(isinstance(value, str) for value in values):
        return values
    place = {word: number for number, word in enumerate(dict.fromkeys(values))}
    return {"of": list(place), "at": [place[value] for value in values]}
