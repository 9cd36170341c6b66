"""Checks of a batch before an append: of a produced batch on the leader, of a fetched batch on a follower.

The leader checks every record of a client's batch. A follower trusts its leader, as in Kafka, and checks only headers
and CRC. Order of checks and error codes are Kafka's, also for errors that Kafka's code does not expect.

Simplified: all releases validate as 4.1 does. A wrong largest timestamp in the header is not corrected.
Source: ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator (4.1)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from replica.config import NEVER, TopicConfig
from replica.errors import ErrorCode, KafkaError
from replica.ids import LeaderEpoch, Offset
from replica.log.batches.codecs import CODECS, BadStream, TooMuchInside, decompress
from replica.log.batches.record_walk import (
    HEADERS_MAX,
    RECORD_BYTES_MIN,
    MalformedRecords,
    TooManyHeaders,
    Walked,
    walk,
)
from replica.log.batches.records import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CONTROL,
    DECOMPRESSED_BYTES_MAX,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    Bytes,
    as_int64,
    batches,
    check_crc,
    corrupt,
    read_header,
)

SMALLEST_RECORD_BYTES = 14
"""Smallest size of a batch in any format, without offset and length. Source: LegacyRecord.RECORD_OVERHEAD_V0"""
SIZE_POSITION, MAGIC_POSITION, CODEC_POSITION, COUNT_POSITION = 8, 16, 22, 57
FIRST_VERSION_WITH_ZSTD = 7
ZSTD = CODECS.index("zstd")
NO_TIMESTAMP = -1

INSIDE_BYTES_MAX, INSIDE_RECORDS_MAX = 16 << 20, 150_000
"""Limits for the decompressed bytes and records of one compressed batch. A larger max.message.bytes raises them.

