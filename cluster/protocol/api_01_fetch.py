"""Fetch: read record batches. Versions 4 to 18, both directions; a response refers to records in their files.

This module defines the messages; fetch_request_codec.py and fetch_response_codec.py encode and decode them.

A follower (version 18: topics by id, its own id in ReplicaState) or a consumer (version 12: topics by name):

    request = FetchRequest(replica_id=2, replica_epoch=7, max_wait_ms=500, min_bytes=1, max_bytes=10 << 20,
                           topics=[(topic_id, [FetchPartition(0, current_leader_epoch=4, fetch_offset=17,
                                                              last_fetched_epoch=4, max_bytes=1 << 20)])])
    frame = encode_fetch_request(18, correlation_id, "b2", request)            # size prefix included
    response = decode_fetch_response(18, response_frame_without_prefix)
    for topic, partitions in response.topics:                                  # topic: UUID from 13 up, name below
        for part in partitions:
            part.error, part.high_watermark, part.diverging_epoch, part.records        # records: a memoryview

A broker:

    request = decode_fetch_request(header, frame)
    segments = fetch_response_segments(header.api_version, header.correlation_id, [(topic, [
        FetchPartitionResponse(0, ErrorCode.NONE, high_watermark=17, log_start_offset=0, slice=log.read(...))])])

The segments correspond to Kafka's MultiSend: bytes, file slice, bytes, file slice, ... Python does not read record
bytes. Each segment of bytes ends with the length of the slice that follows. The frame size, the first four bytes, is
filled in once the total is known.

Versions: 4 isolation level, last_stable_offset (KIP-98). 5 log_start_offset (KIP-107). 7 sessions (KIP-227).
9 current_leader_epoch (KIP-320). 10 zstd. 11 rack and preferred_read_replica (KIP-392). 12 flexible,
last_fetched_epoch, diverging_epoch (KIP-595). 13 topic ids (KIP-516). 14 tiered storage (KIP-405). 15 ReplicaState in
place of replica_id (KIP-903). 16 node_endpoints (KIP-951). 17 the fetcher's directory id (KIP-853). 18 the high
watermark that the fetcher knows (KIP-1166). Only controllers send the fields of 17 and 18.
Source: FetchRequest.json, FetchResponse.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from cluster.node import Segment
from cluster.protocol.leaders import LeaderIdAndEpoch, NodeEndpoint
from cluster.protocol.primitives import MAX_INT32, Topic
from replica.errors import ErrorCode
from replica.frozen import dataclass
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
from replica.log.files.open_files import EMPTY_SLICE, FileSlice

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
"""The session_epoch of a fetch that requests a new session."""
FINAL_EPOCH: Final = -1
"""The session_epoch of a fetch outside any session; it closes the session named by the request."""


def next_epoch(epoch: int) -> int:
    """Return the epoch of the next request in a fetch session. Source: FetchMetadata.nextEpoch"""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == MAX_INT32 else epoch + 1


READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Values of the isolation level in a Fetch request (the consumer's isolation.level)."""
FIRST_VERSION_WITH_TOPIC_IDS = 13
NO_HIGH_WATERMARK_TOLD = 2**63 - 1
"""The high watermark of a fetcher that does not report one, so that the leader does not wait for changes (KIP-1166)."""

REMEMBERED_MAX = 256
"""The number of short requests and responses of which the decoded form is cached."""


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """One partition of a Fetch request.

    Attributes:
        current_leader_epoch: epoch that the fetcher knows; a leader in another epoch refuses the fetch. -1 for no
            check.
        last_fetched_epoch: epoch of the fetcher's last record.
        log_start_offset: log start offset of the follower; -1 from a consumer.
        max_bytes: soft limit (KIP-74).
        directory_id: directory of the follower's log; None if the request has none.
        high_watermark: high watermark that the fetcher knows; -1 if unknown.
    """

    partition: int
    current_leader_epoch: LeaderEpoch = UNDEFINED_EPOCH
    fetch_offset: Offset = 0
    last_fetched_epoch: LeaderEpoch = UNDEFINED_EPOCH
    log_start_offset: Offset = UNKNOWN_OFFSET
    max_bytes: int = 1 << 20
    directory_id: UUID | None = None
    high_watermark: Offset = NO_HIGH_WATERMARK_TOLD


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A Fetch request. replica_id is -1 for a consumer; replica_epoch is sent from version 15 on, rack from 11."""

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
    """The largest epoch that leader and fetcher share, and its end offset; the fetcher truncates to it (KIP-595)."""

    epoch: LeaderEpoch
    end_offset: Offset


class SnapshotId(NamedTuple):
    """The snapshot that replaces the requested records; the fetcher loads it and continues from its end (KIP-630)."""

    end_offset: Offset
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class FetchPartitionResponse:
    """A broker's response for one partition. `slice` is a part of a segment file, or bytes in memory."""

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


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """The response for one partition, as received. `records` is a memoryview into the frame, empty if there are none.

    The last batch in `records` may be cut short (max_bytes). Fields that versions below 12 lack are None.
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


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """A decoded Fetch response. `error` concerns the whole fetch session; it is always NONE below version 7."""

    error: ErrorCode
    session_id: int
    topics: Sequence[tuple[Topic, Sequence[FetchedPartition]]]
    throttle_time_ms: int
    node_endpoints: tuple[NodeEndpoint, ...]


def size_of(segment: Segment) -> int:
    """Return the number of bytes in one segment of a response."""
    return segment.length if type(segment) is FileSlice else len(segment)
