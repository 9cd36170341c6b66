"""Names of records as small numbers: an index with an entry for every record stores that number.

A name takes twelve bytes, and of long runs less (PackedColumn).
"""

from __future__ import annotations

import json
import zlib
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice, pairwise
from operator import sub
from typing import IO, Any, overload

# -------------------------------------------------------------------------------------------------------- packed column
#
# Integers by place, for a run of ten million records, too: blocks that were not used for long are packed.
#
# What is known of a record is near to what is known of the one before (the same moment, the next offset), so their
# differences compress to next to nothing, wherever records come in batches or at a steady rate.

UNKNOWN = -1
"""Value of a place that was never set."""

BLOCK = 1 << 10
"""Places of a block."""

OPEN_BLOCKS_MAX = 512
"""Blocks that are not packed: nothing is, up to half a million records."""

_SHIFT, _MASK = 10, BLOCK - 1
_EMPTY = array("i", [UNKNOWN]) * BLOCK
_STEADY = b"="
"""Begins a block of equal steps, of which the first value and the step are kept; zlib's begin otherwise."""
_LEVEL = 1  # As good as all of the gain is in taking differences.


class PackedColumn:
    """Integers by place, of at most 62 bits. A place that was never set is UNKNOWN.

    Four bytes for each while its block is open, eight from the first on that needs them. The block that was opened
    first is packed first: runs go through their records in order.

    end: no place from here on was ever set, for there is no block for it
    """

    __slots__ = ("_blocks", "_latest", "_opened", "_packed", "end")

    def __init__(self) -> None:
        self.end = 0
        self._blocks: list[array[int] | None] = []
        """None: it is packed."""
        self._packed: dict[int, bytes] = {}
        self._opened: deque[int] = deque()
        self._latest: tuple[int, array[int]] = (-1, _EMPTY)
        """The packed block that `between` has read last."""

    def __getitem__(self, place: int) -> int:
        if place >= self.end:
            return UNKNOWN
        block = self._blocks[place >> _SHIFT]
        if block is None:
            block = self._open(place >> _SHIFT)
        return block[place & _MASK]

    def __setitem__(self, place: int, value: int) -> None:
        while place >= self.end:
            self._blocks.append(_EMPTY)
            self.end += BLOCK
        block = self._blocks[place >> _SHIFT]
        if block is None:
            block = self._open(place >> _SHIFT)
        elif block is _EMPTY:
            block = self._blocks[place >> _SHIFT] = _EMPTY[:]
            self._note_open(place >> _SHIFT)
        try:
            block[place & _MASK] = value
        except OverflowError:
            block = self._blocks[place >> _SHIFT] = array("q", block)
            block[place & _MASK] = value

    def between(self, start: int, stop: int) -> list[int]:
        """The values of the places from `start` to before `stop`. Packed blocks stay packed."""
        found: list[int] = []
        known = min(stop, self.end)
        while start < known:
            number = start >> _SHIFT
            block, begin = self._blocks[number], number << _SHIFT
            if block is None:
                if self._latest[0] != number:
                    self._latest = (number, _unpacked(self._packed[number]))
                block = self._latest[1]
            found += block[start - begin : known - begin]
            start = begin + BLOCK
        return found + [UNKNOWN] * (stop - max(start, self.end)) if stop > self.end else found

    def put(self, place: int, values: Iterable[int]) -> None:
        """The values for this place and those behind it."""
        for at, value in enumerate(values, place):
            self[at] = value

    def _open(self, number: int) -> array[int]:
        block = self._blocks[number] = _unpacked(self._packed.pop(number))
        self._latest = (-1, _EMPTY)
        self._note_open(number)
        return block

    def _note_open(self, number: int) -> None:
        self._opened.append(number)
        if len(self._opened) > OPEN_BLOCKS_MAX:
            first = self._opened.popleft()
            block = self._blocks[first]
            assert block is not None, "it is open"
            self._packed[first], self._blocks[first] = _packed(block), None


def _packed(block: array[int]) -> bytes:
    steps = array("q", map(sub, block, chain((0,), block)))
    if steps[1:].count(steps[1]) == BLOCK - 1:
        return _STEADY + steps[:2].tobytes()  # As names with a running number are: unpacked in a tenth of the time.
    return zlib.compress(steps.tobytes(), _LEVEL)


def _unpacked(packed: bytes) -> array[int]:
    if packed.startswith(_STEADY):
        first, step = array("q", packed[len(_STEADY) :])
        values = array("q", range(first, first + step * BLOCK, step) if step else [first]) * (1 if step else BLOCK)
    else:
        values = array("q", accumulate(array("q", zlib.decompress(packed))))
    try:
        return array("i", values)
    except OverflowError:
        return values


