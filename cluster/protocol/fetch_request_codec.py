"""Encodes and decodes Fetch requests, versions 4 to 18. The versions are listed in api_01_fetch.py.

Source: FetchRequest.json
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from struct import Struct

from cluster.protocol.api_01_fetch import (
    FINAL_EPOCH,
    FIRST_VERSION_WITH_TOPIC_IDS,
    NO_HIGH_WATERMARK_TOLD,
    NO_SESSION,
    REMEMBERED_MAX,
    FetchPartition,
    FetchRequest,
)
from cluster.protocol.primitives import (
    INT32,
    INT64,
    NO_TAGS,
    Frame,
    Topic,
    check_consumed,
    decodes,
    encode_topic,
    length,
    read_by_topic,
    read_count,
    read_tagged,
    read_text,
    read_uuid,
    skip_tagged,
    string,
    tagged,
)
from cluster.protocol.versions import FETCH, RequestHeader, is_flexible, request_frame
from cluster.slices import MAX_FETCHED, counted, reads_request
from replica.ids import (
    NO_BROKER,
    NO_BROKER_EPOCH,
    UNDEFINED_EPOCH,
    BrokerEpoch,
    BrokerId,
)

REPLICA_STATE_TAG = 1
DIRECTORY_ID_TAG, HIGH_WATERMARK_TAG = 0, 1
"""Tags of the tagged fields of a partition."""
REMEMBERED_BYTES_MAX = 64
"""The maximum size in bytes of the part after the topics that is cached in decoded form.

A fetcher usually repeats this part in all requests.
"""

_TOP_V15 = Struct(">iiibii")  # max wait, min bytes, max bytes, isolation, session id, session epoch
_TOP_V7 = Struct(">iiiibii")  # replica id first
_TOP_V4 = Struct(">iiiib")  # no session
_ASKED_V12 = Struct(">iiqiqi")  # partition, leader epoch, offset, last fetched epoch, log start, max bytes
_ASKED_V9 = Struct(">iiqqi")  # no last fetched epoch
_ASKED_V5 = Struct(">iqqi")  # no leader epoch
_ASKED_V4 = Struct(">iqi")  # no log start
_REPLICA_STATE = Struct(">iq")

Tail = tuple[list[tuple[Topic, tuple[int, ...]]], str, tuple[BrokerId, BrokerEpoch] | None]
"""The decoded part after the topics: forgotten topics, rack, and the replica's id and epoch."""


def encode_fetch_request(version: int, correlation_id: int, client_id: str | None, request: FetchRequest) -> bytes:
    """Return a whole request frame with its size prefix."""
    flexible, by_id = is_flexible(FETCH, version), version >= FIRST_VERSION_WITH_TOPIC_IDS
    parts = [_top_of_request(version, request), length(len(request.topics), flexible)]
    for topic, partitions in request.topics:
        parts += (encode_topic(topic, by_id=by_id, flexible=flexible), length(len(partitions), flexible))
        parts += [_asked_partition(version, part) for part in partitions]
        if flexible:
            parts.append(NO_TAGS)
    of_replica = request.rack, request.replica_id, request.replica_epoch
    if request.forgotten:
        parts.append(_tail_of_request(version, request.forgotten, *of_replica))
    else:
        parts.append(_remembered_tail(version, (), *of_replica))
    return request_frame(FETCH, version, correlation_id, client_id, b"".join(parts))


def _tail_of_request(
    version: int,
    forgotten: Sequence[tuple[Topic, Sequence[int]]],
    rack: str,
    replica_id: BrokerId,
    replica_epoch: BrokerEpoch,
) -> bytes:
    """Encode the part of a request after the topics."""
    flexible, by_id = is_flexible(FETCH, version), version >= FIRST_VERSION_WITH_TOPIC_IDS
    parts: list[bytes] = []
    if version >= 7:
        parts.append(length(len(forgotten), flexible))
        for topic, indexes in forgotten:
            parts += (encode_topic(topic, by_id=by_id, flexible=flexible), length(len(indexes), flexible))
            parts += map(INT32.pack, indexes)
            if flexible:
                parts.append(NO_TAGS)
    if version >= 11:
        parts.append(string(rack, flexible))
    if flexible:
        parts.append(_tags_of_request(version, replica_id, replica_epoch))
    return b"".join(parts)


_remembered_tail = lru_cache(REMEMBERED_MAX)(_tail_of_request)


class RepeatedFetches:
    """Encodes one fetcher's requests. If only the correlation id has changed, the last frame is reused."""

    def __init__(self, version: int, client_id: str | None) -> None:
        self._version = version
        self._client_id = client_id
        self._latest: FetchRequest | None = None
        self._before = self._after = b""

    def encode(self, correlation_id: int, request: FetchRequest) -> bytes:
        """Return a whole request frame with its size prefix. The caller must not change `request` afterwards."""
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


def _tags_of_request(version: int, replica_id: BrokerId, replica_epoch: BrokerEpoch) -> bytes:
    if version < 15 or (replica_id, replica_epoch) == (NO_BROKER, NO_BROKER_EPOCH):
        return NO_TAGS
    return tagged({REPLICA_STATE_TAG: _REPLICA_STATE.pack(replica_id, replica_epoch) + NO_TAGS})


