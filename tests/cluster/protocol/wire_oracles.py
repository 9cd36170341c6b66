"""The same messages through other people's codecs: kio's own reader and writer, and kafka-python."""

from __future__ import annotations

import io
from typing import Any

from kafka.protocol.api_message import ApiMessage
from kio.serial import entity_reader, entity_writer
from kio.static.protocol import Entity

from cluster.protocol import versions
from cluster.protocol.cold import make, request_class, response_class


def kio_body(entity: Entity) -> bytes:
    """Body as kio writes it."""
    with io.BytesIO() as out:
        entity_writer(type(entity))(out, entity)
        return out.getvalue()


def kio_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Request header as kio writes it."""
    request: Any = request_class(api_key, version)
    cls = request.__header_schema__
    fields = {"request_api_key": api_key, "request_api_version": version}
    return kio_body(cls(**fields, correlation_id=correlation_id, client_id=client_id))


def kio_request(api_key: int, version: int, correlation_id: int, client_id: str | None, **fields: Any) -> bytes:
    """A whole request as kio writes it, without size prefix. Fields that the version lacks are dropped."""
    entity = make(request_class(api_key, version), **fields)
    return kio_header(api_key, version, correlation_id, client_id) + kio_body(entity)


def kio_response(api_key: int, version: int, correlation_id: int, **fields: Any) -> bytes:
    """A whole response as kio writes it, without size prefix."""
    cls: Any = response_class(api_key, version)
    header = kio_body(cls.__header_schema__(correlation_id=correlation_id))
    return header + kio_body(make(cls, **fields))


def kio_decoded(entity_type: type, body: bytes) -> Entity:
    """Entity as kio reads it; it must use up the body."""
    entity, size = entity_reader(entity_type)(body, 0)
    assert size == len(body)
    return entity


def kafka_python(message: type[ApiMessage], version: int, frame: bytes) -> tuple[dict[str, Any], bytes]:
    """The message that kafka-python reads from a frame without size prefix, and the frame as it would write it."""
    decoded = message.decode(frame, version=version, header=True)
    return decoded.to_dict(json=False), bytes(decoded.encode(header=True))


def served(api_key: int) -> range:
    """All versions that we speak."""
    low, high = versions.VERSIONS[api_key]
    return range(low, high + 1)
