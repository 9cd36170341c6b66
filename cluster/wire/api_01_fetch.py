"""Fetch: read record batches. Versions 4 to 16, both directions; a response leaves record bytes in their files.

A follower (version 16: topics by id, and who it is in ReplicaState) or a consumer (version 12: topics by name):

    request = FetchRequest(replica_id=2, replica_epoch=7, max_wait_ms=500, min_bytes=1, max_bytes=10 << 20,
                           topics=[(topic_id, [FetchPartition(0, current_leader_epoch=4, fetch_offset=17,
                                                              last_fetched_epoch=4, max_bytes=1 << 20)])])
    frame = encode_fetch_request(16, correlation_id, "b2", request)            # size prefix included
    response = decode_fetch_response(16, response_frame_without_prefix)
    for topic, partitions in response.topics:                                  # topic: UUID from 13 up, name below
        for part in partitions:
            part.error, part.high_watermark, part.diverging_epoch, part.records        # records: a memoryview

A broker:

    request = decode_fetch_request(header, frame)
    segments = fetch_response_segments(header.api_version, header.correlation_id, [(topic, [
        FetchPartitionResponse(0, ErrorCode.NONE, high_watermark=17, log_start_offset=0, slice=log.read(...))])])

The segments are Kafka's MultiSend: bytes, file slice, bytes, file slice, ... No record byte passes through Python;
every bytes segment ends with the length of the slice that follows it, and the four bytes of frame size at the very
start are patched in once the total is known.

Versions: 4 isolation level, last_stable_offset (KIP-98). 5 log_start_offset (KIP-107). 7 sessions (KIP-227).
9 current_leader_epoch (KIP-320). 10 zstd. 11 rack and preferred_read_replica (KIP-392). 12 flexible,
last_fetched_epoch, diverging_epoch (KIP-595). 13 topic ids (KIP-516). 14 tiered storage (KIP-405). 15 ReplicaState in
place of replica_id (KIP-903). 16 node_endpoints (KIP-951). Source: FetchRequest.json, FetchResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from cluster.node import Segment
from cluster.wire.headers import RequestHeader, request_frame, response_body_position
from cluster.wire.leaders import LeaderIdAndEpoch, NodeEndpoint, leader_of, node_endpoints, node_endpoints_of
from cluster.wire.primitives import (
    INT32,
    MAX_INT32,
    NO_TAGS,
    Frame,
    check_consumed,
    decodes,
    error_of,
    length,
    read_array_count,
    read_count,
    read_length,
    read_tagged,
    read_text,
    read_uuid,
    skip_tagged,
    string,
    tagged,
)
from cluster.wire.versions import FETCH, has_flexible_response_header, is_flexible
from replica.errors import ErrorCode
from replica.file_slice import EMPTY_SLICE, FileSlice
from replica.ids import (
    NO_BROKER,
    NO_BROKER_EPOCH,
    UNDEFINED_EPOCH,
    UNKNOWN_OFFSET,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
)

Topic = str | UUID
"""A topic's name up to version 12, its id from version 13."""

NO_SESSION = 0
FINAL_EPOCH = -1
"""session_epoch of a fetch outside any session (FetchMetadata.FINAL_EPOCH); 0 asks for a new one."""

READ_UNCOMMITTED = 0
FIRST_VERSION_WITH_TOPIC_IDS = 13

REPLICA_STATE_TAG = 1
DIVERGING_EPOCH_TAG = 0
CURRENT_LEADER_TAG = 1
SNAPSHOT_ID_TAG = 2
NODE_ENDPOINTS_TAG = 0

_TOP_V15 = Struct(">iiibii")  # max wait, min bytes, max bytes, isolation, session id, session epoch
_TOP_V7 = Struct(">iiiibii")  # replica id first
_TOP_V4 = Struct(">iiiib")  # no session
_ASKED_V12 = Struct(">iiqiqi")  # partition, leader epoch, offset, last fetched epoch, log start, max bytes
_ASKED_V12_TAGS = Struct(">iiqiqiB")  # ... and an empty tagged section
_ASKED_V9 = Struct(">iiqqi")  # no last fetched epoch
_ASKED_V5 = Struct(">iqqi")  # no leader epoch
_ASKED_V4 = Struct(">iqi")  # no log start
_REPLICA_STATE = Struct(">iq")

