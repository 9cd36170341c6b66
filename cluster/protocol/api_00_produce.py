"""Produce: append record batches. Versions 3 to 13, both directions.

A producer:

    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, topics=[("orders", [(0, batch)])])
    frame = encode_produce_request(9, correlation_id, "p1", request)         # size prefix included; batch is copied in
    response = decode_produce_response(9, response_frame_without_prefix)
    for topic, partitions in response.topics:                                  # topic: UUID from 13 up, name below
        for part in partitions:
            part.partition, part.error, part.base_offset, part.error_message

A broker:

    request = decode_produce_request(header, frame)       # records are memoryviews into the frame: stamp them in place
    frame = encode_produce_response(header.api_version, header.correlation_id, [("orders", [
        ProducePartitionResponse(0, ErrorCode.NONE, base_offset=17, log_start_offset=0)])])

A request with acks=0 gets no response. This module does not parse batches; `replica.log.batches.records` does.

Versions: 3 transactional id, record batch v2 (KIP-98). 4 KAFKA_STORAGE_ERROR possible (KIP-112). 5 log_start_offset in
the response (KIP-107). 7 zstd (KIP-110). 8 record_errors and error_message (KIP-467). 9 flexible (KIP-482).
10 current_leader and node_endpoints in the response (KIP-951). 11 and 12 change errors and transactions only (KIP-890).
13 topic ids in place of names, both ways (KIP-516). Source: ProduceRequest.json, ProduceResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from cluster.protocol.leaders import LeaderIdAndEpoch, NodeEndpoint, endpoints_section, leader_of, read_endpoints
from cluster.protocol.primitives import (
    INT32,
    MAX_INT32,
    NO_TAGS,
    Frame,
    Topic,
    check_consumed,
    cut_text,
    decodes,
    encode_topic,
    error_of,
    length,
    read_by_topic,
    read_count,
    read_length,
    read_string,
    read_tagged,
    skip_tagged,
    string,
    tagged,
)
from cluster.protocol.versions import (
    PRODUCE,
    RequestHeader,
    is_flexible,
    request_frame,
    response_body_position,
    response_frame,
)
from cluster.slices import MAX_PRODUCED, counted, paced, reads_request
from replica.errors import ErrorCode
from replica.frozen import dataclass
from replica.ids import UNKNOWN_OFFSET, Offset

NO_TIMESTAMP = -1
FIRST_PRODUCE_WITH_TOPIC_IDS = 13

_ACKS_AND_TIMEOUT = Struct(">hi")
_PARTITION_V3 = Struct(">ihqq")  # partition, error, base offset, log append time
_PARTITION_V5 = Struct(">ihqqq")  # ... log start offset

CURRENT_LEADER_TAG = 0


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """A Produce request: batches by topic and partition.

    Attributes:
        acks: -1 for all in-sync replicas, 1 for the leader, 0 for no response.
        timeout_ms: how long the leader waits for replication.
        topics: (topic, [(partition, record batch or None)]); a topic's id from version 13 on, its name below.
    """

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: Sequence[tuple[Topic, Sequence[tuple[int, bytes | bytearray | memoryview | None]]]]


@dataclass(frozen=True, slots=True)
class ProducePartitionResponse:
    """The result for one partition's batch.

    Attributes:
        base_offset: offset of the batch's first record, -1 if the batch was not appended.
        log_append_time_ms: -1 unless the topic has message.timestamp.type=LogAppendTime.
        record_errors: (index in the batch, message) of each refused record.
        current_leader: the leader, sent with NOT_LEADER_OR_FOLLOWER (version 10).
    """

    partition: int
    error: ErrorCode
    base_offset: Offset = UNKNOWN_OFFSET
    log_append_time_ms: int = NO_TIMESTAMP
    log_start_offset: Offset = UNKNOWN_OFFSET
    error_message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()
    current_leader: LeaderIdAndEpoch | None = None


@dataclass(frozen=True, slots=True)
class ProduceResponse:
    """A decoded Produce response: results by topic and partition."""

    topics: list[tuple[Topic, list[ProducePartitionResponse]]]
    throttle_time_ms: int
    node_endpoints: tuple[NodeEndpoint, ...]


# ------------------------------------------------------------------------------------------------------------- request


def encode_produce_request(version: int, correlation_id: int, client_id: str | None, request: ProduceRequest) -> bytes:
    """Return a whole request frame with its size prefix."""
    flexible, by_id = is_flexible(PRODUCE, version), version >= FIRST_PRODUCE_WITH_TOPIC_IDS
    tags = NO_TAGS if flexible else b""
    parts: list[bytes | bytearray | memoryview] = [
        string(request.transactional_id, flexible),
        _ACKS_AND_TIMEOUT.pack(request.acks, request.timeout_ms),
        length(len(request.topics), flexible),
    ]
    for topic, partitions in request.topics:
        parts += (encode_topic(topic, by_id=by_id, flexible=flexible), length(len(partitions), flexible))
        for partition, records in partitions:
            parts.append(INT32.pack(partition) + length(-1 if records is None else len(records), flexible))
            if records is not None:
                parts.append(records)
            parts.append(tags)
        parts.append(tags)
    parts.append(tags)
    return request_frame(PRODUCE, version, correlation_id, client_id, b"".join(parts))


@reads_request(MAX_PRODUCED, MAX_INT32)
@decodes("a Produce request")
def decode_produce_request(header: RequestHeader, frame: Frame) -> ProduceRequest:
    """Decode a request frame without size prefix. Records are memoryviews into the frame, writable if the frame is.

    Raises:
        PeerViolation: if the frame is malformed.
    """
    version = header.api_version
    flexible = is_flexible(PRODUCE, version)
    transactional_id, position = read_string(frame, header.body_position, flexible)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(frame, position)
    position += _ACKS_AND_TIMEOUT.size
    topics, position = read_by_topic(
        frame, position, version, flexible, version >= FIRST_PRODUCE_WITH_TOPIC_IDS, _read_batches
    )
    if flexible:
        position = skip_tagged(frame, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _read_batches(frame: Frame, position: int, version: int) -> tuple[list[tuple[int, memoryview | None]], int]:
    flexible = is_flexible(PRODUCE, version)
    view = memoryview(frame)
    count, position = read_count(frame, position, flexible, 5)
    batches: list[tuple[int, memoryview | None]] = []
    for _ in counted(count):
        (partition,) = INT32.unpack_from(frame, position)
        size, position = read_length(frame, position + 4, flexible)
        if size < 0:
            batches.append((partition, None))
        else:
            batches.append((partition, view[position : position + size]))
            position += size
        if flexible:
            position = skip_tagged(frame, position)
    return batches, position


# ------------------------------------------------------------------------------------------------------------ response


def encode_produce_response(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[Topic, Sequence[ProducePartitionResponse]]],
    throttle_time_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """Return a whole response frame with its size prefix."""
    flexible, by_id = is_flexible(PRODUCE, version), version >= FIRST_PRODUCE_WITH_TOPIC_IDS
    parts = [length(len(topics), flexible)]
    for topic, partitions in paced(topics):
        parts += (encode_topic(topic, by_id=by_id, flexible=flexible), length(len(partitions), flexible))
        parts += (_partition_response(version, part) for part in paced(partitions))
        if flexible:
            parts.append(NO_TAGS)
    parts.append(INT32.pack(throttle_time_ms))
    if flexible:
        parts.append(endpoints_section(endpoints if version >= 10 else ()))
    return response_frame(PRODUCE, version, correlation_id, b"".join(parts))


def _partition_response(version: int, part: ProducePartitionResponse) -> bytes:
    if version < 5:
        return _PARTITION_V3.pack(part.partition, part.error, part.base_offset, part.log_append_time_ms)
    start = _PARTITION_V5.pack(
        part.partition, part.error, part.base_offset, part.log_append_time_ms, part.log_start_offset
    )
    if version < 8:
        return start
    flexible = version >= 9
    tags = NO_TAGS if flexible else b""
    parts = [start, length(len(part.record_errors), flexible)]
    for index, message in part.record_errors:
        parts += (INT32.pack(index), string(cut_text(message), flexible), tags)
    parts.append(string(cut_text(part.error_message), flexible))
    if version >= 10 and part.current_leader is not None:
        tags = tagged({CURRENT_LEADER_TAG: part.current_leader.encoded()})
    parts.append(tags)
    return b"".join(parts)


def decode_produce_response(version: int, frame: Frame) -> ProduceResponse:
    """Decode a response frame without size prefix.

    Raises:
        PeerViolation: if the frame is malformed.
    """
    return _decode_response(frame, version, response_body_position(PRODUCE, version, frame))


@decodes("a Produce response")
def _decode_response(frame: Frame, version: int, position: int) -> ProduceResponse:
    flexible = is_flexible(PRODUCE, version)
    topics, position = read_by_topic(
        frame, position, version, flexible, version >= FIRST_PRODUCE_WITH_TOPIC_IDS, _read_partition_responses
    )
    (throttle_time_ms,) = INT32.unpack_from(frame, position)
    position += 4
    endpoints: tuple[NodeEndpoint, ...] = ()
    if flexible:
        endpoints, position = read_endpoints(frame, position, is_known=version >= 10)
    check_consumed(frame, position)
    return ProduceResponse(topics, throttle_time_ms, endpoints)


def _read_partition_responses(frame: Frame, position: int, version: int) -> tuple[list[ProducePartitionResponse], int]:
    count, position = read_count(frame, position, is_flexible(PRODUCE, version), _PARTITION_V3.size)
    partitions = []
    for _ in range(count):
        part, position = _read_partition_response(frame, position, version)
        partitions.append(part)
    return partitions, position


def _read_partition_response(frame: Frame, position: int, version: int) -> tuple[ProducePartitionResponse, int]:
    if version < 5:
        partition, error, base_offset, time_ms = _PARTITION_V3.unpack_from(frame, position)
        return ProducePartitionResponse(partition, error_of(error), base_offset, time_ms), position + _PARTITION_V3.size
    partition, error, base_offset, time_ms, start = _PARTITION_V5.unpack_from(frame, position)
    position += _PARTITION_V5.size
    message, leader = None, None
    record_errors: list[tuple[int, str | None]] = []
    if version >= 8:
        flexible = version >= 9
        count, position = read_count(frame, position, flexible, 5)
        for _ in range(count):
            (index,) = INT32.unpack_from(frame, position)
            text, position = read_string(frame, position + 4, flexible)
            if flexible:
                position = skip_tagged(frame, position)
            record_errors.append((index, text))
        message, position = read_string(frame, position, flexible)
        if flexible:
            tags, position = read_tagged(frame, position)
            if version >= 10 and CURRENT_LEADER_TAG in tags:
                leader = leader_of(tags[CURRENT_LEADER_TAG])
    response = ProducePartitionResponse(
        partition, error_of(error), base_offset, time_ms, start, message, tuple(record_errors), leader
    )
    return response, position
