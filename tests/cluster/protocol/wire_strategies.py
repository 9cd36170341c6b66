"""Hypothesis strategies: any message that kio has a class for, and frames damaged on the way."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any

from hypothesis import strategies as st

from cluster.protocol.entities import EPOCH, Shape, shapes
from replica.errors import ErrorCode

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def plain_value(shape: Shape) -> st.SearchStrategy[Any]:
    """Any plain value of a field."""
    kafka_type = shape.kafka_type
    if shape.entity is not None:
        value: st.SearchStrategy[Any] = plain_fields(shape.entity)
    elif kafka_type in BITS:
        half = 1 << (BITS[kafka_type] - 1)
        value = st.integers(-half, half - 1)
    else:
        value = {
            "uint16": st.integers(0, 65535),
            "bool": st.booleans(),
            "records": st.binary(max_size=300),
            "bytes": st.binary(max_size=300),
            "string": TEXT,
            "uuid": st.one_of(
                st.none(),
                st.uuids().filter(lambda value: value.int),
                st.uuids().filter(lambda value: value.int).map(str),
            ),
            "error_code": st.sampled_from(ErrorCode),
            "timedelta_i32": st.integers(-(1 << 31), (1 << 31) - 1),
            # A timedelta holds less than 64 bits of milliseconds.
            # kio computes times in floats, which lose a microsecond in later centuries.
            "datetime_i64": st.integers(0, 1 << 41).map(lambda ms: EPOCH + timedelta(milliseconds=ms)),
            "float64": st.floats(allow_nan=False),
            "timedelta_i64": st.integers(-(1 << 46), (1 << 46) - 1),
        }[kafka_type]
    if shape.is_array:
        value = st.lists(value, max_size=2)
    # A tagged field is never null on the wire: its default leaves it out.
    return st.one_of(st.none(), value) if shape.is_nullable and shape.tag is None else value


@cache
def plain_fields(entity_type: type) -> st.SearchStrategy[dict[str, Any]]:
    """Any plain values for all fields of a class: what `cold.make` takes. Made once, as it costs much."""
    return st.fixed_dictionaries({name: plain_value(shape) for name, shape in shapes(entity_type).items()})


# What lengths and counts look like when they lie: the extremes of each width, and a varint that never ends.
LIES = [
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xfe",
    b"\x7f\xff",
    b"\xff\xfe",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff",
    b"\x00",
    b"\xc3\x28",
]


@st.composite
def damaged(draw: st.DrawFn, frame: bytes) -> bytes:
    """The frame with one to three cuts, insertions, overwritings or flipped bytes."""
    data = bytearray(frame)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.sampled_from(["cut", "drop", "insert", "overwrite", "flip"])):
            case "cut":
                del data[at:]
            case "drop":
                del data[at : at + draw(st.integers(1, 8))]
            case "insert":
                data[at:at] = draw(st.sampled_from(LIES))
            case "overwrite":
                lie = draw(st.sampled_from(LIES))
                data[at : at + len(lie)] = lie
            case "flip" if data:
                data[at] ^= draw(st.integers(1, 255))
    return bytes(data)
