"""Requests of any API, with fields that mostly could mean something."""

from __future__ import annotations

from hypothesis import strategies as st

from cluster.protocol.entities import Shape, shapes
from replica.errors import ErrorCode

NAMES = st.sampled_from(["t", "u", "", "a/b", "1", "2", "-1", "__cluster_metadata", "__consumer_offsets"])
KEYS = st.sampled_from(["segment.bytes", "cleanup.policy", "min.insync.replicas", "nonsense"])
TEXT = NAMES | KEYS | st.sampled_from(["2", "compact", "delete,compact", "-5"]) | st.text(max_size=3)
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 32, "timedelta_i64": 48}


def value(shape: Shape) -> st.SearchStrategy:
    """Mostly what could mean something."""
    kind = shape.kafka_type
    if shape.entity is not None:
        one = fields(shape.entity)
    elif kind in BITS:
        half = 1 << (BITS[kind] - 1)
        one = st.sampled_from([-1, 0, 1, 2, 3]) | st.sampled_from([-half, half - 1, -2, -3, 7, 40])
    else:
        one = {
            "bool": st.booleans(),
            "string": TEXT,
            "uuid": st.none() | st.uuids(),
            "error_code": st.just(ErrorCode.NONE),
            "uint16": st.integers(0, 65535),
            "bytes": st.binary(max_size=8),
            "float64": st.floats(),
        }[kind]
    if shape.is_array:
        one = st.lists(one, max_size=3)
    return st.one_of(st.none(), one) if shape.is_nullable and shape.tag is None else one


def fields(entity_type: type) -> st.SearchStrategy:
    return st.fixed_dictionaries({name: value(shape) for name, shape in shapes(entity_type).items()})