_TOP_RESPONSE = Struct(">ihi")  # throttle time, error, session id
_ANSWERED_V5 = Struct(">ihqqq")  # partition, error, high watermark, last stable offset, log start
_ANSWERED_V4 = Struct(">ihqq")  # no log start
_EPOCH_END_OFFSET = Struct(">iq")
_SNAPSHOT_ID = Struct(">qi")
_ABORTED = Struct(">qq")


REMEMBERED_BYTES_MAX = 512
REMEMBERED_BODIES_MAX = 256
"""While little happens, most fetches and most answers are byte for byte what they were before, or what another replica
has just been told: small bodies are decoded once."""


class FetchPartition(NamedTuple):
    """One partition that is asked for.

    current_leader_epoch: fences both ways (-1: do not check)     last_fetched_epoch: epoch of the fetcher's last record
    log_start_offset: the follower's own, -1 from a consumer      max_bytes: soft limit (KIP-74)
    """

    partition: int
    current_leader_epoch: LeaderEpoch = UNDEFINED_EPOCH
    fetch_offset: Offset = 0
    last_fetched_epoch: LeaderEpoch = UNDEFINED_EPOCH
    log_start_offset: Offset = UNKNOWN_OFFSET
    max_bytes: int = 1 << 20


class FetchRequest(NamedTuple):
    """One request. replica_id -1 is a consumer; replica_epoch travels from version 15 up, rack from 11."""

    replica_id: BrokerId = NO_BROKER
    replica_epoch: BrokerEpoch = NO_BROKER_EPOCH
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = MAX_INT32
    isolation: int = READ_UNCOMMITTED
    session_id: int = NO_SESSION
    session_epoch: int = FINAL_EPOCH
    topics: Sequence[tuple[Topic, Sequence[FetchPartition]]] = ()
    forgotten: Sequence[tuple[Topic, Sequence[int]]] = ()
    rack: str = ""


class EpochEndOffset(NamedTuple):
    """Largest epoch that the leader shares with the fetcher, and where it ends: truncate to there (KIP-595)."""

    epoch: LeaderEpoch
    end_offset: Offset


class SnapshotId(NamedTuple):
    """What the fetcher asks for is only in this snapshot any more: take that, then go on from its end (KIP-630)."""

    end_offset: Offset
    epoch: LeaderEpoch


class FetchPartitionResponse(NamedTuple):
    """What a broker answers for one partition; `slice` is a stretch of a segment file, or bytes held in memory."""

    partition: int
    error: ErrorCode
    high_watermark: Offset = UNKNOWN_OFFSET
    last_stable_offset: Offset = UNKNOWN_OFFSET
    log_start_offset: Offset = UNKNOWN_OFFSET
    diverging_epoch: tuple[LeaderEpoch, Offset] | None = None
    current_leader: tuple[BrokerId, LeaderEpoch] | None = None
    slice: Segment = EMPTY_SLICE
    aborted_transactions: Sequence[tuple[int, Offset]] | None = None
    preferred_read_replica: BrokerId = NO_BROKER
    snapshot_id: SnapshotId | None = None


class FetchedPartition(NamedTuple):
    """What a fetcher received for one partition; `records` is a memoryview into the frame, empty if there are none.

    The last batch in `records` may be cut short (max_bytes); tags of versions below 12 are None.
    """

    partition: int
    error: ErrorCode
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    diverging_epoch: EpochEndOffset | None
    current_leader: LeaderIdAndEpoch | None
    records: memoryview
    aborted_transactions: tuple[tuple[int, Offset], ...] | None
    preferred_read_replica: BrokerId
    snapshot_id: SnapshotId | None = None


class FetchResponse(NamedTuple):
    """A decoded response; `error` concerns the session as a whole (always NONE below version 7)."""

    error: ErrorCode
    session_id: int
    topics: Sequence[tuple[Topic, Sequence[FetchedPartition]]]
    throttle_time_ms: int
    node_endpoints: tuple[NodeEndpoint, ...]


