"""Encodes and decodes the parts of all Kafka messages: varints, strings, array counts, tagged fields.

Readers take `(frame, position)` and return `(value, next position)`; writers return bytes. `flexible` chooses between
the two generations of the protocol (KIP-482): an older message has fixed-width lengths, a flexible one has unsigned
varints holding length + 1 (0 means null) and a tagged section after every structure.

    >>> read_string(b"\\x03hi", 0, flexible=True)
    ('hi', 3)
    >>> string("hi", flexible=False)
    b'\\x00\\x02hi'
    >>> tagged({1: b"x"})               # one field: number 1, one byte long
    b'\\x01\\x01\\x01x'

A decoder is wrapped in `decodes`, so every error that a hostile frame causes is a `PeerViolation`. Python does not
report two such errors, so readers check for them: a slice past the end of the frame, which is merely short
(`read_string`, `take`), and a count that is too large for the remaining bytes (`read_count`).
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Concatenate, ParamSpec, TypeVar
from uuid import UUID

from cluster.slices import counted
from replica.errors import ErrorCode, PeerViolation

Frame = bytes | bytearray | memoryview

INT8 = Struct(">b")
INT16 = Struct(">h")
INT32 = Struct(">i")
INT64 = Struct(">q")

MAX_INT32 = 2**31 - 1
MAX_TEXT_BYTES = 2**15 - 1
"""The maximum size of a string in bytes, even if its length field allows more. Source: MessageDataGenerator"""
MAX_ARRAY_ITEMS, MAX_TAGGED_FIELDS = 1_000_000, 10_000
"""The limits of arrays and tagged fields in the generated message classes of Kafka 4.4."""
NO_TAGS = b"\x00"

_ERROR_CODES = {int(code): code for code in ErrorCode}

P = ParamSpec("P")
T = TypeVar("T")
First = TypeVar("First")


def decodes(what: str) -> Callable[[Callable[Concatenate[First, P], T]], Callable[Concatenate[First, P], T]]:
    """Return a decorator for decoders.

    Truncated data and invalid UTF-8 then raise a PeerViolation that names `what`.
    """

    def decorate(decode: Callable[Concatenate[First, P], T]) -> Callable[Concatenate[First, P], T]:
        @functools.wraps(decode)
        def wrapped(first: First, /, *args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return decode(first, *args, **kwargs)
            except (IndexError, struct.error):
                raise PeerViolation(f"{what} is cut short") from None
            except UnicodeDecodeError:
                raise PeerViolation(f"{what} contains text that is not UTF-8") from None

        return wrapped

    return decorate


# ------------------------------------------------------------------------------------------------------------- readers


def read_uvarint(frame: Frame, position: int) -> tuple[int, int]:
    """Decode an unsigned varint of at most 31 bits, in at most five bytes. Source: ByteUtils.readUnsignedVarint"""
    byte = frame[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value, shift = byte & 0x7F, 7
    while True:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise PeerViolation("a varint is longer than five bytes")
    if value > MAX_INT32:
        raise PeerViolation(f"a length of {value} does not fit into 31 bits")
    return value, position


def read_length(frame: Frame, position: int, flexible: bool) -> tuple[int, int]:
    """Decode the length in bytes of a records or bytes field; -1 is null."""
    if flexible:
        length, position = read_uvarint(frame, position)
        length -= 1
    else:
        (length,) = INT32.unpack_from(frame, position)
        position += 4
    if length < -1 or position + length > len(frame):
        raise PeerViolation(f"a field claims {length} bytes, but only {len(frame) - position} are left")
    return length, position


def read_count(
    frame: Frame, position: int, flexible: bool, item_bytes: int, *, nullable: bool = False
) -> tuple[int, int]:
    """Decode the number of items in an array; -1 is null, which is an error unless `nullable`.

    Args:
        item_bytes: smallest number of bytes that one item can take, at least 1.
    """
    if flexible:
        if (byte := frame[position]) < 0x80:  # the usual case
            count, position = byte - 1, position + 1
        else:
            count, position = read_uvarint(frame, position)
            count -= 1
    else:
        (count,) = INT32.unpack_from(frame, position)
        position += 4
    if 0 <= count <= MAX_ARRAY_ITEMS and count * item_bytes <= len(frame) - position:
        return count, position
    if count == -1:
        if nullable:
            return count, position
        raise PeerViolation("a non-nullable array is null")
    if count > MAX_ARRAY_ITEMS:
        raise PeerViolation(f"an array claims {count} items; at most {MAX_ARRAY_ITEMS} are allowed")
    raise PeerViolation(f"an array claims {count} items, but only {len(frame) - position} bytes are left")


def read_string(frame: Frame, position: int, flexible: bool) -> tuple[str | None, int]:
    """Decode a nullable UTF-8 string."""
    if flexible:
        if (byte := frame[position]) < 0x80:  # the usual case
            length, position = byte - 1, position + 1
        else:
            length, position = read_uvarint(frame, position)
            length -= 1
    else:
        (length,) = INT16.unpack_from(frame, position)
        position += 2
    if length < 0:
        if length < -1:
            raise PeerViolation(f"a string has the negative length {length}")
        return None, position
    end = position + length
    if length > MAX_TEXT_BYTES:
        raise PeerViolation(f"a string has {length} bytes; at most {MAX_TEXT_BYTES} are allowed")
    if end > len(frame):
        raise PeerViolation(f"a string claims {length} bytes, but only {len(frame) - position} are left")
    return str(frame[position:end], "utf-8"), end


def read_text(frame: Frame, position: int, flexible: bool) -> tuple[str, int]:
    """Decode a string that must not be null."""
    text, position = read_string(frame, position, flexible)
    if text is None:
        raise PeerViolation("a non-nullable string is null")
    return text, position


def error_of(code: int) -> ErrorCode:
    """Return the error code with this number; UNKNOWN_SERVER_ERROR if it is not in ErrorCode. Source: Errors.forCode"""
    return _ERROR_CODES.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)


def take(frame: Frame, position: int, length: int) -> tuple[bytes, int]:
    """Return a copy of exactly `length` bytes, and the next position."""
    end = position + length
    if end > len(frame):
        raise PeerViolation(f"a field claims {length} bytes, but only {len(frame) - position} are left")
    return bytes(frame[position:end]), end


@functools.lru_cache(maxsize=1024)
def _uuid_of(data: bytes) -> UUID:
    # Building a UUID costs more than the rest of a topic's header, and a cluster has few topics.
    return UUID(bytes=data)


def read_uuid(frame: Frame, position: int) -> tuple[UUID, int]:
    """Decode a topic id; all zeros mean that there is no id."""
    end = position + 16
    if end > len(frame):
        raise PeerViolation(f"a topic id takes 16 bytes, but only {len(frame) - position} are left")
    return _uuid_of(bytes(frame[position:end])), end


def read_tagged(frame: Frame, position: int) -> tuple[dict[int, bytes], int]:
    """Decode the tagged section at the end of a flexible structure. Return its values, still encoded, by tag."""
    if frame[position] == 0:
        return {}, position + 1
    count, position = read_uvarint(frame, position)
    if count > MAX_TAGGED_FIELDS:
        raise PeerViolation(f"a structure claims {count} tagged fields; at most {MAX_TAGGED_FIELDS} are allowed")
    fields: dict[int, bytes] = {}
    for _ in range(count):  # Each iteration reads two bytes or more, or raises at the end of the frame.
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        fields[tag], position = take(frame, position, size)
    return fields, position


def skip_tagged(frame: Frame, position: int) -> int:
    """Return the position after a tagged section, ignoring its fields."""
    if frame[position] == 0:
        return position + 1
    return read_tagged(frame, position)[1]


def check_consumed(frame: Frame, position: int) -> None:
    """Check that the body of a response ends where its frame ends.

    Kafka's clients ignore surplus bytes. Here they raise PeerViolation, because they show that client and broker
    disagree about the layout. In requests, brokers ignore surplus bytes, as Kafka's do.
    """
    if position != len(frame):
        raise PeerViolation(f"{len(frame) - position} bytes of the message are left over after its last field")


# ------------------------------------------------------------------------------------------------------------- writers


_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def length(value: int, flexible: bool) -> bytes:
    """Encode the length of a bytes field or the count of an array; -1 is null."""
    if not flexible:
        return INT32.pack(value)
    return _ONE_BYTE[value + 1] if value < 0x7F else uvarint(value + 1)


def string(text: str | None, flexible: bool) -> bytes:
    """Encode a nullable string."""
    if text is None:
        return b"\x00" if flexible else b"\xff\xff"
    return _string(text, flexible) if len(text) > REMEMBERED_TEXT_MAX else _remembered_string(text, flexible)


def _string(text: str, flexible: bool) -> bytes:
    data = text.encode()
    return (uvarint(len(data) + 1) if flexible else INT16.pack(len(data))) + data


_remembered_string = functools.lru_cache(maxsize=1024)(_string)
REMEMBERED_TEXT_MAX = 256


def cut_text(text: str | None) -> str | None:
    """Cut a text in a response to MAX_TEXT_BYTES. Error messages may quote names that are almost that long."""
    if text is None or len(text) <= MAX_TEXT_BYTES // 4 or len(data := text.encode()) <= MAX_TEXT_BYTES:
        return text
    return data[:MAX_TEXT_BYTES].decode(errors="ignore")


def tagged(fields: Mapping[int, bytes]) -> bytes:
    """Encode a tagged section, in ascending order of the tags."""
    if not fields:
        return NO_TAGS
    parts = [uvarint(len(fields))]
    for tag in sorted(fields):
        parts += (uvarint(tag), uvarint(len(fields[tag])), fields[tag])
    return b"".join(parts)


# --------------------------------------------------------------------------------------------------------------- topics
#
# The common form of requests and responses of Produce and Fetch: topics, each with its partitions' entries.


Topic = str | UUID
"""A topic's name, or in later versions its id (KIP-516)."""

