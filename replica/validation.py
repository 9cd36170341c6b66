"""What must hold of a batch before it touches the log: a produced one on the leader, a fetched one on a follower.

The order of the tests is Kafka's. Source: UnifiedLog.analyzeAndValidateRecords, LogValidator.validateBatch.
"""

from __future__ import annotations

from replica.config import NEVER, TopicConfig
from replica.errors import ErrorCode, KafkaError
from replica.ids import LeaderEpoch, Offset
from replica.log.records import (
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER_ID,
    BatchHeader,
    Bytes,
    batches,
    check_crc,
    corrupt,
    read_header,
)


def validate_produced(batch: bytearray | memoryview, config: TopicConfig, now_us: int) -> BatchHeader:
    """The header of the one batch that a produce request may carry per partition.

    raises: KafkaError CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP
    """
    header = read_header(batch)
    if header.magic != MAGIC:
        raise _invalid(f"magic {header.magic} is not supported, only {MAGIC}")
    if header.base_offset != 0:
        raise _invalid(f"a client's batch begins at offset 0, not {header.base_offset}")
    if header.size_bytes > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"batch of {header.size_bytes} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    if header.size_bytes > len(batch):
        raise corrupt(f"batch of {header.size_bytes} bytes arrived with {len(batch)}")
    if not check_crc(batch, 0, header):
        raise corrupt(f"batch of {header.size_bytes} bytes fails its CRC")
    if header.size_bytes < len(batch):
        raise _invalid("more than one batch for a partition in one request")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise _invalid(f"{header.record_count} records with a last offset delta of {header.last_offset_delta}")
    if header.is_control:
        raise _invalid("clients may not write control batches")
    if header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0:
        raise _invalid(f"producer {header.producer_id} sent sequence {header.base_sequence}")
    _validate_timestamp(header, config, now_us // 1000)
    if header.size_bytes > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"batch of {header.size_bytes} bytes, segment.bytes is {config.segment_bytes}",
        )
    return header


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


def _validate_timestamp(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    # Simplified: message.timestamp.type is always CreateTime.
    if header.attributes & LOG_APPEND_TIME:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "a client may not set the log-append timestamp type")
    # Simplified: Kafka looks at every record; here the batch's base and largest timestamp stand for them.
    before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    if before_ms != NEVER and now_ms - header.base_timestamp > before_ms:
        raise _bad_timestamp(header.base_timestamp, "older", now_ms)
    if after_ms != NEVER and header.max_timestamp - now_ms > after_ms:
        raise _bad_timestamp(header.max_timestamp, "newer", now_ms)


def _bad_timestamp(timestamp_ms: int, how: str, now_ms: int) -> KafkaError:
    message = f"timestamp {timestamp_ms} is {how} than allowed at {now_ms}"
    return KafkaError(ErrorCode.INVALID_TIMESTAMP, message, timestamp_ms=timestamp_ms)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
