"""Checks of a batch before it touches the log: a produced one on the leader, a fetched one on a follower.

The leader walks the records of what a client sends; a follower trusts its leader with them, as in Kafka, and looks at
headers and CRC. The order of the tests is Kafka's, and so are the codes of the refusals, also where its code meets an
error that it does not expect. Source: ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords,
LogValidator (4.1).

Simplified: all eras validate as 4.1 does. A largest timestamp that the header states wrongly stays as it is.
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
"""LegacyRecord.RECORD_OVERHEAD_V0: no batch of any format is smaller, without its offset and length."""
SIZE_POSITION, MAGIC_POSITION, CODEC_POSITION, COUNT_POSITION = 8, 16, 22, 57
FIRST_VERSION_WITH_ZSTD = 7
ZSTD = CODECS.index("zstd")
NO_TIMESTAMP = -1

INSIDE_BYTES_MAX, INSIDE_RECORDS_MAX = 16 << 20, 150_000
"""Of one compressed batch, unless max.message.bytes lets a batch that is not compressed hold more.

Differs from Kafka, which has no limit: 600 KB of gzip keep one of its threads busy with 600 MB.
"""
SHORT_WORK_RECORDS, SHORT_WORK_BYTES, SHORT_WORK_COMPRESSED_BYTES = 5_000, 64 * 1024, 8 * 1024
"""Of one request, looked into at once: some milliseconds."""
RECORD_ERRORS_MAX = 1000
"""Simplified: Kafka names every record that is wrong."""

_INT32 = struct.Struct(">i")


# --------------------------------------------------------------------------------------- what a request may hold at all


def single_batch(records: memoryview | None, api_version: int) -> memoryview:
    """The one batch that a produce request may hold for a partition; a partial one behind it is cut off.

    raises: KafkaError INVALID_RECORD, CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE, UNKNOWN_SERVER_ERROR
    source: ProduceRequest.validateRecords, ByteBufferLogInputStream.nextBatchSize
    """
    if (
        records is not None
        and len(records) >= BATCH_HEADER_BYTES
        and records[MAGIC_POSITION] == MAGIC
        and not records[CODEC_POSITION] & CODEC_MASK
        and _INT32.unpack_from(records, SIZE_POSITION)[0] == len(records) - LOG_OVERHEAD_BYTES
    ):
        return records  # as good as always
    if records is None:
        raise _invalid("the request holds no batch")  # Differs from Kafka: it never answers null.
    sizes = _batch_sizes(records)
    size_bytes = next(sizes, None)
    if size_bytes is None:
        raise _invalid("the request holds no batch")
    if records[MAGIC_POSITION] != MAGIC:
        raise _invalid(f"magic {records[MAGIC_POSITION]} is not supported, only {MAGIC}")
    if api_version < FIRST_VERSION_WITH_ZSTD and records[CODEC_POSITION] & CODEC_MASK == ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce version {api_version} knows no zstd")
    if next(sizes, None) is not None:
        raise _invalid("more than one batch for a partition in one request")
    return records if size_bytes == len(records) else records[:size_bytes]


def is_transactional(records: memoryview | None) -> bool:
    """Whether a client says so of the first batch, which may be none at all."""
    return records is not None and len(records) > CODEC_POSITION and bool(records[CODEC_POSITION] & TRANSACTIONAL)


def _batch_sizes(records: memoryview) -> Iterator[int]:
    """Of the whole batches, in bytes. raises: KafkaError CORRUPT_MESSAGE"""
    place = 0
    while (left := len(records) - place) >= LOG_OVERHEAD_BYTES:
        (size_bytes,) = _INT32.unpack_from(records, place + SIZE_POSITION)
        if size_bytes < SMALLEST_RECORD_BYTES:
            raise corrupt(f"a batch of {size_bytes} bytes is smaller than any can be ({SMALLEST_RECORD_BYTES})")
        if left <= MAGIC_POSITION:
            return
        if records[place + MAGIC_POSITION] > MAGIC:
            raise corrupt(f"magic {records[place + MAGIC_POSITION]} is none that Kafka has")
        size_bytes += LOG_OVERHEAD_BYTES
        if size_bytes > left:
            return
        yield size_bytes
        place += size_bytes


# ----------------------------------------------------------------------------------------------- the records of a batch


class InsideLimits(NamedTuple):
    """How much may come out of a compressed batch."""

    size_bytes: int
    records: int


def limits_inside(config: TopicConfig) -> InsideLimits:
    size_bytes = min(max(INSIDE_BYTES_MAX, config.max_message_bytes), DECOMPRESSED_BYTES_MAX)
    return InsideLimits(size_bytes, max(INSIDE_RECORDS_MAX, config.max_message_bytes // RECORD_BYTES_MIN))


def look_inside(batch: Bytes, header: BatchHeader, limits: InsideLimits) -> Walked:
    """Walk over the records of a batch whose CRC is right. This is the slow part, and it uses only the batch's bytes.

    raises: KafkaError INVALID_RECORD, MESSAGE_TOO_LARGE, UNKNOWN_SERVER_ERROR (no stream of its codec: Kafka's
    decompressors throw what it has no code for)
    """
    try:
        body = decompress(header.codec, memoryview(batch)[BATCH_HEADER_BYTES : header.size_bytes], limits.size_bytes)
        if not header.attributes & CODEC_MASK:
            return _walk(body, header.record_count)
        if limits.records < header.record_count <= len(body) // RECORD_BYTES_MIN:
            raise _too_much_inside(f"{header.record_count} records, {limits.records} are allowed")
        return _walk(body, header.record_count)
    except TooMuchInside as bomb:
        raise _too_much_inside(f"more than {limits.size_bytes} bytes, or very many parts") from bomb
    except BadStream as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error


def _walk(body: bytes, record_count: int) -> Walked:
    try:
        return walk(body, record_count)
    except MalformedRecords as error:
        raise _invalid(str(error)) from error
    except TooManyHeaders as error:
        raise _too_much_inside(f"more than {HEADERS_MAX} headers") from error


def _too_much_inside(what: str) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"the batch holds {what} inside")


def takes_long(request: Iterable[memoryview | None]) -> bool:
    """Whether looking into what a request holds may take so long that others should not have to wait for it.

    A compressed batch does not show how much is inside: a few hundred bytes can be all that is allowed. And a record of
    any batch may be nothing but headers.
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
"""The findings of `look_inside`, or the reason it refused."""


