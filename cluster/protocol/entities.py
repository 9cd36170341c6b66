"""Reading and writing kio's entities: bytes in, frozen dataclasses out, and back.

kio (generated from Kafka's message schemas) has one dataclass per message and version; each field carries its wire
type, its tag and its default. This module builds a reader and a writer for such a class once, and caches them.

    decode_entity(MetadataRequest, frame, position)      # -> (entity, next position)
    encode_entity(entity)                                # -> bytes, without header and size

kio's own reader and writer are not used, except by tests to compare with. kio's native reader trusts the count of an
array, so that eleven bytes from a hostile peer make it allocate 16 GB and abort the process; kio's writer takes several
times as long; and importing them takes 30 ms. Values are kio's (UUID or None, timedelta), except that an error code is
`replica.errors.ErrorCode`. Other packages use this module through `cold`.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Any, Final, NamedTuple, get_args, get_origin
from uuid import UUID

from cluster.protocol.primitives import (
    INT8,
    INT16,
    INT32,
    INT64,
    NO_TAGS,
    Frame,
    cut_text,
    error_of,
    length,
    read_count,
    read_length,
    read_string,
    read_tagged,
    read_text,
    read_uuid,
    string,
    tagged,
)
from cluster.slices import array, counted, paced
from replica.errors import ErrorCode, PeerViolation

Entity = Any
"""An instance of one of kio's message classes. Its attributes differ between versions."""

Reader = Callable[[Frame, int], tuple[Any, int]]
Writer = Callable[[Any], bytes]

NO_ID: Final = UUID(int=0)
ONE_MS: Final = timedelta(milliseconds=1)
EPOCH: Final = datetime.fromtimestamp(0, UTC)

BOOL = Struct(">?")
UINT16 = Struct(">H")
FLOAT64 = Struct(">d")


class Shape(NamedTuple):
    """The type of a field: a primitive (`kafka_type`) or an entity; single or an array; nullable or not."""

    kafka_type: str | None
    entity: type | None
    is_array: bool
    is_nullable: bool
    tag: int | None


@functools.cache
def shapes(entity_type: type) -> dict[str, Shape]:
    """Return the shape of every field of a kio class, in wire order."""
    return {field.name: _shape_of(field) for field in dataclasses.fields(entity_type)}


def _shape_of(field: dataclasses.Field[Any]) -> Shape:
    hint, is_nullable = _without_none(field.type)
    is_array = get_origin(hint) is tuple
    if is_array:
        # `tuple[X | None, ...]` occurs for ids only, where None is the zero id.
        hint, _ = _without_none(get_args(hint)[0])
    entity = hint if isinstance(hint, type) and dataclasses.is_dataclass(hint) else None
    return Shape(field.metadata.get("kafka_type"), entity, is_array, is_nullable, field.metadata.get("tag"))


def _without_none(hint: Any) -> tuple[Any, bool]:
    if not isinstance(hint, types.UnionType):
        return hint, False
    return next(arg for arg in get_args(hint) if arg is not types.NoneType), True


# ------------------------------------------------------------------------------------------------------------- reading


def decode_entity(entity_type: type, frame: Frame, position: int) -> tuple[Entity, int]:
    """Decode the entity at `position`. Return it and the position after it.

    The caller must be wrapped by primitives.decodes.
    """
    return entity_reader(entity_type)(frame, position)


@functools.cache
def entity_reader(entity_type: type) -> Reader:
    """Return the cached function that decodes an entity of a kio class."""
    flexible: bool = entity_type.__flexible__  # type: ignore[attr-defined]
    plain: list[tuple[str, Reader]] = []
    by_tag: dict[int, tuple[str, Reader]] = {}
    required = frozenset(
        shapes(entity_type)[field.name].tag
        for field in dataclasses.fields(entity_type)
        if "tag" in field.metadata and field.default is dataclasses.MISSING
    )
    for name, shape in shapes(entity_type).items():
        if shape.tag is None:
            plain.append((name, _field_reader(shape, flexible)))
        else:
            by_tag[shape.tag] = (name, _field_reader(shape._replace(is_nullable=False), flexible))

    def read(frame: Frame, position: int) -> tuple[Entity, int]:
        values = {}
        for name, read_field in plain:
            values[name], position = read_field(frame, position)
        if flexible:
            tags, position = read_tagged(frame, position)
            for tag, data in tags.items():
                if tag in by_tag:
                    name, read_field = by_tag[tag]
                    values[name], end = read_field(data, 0)
                    if end != len(data):
                        raise PeerViolation(f"tagged field {tag} claims {len(data)} bytes, but its value has {end}")
            if not required.issubset(tags):
                raise PeerViolation(f"{entity_type.__name__} lacks a required tagged field")
        return entity_type(**values), position

    return read


def _field_reader(shape: Shape, flexible: bool) -> Reader:
    if shape.entity is not None:
        read_item, item_bytes = entity_reader(shape.entity), least_bytes(shape.entity)
    else:
        assert shape.kafka_type is not None
        item_nullable = shape.is_nullable and not shape.is_array
        read_item = _primitive_reader(shape.kafka_type, flexible, item_nullable)
        item_bytes = _least_bytes_of_primitive(shape.kafka_type, flexible)
    if shape.is_array:
        return _array_reader(read_item, flexible, shape.is_nullable, item_bytes)
    return _nullable_reader(read_item) if shape.entity is not None and shape.is_nullable else read_item


