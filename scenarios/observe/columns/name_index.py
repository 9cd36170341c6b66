"""Names of records as small numbers: an index with an entry for every record stores that number.

A name takes twelve bytes, and of long runs less (packed_column.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from operator import sub

from scenarios.observe.columns.packed_column import UNKNOWN, PackedColumn

_DIGITS = "0123456789"
_NUMBER_DIGITS_MAX = 9
_GAP_MAX = 1 << 16
"""Numbers of one prefix may skip so many before a name is kept as a word: several batches may be under way."""

_PREFIXES_MAX = 1024
"""Names with yet another prefix are kept as words."""

_WORD = _PREFIXES_MAX
"""Instead of a prefix: the name is kept as it is."""

_SPELLINGS = _WORD + 1

_RECENT_MAX = 4096
"""Names whose places are also kept by the name itself: a record is asked for some ten times in a row."""


class NameIndex:
    """Places of names, from 0 in the order in which they were added.

    Workloads name their records by a prefix and a running number, so the index keeps for each prefix a column
    of places by number. Any other name is kept as a word. A name is built anew on each request.
    """

    __slots__ = ("_count", "_places", "_prefix_places", "_prefixes", "_recent", "_spelling", "_word_places", "_words")

    def __init__(self) -> None:
        self._prefixes: list[str] = []
        self._prefix_places: dict[str, int] = {}
        self._places: list[PackedColumn] = []
        self._word_places: dict[str, int] = {}
        self._words: list[str] = []
        self._count = 0
        self._recent: dict[str, int] = {}
        self._spelling = PackedColumn()
        """Of each place, number * _SPELLINGS + prefix; with _WORD it is the number of a word."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return map(self.name, range(self._count))

    def name(self, place: int) -> str:
        """place: one that was added"""
        return self._spelt(self._spelling[place])

    def _spelt(self, spelling: int) -> str:
        number, prefix = divmod(spelling, _SPELLINGS)
        return self._words[number] if prefix == _WORD else f"{self._prefixes[prefix]}{number}"

    def between(self, start: int, stop: int) -> list[str]:
        """The names of the places from `start` to before `stop`, each of which was added."""
        spelled = self._spelling.between(start, stop)
        steps = map(sub, islice(spelled, 1, None), spelled)
        breaks = [at for at, step in enumerate(steps, 1) if step != _SPELLINGS]
        if len(breaks) * 4 >= len(spelled):
            return list(map(self._spelt, spelled))
        names: list[str] = []
        for begin, end in pairwise((0, *breaks, len(spelled))):
            number, prefix = divmod(spelled[begin], _SPELLINGS)
            if prefix == _WORD:
                names += self._words[number : number + end - begin]
            else:
                names += map(self._prefixes[prefix].__add__, map(str, range(number, number + end - begin)))
        return names

    def numbered(self, start: int, stop: int) -> tuple[str, int] | None:
        """Prefix and first number, if the names of these places have one prefix and numbers that count up by one."""
        spelled = self._spelling.between(start, stop)
        first, prefix = divmod(spelled[0], _SPELLINGS) if spelled else (0, _WORD)
        if prefix == _WORD or spelled != list(range(spelled[0], spelled[-1] + 1, _SPELLINGS)):
            return None
        return self._prefixes[prefix], first

    def place(self, name: str) -> int:
        """UNKNOWN if it was never added."""
        place = self._recent.get(name, UNKNOWN)
        if place < 0 and self._count:
            prefix, number = _parsed(name)
            place = self._look_up(name, prefix, number)
        return place

    def add(self, name: str) -> int:
        """A name that is not there yet."""
        prefix, number = _parsed(name)
        return self._append(name, prefix, number)

    def place_or_add(self, name: str) -> int:
        place = self._recent.get(name, UNKNOWN)
        if place >= 0:
            return place
        prefix, number = _parsed(name)
        place = self._look_up(name, prefix, number)
        return place if place >= 0 else self._append(name, prefix, number)

    def _look_up(self, name: str, prefix: str, number: int) -> int:
        known = self._prefix_places.get(prefix) if number >= 0 else None
        place = UNKNOWN if known is None else self._places[known][number]
        if place < 0 and self._words:
            place = self._word_places.get(name, UNKNOWN)
        if place >= 0:
            self._note(name, place)
        return place

    def _append(self, name: str, prefix: str, number: int) -> int:
        place = self._count
        self._count = place + 1
        self._note(name, place)
        if number >= 0 and (len(self._prefixes) < _PREFIXES_MAX or prefix in self._prefix_places):
            which = self._prefix_places.setdefault(prefix, len(self._prefixes))
            if which == len(self._prefixes):
                self._prefixes.append(prefix)
                self._places.append(PackedColumn())
            places = self._places[which]
            if number < places.end + _GAP_MAX:
                places[number] = place
                self._spelling[place] = number * _SPELLINGS + which
                return place
        self._spelling[place] = len(self._words) * _SPELLINGS + _WORD
        self._words.append(name)
        self._word_places[name] = place
        return place

    def _note(self, name: str, place: int) -> None:
        if len(self._recent) >= _RECENT_MAX:
            self._recent.clear()
        self._recent[name] = place


def _parsed(name: str) -> tuple[str, int]:
    """Its prefix and its running number; -1 if its last digits are not how a number is written."""
    prefix = name.rstrip(_DIGITS)
    digits = name[len(prefix) :]
    is_plain = 0 < len(digits) <= _NUMBER_DIGITS_MAX and (digits[0] != "0" or len(digits) == 1)
    return prefix, int(digits) if is_plain else -1