_DIGITS = "0123456789"
_NUMBER_DIGITS_MAX = 9
_GAP_MAX = 4096
"""Numbers of one prefix may skip so many before a name is kept as a word."""

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


# ----------------------------------------------------------------------------------------------------------- lazy names
#
# Names of many records, each made when it is asked for: a list of ten million words takes six hundred megabytes.


_PIECE = 8192
"""Names that are made at once."""


class PlaceRuns(Sequence[int]):
    """Places in an index of names, as stretches in which they count up by one, sixteen bytes for each stretch.

    firsts: index at which a stretch begins     places: the place there
    """

    __slots__ = ("_count", "firsts", "places")

    def __init__(self) -> None:
        self.firsts = array("q")
        self.places = array("q")
        self._count = 0

    @classmethod
    def where(cls, flags: bytes | bytearray) -> PlaceRuns:
        """The places with a 1; flags: 0 or 1 for each place"""
        runs = cls()
        start = flags.find(1)
        while start >= 0:
            end = flags.find(0, start)
            end = len(flags) if end < 0 else end
            runs.append(start, end - start)
            start = flags.find(1, end)
        return runs

    def append(self, place: int, count: int = 1) -> None:
        """The place, and those behind it."""
        if not self.firsts or place != self.places[-1] + self._count - self.firsts[-1]:
            self.firsts.append(self._count)
            self.places.append(place)
        self._count += count

    def stretches(self) -> Iterator[tuple[int, int]]:
        """(first place, number of places)"""
        for place, (first, end) in zip(self.places, pairwise(chain(self.firsts, (self._count,))), strict=True):
            yield place, end - first

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> list[int]: ...

    def __getitem__(self, index: int | slice) -> int | list[int]:
        wanted = range(self._count)[index]
        return self._place(wanted) if isinstance(wanted, int) else list(map(self._place, wanted))

    def _place(self, index: int) -> int:
        run = bisect_right(self.firsts, index) - 1
        return self.places[run] + index - self.firsts[run]

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(range(place, place + count) for place, count in self.stretches())


class LazyNames(Sequence[str]):
    """The names at some places of an index; equal to any sequence of the same."""

    __slots__ = ("all_names", "places")

    def __init__(self, names: NameIndex, places: PlaceRuns) -> None:
        self.all_names = names
        self.places = places

    def pieces(self) -> Iterator[list[str]]:
        """All of them in order, some thousand at a time."""
        piece: list[str] = []
        for place, count in self.places.stretches():
            for start in range(place, place + count, _PIECE):
                piece += self.all_names.between(start, min(start + _PIECE, place + count))
                if len(piece) >= _PIECE:
                    yield piece
                    piece = []
        if piece:
            yield piece

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, number: int) -> str: ...

    @overload
    def __getitem__(self, number: slice) -> list[str]: ...

    def __getitem__(self, number: int | slice) -> str | list[str]:
        places = self.places[number]
        return self.all_names.name(places) if isinstance(places, int) else list(map(self.all_names.name, places))

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.pieces())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    def __reduce__(self) -> tuple[type[list[str]], tuple[list[str]]]:
        """Another process gets the names."""
        return list, (list(self),)


def count_different(names: Sequence[str]) -> int:
    if not isinstance(names, LazyNames):
        return len(dict.fromkeys(names))
    seen = bytearray(len(names.all_names))
    for place, count in names.places.stretches():
        seen[place : place + count] = b"\1" * count
    return seen.count(1)


def encodable(value: object) -> list[str]:
    """For `default` of Python's encoder."""
    if isinstance(value, LazyNames):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def write_json(document: Any, stream: IO[str]) -> None:
    """The document, which may hold LazyNames in dictionaries, with a new line at its end.

    As `json.dump` with an indent of 2, which takes a microsecond for every name.
    """
    _write(document, stream, "\n")
    stream.write("\n")


def _write(value: Any, stream: IO[str], line: str) -> None:
    """line: begins one at the indent of the value"""
    inner = f"{line}  "
    if isinstance(value, LazyNames) and value:
        before = f"[{inner}"
        for piece in value.pieces():
            stream.write(before + json.dumps(piece, separators=(f",{inner}", ": "))[1:-1])
            before = f",{inner}"
        stream.write(f"{line}]")
    elif isinstance(value, dict) and value:
        before = f"{{{inner}"
        for key, item in value.items():
            stream.write(f"{before}{json.dumps(key)}: ")
            _write(item, stream, inner)
            before = f",{inner}"
        stream.write(f"{line}}}")
    else:
        stream.write(json.dumps(value, indent=2, default=encodable).replace("\n", line))
