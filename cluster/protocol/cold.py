"""Encoding and decoding of every API but Produce and Fetch, with the message classes of the package kio.

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
    answer.topics[0].error_code is ErrorCode.NONE                               # ErrorCode of replica.errors
    milliseconds(answer.throttle_time)                                          # durations are timedeltas, no `_ms`

Fields are plain values: ints (durations and times in ms), str, bool, UUID (or its text, None for "no id"), ErrorCode,
and for nested structures dicts or entities, in any sequence. The default of a field is null where that is allowed,
else empty or zero, as in Kafka's own message classes. A field that this version lacks is dropped, so that one call
serves all versions. A name that no version has raises a TypeError that lists the fields.

kio's name of a field is Kafka's in snake case, for durations without `Ms` (`timeout_ms` -> `timeout`, `throttle_time`).
To list them: `python -c "from cluster.protocol.cold import *; print(field_names(request_class(56, 3)))"`.

A response that is sent many times may be encoded once, with `encode_body`, and framed with `versions.response_frame`.
Message classes are imported when first used, which takes about 2 ms each.
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
    LATEST_IN_KIO,
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
    """Return kio's class for requests of this API and version."""
    return _load(api_key, version, "Request")


def response_class(api_key: int, version: int) -> type:
    """Return kio's class for responses of this API and version."""
    return _load(api_key, version, "Response")


@functools.cache
def _load(api_key: int, version: int, kind: str) -> type:
    low, high = VERSIONS[api_key]
    if not low <= version <= high:
        raise ValueError(
            f"{api_name(api_key)} version {version} is not supported; supported versions are {low} to {high}"
        )
    name = api_name(api_key)
    if api_key in CONTROL_PLANE:
        from cluster.protocol.zookeeper_era import message_class

        return message_class(api_key, kind)
    latest = LATEST_IN_KIO.get(api_key, version)
    package = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    with _without_hypothesis():
        if version > latest:
            newer = importlib.import_module(f"cluster.protocol.newer.{kind.lower()}")
            if hasattr(newer, name + kind):
                return cast(type, getattr(newer, name + kind))
        module = importlib.import_module(f"kio.schema.{package}.v{min(version, latest)}.{kind.lower()}")
    return cast(type, getattr(module, name + kind))


@contextmanager
def _without_hypothesis() -> Iterator[None]:
    """Keep kio from importing hypothesis, which it does not need but imports wherever it is installed.

    The import takes half a second and creates `.hypothesis/` in the current directory. If hypothesis is already loaded,
    as in tests, it stays loaded.
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
    """Create a request from plain values, as the module's docstring describes."""
    return make(request_class(api_key, version), **fields)


def response(api_key: int, version: int, /, **fields: object) -> Entity:
    """Create a response from plain values, as the module's docstring describes."""
    return make(response_class(api_key, version), **fields)


def make(_class: type, /, **fields: object) -> Entity:
    """Create an instance of one of kio's classes from plain values, as the module's docstring describes."""
    converters = _converters(_class)
    values = dict(_defaults(_class))
    for name, value in fields.items():
        if name in converters:
            convert = converters[name]
            values[name] = value if convert is None else convert(value)
        elif not _exists_in_another_version(_class, name):
            raise TypeError(f"{_class.__name__} has no field {name}; its fields are {', '.join(converters)}")
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
    """Return for each field the function that converts a plain value to kio's type; None if no conversion is needed."""
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
    """Return True if any version of the message has this field."""
    api_key: int = entity_type.__api_key__  # type: ignore[attr-defined]
    if api_key in CONTROL_PLANE:
        return False  # Each of these APIs has one version.
    kind = entity_type.__module__.rpartition(".")[2].capitalize()
    low, high = VERSIONS[api_key]
    for version in range(high, low - 1, -1):
        module = importlib.import_module(_load(api_key, version, kind).__module__)
        other = getattr(module, entity_type.__name__, None)
        if other is not None and name in shapes(other):
            return True
    return False


def field_names(entity_type: type) -> dict[str, object]:
    """Return the field names of a class with their wire types; a nested class is a dict of its own fields."""
    return {
        name: shape.kafka_type if shape.entity is None else field_names(shape.entity)
        for name, shape in shapes(entity_type).items()
    }


def milliseconds(duration: timedelta) -> int:
    """Return the milliseconds of a duration field."""
    return duration // ONE_MS


# ------------------------------------------------------------------------------------------------------------- encoding


def encode_body(entity: Entity) -> bytes:
    """Return the body of a message, without header and size (see versions.request_frame, versions.response_frame)."""
    return encode_entity(entity)


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str | None, entity: Entity) -> bytes:
    """Return a whole request frame with its size prefix."""
    return request_frame(api_key, version, correlation_id, client_id, encode_entity(entity))


def encode_response(api_key: int, version: int, correlation_id: int, entity: Entity) -> bytes:
    """Return a whole response frame with its size prefix."""
    return response_frame(api_key, version, correlation_id, encode_entity(entity))


def decode_request(header: RequestHeader, frame: Frame) -> Entity:
    """Decode a request frame without size prefix.

    Trailing bytes are ignored, as in Kafka: librdkafka leaves three bytes behind some Metadata requests.

    Raises:
        PeerViolation: if the frame is malformed.
    """
    is_short = header.api_key in FORWARDED or header.api_key == DESCRIBE_CONFIGS
    return _decode_short(header, frame) if is_short else _decode_request(header, frame)


def _read_request(header: RequestHeader, frame: Frame) -> Entity:
    return _decode(frame, request_class(header.api_key, header.api_version), header.body_position)[0]


_decode_short = reads_request(MAX_DECIDED)(_read_request)
_decode_request = reads_request(MAX_ITEMS)(_read_request)


def encode_answer(api_key: int, version: int, correlation_id: int, fields: Mapping[str, object]) -> bytes:
    """Return a whole response frame with its size prefix. Lists of structures may be iterators.

    Their items are encoded one by one, so that they need little memory.

    Args:
        fields: plain values by field name.
    """
    entity_type = response_class(api_key, version)
    written = dict(fields)
    for name, item_type in _structures_of(entity_type):
        items = fields.get(name)
        if items is not None:
            assert isinstance(items, Iterable), "the value of an array field is not a list"
            written[name] = tuple(
                encode_entity(make(item_type, **item) if isinstance(item, dict) else item) for item in paced(items)
            )
    return encode_response(api_key, version, correlation_id, make(entity_type, **written))


@functools.cache
def _structures_of(entity_type: type) -> list[tuple[str, type]]:
    """Return the name and the item class of each field that is an array of structures."""
    return [
        (name, shape.entity)
        for name, shape in shapes(entity_type).items()
        if shape.is_array and shape.entity is not None and shape.tag is None
    ]


def decode_response(api_key: int, version: int, frame: Frame) -> Entity:
    """Decode a response frame without size prefix.

    Raises:
        PeerViolation: if the frame is malformed.
    """
    position = response_body_position(api_key, version, frame)
    entity, end = _decode(frame, response_class(api_key, version), position)
    check_consumed(frame, end)
    return entity


@decodes("a message")
def _decode(frame: Frame, entity_type: type, position: int) -> tuple[Entity, int]:
    return decode_entity(entity_type, frame, position)
