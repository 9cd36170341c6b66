"""A list of names to which other data refers by index."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

NOTHING = -1
"""The index that means "no name"."""


class PlacesOfNames:
    """A list of names in the order of their first use, with the index of each."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, name: str | None) -> int:
        return NOTHING if name is None else self._places.setdefault(name, len(self._places))

    def known(self, name: str | None) -> int:
        return NOTHING if name is None else self._places.get(name, NOTHING)

    def after(self, count: int) -> list[str]:
        """Return the names with indexes of `count` or more."""
        return list(islice(self._places, count, None))

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def name(self, index: int) -> str:
        return next(islice(self._places, index, None))
