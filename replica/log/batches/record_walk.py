"""From record to record through the records of a batch, as far as a broker must look: are they what the header says?

Nothing is taken out but what a leader decides on: timestamps, and which records have no key. The work is bounded by the
bytes, not by the count that a header claims.

Source: DefaultRecord.readFrom, DefaultRecordBatch.RecordIterator, ByteUtils
"""

from __future__ import annotations

from replica.frozen import dataclass

VARINT_BYTES_MAX, VARLONG_BYTES_MAX = 5, 10
RECORD_BYTES_MIN = 7
"""Size, attributes, deltas of time and offset, lengths of key and value, count of headers: a byte each."""


HEADERS_MAX = 150_000
"""Of the records of one batch, together. Differs from Kafka: it takes as many as the bytes hold."""


class MalformedRecords(Exception):
    """The bytes are not the records that the header announces."""


class TooManyHeaders(Exception):
    """The records have more than HEADERS_MAX."""


@dataclass(frozen=True, slots=True)
class Walked:
    """timestamp_deltas: of every record, in milliseconds     keyless: places of the records without a key"""

    timestamp_deltas: list[int]
    keyless: list[int]


def walk(body: bytes, count: int) -> Walked:
    """Every byte of `body` belongs to one of `count` records, whose offset deltas are 0, 1, 2, ...

    raises: MalformedRecords, TooManyHeaders

    Differs from Kafka: it does not look at the offset deltas of a batch that is not compressed, nor at the sizes of
    the records of a compressed one. Such records have offsets that another has, or no consumer can read them.
    """
    if count > len(body) // RECORD_BYTES_MIN:
        raise MalformedRecords(f"{len(body)} bytes are too few for {count} records")
    deltas: list[int] = []
    keyless: list[int] = []
    place = headers = 0
    try:
        # The hot path of Produce: a number of one or two bytes, as nearly all are, is read here and not in a call.
        for index in range(count):
            number = body[place]
            place += 1
            if number > 127:
                more = body[place]
                if more > 127:
                    number, place = _number(body, place - 1, VARINT_BYTES_MAX)
                else:
                    number += (more << 7) - 128
                    place += 1
            end = place + (number >> 1) if not number & 1 else -1
            place += 1  # attributes: unused

            number = body[place]
            place += 1
            if number > 127:
                more = body[place]
                if more > 127:
                    number, place = _number(body, place - 1, VARLONG_BYTES_MAX)
                else:
                    number += (more << 7) - 128
                    place += 1
            deltas.append(~(number >> 1) if number & 1 else number >> 1)

            number = body[place]
            place += 1
            if number > 127:
                more = body[place]
                if more > 127:
                    number, place = _number(body, place - 1, VARINT_BYTES_MAX)
                else:
                    number += (more << 7) - 128
                    place += 1
            if number != index << 1:
                raise MalformedRecords(f"record {index} has the offset delta {_signed(number)}")

            number = body[place]
            place += 1
            if number > 127:
                number, place = _number(body, place - 1, VARINT_BYTES_MAX)
            if number & 1:
                keyless.append(index)
            else:
                place += number >> 1

            number = body[place]
            place += 1
            if number > 127:
                more = body[place]
                if more > 127:
                    number, place = _number(body, place - 1, VARINT_BYTES_MAX)
                else:
                    number += (more << 7) - 128
                    place += 1
            if not number & 1:
                place += number >> 1

            if body[place]:
                count_here, place = _skip_headers(body, place, HEADERS_MAX - headers)
                headers += count_here
            else:
                place += 1
            if place != end:
                raise MalformedRecords(f"record {index} does not have the size that it claims")
    except IndexError as error:
        raise MalformedRecords(f"{len(body)} bytes are too few for {count} records") from error
    if place != len(body):
        raise MalformedRecords(f"{len(body) - place} bytes are left after {count} records")
    return Walked(deltas, keyless)


def _skip_headers(body: bytes, place: int, most: int) -> tuple[int, int]:
    """(their number, the place behind them)     raises: MalformedRecords, TooManyHeaders, IndexError at the end of the
    body"""
    count, place = _number(body, place, VARINT_BYTES_MAX)
    if count & 1 or count >> 1 > len(body) - place:
        raise MalformedRecords(f"{_signed(count)} headers in the {len(body) - place} bytes that are left")
    if count >> 1 > most:
        raise TooManyHeaders
    for _ in range(count >> 1):
        name_bytes, place = _number(body, place, VARINT_BYTES_MAX)
        if name_bytes & 1:
            raise MalformedRecords("a header without a name")
        content_bytes, place = _number(body, place + (name_bytes >> 1), VARINT_BYTES_MAX)
        if not content_bytes & 1:
            place += content_bytes >> 1
    return count >> 1, place


def _number(body: bytes, place: int, bytes_max: int) -> tuple[int, int]:
    """A number of up to so many bytes, not yet decoded from zig-zag, and the place behind it.

    It may have more bytes than it needs, but no bits beyond its 32 or 64 (which Java would lose).
    raises: MalformedRecords, IndexError
    """
    number = 0
    for shift in range(0, 7 * bytes_max, 7):
        byte = body[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> (32 if bytes_max == VARINT_BYTES_MAX else 64):
                break
            return number, place
    raise MalformedRecords(f"a number that does not fit into {bytes_max} bytes")


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