# ------------------------------------------------------------------------------------------------------------- request


def encode_fetch_request(version: int, correlation_id: int, client_id: str | None, request: FetchRequest) -> bytes:
    """A whole request frame, size prefix included."""
    flexible = is_flexible(FETCH, version)
    parts = [_top_of_request(version, request), length(len(request.topics), flexible)]
    for topic, partitions in request.topics:
        parts += (_topic(topic, version), length(len(partitions), flexible))
        parts += _asked_partitions(version, partitions)
        if flexible:
            parts.append(NO_TAGS)
    if version >= 7:
        parts.append(length(len(request.forgotten), flexible))
        for topic, indexes in request.forgotten:
            parts += (_topic(topic, version), length(len(indexes), flexible))
            parts += map(INT32.pack, indexes)
            if flexible:
                parts.append(NO_TAGS)
    if version >= 11:
        parts.append(string(request.rack, flexible))
    if flexible:
        parts.append(_tags_of_request(version, request))
    return request_frame(FETCH, version, correlation_id, client_id, b"".join(parts))


class RepeatedFetches:
    """Encodes the fetches of one fetcher: one that asks what the last one asked differs in its correlation id alone."""

    def __init__(self, version: int, client_id: str | None) -> None:
        self._version = version
        self._client_id = client_id
        self._latest: FetchRequest | None = None
        self._before = self._after = b""

    def encode(self, correlation_id: int, request: FetchRequest) -> bytes:
        """As `encode_fetch_request`; nothing inside `request` may change afterwards."""
        if request != self._latest:
            frame = encode_fetch_request(self._version, correlation_id, self._client_id, request)
            self._latest, self._before, self._after = request, frame[:8], frame[12:]
            return frame
        return self._before + INT32.pack(correlation_id) + self._after


def _top_of_request(version: int, request: FetchRequest) -> bytes:
    limits = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation)
    if version >= 15:
        return _TOP_V15.pack(*limits, request.session_id, request.session_epoch)
    if version >= 7:
        return _TOP_V7.pack(request.replica_id, *limits, request.session_id, request.session_epoch)
    return _TOP_V4.pack(request.replica_id, *limits)


def _tags_of_request(version: int, request: FetchRequest) -> bytes:
    if version < 15 or (request.replica_id, request.replica_epoch) == (NO_BROKER, NO_BROKER_EPOCH):
        return NO_TAGS
    return tagged({REPLICA_STATE_TAG: _REPLICA_STATE.pack(request.replica_id, request.replica_epoch) + NO_TAGS})


def _asked_partitions(version: int, partitions: Sequence[FetchPartition]) -> list[bytes]:
    if version >= 12:
        pack = _ASKED_V12_TAGS.pack
        return [pack(*part, 0) for part in partitions]
    if version >= 9:
        return [
            _ASKED_V9.pack(index, leader_epoch, offset, start, limit)
            for index, leader_epoch, offset, _, start, limit in partitions
        ]
    if version >= 5:
        return [_ASKED_V5.pack(index, offset, start, limit) for index, _, offset, _, start, limit in partitions]
    return [_ASKED_V4.pack(index, offset, limit) for index, _, offset, _, _, limit in partitions]


def decode_fetch_request(header: RequestHeader, frame: Frame) -> FetchRequest:
    """Request of a frame without size prefix. Versions 4 to 6 have no session: id 0, epoch -1.

    raises: PeerViolation
    """
    if len(frame) <= REMEMBERED_BYTES_MAX:
        return _remembered_request(bytes(frame[header.body_position :]), header.api_version)
    return _decode_request(frame, header.api_version, header.body_position)


@lru_cache(REMEMBERED_BODIES_MAX)
def _remembered_request(body: bytes, version: int) -> FetchRequest:
    return _decode_request(body, version, 0)