def _nullable_reader(read_entity: Reader) -> Reader:
    """Return a reader for a nullable structure, which follows a byte: -1 for null, 1 otherwise (KIP-893)."""

    def read(frame: Frame, position: int) -> tuple[Any, int]:
        is_there = INT8.unpack_from(frame, position)[0] >= 0
        return read_entity(frame, position + 1) if is_there else (None, position + 1)

    return read


def _array_reader(read_item: Reader, flexible: bool, is_nullable: bool, item_bytes: int) -> Reader:
    def read(frame: Frame, position: int) -> tuple[tuple[Any, ...] | None, int]:
        count, position = read_count(frame, position, flexible, item_bytes, nullable=is_nullable)
        if count < 0:
            return None, position
        items = []
        for _ in counted(count):
            item, position = read_item(frame, position)
            items.append(item)
        return array(items), position

    return read


def _fixed_reader(struct: Struct, convert: Callable[[Any], Any] | None = None) -> Reader:
    unpack, size = struct.unpack_from, struct.size

    def read(frame: Frame, position: int) -> tuple[Any, int]:
        return unpack(frame, position)[0], position + size

    def read_converted(frame: Frame, position: int) -> tuple[Any, int]:
        assert convert is not None
        return convert(unpack(frame, position)[0]), position + size

    return read if convert is None else read_converted


SHORTEST_MS, LONGEST_MS = timedelta.min // ONE_MS, timedelta.max // ONE_MS


def _milliseconds_to_timedelta(value: int) -> timedelta:
    # A timedelta cannot hold 64 bits of milliseconds, which clients send to mean "for ever".
    return timedelta(milliseconds=max(SHORTEST_MS, min(value, LONGEST_MS)))


def _read_records(frame: Frame, position: int, flexible: bool) -> tuple[bytes, int]:
    size, position = read_length(frame, position, flexible)
    end = position + max(size, 0)
    return bytes(memoryview(frame)[position:end]), end


def _read_bytes(frame: Frame, position: int, flexible: bool) -> tuple[bytes, int]:
    data, position = _read_nullable_bytes(frame, position, flexible)
    if data is None:
        raise PeerViolation("a non-nullable bytes field is null")
    return data, position


def _read_nullable_bytes(frame: Frame, position: int, flexible: bool) -> tuple[bytes | None, int]:
    size, position = read_length(frame, position, flexible)
    if size < 0:
        return None, position
    return bytes(memoryview(frame)[position : position + size]), position + size


def _read_id(frame: Frame, position: int) -> tuple[UUID | None, int]:
    value, position = read_uuid(frame, position)
    return (None if value == NO_ID else value), position


def _milliseconds_to_datetime(milliseconds: int) -> datetime:
    try:
        return EPOCH + _milliseconds_to_timedelta(milliseconds)
    except OverflowError:
        raise PeerViolation(f"the timestamp {milliseconds} ms is out of range") from None


_FIXED: Final[dict[str, tuple[Struct, Callable[[Any], Any] | None]]] = {
    "bool": (BOOL, None),
    "int8": (INT8, None),
    "int16": (INT16, None),
    "int32": (INT32, None),
    "int64": (INT64, None),
    "uint16": (UINT16, None),
    "error_code": (INT16, error_of),
    "timedelta_i32": (INT32, _milliseconds_to_timedelta),
    "timedelta_i64": (INT64, _milliseconds_to_timedelta),
    "datetime_i64": (INT64, _milliseconds_to_datetime),
    "float64": (FLOAT64, None),
}


def _primitive_reader(kafka_type: str, flexible: bool, is_nullable: bool) -> Reader:
    if kafka_type in _FIXED:
        return _fixed_reader(*_FIXED[kafka_type])
    match kafka_type:
        case "string":
            read_value = read_string if is_nullable else read_text
            return lambda frame, position: read_value(frame, position, flexible)
        case "uuid":
            return _read_id
        case "records":
            return lambda frame, position: _read_records(frame, position, flexible)
        case "bytes":
            read_data = _read_nullable_bytes if is_nullable else _read_bytes
            return lambda frame, position: read_data(frame, position, flexible)
    raise NotImplementedError(f"fields of type {kafka_type} are not supported")


@functools.cache
def least_bytes(entity_type: type) -> int:
    """Return the smallest number of bytes that an entity of this class can take. It limits the counts of arrays."""
    flexible: bool = entity_type.__flexible__  # type: ignore[attr-defined]
    total = 1 if flexible else 0
    for shape in shapes(entity_type).values():
        if shape.tag is not None:
            continue
        if shape.is_array:
            total += 1 if flexible else 4
        elif shape.entity is not None:
            total += 1 if shape.is_nullable else least_bytes(shape.entity)
        else:
            assert shape.kafka_type is not None
            total += _least_bytes_of_primitive(shape.kafka_type, flexible)
    return total


