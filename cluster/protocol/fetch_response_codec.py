"""Encodes Fetch responses as bytes and file slices, and decodes them; the messages are those of api_01_fetch.py.

Source: FetchResponse.json
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

from cluster.node import Segment
from cluster.protocol.api_01_fetch import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    NO_SESSION,
    REMEMBERED_MAX,
    EpochEndOffset,
    FetchedPartition,
    FetchPartitionResponse,
    FetchResponse,
    SnapshotId,
    size_of,
)
from cluster.protocol.leaders import LeaderIdAndEpoch, NodeEndpoint, endpoints_section, leader_of, read_endpoints
from cluster.protocol.primitives import (
    INT32,
    NO_TAGS,
    Frame,
    Topic,
    check_consumed,
    decodes,
    encode_topic,
    error_of,
    length,
    read_by_topic,
    read_count,
    read_length,
    read_tagged,
    skip_tagged,
    tagged,
)
from cluster.protocol.versions import FETCH, has_flexible_response_header, is_flexible, response_body_position
from cluster.slices import paced
from replica.errors import ErrorCode
from replica.ids import (
    NO_BROKER,
    UNKNOWN_OFFSET,
    Offset,
)

REMEMBERED_BYTES_MAX = 100
"""The maximum size in bytes of a response that is decoded with a cache. Responses without records are often equal."""
DIVERGING_EPOCH_TAG = 0
CURRENT_LEADER_TAG = 1
SNAPSHOT_ID_TAG = 2

_TOP_RESPONSE = Struct(">ihi")  # throttle time, error, session id
_ANSWERED_V5 = Struct(">ihqqq")  # partition, error, high watermark, last stable offset, log start
_ANSWERED_V4 = Struct(">ihqq")  # no log start
_EPOCH_END_OFFSET = Struct(">iq")
_SNAPSHOT_ID = Struct(">qi")
_ABORTED = Struct(">qq")


def fetch_response_segments(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[Topic, Sequence[FetchPartitionResponse]]],
    error: ErrorCode = ErrorCode.NONE,
    session_id: int = NO_SESSION,
    throttle_time_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> list[Segment]:
    """Return a whole response with its size prefix, as segments to send in order. File slices are sent by sendfile.

    Source: MultiRecordsSend, FetchResponse.toSend
    """
    flexible, by_id = is_flexible(FETCH, version), version >= FIRST_VERSION_WITH_TOPIC_IDS
    piece = bytearray(4) + INT32.pack(correlation_id)  # The size is patched in at the end.
    if has_flexible_response_header(FETCH, version):
        piece += NO_TAGS
    piece += _TOP_RESPONSE.pack(throttle_time_ms, error, session_id) if version >= 7 else INT32.pack(throttle_time_ms)
    piece += length(len(topics), flexible)
    segments: list[Segment] = []
    first, total = piece, 0
    for topic, partitions in paced(topics):
        piece += encode_topic(topic, by_id=by_id, flexible=flexible) + length(len(partitions), flexible)
        for part in paced(partitions):
            _start_partition(piece, version, part)
            size = size_of(part.slice)
            piece += length(size, flexible)
            if size:
                segments += (piece, part.slice)
                total += len(piece) + size
                piece = bytearray()
            if flexible:
                piece += _partition_tags(part)
        if flexible:
            piece += NO_TAGS
    if flexible:
        piece += endpoints_section(endpoints if version >= 16 else ())
    if piece:
        segments.append(piece)
        total += len(piece)
    INT32.pack_into(first, 0, total - 4)
    return segments


def _start_partition(piece: bytearray, version: int, part: FetchPartitionResponse) -> None:
    if version >= 5:
        piece += _ANSWERED_V5.pack(
            part.partition, part.error, part.high_watermark, part.last_stable_offset, part.log_start_offset
        )
    else:
        piece += _ANSWERED_V4.pack(part.partition, part.error, part.high_watermark, part.last_stable_offset)
    flexible = version >= 12
    if part.aborted_transactions is None:  # Kafka answers null, not an empty array, to read_uncommitted.
        piece += length(-1, flexible)
    else:
        piece += length(len(part.aborted_transactions), flexible)
        for aborted in part.aborted_transactions:
            piece += _ABORTED.pack(*aborted)
            if flexible:
                piece += NO_TAGS
    if version >= 11:
        piece += INT32.pack(part.preferred_read_replica)


def _partition_tags(part: FetchPartitionResponse) -> bytes:
    if part.diverging_epoch is None and part.current_leader is None and part.snapshot_id is None:
        return NO_TAGS
    tags = {}
    if part.diverging_epoch is not None:
        tags[DIVERGING_EPOCH_TAG] = _EPOCH_END_OFFSET.pack(*part.diverging_epoch) + NO_TAGS
    if part.current_leader is not None:
        tags[CURRENT_LEADER_TAG] = LeaderIdAndEpoch(*part.current_leader).encoded()
    if part.snapshot_id is not None:
        tags[SNAPSHOT_ID_TAG] = _SNAPSHOT_ID.pack(*part.snapshot_id) + NO_TAGS
    return tagged(tags)


def decode_fetch_response(version: int, frame: Frame) -> FetchResponse:
    """Decode a response frame without size prefix.

    Raises:
        PeerViolation: if the frame is malformed.
    """
    position = response_body_position(FETCH, version, frame)
    if len(frame) <= REMEMBERED_BYTES_MAX:
        return _remembered_response(bytes(frame[position:]), version)
    return _decode_response(frame, version, position)


@lru_cache(REMEMBERED_MAX)
def _remembered_response(body: bytes, version: int) -> FetchResponse:
    return _decode_response(body, version, 0)


@decodes("a Fetch response")
def _decode_response(frame: Frame, version: int, position: int) -> FetchResponse:
    flexible = is_flexible(FETCH, version)
    error, session_id = 0, NO_SESSION
    if version >= 7:
        throttle_time_ms, error, session_id = _TOP_RESPONSE.unpack_from(frame, position)
        position += _TOP_RESPONSE.size
    else:
        (throttle_time_ms,) = INT32.unpack_from(frame, position)
        position += 4
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    topics, position = read_by_topic(frame, position, version, flexible, by_id, _read_fetched_partitions)
    endpoints: tuple[NodeEndpoint, ...] = ()
    if flexible:
        endpoints, position = read_endpoints(frame, position, is_known=version >= 16)
    check_consumed(frame, position)
    return FetchResponse(error_of(error), session_id, topics, throttle_time_ms, endpoints)


def _read_fetched_partitions(frame: Frame, position: int, version: int) -> tuple[list[FetchedPartition], int]:
    count, position = read_count(frame, position, version >= 12, _ANSWERED_V4.size)
    view = memoryview(frame)
    partitions = []
    for _ in paced(range(count)):
        part, position = _read_fetched_partition(view, position, version)
        partitions.append(part)
    return partitions, position


def _read_fetched_partition(view: memoryview, position: int, version: int) -> tuple[FetchedPartition, int]:
    flexible = version >= 12
    if version >= 5:
        index, error, high_watermark, last_stable, start = _ANSWERED_V5.unpack_from(view, position)
        position += _ANSWERED_V5.size
    else:
        index, error, high_watermark, last_stable = _ANSWERED_V4.unpack_from(view, position)
        start = UNKNOWN_OFFSET
        position += _ANSWERED_V4.size
    if flexible and view[position] == 0:  # The usual case.
        aborted, position = None, position + 1
    else:
        aborted, position = _read_aborted(view, position, flexible)
    preferred = NO_BROKER
    if version >= 11:
        (preferred,) = INT32.unpack_from(view, position)
        position += 4
    size, position = read_length(view, position, flexible)
    records = view[position : position + max(size, 0)]
    position += len(records)
    diverging, leader, snapshot = None, None, None
    if flexible and view[position] == 0:  # The usual case.
        position += 1
    elif flexible:
        tags, position = read_tagged(view, position)
        if DIVERGING_EPOCH_TAG in tags:
            diverging = _read_epoch_end_offset(tags[DIVERGING_EPOCH_TAG])
        if CURRENT_LEADER_TAG in tags:
            leader = leader_of(tags[CURRENT_LEADER_TAG])
        if SNAPSHOT_ID_TAG in tags:
            snapshot = _read_snapshot_id(tags[SNAPSHOT_ID_TAG])
    part = FetchedPartition(
        index,
        error_of(error),
        high_watermark,
        last_stable,
        start,
        diverging,
        leader,
        records,
        aborted,
        preferred,
        snapshot,
    )
    return part, position


def _read_snapshot_id(data: bytes) -> SnapshotId:
    snapshot = SnapshotId(*_SNAPSHOT_ID.unpack_from(data, 0))
    check_consumed(data, skip_tagged(data, _SNAPSHOT_ID.size))
    return snapshot


def _read_aborted(view: memoryview, position: int, flexible: bool) -> tuple[tuple[tuple[int, Offset], ...] | None, int]:
    count, position = read_count(view, position, flexible, _ABORTED.size, nullable=True)
    if count < 0:
        return None, position
    aborted = []
    for _ in range(count):
        aborted.append(_ABORTED.unpack_from(view, position))
        position += _ABORTED.size
        if flexible:
            position = skip_tagged(view, position)
    return tuple(aborted), position


def _read_epoch_end_offset(data: bytes) -> EpochEndOffset:
    end = EpochEndOffset(*_EPOCH_END_OFFSET.unpack_from(data, 0))
    check_consumed(data, skip_tagged(data, _EPOCH_END_OFFSET.size))
    return end
