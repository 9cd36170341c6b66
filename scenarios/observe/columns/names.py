"""Assign an index to each record name, so that tables with millions of records store numbers instead of strings.

A name takes twelve bytes, and less in long runs, where old blocks are compressed (PackedColumn).
"""

from __future__ import annotations

import json
import zlib
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import IO, Any, overload

import numpy as np
import numpy.typing as npt

# -------------------------------------------------------------------------------------------------------- packed column
#
# Columns of integers for up to ten million records. The oldest blocks are compressed.
#
# Values of consecutive records are similar (the same time, the next offset), so their differences compress to almost
# nothing if records come in batches or at a steady rate.

UNKNOWN = -1
"""The value at an index that was never set."""

BLOCK = 1 << 10
"""Number of values in a block."""

OPEN_BLOCKS_MAX = 512
"""Number of blocks that stay uncompressed: enough for all values of a run with half a million records."""

_SHIFT, _MASK = 10, BLOCK - 1
_EMPTY = array("i", [UNKNOWN]) * BLOCK
_STEADY = b"="
"""First byte of a packed block whose values rise by a constant step; only its first value and the step are stored.

The output of zlib never begins with this byte.
"""
_LEVEL = 1  # Nearly all of the compression comes from the differences.

Integers = npt.NDArray[np.int64]


class PackedColumn:
    """A growing column of integers of at most 62 bits; UNKNOWN at an index that was never set.

    A value takes four bytes while its block is not compressed, or eight if a value of the block needs them. The block
    opened first is compressed first, because a run handles its records in order. No index from `end` on was ever set.
    """

    __slots__ = ("_blocks", "_latest", "_opened", "_packed", "end")

    def __init__(self) -> None:
        self.end = 0
        self._blocks: list[array[int] | None] = []
        """The blocks by number; None for a compressed block."""
        self._packed: dict[int, bytes] = {}
        self._opened: deque[int] = deque()
        self._latest: tuple[int, array[int]] = (-1, _EMPTY)
        """Number and content of the compressed block that `between` read last."""

    def __getitem__(self, index: int) -> int:
        if index >= self.end:
            return UNKNOWN
        block = self._blocks[index >> _SHIFT]
        if block is None:
            block = self._open(index >> _SHIFT)
        return block[index & _MASK]

    def __setitem__(self, index: int, value: int) -> None:
        while index >= self.end:
            self._blocks.append(_EMPTY)
            self.end += BLOCK
        block = self._blocks[index >> _SHIFT]
        if block is None:
            block = self._open(index >> _SHIFT)
        elif block is _EMPTY:
            block = self._blocks[index >> _SHIFT] = _EMPTY[:]
            self._note_open(index >> _SHIFT)
        try:
            block[index & _MASK] = value
        except OverflowError:
            block = self._blocks[index >> _SHIFT] = array("q", block)
            block[index & _MASK] = value

    def between(self, start: int, stop: int) -> Integers:
        """Return the values in [start, stop). Compressed blocks stay compressed."""
        found = np.full(stop - start, UNKNOWN, np.int64)
        for begin in range(start & ~_MASK, min(stop, self.end), BLOCK):
            number = begin >> _SHIFT
            block = self._blocks[number]
            if block is None:
                if self._latest[0] != number:
                    self._latest = (number, _unpacked(self._packed[number]))
                block = self._latest[1]
            first, last = max(start, begin), min(stop, begin + BLOCK)
            found[first - start : last - start] = block[first - begin : last - begin]
        return found

    def put(self, index: int, values: Integers) -> None:
        """Set consecutive values from `index` on."""
        left = array("q", values.tobytes())
        while left:
            self[index] = left[0]
            number, begin = index >> _SHIFT, index & _MASK
            block = self._blocks[number]
            assert block is not None, "the first value has opened it"
            piece = left[: BLOCK - begin]
            try:
                block[begin : begin + len(piece)] = array(block.typecode, piece)
            except OverflowError:
                block = self._blocks[number] = array("q", block)
                block[begin : begin + len(piece)] = piece
            index, left = index + len(piece), left[len(piece) :]

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
    steps = np.diff(np.asarray(block, np.int64), prepend=0)
    if (steps[1:] == steps[1]).all():
        # Names with a running number have equal steps. Such a block is unpacked in a tenth of the time.
        return _STEADY + steps[:2].tobytes()
    return zlib.compress(steps.tobytes(), _LEVEL)


def _unpacked(packed: bytes) -> array[int]:
    if packed.startswith(_STEADY):
        first, step = np.frombuffer(packed, np.int64, offset=len(_STEADY))
        values = first + step * np.arange(BLOCK)
    else:
        values = np.cumsum(np.frombuffer(zlib.decompress(packed), np.int64))
    fits = values.max() < 1 << 31
    return array("i", values.astype(np.int32).tobytes()) if fits else array("q", values.tobytes())