def inspect(batch: Bytes, limits: InsideLimits) -> Inspected | None:
    """`look_inside` ahead of `validate_produced`; None: that will refuse it without a look at its records."""
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
    """The header of a batch from a client, as `single_batch` gives it, or from a coordinator.

    inspected: the result of `inspect` for this batch, if it ran
    raises: KafkaError CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP,
            UNKNOWN_SERVER_ERROR (a codec that there is not, or not its bytes)
    """
    header = read_header(batch)
    if header.base_offset != 0:
        raise _invalid(f"a client's batch begins at offset 0, not {header.base_offset}")
    if header.size_bytes > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"batch of {header.size_bytes} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    if not check_crc(batch, 0, header):
        raise corrupt(f"batch of {header.size_bytes} bytes fails its CRC")
    if header.attributes & CODEC_MASK >= len(CODECS):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{header.codec} is none that Kafka has")
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
            f"batch of {header.size_bytes} bytes, segment.bytes is {config.segment_bytes}",
        )
    return header


def _validate_header(header: BatchHeader, from_client: bool) -> None:
    """source: LogValidator.validateBatch"""
    if header.magic != MAGIC:
        raise _invalid(f"magic {header.magic} is not supported, only {MAGIC}")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise _invalid(f"{header.record_count} records with a last offset delta of {header.last_offset_delta}")
    if not from_client:
        return
    if header.attributes & CONTROL:
        raise _invalid("clients may not write control batches")
    if header.base_sequence < 0 and header.has_producer_id:
        raise _invalid(f"producer {header.producer_id} sent sequence {header.base_sequence}")


def _validate_records(header: BatchHeader, walked: Walked, config: TopicConfig, now_ms: int) -> None:
    """source: LogValidator.validateRecord, processRecordErrors"""
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
        # Simplified: of a topic with CreateTime, too. Since 3.6 Kafka takes the type out of such a batch.
        bad = ((place, "Producer should not set timestamp type to LogAppendTime") for place in range(len(deltas)))
    elif not has_no_limit:
        bad = _bad_timestamps(header.base_timestamp, deltas, config, now_ms)
    for place, why in bad:
        if len(errors) >= RECORD_ERRORS_MAX:
            break
        if place not in errors:
            code = ErrorCode.INVALID_TIMESTAMP
            errors[place] = why
    if errors:
        record_errors = tuple(sorted(errors.items()))
        first = record_errors[0]
        message = f"{len(errors)} of {header.record_count} records are refused, the first at {first[0]}: {first[1]}"
        raise KafkaError(code, message, record_errors=record_errors)


def _bad_timestamps(base_ms: int, deltas: list[int], config: TopicConfig, now_ms: int) -> Iterator[tuple[int, str]]:
    """(place, what is wrong) of records that are too old or too new, in Java's arithmetic of 64 bits."""
    before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    oldest_ms, newest_ms = base_ms + min(deltas), base_ms + max(deltas)
    if now_ms - before_ms <= oldest_ms and now_ms - NEVER <= oldest_ms and newest_ms <= min(now_ms + after_ms, NEVER):
        return  # as good as always
    for place, delta in enumerate(deltas):
        timestamp_ms = as_int64(base_ms + delta)
        age_ms = as_int64(now_ms - timestamp_ms)
        if timestamp_ms != NO_TIMESTAMP and (age_ms > before_ms or as_int64(-age_ms) > after_ms):
            yield place, f"Timestamp {timestamp_ms} of message with offset {place} is out of range at {now_ms}"


# ------------------------------------------------------------------------------------------------------ on a follower


def whole_batches(data: Bytes, max_leader_epoch: LeaderEpoch | None) -> tuple[list[BatchHeader], int]:
    """Headers of the fetched batches to append, and how many bytes they are; a partial tail is left out.

    max_leader_epoch: the first batch of a newer epoch ends the row (KAFKA-18723); None: no such test
    raises: KafkaError CORRUPT_MESSAGE
    """
    headers: list[BatchHeader] = []
    size_bytes = 0
    for position, header in batches(data):
        if max_leader_epoch is not None and header.leader_epoch > max_leader_epoch:
            break
        if header.magic != MAGIC or not check_crc(data, position, header):
            raise corrupt(f"fetched batch at offset {header.base_offset} fails its CRC or has the wrong magic")
        headers.append(header)
        size_bytes = position + header.size_bytes
    return headers, size_bytes


def check_order(headers: list[BatchHeader], log_end_offset: Offset) -> None:
    """Offsets come with the fetched batches; they may leave holes, but never go back.

    raises: KafkaError UNKNOWN_SERVER_ERROR (Kafka: UnexpectedAppendOffsetException, OffsetsOutOfOrderException)
    """
    expected = log_end_offset
    for header in headers:
        if header.base_offset < expected:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"fetched batch begins at offset {header.base_offset}, the log continues at {expected}",
                base_offset=header.base_offset,
                log_end_offset=expected,
            )
        expected = header.last_offset + 1


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
