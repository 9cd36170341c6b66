"""Names in a list, to which everything else refers by their places."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

NOTHING = -1
"""Instead of a place."""


class PlacesOfNames:
    """Places of names in a list, in the order of their first use."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, name: str | None) -> int:
        return NOTHING if name is None else self._places.setdefault(name, len(self._places))

    def known(self, name: str | None) -> int:
        return NOTHING if name is None else self._places.get(name, NOTHING)

    def after(self, count: int) -> list[str]:
        """All but the first `count`."""
        return list(islice(self._places, count, None))

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def name(self, place: int) -> str:
        return next(islice(self._places, place, None))
