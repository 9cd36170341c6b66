"""Every API but Produce and Fetch: kio's generated message classes, built from and read as plain values.

    body = request(METADATA, 12, topics=[{"name": "orders"}], allow_auto_topic_creation=False)
    frame = encode_request(METADATA, 12, correlation_id, "p1", body)            # size prefix included

    header = read_request_header(frame)                                         # a broker; frame without prefix
    asked = decode_request(header, frame)
    asked.topics[0].name                                                        # attributes are kio's field names
    answer = response(METADATA, header.api_version, controller_id=1,
                      brokers=[{"node_id": 1, "host": "b1", "port": 9092}],
                      topics=[{"error_code": ErrorCode.NONE, "name": "orders", "partitions": [...]}])
    frame = encode_response(METADATA, header.api_version, header.correlation_id, answer)

    answer = decode_response(METADATA, 12, frame)                               # a client; frame without prefix
    answer.topics[0].error_code is ErrorCode.NONE                               # codes are ours: replica.errors
    milliseconds(answer.throttle_time)                                          # durations are timedeltas, no `_ms`

Fields are plain values: ints (durations and times in ms), str, bool, UUID (or its text, None for "no id"), ErrorCode,
and for nested structures dicts or entities, in any sequence. A field that is not given has its default: null where
that is allowed, else empty or zero, as in Kafka's own message classes. A field that this version lacks is dropped, so
one call serves all versions; a name that no version has is a TypeError that lists the fields there are.

kio's name of a field is Kafka's in snake case; of durations without `Ms` (`timeout_ms` -> `timeout`, `throttle_time`).
To see them: `python -c "from cluster.protocol.cold import *; print(field_names(request_class(56, 3)))"`.

An answer that goes out many times may be encoded once, with `encode_body`, and framed with `headers.response_frame`.
Message classes are imported when first used: one costs about 2 ms.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from cluster.protocol.entities import (
    EPOCH,
    ONE_MS,
    Entity,
    Shape,
    decode_entity,
    encode_entity,
    implicit_default,
    is_of_answer,
    shapes,
)
from cluster.protocol.primitives import Frame, check_consumed, decodes, error_of
from cluster.protocol.versions import (
    CONTROL_PLANE,
    DESCRIBE_CONFIGS,
    FORWARDED,
    VERSIONS,
    RequestHeader,
    api_name,
    request_frame,
    response_body_position,
    response_frame,
)
from cluster.slices import MAX_DECIDED, MAX_ITEMS, paced, reads_request

Converter = Callable[[Any], Any]


def request_class(api_key: int, version: int) -> type:
    """kio's class of a request."""
    return _load(api_key, version, "Request")


def response_class(api_key: int, version: int) -> type:
    """kio's class of a response."""
    return _load(api_key, version, "Response")


@functools.cache
def _load(api_key: int, version: int, kind: str) -> type:
    low, high = VERSIONS[api_key]
    if not low <= version <= high:
        raise ValueError(f"{api_name(api_key)} {version} is not spoken here, only {low} to {high}")
    name = api_name(api_key)
    if api_key in CONTROL_PLANE:
        return cast(
            type, getattr(importlib.import_module(f"cluster.protocol.zookeeper_era.{kind.lower()}"), name + kind)
        )
    package = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    with _without_hypothesis():
        module = importlib.import_module(f"kio.schema.{package}.v{version}.{kind.lower()}")
    return cast(type, getattr(module, name + kind))


@contextmanager
def _without_hypothesis() -> Iterator[None]:
    """kio imports hypothesis wherever it is installed, to register strategies for its types; it does without, too.

    That costs half a second and leaves `.hypothesis/` in the current directory. Tests that have it loaded keep it.
    """
    if "hypothesis" in sys.modules:
        yield
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # Python's own way to make an import fail
    try:
        yield
    finally:
        del sys.modules["hypothesis"]


# ------------------------------------------------------------------------------------------------------------- building


def request(api_key: int, version: int, /, **fields: object) -> Entity:
    """A request of plain values; see the module's docstring."""
    return make(request_class(api_key, version), **fields)


def response(api_key: int, version: int, /, **fields: object) -> Entity:
    """A response of plain values; see the module's docstring."""
    return make(response_class(api_key, version), **fields)


def make(_class: type, /, **fields: object) -> Entity:
    """An entity of one of kio's classes, of plain values; see the module's docstring."""
    converters = _converters(_class)
    values = dict(_defaults(_class))
    for name, value in fields.items():
        if name in converters:
            convert = converters[name]
            values[name] = value if convert is None else convert(value)
        elif not _exists_in_another_version(_class, name):
            raise TypeError(f"{_class.__name__} has no field {name}, only {', '.join(converters)}")
    return _class(**values)


@functools.cache
def _defaults(entity_type: type) -> dict[str, Any]:
    return {
        field.name: implicit_default(shapes(entity_type)[field.name])
        for field in dataclasses.fields(entity_type)
        if field.default is dataclasses.MISSING
    }


