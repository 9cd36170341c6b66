"""Integers by place, for a run of ten million records, too: blocks that were not used for long are packed.

What is known of a record is near to what is known of the one before (the same moment, the next offset), so their
differences compress to next to nothing, wherever records come in batches or at a steady rate.
"""

from __future__ import annotations

import zlib
from array import array
from collections import deque
from collections.abc import Iterable
from itertools import accumulate, chain
from operator import sub

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
