"""Record batches, magic 2: read a header, check the CRC, stamp offset and epoch in place, build, and take apart.

A broker handles batches, never records: it reads 61 bytes, checks one CRC and rewrites 12 bytes that lie outside it.
Only clients and the checker look at the records within.

Simplified: Kafka's LogValidator also walks the records of a produced batch; here the header and the CRC decide.
Source: Kafka DefaultRecordBatch, DefaultRecord.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from replica.errors import ErrorCode, KafkaError
from replica.ids import UNDEFINED_EPOCH, LeaderEpoch, Offset

Bytes = bytes | bytearray | memoryview

BATCH_HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12
"""Base offset and length: the part of a batch that its own length field does not count."""
MAGIC = 2
CRC_START = 21
"""The CRC covers everything from the attributes on, so the leader may rewrite what lies before."""

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

DECOMPRESSED_BYTES_MAX = 64 << 20
"""Bound on what one compressed batch may grow to in memory."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_LEADER_EPOCH_POSITION = 12
_CRC = struct.Struct(">I")
_CRC_POSITION = 17


class BatchHeader(NamedTuple):
    """The 61 bytes before the records; `size_bytes` is the whole batch, the length field plus 12."""

    base_offset: Offset
    size_bytes: int
    leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> Offset:
        """Offset of the last record, inclusive; kept even when compaction removes that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; wraps from 2^31-1 to 0 (DefaultRecordBatch.incrementSequence)."""
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> str:
        number = self.attributes & CODEC_MASK
        return CODECS[number] if number < len(CODECS) else f"codec {number}"

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)


def increment_sequence(sequence: int, increment: int) -> int:
    """Sequence numbers count 0 .. 2^31-1 and then start again; -1 (none) stays none."""
    return sequence if sequence < 0 else (sequence + increment) & 0x7FFF_FFFF


def read_header(data: Bytes, position: int = 0) -> BatchHeader:
    """The header of the batch that starts at `position`.

    raises: KafkaError CORRUPT_MESSAGE when there are fewer than 61 bytes, or the length field is impossible
    """
    if len(data) - position < BATCH_HEADER_BYTES:
        raise corrupt(f"{len(data) - position} bytes are too few for a batch header of {BATCH_HEADER_BYTES}")
    base_offset, length, *rest = _HEADER.unpack_from(data, position)
    if length < BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES:
        raise corrupt(f"the batch at offset {base_offset} claims a length of {length} bytes")
    return BatchHeader(base_offset, length + LOG_OVERHEAD_BYTES, *rest)


def check_crc(data: Bytes, position: int, header: BatchHeader) -> bool:
    """Whether the batch at `position` is whole and its bytes 21..end have the CRC-32C that its header names."""
    end = position + header.size_bytes
    if end > len(data):
        return False
    return bool(crc32c(memoryview(data)[position + CRC_START : end]) == header.crc)


def batches(data: Bytes) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch in `data`; a partial batch at the end is left out.

    raises: KafkaError CORRUPT_MESSAGE at an impossible length field
    """
    position = 0
    while len(data) - position >= BATCH_HEADER_BYTES:
        header = read_header(data, position)
        if position + header.size_bytes > len(data):
            return
        yield position, header
        position += header.size_bytes


def stamp(batch: bytearray | memoryview, position: int, base_offset: Offset, leader_epoch: LeaderEpoch) -> None:
    """Write the leader's base offset and epoch into the batch; the CRC covers neither, so it stays valid."""
    _BASE_OFFSET.pack_into(batch, position, base_offset)
    _LEADER_EPOCH.pack_into(batch, position + _LEADER_EPOCH_POSITION, leader_epoch)


def corrupt(message: str, **facts: object) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message, **facts)


# ------------------------------------------------------------------------------------------- the records of a batch