_DIGITS = "0123456789"
_NUMBER_DIGITS_MAX = 9
_GAP_MAX = 1 << 16
"""A name whose number is this far above the highest number of its prefix is stored as text.

Smaller gaps are normal: partitions whose batches are acknowledged in turn skip some ten thousand numbers. A skipped
number takes less than a bit.
"""

_PREFIXES_MAX = 1024
"""Number of prefixes that get a column; names with further prefixes are stored as text."""

_WORD = _PREFIXES_MAX
"""The prefix number of a name that is stored as text."""

_SPELLINGS = _WORD + 1

_RUN_MIN = 8
"""A list up to this length is read item by item, because comparing it with a range would take longer."""

_FEW = 2
"""The number of names up to which each is read by itself, because an array would take longer."""

_RECENT_MAX = 4096
"""Number of recent names kept in a dict, because a record is looked up some ten times in a short time."""


def _ranges(values: Integers, step: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of the ranges in which each value is the previous value plus `step`."""
    if len(values) == 1:
        yield 0, 1
    elif len(values):
        yield from pairwise((0, *(np.flatnonzero(np.diff(values) != step) + 1).tolist(), len(values)))


class NameIndex:
    """A two-way map between names and indexes, which count from 0 in the order in which names were added.

    Workloads name records by a prefix and a running number, so each prefix has a column of indexes by number.
    Other names are stored as text. A name is built on each access.
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
        """Each name as one integer, by index: number * _SPELLINGS + prefix number.

        If the prefix number is _WORD, the number is an index into `_words`.
        """

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return map(self.name, range(self._count))

    def name(self, index: int) -> str:
        """Return the name at `index`, which must exist."""
        return self._spelt(self._spelling[index])

    def _spelt(self, spelling: int) -> str:
        number, prefix = divmod(spelling, _SPELLINGS)
        return self._words[number] if prefix == _WORD else f"{self._prefixes[prefix]}{number}"

    def between(self, start: int, stop: int) -> list[str]:
        """Return the names at the indexes [start, stop), which must exist."""
        if stop - start <= _FEW:
            return list(map(self.name, range(start, stop)))
        numbers, prefixes = np.divmod(self._spelling.between(start, stop), _SPELLINGS)
        names: list[str] = []
        for first, end in _ranges(prefixes, 0):
            if prefixes[first] == _WORD:
                names += [self._words[number] for number in numbers[first:end].tolist()]
            else:
                text = self._prefixes[prefixes[first]]
                names += [f"{text}{number}" for number in numbers[first:end].tolist()]
        return names

    def place(self, name: str) -> int:
        """Return the index of a name, or UNKNOWN if the name was never added."""
        index = self._recent.get(name, UNKNOWN)
        if index < 0 and self._count:
            prefix, number = _parsed(name)
            index = self._look_up(name, prefix, number)
        return index

    def add(self, name: str) -> int:
        """Add a new name and return its index."""
        prefix, number = _parsed(name)
        return self._append(name, prefix, number)

    def place_or_add(self, name: str) -> int:
        index = self._recent.get(name, UNKNOWN)
        if index >= 0:
            return index
        prefix, number = _parsed(name)
        index = self._look_up(name, prefix, number)
        return index if index >= 0 else self._append(name, prefix, number)

    def places_or_add(self, names: Sequence[str]) -> Integers:
        """Return the indexes of names, after adding new names. Names of one batch usually have consecutive indexes."""
        if len(names) > _RUN_MIN:
            first = self.place(names[0])
            if 0 <= first <= self._count - len(names) and self.between(first, first + len(names)) == list(names):
                return np.arange(first, first + len(names))
        return np.fromiter(map(self.place_or_add, names), np.int64, len(names))

    def runs_of(self, names: Sequence[str]) -> Iterable[tuple[int, int]]:
        """Return the indexes of names as ranges (first index, count), after adding new names."""
        if isinstance(names, LazyNames) and names.all_names is self:
            return names.places.stretches()
        return PlaceRuns.of(self.places_or_add(names)).stretches()

    def at(self, places: Integers) -> list[str]:
        """Return the names at these indexes, which must exist."""
        if len(places) > _RUN_MIN and (np.diff(places) == 1).all():
            return self.between(int(places[0]), int(places[-1]) + 1)
        return list(map(self.name, places.tolist()))

    def _look_up(self, name: str, prefix: str, number: int) -> int:
        known = self._prefix_places.get(prefix) if number >= 0 else None
        index = UNKNOWN if known is None else self._places[known][number]
        if index < 0 and self._words:
            index = self._word_places.get(name, UNKNOWN)
        if index >= 0:
            self._note(name, index)
        return index

    def _append(self, name: str, prefix: str, number: int) -> int:
        index = self._count
        self._count = index + 1
        self._note(name, index)
        if number >= 0 and (len(self._prefixes) < _PREFIXES_MAX or prefix in self._prefix_places):
            which = self._prefix_places.setdefault(prefix, len(self._prefixes))
            if which == len(self._prefixes):
                self._prefixes.append(prefix)
                self._places.append(PackedColumn())
            places = self._places[which]
            if number < places.end + _GAP_MAX:
                places[number] = index
                self._spelling[index] = number * _SPELLINGS + which
                return index
        self._spelling[index] = len(self._words) * _SPELLINGS + _WORD
        self._words.append(name)
        self._word_places[name] = index
        return index

    def _note(self, name: str, index: int) -> None:
        if len(self._recent) >= _RECENT_MAX:
            self._recent.clear()
        self._recent[name] = index


def _parsed(name: str) -> tuple[str, int]:
    """Return the prefix and number of a name. The number is -1 if it is missing, too long, or has leading zeros."""
    prefix = name.rstrip(_DIGITS)
    digits = name[len(prefix) :]
    is_plain = 0 < len(digits) <= _NUMBER_DIGITS_MAX and (digits[0] != "0" or len(digits) == 1)
    return prefix, int(digits) if is_plain else -1


# ----------------------------------------------------------------------------------------------------------- lazy names
#
# Names of many records, each created on access, because a list of ten million strings takes 600 MB.


_PIECE = 8192
"""Number of names that are built together."""


class PlaceRuns(Sequence[int]):
    """A sequence of name indexes, stored as ranges of consecutive indexes that take sixteen bytes each.

    Attributes:
        firsts: position in this sequence at which each range begins.
        places: first name index of each range.
    """

    __slots__ = ("_count", "firsts", "places")

    def __init__(self) -> None:
        self.firsts = array("q")
        self.places = array("q")
        self._count = 0

    @classmethod
    def where(cls, flags: bytes | bytearray) -> PlaceRuns:
        """Return the indexes whose flag is 1. `flags` has one byte, 0 or 1, for each index."""
        runs = cls()
        start = flags.find(1)
        while start >= 0:
            end = flags.find(0, start)
            end = len(flags) if end < 0 else end
            runs.append(start, end - start)
            start = flags.find(1, end)
        return runs

    @classmethod
    def of(cls, places: Integers) -> PlaceRuns:
        """Return these indexes as ranges. Usually they are consecutive."""
        runs = cls()
        for first, end in _ranges(places, 1):
            runs.append(int(places[first]), end - first)
        return runs

    def append(self, index: int, count: int = 1) -> None:
        """Append `count` consecutive indexes, the first of which is `index`."""
        if not self.firsts or index != self.places[-1] + self._count - self.firsts[-1]:
            self.firsts.append(self._count)
            self.places.append(index)
        self._count += count

    def stretches(self) -> Iterator[tuple[int, int]]:
        """Yield each range as (first index, number of indexes)."""
        for index, (first, end) in zip(self.places, pairwise(chain(self.firsts, (self._count,))), strict=True):
            yield index, end - first

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
        return chain.from_iterable(range(index, index + count) for index, count in self.stretches())


class LazyNames(Sequence[str]):
    """A sequence of names that are built on access. It is equal to any other sequence of the same names."""

    __slots__ = ("all_names", "places")

    def __init__(self, names: NameIndex, places: PlaceRuns) -> None:
        self.all_names = names
        self.places = places

    def pieces(self) -> Iterator[list[str]]:
        """Yield all names in order, as lists of some thousand."""
        piece: list[str] = []
        for index, count in self.places.stretches():
            for start in range(index, index + count, _PIECE):
                piece += self.all_names.between(start, min(start + _PIECE, index + count))
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
        return len(self) == len(other) and all(item == two for item, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    def __reduce__(self) -> tuple[type[list[str]], tuple[list[str]]]:
        """Pickle as a plain list of names."""
        return list, (list(self),)


def count_different(names: Sequence[str]) -> int:
    if not isinstance(names, LazyNames):
        return len(dict.fromkeys(names))
    seen = bytearray(len(names.all_names))
    for index, count in names.places.stretches():
        seen[index : index + count] = b"\1" * count
    return seen.count(1)


def encodable(value: object) -> list[str]:
    """Convert LazyNames to a list for JSON. Pass this function as `default` to Python's JSON encoder."""
    if isinstance(value, LazyNames):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def write_json(document: Any, stream: IO[str]) -> None:
    """Write a document as JSON with a newline at its end. Its dictionaries may contain LazyNames.

    The output is the same as that of `json.dump` with `indent=2`, which is much slower.
    """
    _write(document, stream, "\n")
    stream.write("\n")


def _write(value: Any, stream: IO[str], line: str) -> None:
    """Write one JSON value. `line` is a newline and the value's indentation."""
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
