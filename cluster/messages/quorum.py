"""Messages between controllers, as frames: Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch of the metadata log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cluster.protocol import cold
from cluster.protocol.api_01_fetch import FetchPartition, FetchRequest
from cluster.protocol.fetch_request_codec import encode_fetch_request
from cluster.protocol.fetch_response_codec import decode_fetch_response
from cluster.protocol.versions import BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, FETCH_SNAPSHOT, VOTE, RequestHeader
from controller.metadata import decode_record, encode_record
from controller.quorum.messages import (
    AnyAnswer,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    FetchAnswer,
    FetchLog,
    FetchSnapshot,
    OffsetAndEpoch,
    Request,
    SnapshotAnswer,
    Vote,
    VoterAnswer,
    leader_or_none,
)
from controller.snapshot import Snapshot, check_complete
from replica.errors import ErrorCode, KafkaError, PeerViolation
from replica.ids import CLUSTER_ID, METADATA_TOPIC, NO_BROKER, UNKNOWN_OFFSET
from replica.log.batches.records import batches, build_batch, check_crc, read_records
from replica.log.files.checkpoints import write_atomically

VERSION = 0
"""Of Vote, BeginQuorumEpoch and EndQuorumEpoch: static voters have no directory ids (KIP-853)."""
FETCH_VERSION = 12
MAX_WAIT_MS = 500
"""source: KafkaRaftClient.MAX_FETCH_WAIT_MS"""
MAX_BYTES = 8 << 20
VOTER_REQUESTS = (VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH)

_API = {
    Vote: VOTE,
    BeginQuorumEpoch: BEGIN_QUORUM_EPOCH,
    EndQuorumEpoch: END_QUORUM_EPOCH,
    FetchLog: FETCH,
    FetchSnapshot: FETCH_SNAPSHOT,
}


def api_of(request: Request) -> int:
    return _API[type(request)]


def encode_request(request: Request, correlation_id: int, client_id: str) -> bytes:
    """A whole frame, size prefix included."""
    match request:
        case Vote():
            fields: dict[str, object] = {
                "replica_epoch": request.epoch,
                "replica_id": request.candidate_id,
                "last_offset_epoch": request.last.epoch,
                "last_offset": request.last.offset,
            }
        case BeginQuorumEpoch():
            fields = {"leader_id": request.leader_id, "leader_epoch": request.epoch}
        case EndQuorumEpoch():
            fields = {
                "leader_id": request.leader_id,
                "leader_epoch": request.epoch,
                "preferred_successors": request.preferred_successors,
            }
        case FetchLog():
            return _encode_fetch(request, correlation_id, client_id)
        case FetchSnapshot():
            return encode_fetch_snapshot(request, correlation_id, client_id)
    api = api_of(request)
    entity = cold.request(api, VERSION, cluster_id=CLUSTER_ID, topics=_topics(fields))
    return cold.encode_request(api, VERSION, correlation_id, client_id, entity)


def _topics(fields: dict[str, object]) -> list[dict[str, object]]:
    return [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0, **fields}]}]


def _encode_fetch(request: FetchLog, correlation_id: int, client_id: str) -> bytes:
    wanted = FetchPartition(0, request.epoch, request.fetch_offset, request.last_fetched_epoch, 0, MAX_BYTES)
    fetch = FetchRequest(
        replica_id=request.replica_id,
        max_wait_ms=MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=MAX_BYTES,
        topics=[(METADATA_TOPIC, [wanted])],
    )
    return encode_fetch_request(FETCH_VERSION, correlation_id, client_id, fetch)


def encode_fetch_snapshot(request: FetchSnapshot, correlation_id: int, client_id: str) -> bytes:
    """A whole frame, size prefix included."""
    wanted = {
        "partition": 0,
        "current_leader_epoch": request.epoch,
        "snapshot_id": {"end_offset": request.snapshot.offset, "epoch": request.snapshot.epoch},
        "position": request.position,
    }
    entity = cold.request(
        FETCH_SNAPSHOT,
        VERSION,
        cluster_id=CLUSTER_ID,
        replica_id=request.replica_id,
        max_bytes=request.max_bytes,
        topics=[{"name": METADATA_TOPIC, "partitions": [wanted]}],
    )
    return cold.encode_request(FETCH_SNAPSHOT, VERSION, correlation_id, client_id, entity)


def decode_fetch_snapshot(header: RequestHeader, frame: bytearray) -> FetchSnapshot:
    """raises: PeerViolation"""
    message = cold.decode_request(header, frame)
    part = _only_partition(message)
    snapshot = OffsetAndEpoch(int(part.snapshot_id.epoch), int(part.snapshot_id.end_offset))
    epoch = int(part.current_leader_epoch)
    return FetchSnapshot(int(message.replica_id), epoch, snapshot, int(part.position), int(message.max_bytes))


def encode_snapshot_answer(header: RequestHeader, request: FetchSnapshot, answer: SnapshotAnswer) -> bytes:
    """A whole frame, size prefix included."""
    # Differs from Kafka: read into memory; there the bytes leave by sendfile.
    part = {
        "index": 0,
        "error_code": answer.error,
        "snapshot_id": {"end_offset": request.snapshot.offset, "epoch": request.snapshot.epoch},
        "current_leader": {
            "leader_id": NO_BROKER if answer.leader_id is None else answer.leader_id,
            "leader_epoch": answer.epoch,
        },
        "size": answer.size_bytes,
        "position": request.position,
        "unaligned_records": answer.data,
    }
    topics = [{"name": METADATA_TOPIC, "partitions": [part]}]
    entity = cold.response(FETCH_SNAPSHOT, header.api_version, topics=topics)
    return cold.encode_response(FETCH_SNAPSHOT, header.api_version, header.correlation_id, entity)


def decode_snapshot_answer(frame: bytearray) -> SnapshotAnswer:
    """raises: PeerViolation"""
    part = _only_partition(cold.decode_response(FETCH_SNAPSHOT, VERSION, frame))
    leader = part.current_leader
    return SnapshotAnswer(
        part.error_code,
        leader_or_none(int(leader.leader_id)),
        int(leader.leader_epoch),
        int(part.size),
        part.unaligned_records,
    )


def decode_request(header: RequestHeader, frame: bytearray) -> Vote | BeginQuorumEpoch | EndQuorumEpoch:
    """raises: PeerViolation"""
    part = _only_partition(cold.decode_request(header, frame))
    if header.api_key == VOTE:
        last = OffsetAndEpoch(int(part.last_offset_epoch), int(part.last_offset))
        return Vote(int(part.replica_id), int(part.replica_epoch), last)
    if header.api_key == BEGIN_QUORUM_EPOCH:
        return BeginQuorumEpoch(int(part.leader_id), int(part.leader_epoch))
    successors = tuple(int(successor) for successor in part.preferred_successors)
    return EndQuorumEpoch(int(part.leader_id), int(part.leader_epoch), successors)


def encode_answer(header: RequestHeader, answer: VoterAnswer) -> bytes:
    """A whole frame, size prefix included."""
    fields: dict[str, object] = {
        "error_code": answer.error,
        "leader_id": NO_BROKER if answer.leader_id is None else answer.leader_id,
        "leader_epoch": answer.epoch,
    }
    if header.api_key == VOTE:
        fields["vote_granted"] = answer.vote_granted
    entity = cold.response(header.api_key, header.api_version, topics=_topics(fields))
    return cold.encode_response(header.api_key, header.api_version, header.correlation_id, entity)


def decode_answer(request: Request, frame: bytearray) -> AnyAnswer:
    """raises: PeerViolation"""
    if isinstance(request, FetchSnapshot):
        return decode_snapshot_answer(frame)
    if isinstance(request, FetchLog):
        return _decode_fetch_answer(frame)
    part = _only_partition(cold.decode_response(api_of(request), VERSION, frame))
    granted = isinstance(request, Vote) and bool(part.vote_granted)
    return VoterAnswer(ErrorCode(part.error_code), leader_or_none(int(part.leader_id)), int(part.leader_epoch), granted)


def _decode_fetch_answer(frame: bytearray) -> FetchAnswer:
    topics = decode_fetch_response(FETCH_VERSION, frame).topics
    if [len(partitions) for _, partitions in topics] != [1]:
        raise PeerViolation("a controller has one partition, the metadata log")
    ((_, (part,)),) = topics
    if part.current_leader is None:
        raise PeerViolation("a controller says who leads")
    diverging = None
    if part.diverging_epoch is not None:
        diverging = OffsetAndEpoch(part.diverging_epoch.epoch, part.diverging_epoch.end_offset)
    high_watermark = part.high_watermark if part.error is ErrorCode.NONE else UNKNOWN_OFFSET
    return FetchAnswer(
        part.error,
        leader_or_none(part.current_leader.leader_id),
        part.current_leader.leader_epoch,
        high_watermark,
        diverging,
        part.records,
        None if part.snapshot_id is None else OffsetAndEpoch(part.snapshot_id.epoch, part.snapshot_id.end_offset),
    )


def _only_partition(message: Any) -> Any:
    if [len(topic.partitions) for topic in message.topics] != [1]:
        raise PeerViolation("a controller has one partition, the metadata log")
    return message.topics[0].partitions[0]


# --------------------------------------------------------------------------------------------------- metadata snapshots
#
# Snapshots of the metadata as files beside the metadata log: `<end offset>-<epoch>.checkpoint`, batches of records.
#
# Source: KIP-630; Snapshots.java (names), FileRawSnapshotWriter, RecordsSnapshotReader

SNAPSHOTS_KEPT = 2
"""Simplified: Kafka keeps as many as metadata.max.retention.bytes and .ms allow, and looks once a minute."""
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def file_name(end: OffsetAndEpoch) -> str:
    return f"{end.offset:020d}-{end.epoch:010d}.checkpoint"


def encode_snapshot(snapshot: Snapshot, timestamp_ms: int) -> bytes:
    """Offsets count from 0, as in Kafka: a snapshot's records are not those of the log."""
    values = [(None, encode_record(record)) for record in snapshot.records]
    return bytes(build_batch(values, timestamp_ms=timestamp_ms, leader_epoch=snapshot.end.epoch))


