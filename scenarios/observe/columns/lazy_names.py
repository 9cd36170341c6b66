"""Names of many records, each made when it is asked for: a list of ten million words takes six hundred megabytes."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import IO, Any, overload

from scenarios.observe.columns.name_index import NameIndex

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