def _asked_partition(version: int, part: FetchPartition) -> bytes:
    number, offset, start = part.partition, part.fetch_offset, part.log_start_offset
    leader_epoch, fetched_epoch, limit = part.current_leader_epoch, part.last_fetched_epoch, part.max_bytes
    if version >= 12:
        untagged = _ASKED_V12.pack(number, leader_epoch, offset, fetched_epoch, start, limit)
        return untagged + _tags_of_partition(version, part)
    if version >= 9:
        return _ASKED_V9.pack(number, leader_epoch, offset, start, limit)
    if version >= 5:
        return _ASKED_V5.pack(number, offset, start, limit)
    return _ASKED_V4.pack(number, offset, limit)


def _tags_of_partition(version: int, part: FetchPartition) -> bytes:
    tags = {}
    if version >= 17 and part.directory_id is not None:
        tags[DIRECTORY_ID_TAG] = part.directory_id.bytes
    if version >= 18 and part.high_watermark != NO_HIGH_WATERMARK_TOLD:
        tags[HIGH_WATERMARK_TAG] = INT64.pack(part.high_watermark)
    return tagged(tags) if tags else NO_TAGS


@reads_request(MAX_FETCHED)
@decodes("a Fetch request")
def decode_fetch_request(header: RequestHeader, frame: Frame) -> FetchRequest:
    """Decode a request frame without size prefix. Versions 4 to 6 have no session: id 0, epoch -1.

    Raises:
        PeerViolation: if the frame is malformed.
    """
    version, position = header.api_version, header.body_position
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
    flexible, by_id = is_flexible(FETCH, version), version >= FIRST_VERSION_WITH_TOPIC_IDS
    topics, position = read_by_topic(frame, position, version, flexible, by_id, _read_asked_partitions)
    if len(frame) - position <= REMEMBERED_BYTES_MAX:
        forgotten, rack, replica = _remembered_reading(bytes(frame[position:]), version)
    else:
        forgotten, rack, replica = _read_tail(frame, position, version)
    if replica is not None:
        replica_id, replica_epoch = replica
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


@lru_cache(REMEMBERED_MAX)
def _remembered_reading(tail: bytes, version: int) -> Tail:
    return _read_tail(tail, 0, version)


def _read_tail(frame: Frame, position: int, version: int) -> Tail:
    """Decode the part of a request after the topics."""
    flexible, by_id = is_flexible(FETCH, version), version >= FIRST_VERSION_WITH_TOPIC_IDS
    forgotten: list[tuple[Topic, tuple[int, ...]]] = []
    if version >= 7:
        forgotten, position = read_by_topic(frame, position, version, flexible, by_id, _read_forgotten)
    rack = ""
    if version >= 11:
        rack, position = read_text(frame, position, flexible)
    replica = None
    if flexible:
        tags, position = read_tagged(frame, position)
        if version >= 15 and REPLICA_STATE_TAG in tags:
            replica = _read_replica_state(tags[REPLICA_STATE_TAG])
    return forgotten, rack, replica


def _read_asked_partitions(frame: Frame, position: int, version: int) -> tuple[list[FetchPartition], int]:
    count, position = read_count(frame, position, version >= 12, _ASKED_V4.size)
    partitions = []
    for _ in counted(count):
        if version >= 12:
            part = FetchPartition(*_ASKED_V12.unpack_from(frame, position))
            position += _ASKED_V12.size
            if frame[position] == 0:  # The usual case.
                position += 1
            else:
                tags, position = read_tagged(frame, position)
                part = _with_tags(part, tags, version) if version >= 17 else part
            partitions.append(part)
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


def _with_tags(part: FetchPartition, tags: Mapping[int, bytes], version: int) -> FetchPartition:
    if DIRECTORY_ID_TAG in tags:
        directory_id, end = read_uuid(tags[DIRECTORY_ID_TAG], 0)
        check_consumed(tags[DIRECTORY_ID_TAG], end)
        part = replace(part, directory_id=directory_id if directory_id.int else None)
    if version >= 18 and HIGH_WATERMARK_TAG in tags:
        (high_watermark,) = INT64.unpack_from(tags[HIGH_WATERMARK_TAG], 0)
        check_consumed(tags[HIGH_WATERMARK_TAG], INT64.size)
        part = replace(part, high_watermark=high_watermark)
    return part


def _read_forgotten(frame: Frame, position: int, version: int) -> tuple[tuple[int, ...], int]:
    count, position = read_count(frame, position, version >= 12, 4)
    counted(count)
    indexes: tuple[int, ...] = Struct(f">{count}i").unpack_from(frame, position)
    return indexes, position + 4 * count


def _read_replica_state(data: bytes) -> tuple[BrokerId, BrokerEpoch]:
    replica_id, replica_epoch = _REPLICA_STATE.unpack_from(data, 0)
    check_consumed(data, skip_tagged(data, _REPLICA_STATE.size))
    return replica_id, replica_epoch