Differs from Kafka, which has no limit: there, 600 KB of gzip can take 600 MB of memory and much time.
"""
SHORT_WORK_RECORDS, SHORT_WORK_BYTES, SHORT_WORK_COMPRESSED_BYTES = 5_000, 64 * 1024, 8 * 1024
"""Limits up to which a request is checked immediately, since the check takes only milliseconds (`takes_long`)."""
RECORD_ERRORS_MAX = 1000
"""Limit for the record errors in a response. Simplified: Kafka lists every refused record."""

_INT32 = struct.Struct(">i")


# --------------------------------------------------------------------------------------- what a request may contain


def single_batch(records: memoryview | None, api_version: int) -> memoryview:
    """Return the only batch that a produce request may have for a partition, without an incomplete batch after it.

    Raises:
        KafkaError: INVALID_RECORD, CORRUPT_MESSAGE or UNSUPPORTED_COMPRESSION_TYPE for any other content.

    Source: ProduceRequest.validateRecords, ByteBufferLogInputStream.nextBatchSize
    """
    if (
        records is not None
        and len(records) >= BATCH_HEADER_BYTES
        and records[MAGIC_POSITION] == MAGIC
        and not records[CODEC_POSITION] & CODEC_MASK
        and _INT32.unpack_from(records, SIZE_POSITION)[0] == len(records) - LOG_OVERHEAD_BYTES
    ):
        return records  # nearly always
    if records is None:
        raise _invalid("the request has no batch")  # Differs from Kafka: Kafka does not respond to null records.
    sizes = _batch_sizes(records)
    size_bytes = next(sizes, None)
    if size_bytes is None:
        raise _invalid("the request has no batch")
    if records[MAGIC_POSITION] != MAGIC:
        raise _invalid(f"magic {records[MAGIC_POSITION]} is not supported, only {MAGIC}")
    if api_version < FIRST_VERSION_WITH_ZSTD and records[CODEC_POSITION] & CODEC_MASK == ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce version {api_version} does not support zstd; version {FIRST_VERSION_WITH_ZSTD} does",
        )
    if next(sizes, None) is not None:
        raise _invalid("the request has more than one batch for a partition")
    return records if size_bytes == len(records) else records[:size_bytes]


def is_transactional(records: memoryview | None) -> bool:
    """Return True if the first batch, which may be invalid, has the attribute bit of a transaction."""
    return records is not None and len(records) > CODEC_POSITION and bool(records[CODEC_POSITION] & TRANSACTIONAL)


def _batch_sizes(records: memoryview) -> Iterator[int]:
    """Yield the size of each complete batch, in bytes."""
    position = 0
    while (left := len(records) - position) >= LOG_OVERHEAD_BYTES:
        (size_bytes,) = _INT32.unpack_from(records, position + SIZE_POSITION)
        if size_bytes < SMALLEST_RECORD_BYTES:
            raise corrupt(f"a batch claims {size_bytes} bytes, but the minimum is {SMALLEST_RECORD_BYTES}")
        if left <= MAGIC_POSITION:
            return
        if records[position + MAGIC_POSITION] > MAGIC:
            raise corrupt(f"Kafka has no batch format with magic {records[position + MAGIC_POSITION]}")
        size_bytes += LOG_OVERHEAD_BYTES
        if size_bytes > left:
            return
        yield size_bytes
        position += size_bytes


# ----------------------------------------------------------------------------------------------- the records of a batch


class InsideLimits(NamedTuple):
    """Limits for the decompressed size and the number of records of a compressed batch."""

    size_bytes: int
    records: int


def limits_inside(config: TopicConfig) -> InsideLimits:
    size_bytes = min(max(INSIDE_BYTES_MAX, config.max_message_bytes), DECOMPRESSED_BYTES_MAX)
    return InsideLimits(size_bytes, max(INSIDE_RECORDS_MAX, config.max_message_bytes // RECORD_BYTES_MIN))


def look_inside(batch: Bytes, header: BatchHeader, limits: InsideLimits) -> Walked:
    """Decompress and check the records of a batch with a valid CRC. This is the slow part of the validation.

    Raises:
        KafkaError: INVALID_RECORD for malformed records, MESSAGE_TOO_LARGE above a limit, or UNKNOWN_SERVER_ERROR for
            invalid compressed data, for which Kafka's decompressors have no error code.
    """
    try:
        body = decompress(header.codec, memoryview(batch)[BATCH_HEADER_BYTES : header.size_bytes], limits.size_bytes)
        if not header.attributes & CODEC_MASK:
            return _walk(body, header.record_count)
        if limits.records < header.record_count <= len(body) // RECORD_BYTES_MIN:
            raise _too_much_inside(f"{header.record_count} records, but at most {limits.records} are allowed")
        return _walk(body, header.record_count)
    except TooMuchInside as bomb:
        raise _too_much_inside(f"more than {limits.size_bytes} bytes, or too many compressed blocks") from bomb
    except BadStream as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error


def _walk(body: bytes, record_count: int) -> Walked:
    try:
        return walk(body, record_count)
    except MalformedRecords as error:
        raise _invalid(str(error)) from error
    except TooManyHeaders as error:
        raise _too_much_inside(f"more than {HEADERS_MAX} record headers") from error


def _too_much_inside(what: str) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"the compressed batch contains {what}")


def takes_long(request: Iterable[memoryview | None]) -> bool:
    """Return True if `look_inside` may take so long that other requests should not have to wait for it.

    Args:
        request: the batches of a Produce request. A few hundred compressed bytes may contain records up to the limit.
    """
    records = size_bytes = compressed_bytes = 0
    for batch in request:
        if batch is not None and len(batch) >= BATCH_HEADER_BYTES:
            records += _INT32.unpack_from(batch, COUNT_POSITION)[0]
            size_bytes += len(batch)
            if batch[CODEC_POSITION] & CODEC_MASK:
                compressed_bytes += len(batch)
    return (
        records > SHORT_WORK_RECORDS or size_bytes > SHORT_WORK_BYTES or compressed_bytes > SHORT_WORK_COMPRESSED_BYTES
    )


Inspected = Walked | KafkaError
"""The result of `look_inside`, or the error that `look_inside` raised."""


def inspect(batch: Bytes, limits: InsideLimits) -> Inspected | None:
    """Return the result of `look_inside`; None if `validate_produced` will refuse the batch for its codec or CRC."""
    try:
        header = read_header(batch)
        if header.attributes & CODEC_MASK >= len(CODECS) or not check_crc(batch, 0, header):
            return None
        return look_inside(batch, header, limits)
    except KafkaError as refusal:
        return refusal


# ------------------------------------------------------------------------------------------------------- on the leader


def validate_produced(
    batch: bytearray | memoryview,
    config: TopicConfig,
    now_us: int,
    inspected: Inspected | None = None,
    *,
    from_client: bool = True,
) -> BatchHeader:
    """Check a batch from a client (see `single_batch`) or from a coordinator, and return its header.

    Args:
        inspected: the result of `inspect` for this batch, if that was called.

    Raises:
        KafkaError: CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP,
            UNKNOWN_SERVER_ERROR (an unknown codec, or invalid compressed data).
    """
    header = read_header(batch)
    if header.base_offset != 0:
        raise _invalid(f"a client's batch must begin at offset 0, not {header.base_offset}")
    if header.size_bytes > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {header.size_bytes} bytes exceeds max.message.bytes={config.max_message_bytes}",
        )
    if not check_crc(batch, 0, header):
        raise corrupt(f"a batch of {header.size_bytes} bytes fails its CRC")
    if header.attributes & CODEC_MASK >= len(CODECS):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Kafka has no compression codec {header.codec}")
    _validate_header(header, from_client)
    if isinstance(inspected, KafkaError):
        raise inspected
    if inspected is not None:
        walked = inspected
    elif header.attributes & CODEC_MASK:
        walked = look_inside(batch, header, limits_inside(config))
    else:
        walked = _walk(bytes(memoryview(batch)[BATCH_HEADER_BYTES : header.size_bytes]), header.record_count)
    _validate_records(header, walked, config, now_us // 1000)
    if header.size_bytes > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {header.size_bytes} bytes exceeds segment.bytes={config.segment_bytes}",
        )
    return header


def _validate_header(header: BatchHeader, from_client: bool) -> None:
    """Check the header of a produced batch. Source: LogValidator.validateBatch"""
    if header.magic != MAGIC:
        raise _invalid(f"magic {header.magic} is not supported, only {MAGIC}")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise _invalid(
            f"a batch has {header.record_count} records, but its last offset delta is {header.last_offset_delta}"
        )
    if not from_client:
        return
    if header.attributes & CONTROL:
        raise _invalid("clients may not write control batches")
    if header.base_sequence < 0 and header.has_producer_id:
        raise _invalid(f"producer id {header.producer_id} sent the negative sequence {header.base_sequence}")


def _validate_records(header: BatchHeader, walked: Walked, config: TopicConfig, now_ms: int) -> None:
    """Check keys and timestamps of a produced batch. Source: LogValidator.validateRecord, processRecordErrors"""
    claims_append_time = bool(header.attributes & LOG_APPEND_TIME)
    before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    has_no_limit = config.is_stamped_by_the_leader or before_ms == after_ms == NEVER
    if has_no_limit and not config.is_compacted and not claims_append_time:
        return
    errors: dict[int, str] = {}
    deltas = walked.timestamp_deltas
    if config.is_compacted:
        keyless = walked.keyless[:RECORD_ERRORS_MAX]
        errors.update(dict.fromkeys(keyless, "Compacted topic cannot accept message without key"))
    code = ErrorCode.INVALID_RECORD
    bad: Iterator[tuple[int, str]] = iter(())
    if claims_append_time:
        # Simplified: such a batch is also refused for a topic with CreateTime; since 3.6 Kafka ignores the bit there.
        bad = ((index, "Producer should not set timestamp type to LogAppendTime") for index in range(len(deltas)))
    elif not has_no_limit:
        bad = _bad_timestamps(header.base_timestamp, deltas, config, now_ms)
    for index, why in bad:
        if len(errors) >= RECORD_ERRORS_MAX:
            break
        if index not in errors:
            code = ErrorCode.INVALID_TIMESTAMP
            errors[index] = why
    if errors:
        record_errors = tuple(sorted(errors.items()))
        first = record_errors[0]
        message = (
            f"{len(errors)} of {header.record_count} records were refused, the first at index {first[0]}: {first[1]}"
        )
        raise KafkaError(code, message, record_errors=record_errors)


def _bad_timestamps(base_ms: int, deltas: list[int], config: TopicConfig, now_ms: int) -> Iterator[tuple[int, str]]:
    """Yield (index, description) of each record that is too old or too new, in Java's 64-bit arithmetic."""
    before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    oldest_ms, newest_ms = base_ms + min(deltas), base_ms + max(deltas)
    if now_ms - before_ms <= oldest_ms and now_ms - NEVER <= oldest_ms and newest_ms <= min(now_ms + after_ms, NEVER):
        return  # nearly always
    for index, delta in enumerate(deltas):
        timestamp_ms = as_int64(base_ms + delta)
        age_ms = as_int64(now_ms - timestamp_ms)
        if timestamp_ms != NO_TIMESTAMP and (age_ms > before_ms or as_int64(-age_ms) > after_ms):
            yield index, f"Timestamp {timestamp_ms} of message with offset {index} is out of range at {now_ms}"


