"""Batches that a hostile or broken client may put into a produce request, and the answers of Apache Kafka 4.1.0.

The answers were measured: each was sent to a real broker as Produce version 9, to a topic with the settings given.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import cramjam
from crc32c import crc32c

from replica.errors import ErrorCode
from replica.log.batches.codecs import CODECS, compress

NOW_MS = 1_700_000_000_000
OK, INVALID, CORRUPT = ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE
UNEXPECTED, BAD_TIME = ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_TIMESTAMP
COMPACTED = {"cleanup_policy": "compact"}
HOUR = {"message_timestamp_after_max_ms": 3_600_000}


class Hostile(NamedTuple):
    """ours: Highwater's answer where it is not Kafka's code, for the reason that the modules state"""

    name: str
    records: bytes
    kafka: ErrorCode
    config: Mapping[str, object] = MappingProxyType({})
    ours: ErrorCode | None = None


def varint(number: int) -> bytes:
    rest, out = ((number << 1) ^ (number >> 63)) & (2**64 - 1), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def field(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def record(
    delta: int,
    *,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    at: int = 0,
    headers: bytes = b"\0",
    **raw: bytes,
) -> bytes:
    """size, offset: the bytes that stand for them, if they are to be wrong"""
    body = b"\0" + varint(at) + raw.get("offset", varint(delta)) + field(key) + field(value) + headers
    return raw.get("size", varint(len(body))) + body


THREE = b"".join(record(delta, at=delta) for delta in range(3))


def batch(
    body: bytes, count: int, *, last: int | None = None, attributes: int = 0, base: int = 0, magic: int = 2, **more: int
) -> bytes:
    """last: the last offset delta     more: pid, epoch, sequence, at, crc (to be wrong by)"""
    at = more.get("at", NOW_MS)
    producer = (more.get("pid", -1), more.get("epoch", -1), more.get("sequence", -1))
    fields = (attributes, count - 1 if last is None else last, at, at, *producer, count)
    tail = struct.pack(">hiqqqhii", *fields) + body
    return struct.pack(">qiibI", base, len(tail) + 9, -1, magic, crc32c(tail) ^ more.get("crc", 0)) + tail


def plain() -> Iterator[Hostile]:
    huge = 2**31 - 1
    yield Hostile("valid", batch(THREE, 3), OK)
    yield Hostile("one record that claims 2^31-1", batch(record(0), huge), INVALID)
    yield Hostile("count and last offset delta disagree", batch(record(0), huge, last=huge), INVALID)
    yield Hostile("fewer records than there are", batch(THREE, 2), INVALID)
    yield Hostile("more records than there are", batch(THREE, 4), INVALID)
    yield Hostile("no record", batch(b"", 0), INVALID)
    yield Hostile("a negative count", batch(b"", -1), INVALID)
    yield Hostile("offsets with a hole", batch(record(0) + record(5), 2), OK, ours=INVALID)
    yield Hostile("an offset twice", batch(record(0) + record(0), 2), OK, ours=INVALID)
    yield Hostile("a size too small", batch(record(0, size=varint(5)), 1), INVALID)
    yield Hostile("a size too large", batch(record(0, size=varint(50)), 1), INVALID)
    yield Hostile("a negative size", batch(record(0, size=varint(-3)), 1), INVALID)
    yield Hostile("a size of 0", batch(varint(0), 1), INVALID)
    yield Hostile("a size in three bytes", batch(record(0, size=b"\x90\x80\0"), 1), OK)
    yield Hostile("a size in six bytes", batch(record(0, size=b"\x90\x80\x80\x80\x80\0"), 1), UNEXPECTED, ours=INVALID)
    yield Hostile("an offset in three bytes", batch(record(0, offset=b"\x80\x80\0"), 1), OK)
    yield Hostile("an offset in six bytes", batch(record(0, offset=b"\x80\x80\x80\x80\x80\0"), 1), INVALID)
    yield Hostile("a negative count of headers", batch(record(0, headers=varint(-1)), 1), INVALID)
    yield Hostile("a thousand headers and no byte", batch(record(0, headers=varint(1000)), 1), INVALID)
    yield Hostile("a header without a name", batch(record(0, headers=b"\2" + varint(-1) + field(b"x")), 1), INVALID)
    yield Hostile("a header's name in no UTF-8", batch(record(0, headers=b"\2" + field(b"\xff") + field(None)), 1), OK)
    yield Hostile("a key of a GiB", batch(b"\x12\0\0\0" + varint(2**30) + b"vvv\0", 1), INVALID)
    for magic, code in ((0, INVALID), (1, INVALID), (3, CORRUPT), (-1, CORRUPT)):
        yield Hostile(f"magic {magic}", batch(THREE, 3, magic=magic), code)
    for codec in (5, 6, 7):
        yield Hostile(f"codec {codec}", batch(THREE, 3, attributes=codec), UNEXPECTED)
    yield Hostile("a base offset", batch(THREE, 3, base=5), INVALID)
    yield Hostile("a wrong CRC", batch(THREE, 3, crc=1), CORRUPT)
    yield Hostile("two batches", batch(THREE, 3) * 2, INVALID)
    yield Hostile("a batch and a half", batch(THREE, 3) + batch(THREE, 3)[:-1], OK)
    yield Hostile("five bytes too many", batch(THREE, 3) + bytes(5), OK)
    yield Hostile("forty bytes too many", batch(THREE, 3) + bytes(40), CORRUPT)
    yield Hostile("half a batch", batch(THREE, 3)[:-1], INVALID)
    yield Hostile("nothing", b"", INVALID)
    yield Hostile("zeros", bytes(60), CORRUPT)
    yield Hostile("a length that ends in the header", struct.pack(">qiibI", 0, 20, -1, 2, 0) + bytes(60), CORRUPT)
    yield Hostile("a negative length", struct.pack(">qiibI", 0, -20, -1, 2, 0) + bytes(60), CORRUPT)
    yield Hostile("a control batch", batch(THREE, 3, attributes=0x20), INVALID)
    yield Hostile("an idempotent producer without a sequence", batch(THREE, 3, pid=5, epoch=0), INVALID)
    yield Hostile("a sequence of no producer", batch(THREE, 3, epoch=3, sequence=7), OK)
    yield Hostile("a negative producer id", batch(THREE, 3, pid=-5, epoch=0), OK)
    yield Hostile("log-append time", batch(THREE, 3, attributes=0x08), OK, ours=BAD_TIME)
    yield Hostile("no timestamp", batch(record(0), 1, at=-1), OK, HOUR)
    yield Hostile("from the future", batch(record(0) + record(1, at=4_000_000), 2), BAD_TIME, HOUR)
    yield Hostile("from before all time", batch(record(0, at=-(2**63)), 1, at=0), BAD_TIME, HOUR)
    yield Hostile(
        "too old", batch(THREE + record(3, at=-61_000), 4), BAD_TIME, {"message_timestamp_before_max_ms": 60_000}
    )
    yield Hostile("no key", batch(record(0) + record(1, key=None), 2), INVALID, COMPACTED)
    yield Hostile("no key, deleted too", batch(record(0, key=None), 1), INVALID, {"cleanup_policy": "compact,delete"})
    yield Hostile("an empty key", batch(record(0, key=b""), 1), OK, COMPACTED)
    yield Hostile(
        "no key, and from the future",
        batch(record(0, key=None) + record(1, at=9_000_000), 2),
        BAD_TIME,
        {**COMPACTED, **HOUR},
    )
    yield Hostile("too large", batch(record(0, value=bytes(1_100_000)), 1), ErrorCode.MESSAGE_TOO_LARGE)


def bare_snappy(content: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(content))


def compressed() -> Iterator[Hostile]:
    for codec in CODECS[1:]:
        yield from _in(codec, codec)
    attributes = CODECS.index("snappy")
    yield Hostile("snappy without frames", batch(bare_snappy(THREE), 3, attributes=attributes), OK)
    twice = batch(bare_snappy(THREE) * 2, 3, attributes=attributes)
    yield Hostile("snappy without frames, twice", twice, UNEXPECTED)


def _in(codec: str, name: str) -> Iterator[Hostile]:
    def of(content: bytes, count: int) -> bytes:
        return batch(content, count, attributes=CODECS.index(codec))

    def squeezed(*records: bytes) -> bytes:
        return compress(codec, b"".join(records))

    many = squeezed(*(record(delta, value=struct.pack(">I", delta * 2654435761 % 2**32)) for delta in range(2000)))
    yield Hostile(f"{name}: valid", of(squeezed(THREE), 3), OK)
    yield Hostile(f"{name}: many", of(many, 2000), OK)
    yield Hostile(f"{name}: garbage", of(b"\x17\x99garbage that is nothing", 3), UNEXPECTED)
    yield Hostile(f"{name}: no byte", of(b"", 3), INVALID if codec == "zstd" else UNEXPECTED)
    yield Hostile(f"{name}: of no record", of(squeezed(), 3), INVALID)
    yield Hostile(f"{name}: cut", of(many[: len(many) // 2], 2000), UNEXPECTED)
    yield Hostile(f"{name}: its end is missing", of(squeezed(THREE)[:-5], 3), UNEXPECTED)
    yield Hostile(f"{name}: fewer than there are", of(squeezed(THREE), 2), INVALID)
    yield Hostile(f"{name}: more than there are", of(squeezed(THREE), 4), INVALID)
    yield Hostile(f"{name}: one that claims 2^31-1", of(squeezed(record(0)), 2**31 - 1), INVALID)
    yield Hostile(f"{name}: offsets with a hole", of(squeezed(record(0), record(5)), 2), UNEXPECTED, ours=INVALID)
    yield Hostile(f"{name}: a size too small", of(squeezed(record(0, size=varint(5))), 1), OK, ours=INVALID)
    yield Hostile(f"{name}: a size in six bytes", of(squeezed(record(0, size=b"\x90\x80\x80\x80\x80\0")), 1), INVALID)
    yield Hostile(f"{name}: a thousand headers", of(squeezed(record(0, headers=varint(1000))), 1), INVALID)
    yield Hostile(f"{name}: no key", of(squeezed(record(0), record(1, key=None)), 2), INVALID, COMPACTED)
    yield Hostile(f"{name}: from the future", of(squeezed(record(0, at=9_000_000)), 1), BAD_TIME, HOUR)


def all_of_them() -> list[Hostile]:
    return [*plain(), *compressed()]