Partitions = TypeVar("Partitions")


def encode_topic(topic: Topic, *, by_id: bool, flexible: bool) -> bytes:
    """Encode a topic's id or name, as the version of the message requires."""
    if by_id:
        assert isinstance(topic, UUID), f"this version names topics by id, not by {topic!r}"
        return topic.bytes
    assert isinstance(topic, str), f"this version names topics by name, not by {topic!r}"
    return string(topic, flexible)


def read_by_topic(
    frame: Frame,
    position: int,
    version: int,
    flexible: bool,
    by_id: bool,
    read_partitions: Callable[[Frame, int, int], tuple[Partitions, int]],
) -> tuple[list[tuple[Topic, Partitions]], int]:
    """Decode topics with their partitions. The caller must be wrapped by primitives.decodes.

    Args:
        by_id: True if this version has topic ids instead of names.
        read_partitions: decodes one topic's partitions from (frame, position, version), and also returns the next
            position.
    """
    count, position = read_count(frame, position, flexible, 2)
    topics: list[tuple[Topic, Partitions]] = []
    topic: Topic
    for _ in counted(count):
        topic, position = read_uuid(frame, position) if by_id else read_text(frame, position, flexible)
        partitions, position = read_partitions(frame, position, version)
        if flexible:
            position = position + 1 if frame[position] == 0 else skip_tagged(frame, position)
        topics.append((topic, partitions))
    return topics, position