@functools.cache
def _converters(entity_type: type) -> dict[str, Converter | None]:
    """How each field's plain value becomes kio's; None where it is the same. Metadata is made often."""
    of_answer = is_of_answer(entity_type)
    return {name: _converter(shape, of_answer=of_answer) for name, shape in shapes(entity_type).items()}


def _converter(shape: Shape, *, of_answer: bool) -> Converter | None:
    item = _item_converter(shape)
    if not shape.is_array:
        return item

    def convert(values: Any) -> Any:
        if values is None:
            return None
        if item is None:
            return tuple(values)
        return tuple(map(item, paced(values) if of_answer else values))

    return convert


def _item_converter(shape: Shape) -> Converter | None:
    if shape.entity is not None:
        entity_type = shape.entity
        return lambda value: make(entity_type, **value) if isinstance(value, dict) else value
    match shape.kafka_type:
        case "timedelta_i32" | "timedelta_i64":
            return lambda value: value if isinstance(value, timedelta) else timedelta(milliseconds=value)
        case "datetime_i64":
            return lambda value: EPOCH + timedelta(milliseconds=value) if isinstance(value, int) else value
        case "uuid":
            return lambda value: UUID(value) if isinstance(value, str) else value
        case "error_code":
            return error_of
    return None


@functools.cache
def _exists_in_another_version(entity_type: type, name: str) -> bool:
    """True if a field is spelled right and only this version lacks it."""
    api_key: int = entity_type.__api_key__  # type: ignore[attr-defined]
    kind = entity_type.__module__.rpartition(".")[2].capitalize()
    low, high = VERSIONS[api_key]
    for version in range(high, low - 1, -1):
        module = importlib.import_module(_load(api_key, version, kind).__module__)
        other = getattr(module, entity_type.__name__, None)
        if other is not None and name in shapes(other):
            return True
    return False


def field_names(entity_type: type) -> dict[str, object]:
    """Fields of a class with their wire types, nested ones as dicts: what `make` takes."""
    return {
        name: shape.kafka_type if shape.entity is None else field_names(shape.entity)
        for name, shape in shapes(entity_type).items()
    }


def milliseconds(duration: timedelta) -> int:
    """A duration field as Kafka's number."""
    return duration // ONE_MS


# ------------------------------------------------------------------------------------------------------------- encoding


def encode_body(entity: Entity) -> bytes:
    """Body alone, to be framed later (headers.request_frame, headers.response_frame)."""
    return encode_entity(entity)


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str | None, entity: Entity) -> bytes:
    """A whole request frame, size prefix included."""
    return request_frame(api_key, version, correlation_id, client_id, encode_entity(entity))


def encode_response(api_key: int, version: int, correlation_id: int, entity: Entity) -> bytes:
    """A whole response frame, size prefix included."""
    return response_frame(api_key, version, correlation_id, encode_entity(entity))


def decode_request(header: RequestHeader, frame: Frame) -> Entity:
    """Request of a frame without size prefix. raises: PeerViolation

    Trailing bytes are ignored, as in Kafka: librdkafka leaves three bytes behind some Metadata requests.
    """
    is_short = header.api_key in FORWARDED or header.api_key == DESCRIBE_CONFIGS
    return _decode_short(header, frame) if is_short else _decode_request(header, frame)


def _read_request(header: RequestHeader, frame: Frame) -> Entity:
    return _decode(frame, request_class(header.api_key, header.api_version), header.body_position)[0]


_decode_short = reads_request(MAX_DECIDED)(_read_request)
_decode_request = reads_request(MAX_ITEMS)(_read_request)


def encode_answer(api_key: int, version: int, correlation_id: int, fields: Mapping[str, object]) -> bytes:
    """As `encode_response` of `response`, item by item: a list may be an iterator, and is not kept beside its bytes."""
    entity_type = response_class(api_key, version)
    written = dict(fields)
    for name, item_type in _structures_of(entity_type):
        items = fields.get(name)
        if items is not None:
            assert isinstance(items, Iterable), "a list of structures"
            written[name] = tuple(
                encode_entity(make(item_type, **item) if isinstance(item, dict) else item) for item in paced(items)
            )
    return encode_response(api_key, version, correlation_id, make(entity_type, **written))


@functools.cache
def _structures_of(entity_type: type) -> list[tuple[str, type]]:
    """Fields that are arrays of structures."""
    return [
        (name, shape.entity)
        for name, shape in shapes(entity_type).items()
        if shape.is_array and shape.entity is not None and shape.tag is None
    ]


def decode_response(api_key: int, version: int, frame: Frame) -> Entity:
    """Response of a frame without size prefix. raises: PeerViolation"""
    position = response_body_position(api_key, version, frame)
    entity, end = _decode(frame, response_class(api_key, version), position)
    check_consumed(frame, end)
    return entity


@decodes("a message")
def _decode(frame: Frame, entity_type: type, position: int) -> tuple[Entity, int]:
    return decode_entity(entity_type, frame, position)
