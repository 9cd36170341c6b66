"""Arrow columns from plain Python values, without `pyarrow.array`.

That function imports pandas just to ask whether it was given one of its objects: a third of a second for every run.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

Column = Callable[[Sequence[Any], pa.DataType], pa.Array]


def column(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """values: ints, strings, booleans, or tuples of ints or strings, as `arrow_type` says; None is null"""
    return _BUILDERS[arrow_type.id](values, arrow_type)


def _is_constant(values: Sequence[Any]) -> bool:
    """One value over and over, as most columns of a stretch of a run are."""
    return bool(values) and values[0] == values[-1] is not None and values.count(values[0]) == len(values)


def _validity(values: Sequence[Any]) -> tuple[pa.Buffer | None, int]:
    """(bitmap or None if there are no nulls, number of nulls)"""
    if None not in values:
        return None, 0
    present = [value is not None for value in values]
    return _bitmap(present), len(present) - sum(present)


def _bitmap(bits: Sequence[bool]) -> pa.Buffer:
    packed = bytearray((len(bits) + 7) // 8)
    for place, bit in enumerate(bits):
        if bit:
            packed[place >> 3] |= 1 << (place & 7)
    return pa.py_buffer(bytes(packed))


def _int64(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    if _is_constant(values):
        numbers = array("q", values[:1]) * len(values)
        return pa.Array.from_buffers(arrow_type, len(values), [None, pa.py_buffer(numbers)], 0)
    validity, nulls = _validity(values)
    filled = [0 if value is None else value for value in values] if nulls else values
    return pa.Array.from_buffers(arrow_type, len(values), [validity, pa.py_buffer(array("q", filled))], nulls)


def _bool(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    validity, nulls = _validity(values)
    return pa.Array.from_buffers(arrow_type, len(values), [validity, _bitmap([bool(v) for v in values])], nulls)


def _string(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    if _is_constant(values):
        text = values[0].encode()
        ends = range(0, len(text) * len(values) + 1, len(text)) if text else [0] * (len(values) + 1)
        offsets = array("i", ends)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text * len(values))]
        return pa.Array.from_buffers(arrow_type, len(values), buffers, 0)
    validity, nulls = _validity(values)
    filled = ["" if value is None else value for value in values] if nulls else values
    joined = "".join(filled)
    encoded = joined.encode()
    # In plain ASCII every character is a byte, and nothing need be encoded by itself.
    offsets = _offsets(filled if len(encoded) == len(joined) else list(map(str.encode, filled)))
    return pa.Array.from_buffers(arrow_type, len(values), [validity, offsets, pa.py_buffer(encoded)], nulls)


def _list(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    validity, nulls = _validity(values)
    lists = [() if value is None else value for value in values] if nulls else values
    items = column(list(chain.from_iterable(lists)), arrow_type.value_type)
    buffers = [validity, _offsets(lists)]
    return pa.Array.from_buffers(arrow_type, len(values), buffers, nulls, children=[items])


def _offsets(sized: Sequence[Any]) -> pa.Buffer:
    return pa.py_buffer(array("i", accumulate(map(len, sized), initial=0)))


_BUILDERS: dict[int, Column] = {
    pa.int64().id: _int64,
    pa.bool_().id: _bool,
    pa.string().id: _string,
    pa.list_(pa.int64()).id: _list,
}