class Record(NamedTuple):
    """One record, with its absolute offset and timestamp."""

    offset: Offset
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def build_batch(
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    base_offset: Offset = 0,
    timestamp_ms: int | Sequence[int],
    leader_epoch: LeaderEpoch = UNDEFINED_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    compression: str = "none",
    control: bool = False,
) -> bytearray:
    """One batch of (key, value) pairs, as a client would send it: base offset 0, no leader epoch.

    timestamp_ms: one for all records, or one per record; milliseconds
    compression: none or gzip        raises: KafkaError UNSUPPORTED_COMPRESSION_TYPE
    """
    if not records:
        raise ValueError("a batch holds at least one record")
    timestamps = [timestamp_ms] * len(records) if isinstance(timestamp_ms, int) else timestamp_ms
    base_timestamp = timestamps[0]
    body = bytearray()
    for offset_delta, ((key, value), timestamp) in enumerate(zip(records, timestamps, strict=True)):
        record = bytearray(b"\0")  # record attributes: unused by Kafka
        _put_varint(record, timestamp - base_timestamp)
        _put_varint(record, offset_delta)
        _put_bytes(record, key)
        _put_bytes(record, value)
        record.append(0)  # no headers
        _put_varint(body, len(record))
        body += record
    if compression == "gzip":
        # A fixed mtime: the same records must give the same bytes in every run.
        body = bytearray(gzip.compress(body, mtime=0))
    elif compression != "none":
        raise _unsupported(compression)
    batch = bytearray(BATCH_HEADER_BYTES)
    batch += body
    fields = (
        CODECS.index(compression) | (CONTROL if control else 0),
        len(records) - 1,
        base_timestamp,
        max(timestamps),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    length = len(batch) - LOG_OVERHEAD_BYTES
    _HEADER.pack_into(batch, 0, base_offset, length, leader_epoch, MAGIC, 0, *fields)
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def read_records(batch: Bytes) -> list[Record]:
    """The records of one whole batch, in offset order.

    raises: KafkaError CORRUPT_MESSAGE (bytes that are no records), UNSUPPORTED_COMPRESSION_TYPE (all but gzip)
    """
    header = read_header(batch)
    body = bytes(memoryview(batch)[BATCH_HEADER_BYTES : header.size_bytes])
    if header.codec == "gzip":
        body = _gunzip(body)
    elif header.codec != "none":
        raise _unsupported(header.codec)
    try:
        records, position = [], 0
        for _ in range(header.record_count):
            record, position = _read_record(body, position, header)
            records.append(record)
    except (IndexError, UnicodeDecodeError) as error:
        raise corrupt(f"batch at offset {header.base_offset}: {error}") from error
    if position != len(body):
        raise corrupt(f"batch at offset {header.base_offset}: {len(body) - position} bytes after the last record")
    return records


def _read_record(body: bytes, position: int, header: BatchHeader) -> tuple[Record, int]:
    length, position = _get_varint(body, position)
    end = position + length
    if not position < end <= len(body):
        raise IndexError(f"a record of {length} bytes does not fit")
    timestamp_delta, position = _get_varint(body, position + 1)
    offset_delta, position = _get_varint(body, position)
    key, position = _get_bytes(body, position)
    value, position = _get_bytes(body, position)
    count, position = _get_varint(body, position)
    headers = []
    for _ in range(count):
        name, position = _get_bytes(body, position)
        if name is None:
            raise IndexError("a record header has no name")
        content, position = _get_bytes(body, position)
        headers.append((name.decode(), content))
    if position != end or count < 0:
        raise IndexError(f"a record ends at byte {position}, not {end}")
    # Log-append time: one timestamp for the whole batch, kept in its header.
    timestamp = header.max_timestamp if header.attributes & LOG_APPEND_TIME else header.base_timestamp + timestamp_delta
    return Record(header.base_offset + offset_delta, timestamp, key, value, tuple(headers)), end


def _gunzip(body: bytes) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    try:
        content = inflater.decompress(body, DECOMPRESSED_BYTES_MAX)
    except zlib.error as error:
        raise corrupt(f"gzip: {error}") from error
    if not inflater.eof:
        raise corrupt(f"gzip: cut short, or more than {DECOMPRESSED_BYTES_MAX} bytes")
    return content


def _unsupported(codec: str) -> KafkaError:
    return KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {codec}: only none and gzip are supported")


def _put_varint(out: bytearray, number: int) -> None:
    """Zig-zag, seven bits at a time, lowest first; serves varint (32 bit) and varlong (64 bit) alike."""
    rest = (number << 1) ^ (number >> 63)
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def _put_bytes(out: bytearray, content: bytes | None) -> None:
    if content is None:
        out.append(1)  # zig-zag of -1
    else:
        _put_varint(out, len(content))
        out += content


def _get_varint(data: bytes, position: int) -> tuple[int, int]:
    rest, shift = 0, 0
    while True:
        byte = data[position]
        position += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (rest >> 1) ^ -(rest & 1), position
        shift += 7
        if shift > 63:
            raise IndexError("a varint has more than ten bytes")


def _get_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = _get_varint(data, position)
    if length < 0:
        return None, position
    if position + length > len(data):
        raise IndexError(f"{length} bytes are announced, {len(data) - position} are left")
    return data[position : position + length], position + length