def decode_snapshot(end: OffsetAndEpoch, data: bytes) -> Snapshot:
    """raises: PeerViolation if it is not whole"""
    records = []
    try:
        for position, header in batches(data):
            if not check_crc(data, position, header):
                raise PeerViolation(f"snapshot {file_name(end)} is damaged")
            found = read_records(memoryview(data)[position : position + header.size_bytes])
            records += [decode_record(record.value) for record in found if record.value is not None]
    except KafkaError as error:
        raise PeerViolation(f"snapshot {file_name(end)} is damaged: {error.message}") from error
    check_complete(records)
    return Snapshot(end, records)


class SnapshotFiles:
    """The snapshots of one controller; `ids` ascend.

    Simplified: each is written in one step, where Kafka fills a `.part` file that it renames.
    """

    def __init__(self, directory: Path, *, sync: bool) -> None:
        self._directory = directory
        self._sync = sync
        found = (_NAME.fullmatch(path.name) for path in directory.iterdir())
        self.ids = sorted(OffsetAndEpoch(epoch=int(name[2]), offset=int(name[1])) for name in found if name)

    @property
    def earliest(self) -> OffsetAndEpoch | None:
        return self.ids[0] if self.ids else None

    @property
    def latest(self) -> OffsetAndEpoch | None:
        return self.ids[-1] if self.ids else None

    def write(self, end: OffsetAndEpoch, data: bytes) -> None:
        write_atomically(self._directory / file_name(end), data, sync=self._sync)
        self.ids.append(end)

    def read(self, end: OffsetAndEpoch) -> bytes | None:
        """None: there is no such snapshot (any more)."""
        return (self._directory / file_name(end)).read_bytes() if end in self.ids else None

    def load(self) -> Snapshot | None:
        """The latest.     raises: PeerViolation"""
        if self.latest is None:
            return None
        data = self.read(self.latest)
        assert data is not None
        return decode_snapshot(self.latest, data)

    def keep_last(self, count: int) -> None:
        for end in self.ids[:-count]:
            (self._directory / file_name(end)).unlink()
        del self.ids[:-count]
