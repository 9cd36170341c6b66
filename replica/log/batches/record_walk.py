"""The check that the records of a batch match its header.

Only data that a leader needs is extracted: the timestamps, and the indexes of records without a key. The work is
limited by the number of bytes, not by the record count in the header.

Source: DefaultRecord.readFrom, DefaultRecordBatch.RecordIterator, ByteUtils
"""

from __future__ import annotations

from replica.frozen import dataclass

VARINT_BYTES_MAX, VARLONG_BYTES_MAX = 5, 10
RECORD_BYTES_MIN = 7
"""Smallest record: size, attributes, time and offset delta, key and value length, header count, one byte each."""


HEADERS_MAX = 150_000
"""Limit for the headers of all records of one batch together. Differs from Kafka: Kafka has no limit."""


class MalformedRecords(Exception):
    """The error for bytes that are not the records that the batch header announces."""


class TooManyHeaders(Exception):
    """The error for a batch whose records have more than HEADERS_MAX headers."""


@dataclass(frozen=True, slots=True)
class Walked:
    """The result of `walk`: each record's timestamp delta in milliseconds, and the indexes of records without a key."""

    timestamp_deltas: list[int]
    keyless: list[int]


def walk(body: bytes, count: int) -> Walked:
    """Check that `body` consists of exactly `count` records with offset deltas 0, 1, 2, ...

    Differs from Kafka: Kafka checks neither the offset deltas in an uncompressed batch nor the record sizes in a
    compressed batch. Records with wrong values would share offsets, or no consumer could read them.

    Raises:
        MalformedRecords: if `body` has other content.
        TooManyHeaders: if the records have more than HEADERS_MAX headers.
    """
    if count > len(body) // RECORD_BYTES_MIN:
        raise MalformedRecords(f"{len(body)} bytes are too few for {count} records")
    deltas: list[int] = []
    keyless: list[int] = []
    position = headers = 0
    try:
        # This is the hot path of Produce: numbers of one or two bytes, as nearly all are, are decoded without a call.
        for index in range(count):
            number = body[position]
            position += 1
            if number > 127:
                more = body[position]
                if more > 127:
                    number, position = _number(body, position - 1, VARINT_BYTES_MAX)
                else:
                    number += (more << 7) - 128
                    position += 1
            end = position + (number >> 1) if not number & 1 else -1
            position += 1  # attributes: unused

            number = body[position]
            position += 1
            if number > 127:
                more = body[position]
                if more > 127:
                    number, position = _number(body, position - 1, VARLONG_BYTES_MAX)
                else:
                    number += (more << 7) - 128
                    position += 1
            deltas.append(~(number >> 1) if number & 1 else number >> 1)

            number = body[position]
            position += 1
            if number > 127:
                more = body[position]
                if more > 127:
                    number, position = _number(body, position - 1, VARINT_BYTES_MAX)
                else:
                    number += (more << 7) - 128
                    position += 1
            if number != index << 1:
                raise MalformedRecords(f"record {index} has the offset delta {_signed(number)}, not {index}")

            number = body[position]
            position += 1
            if number > 127:
                number, position = _number(body, position - 1, VARINT_BYTES_MAX)
            if number & 1:
                keyless.append(index)
            else:
                position += number >> 1

            number = body[position]
            position += 1
            if number > 127:
                more = body[position]
                if more > 127:
                    number, position = _number(body, position - 1, VARINT_BYTES_MAX)
                else:
                    number += (more << 7) - 128
                    position += 1
            if not number & 1:
                position += number >> 1

            if body[position]:
                count_here, position = _skip_headers(body, position, HEADERS_MAX - headers)
                headers += count_here
            else:
                position += 1
            if position != end:
                raise MalformedRecords(f"record {index} does not have the size in its length field")
    except IndexError as error:
        raise MalformedRecords(f"{len(body)} bytes are too few for {count} records") from error
    if position != len(body):
        raise MalformedRecords(f"{len(body) - position} bytes are left after the last of {count} records")
    return Walked(deltas, keyless)


def _skip_headers(body: bytes, position: int, most: int) -> tuple[int, int]:
    """Skip the headers of one record, and return their number and the position after them.

    Raises:
        IndexError: at the end of the body.
        TooManyHeaders: if there are more than `most`.
        MalformedRecords: if a header is invalid.
    """
    count, position = _number(body, position, VARINT_BYTES_MAX)
    if count & 1 or count >> 1 > len(body) - position:
        raise MalformedRecords(
            f"a record claims {_signed(count)} headers, but only {len(body) - position} bytes are left"
        )
    if count >> 1 > most:
        raise TooManyHeaders
    for _ in range(count >> 1):
        name_bytes, position = _number(body, position, VARINT_BYTES_MAX)
        if name_bytes & 1:
            raise MalformedRecords("a record header has no key")
        content_bytes, position = _number(body, position + (name_bytes >> 1), VARINT_BYTES_MAX)
        if not content_bytes & 1:
            position += content_bytes >> 1
    return count >> 1, position


def _number(body: bytes, position: int, bytes_max: int) -> tuple[int, int]:
    """Return the varint at `position`, still zig-zag encoded, and the next position.

    The varint may have more bytes than necessary, up to `bytes_max`. Bits beyond 32 or 64 are refused; Java drops them.
    """
    number = 0
    for shift in range(0, 7 * bytes_max, 7):
        byte = body[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> (32 if bytes_max == VARINT_BYTES_MAX else 64):
                break
            return number, position
    raise MalformedRecords(f"a varint does not fit into {bytes_max} bytes")


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
