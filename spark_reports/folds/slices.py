"""The events of a share in their order, slice by slice: a partition may be larger than what a task is to hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

Kind = tuple[object, ...]
"""What events of some facts are: those of one kind are read once for all tables that need them."""

Its = Mapping[Kind, pa.Table]
"""Events of a share by their kind, with KEY and columns of the trace."""

SLICE_EVENTS = 1 << 18
"""Some ten megabytes, and a few times as much while they are sorted and folded."""

UNKNOWN = -(1 << 63)
END = (1 << 63) - 1


class Chunk(NamedTuple):
    """Events that are read together.

    lowest:   none of them comes before this place in the order
    is_ahead: they are wanted before all others, whatever their places
    """

    lowest: int
    is_ahead: bool
    read: Callable[[], Its]


class Slice(NamedTuple):
    """All events before a place in the order that no slice has had so far."""

    its: Its
    until: int

    @property
    def is_last(self) -> bool:
        return self.until == END


class _Held(NamedTuple):
    kind: Kind
    rows: pa.Table
    places: Any


def slices(chunks: Sequence[Chunk], along: str, most: Callable[[], int]) -> Iterator[Slice]:
    """Chunk after chunk is read, and given away as soon as those to come can have nothing that belongs before it.

    along: the column of places     most: so many events are enough for a slice
    """
    in_order = sorted(chunks, key=lambda chunk: (not chunk.is_ahead, chunk.lowest))
    held: list[_Held] = []
    for chunk, after in zip_longest(in_order, in_order[1:]):
        held += [_in_order(kind, rows, None if chunk.is_ahead else along) for kind, rows in chunk.read().items()]
        if after is None or after.is_ahead or sum(len(one.rows) for one in held) < most():
            continue
        bounds = [int(np.searchsorted(one.places, after.lowest)) for one in held]
        if sum(bounds) >= most():
            mine = [one._replace(rows=one.rows.slice(0, bound)) for one, bound in zip(held, bounds, strict=True)]
            held = [
                _Held(kind, rows.slice(bound), places[bound:])
                for (kind, rows, places), bound in zip(held, bounds, strict=True)
                if bound < len(rows)
            ]
            yield Slice(_by_kind(mine), after.lowest)
            del mine
    yield Slice(_by_kind(held), END)


def _in_order(kind: Kind, rows: pa.Table, along: str | None) -> _Held:
    if along is None:
        return _Held(kind, rows, np.full(len(rows), UNKNOWN))
    places = rows[along].to_numpy()
    if (places[1:] < places[:-1]).any():
        order = np.argsort(places, kind="stable")
        rows, places = rows.take(pa.array(order)), places[order]
    return _Held(kind, rows, places)


def _by_kind(held: Sequence[_Held]) -> Its:
    found: dict[Kind, list[pa.Table]] = {}
    for one in held:
        found.setdefault(one.kind, []).append(one.rows)
    return {kind: pa.concat_tables(tables) for kind, tables in found.items()}