@decodes("a Fetch request")
def _decode_request(frame: Frame, version: int, position: int) -> FetchRequest:
    flexible = is_flexible(FETCH, version)
    replica_id, replica_epoch, session_id, session_epoch = NO_BROKER, NO_BROKER_EPOCH, NO_SESSION, FINAL_EPOCH
    if version >= 15:
        max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch = _TOP_V15.unpack_from(frame, position)
        position += _TOP_V15.size
    elif version >= 7:
        top = _TOP_V7.unpack_from(frame, position)
        replica_id, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch = top
        position += _TOP_V7.size
    else:
        replica_id, max_wait, min_bytes, max_bytes, isolation = _TOP_V4.unpack_from(frame, position)
        position += _TOP_V4.size
    topic_count, position = read_array_count(frame, position, flexible, 2)
    topics = []
    for _ in range(topic_count):
        topic, position = _read_topic(frame, position, version)
        partitions, position = _read_asked_partitions(frame, position, version)
        if flexible:
            position = skip_tagged(frame, position)
        topics.append((topic, partitions))
    forgotten: list[tuple[Topic, tuple[int, ...]]] = []
    if version >= 7:
        forgotten, position = _read_forgotten(frame, position, version)
    rack = ""
    if version >= 11:
        rack, position = read_text(frame, position, flexible)
    if flexible:
        tags, position = read_tagged(frame, position)
        if version >= 15 and REPLICA_STATE_TAG in tags:
            replica_id, replica_epoch = _read_replica_state(tags[REPLICA_STATE_TAG])
    return FetchRequest(
        replica_id,
        replica_epoch,
        max_wait,
        min_bytes,
        max_bytes,
        isolation,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack,
    )


def _read_asked_partitions(frame: Frame, position: int, version: int) -> tuple[list[FetchPartition], int]:
    count, position = read_array_count(frame, position, version >= 12, _ASKED_V4.size)
    partitions = []
    for _ in range(count):
        if version >= 12:
            partitions.append(FetchPartition._make(_ASKED_V12.unpack_from(frame, position)))
            position = skip_tagged(frame, position + _ASKED_V12.size)
        elif version >= 9:
            index, leader_epoch, offset, start, limit = _ASKED_V9.unpack_from(frame, position)
            partitions.append(FetchPartition(index, leader_epoch, offset, UNDEFINED_EPOCH, start, limit))
            position += _ASKED_V9.size
        elif version >= 5:
            index, offset, start, limit = _ASKED_V5.unpack_from(frame, position)
            partitions.append(FetchPartition(index, UNDEFINED_EPOCH, offset, UNDEFINED_EPOCH, start, limit))
            position += _ASKED_V5.size
        else:
            index, offset, limit = _ASKED_V4.unpack_from(frame, position)
            partitions.append(FetchPartition(index, fetch_offset=offset, max_bytes=limit))
            position += _ASKED_V4.size
    return partitions, position


def _read_forgotten(frame: Frame, position: int, version: int) -> tuple[list[tuple[Topic, tuple[int, ...]]], int]:
    flexible = version >= 12
    topic_count, position = read_array_count(frame, position, flexible, 2)
    forgotten = []
    for _ in range(topic_count):
        topic, position = _read_topic(frame, position, version)
        count, position = read_array_count(frame, position, flexible, 4)
        indexes: tuple[int, ...] = Struct(f">{count}i").unpack_from(frame, position)
        position += 4 * count
        if flexible:
            position = skip_tagged(frame, position)
        forgotten.append((topic, indexes))
    return forgotten, position


def _read_replica_state(data: bytes) -> tuple[BrokerId, BrokerEpoch]:
    replica_id, replica_epoch = _REPLICA_STATE.unpack_from(data, 0)
    check_consumed(data, skip_tagged(data, _REPLICA_STATE.size))
    return replica_id, replica_epoch


def _topic(topic: Topic, version: int) -> bytes:
    if version >= 13:
        assert isinstance(topic, UUID), f"Fetch {version} names topics by id, not by {topic!r}"
        return topic.bytes
    assert isinstance(topic, str), f"Fetch {version} names topics by name, not by {topic!r}"
    return string(topic, version >= 12)


def _read_topic(frame: Frame, position: int, version: int) -> tuple[Topic, int]:
    return read_uuid(frame, position) if version >= 13 else read_text(frame, position, version >= 12)


# ------------------------------------------------------------------------------------------------------------ response


