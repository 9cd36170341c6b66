"""Names of many records, each made when it is asked for: a list of ten million words takes six hundred megabytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, overload

from scenarios.observe.columns.name_index import NameIndex


class LazyNames(Sequence[str]):
    """As many of `names`, at the places that `place_of` says for 0, 1, ...; equal to any sequence of the same."""

    __slots__ = ("_count", "all_names", "place_of")

    def __init__(self, names: NameIndex, place_of: Callable[[int], int], count: int) -> None:
        self.all_names = names
        self.place_of = place_of
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> str: ...

    @overload
    def __getitem__(self, number: slice) -> list[str]: ...

    def __getitem__(self, number: int | slice) -> str | list[str]:
        wanted = range(self._count)[number]
        return self._name(wanted) if isinstance(wanted, int) else list(map(self._name, wanted))

    def __iter__(self) -> Iterator[str]:
        return map(self._name, range(self._count))

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

    def _name(self, number: int) -> str:
        return self.all_names.name(self.place_of(number))


def count_different(names: Sequence[str]) -> int:
    if not isinstance(names, LazyNames):
        return len(dict.fromkeys(names))
    seen = bytearray(len(names.all_names))
    for place in map(names.place_of, range(len(names))):
        seen[place] = True
    return sum(seen)


class _AsList(list[str]):
    """For Python's encoder, which takes lists alone, and one name after the other from them if it indents."""

    def __init__(self, names: LazyNames) -> None:
        super().__init__()
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)


def encodable(value: object) -> list[str]:
    """For `default` of Python's encoder."""
    if isinstance(value, LazyNames):
        return _AsList(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def write_json(document: Any, stream: IO[str]) -> None:
    """The document, which may hold LazyNames, with a new line at its end; nothing of it is kept in memory."""
    json.dump(document, stream, indent=2, default=encodable)
    stream.write("\n")
