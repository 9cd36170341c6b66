"""Names of records as small numbers, ten bytes a name: an index with an entry for every record stores that number."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

_DIGITS = "0123456789"
_NUMBER_DIGITS_MAX = 9
_GAP_MAX = 4096
"""Numbers of one prefix may skip so many before a name is kept as a word."""

_PREFIXES_MAX = 1024
"""Names with yet another prefix are kept as words."""

UNKNOWN = -1
"""No place."""

_WORD = -1
"""Instead of a prefix: the name is kept as it is."""


class NameIndex:
    """Places of names, from 0 in the order in which they were added.

    Workloads name their records by a prefix and a running number, so the index keeps for each prefix an array
    of places by number. Any other name is kept as a word. A name is built anew on each request.
    """

    __slots__ = ("_numbers", "_places", "_prefix_places", "_prefixes", "_spelling", "_word_places", "_words")

    def __init__(self) -> None:
        self._prefixes: list[str] = []
        self._prefix_places: dict[str, int] = {}
        self._places: list[array[int]] = []
        self._word_places: dict[str, int] = {}
        self._words: list[str] = []
        # Of each place: which prefix, and the number behind it; or _WORD, and which word.
        self._spelling = array("h")
        self._numbers = array("i")

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[str]:
        return map(self.name, range(len(self)))

    def name(self, place: int) -> str:
        """raises: IndexError for a place that is not there"""
        prefix, number = self._spelling[place], self._numbers[place]
        return self._words[number] if prefix == _WORD else f"{self._prefixes[prefix]}{number}"

    def place(self, name: str) -> int:
        """UNKNOWN if it was never added."""
        prefix = name.rstrip(_DIGITS)
        known = self._prefix_places.get(prefix)
        if known is not None and _is_plain(digits := name[len(prefix) :]):
            places, number = self._places[known], int(digits)
            if number < len(places) and (place := places[number]) >= 0:
                return place
        return self._word_places.get(name, UNKNOWN) if self._words else UNKNOWN

    def add(self, name: str) -> int:
        """A name that is not there yet."""
        place = len(self._numbers)
        prefix = name.rstrip(_DIGITS)
        digits = name[len(prefix) :]
        if _is_plain(digits) and (len(self._prefixes) < _PREFIXES_MAX or prefix in self._prefix_places):
            which = self._prefix_places.setdefault(prefix, len(self._prefixes))
            if which == len(self._prefixes):
                self._prefixes.append(prefix)
                self._places.append(array("i"))
            places, number = self._places[which], int(digits)
            if number < len(places) + _GAP_MAX:
                if number >= len(places):
                    places.extend([UNKNOWN] * (number + 1 - len(places)))
                places[number] = place
                self._spelling.append(which)
                self._numbers.append(number)
                return place
        self._spelling.append(_WORD)
        self._numbers.append(len(self._words))
        self._words.append(name)
        self._word_places[name] = place
        return place

    def place_or_add(self, name: str) -> int:
        known = self.place(name)
        return known if known >= 0 else self.add(name)


def _is_plain(digits: str) -> bool:
    """Whether the digits are how a number is written: one text for each number."""
    return 0 < len(digits) <= _NUMBER_DIGITS_MAX and (digits[0] != "0" or len(digits) == 1)