def fetch_response_segments(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[Topic, Sequence[FetchPartitionResponse]]],
    error: ErrorCode = ErrorCode.NONE,
    session_id: int = NO_SESSION,
    throttle_time_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> list[Segment]:
    """One whole response, size prefix included, as pieces to send in order; slices leave by sendfile.

    source: MultiRecordsSend, FetchResponse.toSend
    """
    flexible = is_flexible(FETCH, version)
    piece = bytearray(4) + INT32.pack(correlation_id)  # The size is patched in at the end.
    if has_flexible_response_header(FETCH, version):
        piece += NO_TAGS
    piece += _TOP_RESPONSE.pack(throttle_time_ms, error, session_id) if version >= 7 else INT32.pack(throttle_time_ms)
    piece += length(len(topics), flexible)
    segments: list[Segment] = []
    first, total = piece, 0
    for topic, partitions in topics:
        piece += _topic(topic, version) + length(len(partitions), flexible)
        for part in partitions:
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
        piece += tagged({NODE_ENDPOINTS_TAG: node_endpoints(endpoints)} if version >= 16 and endpoints else {})
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


def size_of(segment: Segment) -> int:
    """Bytes of one piece of a response."""
    return segment.length if isinstance(segment, FileSlice) else len(segment)


def decode_fetch_response(version: int, frame: Frame) -> FetchResponse:
    """Response of a frame without size prefix. raises: PeerViolation"""
    position = response_body_position(FETCH, version, frame)
    if len(frame) <= REMEMBERED_BYTES_MAX:
        return _remembered_response(bytes(frame[position:]), version)
    return _decode_response(frame, version, position)


@lru_cache(REMEMBERED_BODIES_MAX)
def _remembered_response(body: bytes, version: int) -> FetchResponse:
    return _decode_response(body, version, 0)


@decodes("a Fetch response")
def _decode_response(frame: Frame, version: int, position: int) -> FetchResponse:
    flexible = is_flexible(FETCH, version)
    view = memoryview(frame)
    error, session_id = 0, NO_SESSION
    if version >= 7:
        throttle_time_ms, error, session_id = _TOP_RESPONSE.unpack_from(frame, position)
        position += _TOP_RESPONSE.size
    else:
        (throttle_time_ms,) = INT32.unpack_from(frame, position)
        position += 4
    topic_count, position = read_array_count(frame, position, flexible, 2)
    topics = []
    for _ in range(topic_count):
        topic, position = _read_topic(frame, position, version)
        count, position = read_array_count(frame, position, flexible, _ANSWERED_V4.size)
        partitions = []
        for _ in range(count):
            part, position = _read_fetched_partition(view, position, version)
            partitions.append(part)
        if flexible:
            position = skip_tagged(frame, position)
        topics.append((topic, partitions))
    endpoints: tuple[NodeEndpoint, ...] = ()
    if flexible:
        tags, position = read_tagged(frame, position)
        if version >= 16 and NODE_ENDPOINTS_TAG in tags:
            endpoints = node_endpoints_of(tags[NODE_ENDPOINTS_TAG])
    check_consumed(frame, position)
    return FetchResponse(error_of(error), session_id, topics, throttle_time_ms, endpoints)


def _read_fetched_partition(view: memoryview, position: int, version: int) -> tuple[FetchedPartition, int]:
    flexible = version >= 12
    if version >= 5:
        index, error, high_watermark, last_stable, start = _ANSWERED_V5.unpack_from(view, position)
        position += _ANSWERED_V5.size
    else:
        index, error, high_watermark, last_stable = _ANSWERED_V4.unpack_from(view, position)
        start = UNKNOWN_OFFSET
        position += _ANSWERED_V4.size
    aborted, position = _read_aborted(view, position, flexible)
    preferred = NO_BROKER
    if version >= 11:
        (preferred,) = INT32.unpack_from(view, position)
        position += 4
    size, position = read_length(view, position, flexible)
    records = view[position : position + max(size, 0)]
    position += len(records)
    diverging, leader, snapshot = None, None, None
    if flexible:
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
    count, position = read_count(view, position, flexible, _ABORTED.size)
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