# ------------------------------------------------------------------------------------------------------ on a follower


def whole_batches(data: Bytes, max_leader_epoch: LeaderEpoch | None) -> tuple[list[BatchHeader], int]:
    """Return the headers of the complete fetched batches to append, and their total size in bytes.

    Args:
        max_leader_epoch: the latest epoch to append. Batches from the first later epoch on are dropped (KAFKA-18723).
            None for no limit.

    Raises:
        KafkaError: CORRUPT_MESSAGE if a batch fails its CRC or has another magic.
    """
    headers: list[BatchHeader] = []
    size_bytes = 0
    for position, header in batches(data):
        if max_leader_epoch is not None and header.leader_epoch > max_leader_epoch:
            break
        if header.magic != MAGIC or not check_crc(data, position, header):
            raise corrupt(f"the fetched batch at offset {header.base_offset} fails its CRC or has the wrong magic")
        headers.append(header)
        size_bytes = position + header.size_bytes
    return headers, size_bytes


def check_order(headers: list[BatchHeader], log_end_offset: Offset) -> None:
    """Check that the offsets of fetched batches, which may have gaps, never decrease.

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR otherwise (UnexpectedAppendOffsetException, OffsetsOutOfOrderException).
    """
    expected = log_end_offset
    for header in headers:
        if header.base_offset < expected:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"the fetched batch begins at offset {header.base_offset}, but the log continues at {expected}",
                base_offset=header.base_offset,
                log_end_offset=expected,
            )
        expected = header.last_offset + 1


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