def _least_bytes_of_primitive(kafka_type: str, flexible: bool) -> int:
    if kafka_type in _FIXED:
        return _FIXED[kafka_type][0].size
    if kafka_type == "uuid":
        return 16
    if kafka_type in ("records", "bytes"):
        return 1 if flexible else 4
    return 1 if flexible else 2


# ------------------------------------------------------------------------------------------------------------- writing


def encode_entity(entity: Entity) -> bytes:
    """Return the body of a message: all bytes after its header."""
    entity_type: type = type(entity)
    return entity_writer(entity_type)(entity)


@functools.cache
def entity_writer(entity_type: type) -> Writer:
    """Return the cached function that encodes an entity of a kio class."""
    flexible: bool = entity_type.__flexible__  # type: ignore[attr-defined]
    of_answer = is_of_answer(entity_type)
    plain: list[tuple[str, Writer]] = []
    by_tag: list[tuple[int, str, Writer, Any]] = []
    defaults = {field.name: field.default for field in dataclasses.fields(entity_type)}
    for name, shape in shapes(entity_type).items():
        if shape.tag is None:
            plain.append((name, _field_writer(shape, flexible, of_answer=of_answer)))
        else:
            # A tagged field that has its default is left out, so null never has to be written.
            writer = _field_writer(shape._replace(is_nullable=False), flexible, of_answer=of_answer)
            by_tag.append((shape.tag, name, writer, defaults[name]))

    def write(entity: Entity) -> bytes:
        if entity.__class__ is bytes:
            return entity  # Already encoded by cold.encode_answer.
        parts = [write_field(getattr(entity, name)) for name, write_field in plain]
        if by_tag:
            parts.append(
                tagged(
                    {
                        tag: write_field(getattr(entity, name))
                        for tag, name, write_field, default in by_tag
                        if getattr(entity, name) != default
                    }
                )
            )
        elif flexible:
            parts.append(NO_TAGS)
        return b"".join(parts)

    return write


def is_of_answer(entity_type: type) -> bool:
    """Return True if the class belongs to a response, as a whole or as a structure in it.

    In responses, long strings are cut and arrays are encoded in slices (cluster.slices); requests are not sliced.
    """
    return entity_type.__module__.endswith("response")


def _field_writer(shape: Shape, flexible: bool, *, of_answer: bool) -> Writer:
    if shape.entity is not None:
        write_item = entity_writer(shape.entity)
    else:
        assert shape.kafka_type is not None
        write_item = _primitive_writer(shape.kafka_type, flexible, of_answer=of_answer)
    if shape.is_array:
        return _array_writer(write_item, flexible, of_answer=of_answer)
    return _nullable_writer(write_item) if shape.entity is not None and shape.is_nullable else write_item


def _nullable_writer(write_entity: Writer) -> Writer:
    return lambda entity: b"\xff" if entity is None else b"\x01" + write_entity(entity)


def _array_writer(write_item: Writer, flexible: bool, *, of_answer: bool) -> Writer:
    def write(items: tuple[Any, ...] | None) -> bytes:
        if items is None:
            return length(-1, flexible)
        return b"".join([length(len(items), flexible), *map(write_item, paced(items) if of_answer else items)])

    return write


def _primitive_writer(kafka_type: str, flexible: bool, *, of_answer: bool) -> Writer:
    match kafka_type:
        case "timedelta_i32":
            pack = INT32.pack
            return lambda value: pack(value // ONE_MS)
        case "timedelta_i64":
            pack_long = INT64.pack
            return lambda value: pack_long(value // ONE_MS)
        case "datetime_i64":
            pack_time = INT64.pack
            return lambda value: pack_time((value - EPOCH) // ONE_MS)
        case "string":
            if of_answer:
                return lambda value: string(cut_text(value), flexible)
            return lambda value: string(value, flexible)
        case "uuid":
            return lambda value: (value or NO_ID).bytes
        case "records":
            return lambda value: length(len(value), flexible) + value
        case "bytes":
            null = length(-1, flexible)
            return lambda value: null if value is None else length(len(value), flexible) + value
    return _FIXED[kafka_type][0].pack


# -------------------------------------------------------------------------------------------------- from plain values


def _without_default(entity_type: type) -> Iterator[tuple[str, Shape]]:
    for field in dataclasses.fields(entity_type):
        if field.default is dataclasses.MISSING:
            yield field.name, shapes(entity_type)[field.name]


def implicit_default(shape: Shape) -> Any:
    """Return the value of an unset field, as in Kafka's message classes: null if nullable, else empty or zero."""
    if shape.is_nullable:
        return None
    if shape.is_array:
        return ()
    if shape.entity is not None:
        return shape.entity(**{name: implicit_default(inner) for name, inner in _without_default(shape.entity)})
    match shape.kafka_type:
        case "string":
            return ""
        case "records" | "bytes":
            return b""
        case "bool":
            return False
        case "error_code":
            return ErrorCode.NONE
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(0)
        case "datetime_i64":
            return EPOCH
        case "float64":
            return 0.0
    return 0
