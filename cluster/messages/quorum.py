"""Encodes and decodes the messages between controllers: votes, epochs, and fetches of log and snapshots."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import UUID

from cluster.protocol import cold, versions
from cluster.protocol.api_01_fetch import FetchPartition, FetchRequest
from cluster.protocol.entities import Entity
from cluster.protocol.fetch_request_codec import encode_fetch_request
from cluster.protocol.fetch_response_codec import decode_fetch_response
from cluster.protocol.versions import RequestHeader
from controller.metadata import decode_record, encode_record
from controller.quorum.messages import (
    AddVoter,
    AnyAnswer,
    AskVersions,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    FetchAnswer,
    FetchLog,
    FetchSnapshot,
    OffsetAndEpoch,
    PlainAnswer,
    RemoveVoter,
    Request,
    SnapshotAnswer,
    UpdateVoter,
    Vote,
    Voter,
    VoterAnswer,
    VoterRequest,
    leader_or_none,
)
from controller.snapshot import Snapshot, check_complete
from replica.errors import ErrorCode, KafkaError, PeerViolation
from replica.ids import CLUSTER_ID, METADATA_TOPIC, NO_BROKER, UNKNOWN_OFFSET
from replica.log.batches.records import batches, build_batch, check_crc, read_records
from replica.log.files.checkpoints import write_atomically

VERSION = 0
"""The version of Vote, BeginQuorumEpoch and EndQuorumEpoch for static voters, without directory ids (KIP-853)."""
VOTE_WITH_DIRECTORIES = 2
"""The version of Vote that has directory ids, and a flag for Pre-Vote."""
FETCH_VERSION, FETCH_WITH_DIRECTORY = 12, 17
METADATA_TOPIC_ID = UUID(int=1)
"""The topic id of the metadata log (Uuid.METADATA_TOPIC_ID)."""
CONTROLLER_LISTENER = "CONTROLLER"
MAX_WAIT_MS = 500
"""How long a fetch waits for records, in milliseconds. Source: KafkaRaftClient.MAX_FETCH_WAIT_MS"""
MAX_BYTES = 8 << 20
VOTER_REQUESTS = (
    versions.VOTE,
    versions.BEGIN_QUORUM_EPOCH,
    versions.END_QUORUM_EPOCH,
    versions.UPDATE_RAFT_VOTER,
)
VOTER_CHANGES = (versions.ADD_RAFT_VOTER, versions.REMOVE_RAFT_VOTER)

_API = {
    Vote: versions.VOTE,
    BeginQuorumEpoch: versions.BEGIN_QUORUM_EPOCH,
    EndQuorumEpoch: versions.END_QUORUM_EPOCH,
    FetchLog: versions.FETCH,
    FetchSnapshot: versions.FETCH_SNAPSHOT,
    AddVoter: versions.ADD_RAFT_VOTER,
    RemoveVoter: versions.REMOVE_RAFT_VOTER,
    UpdateVoter: versions.UPDATE_RAFT_VOTER,
    AskVersions: versions.API_VERSIONS,
}


def api_of(request: Request) -> int:
    return _API[type(request)]


def _version_of(request: Request) -> int:
    match request:
        case FetchLog():
            return FETCH_VERSION if request.directory_id is None else FETCH_WITH_DIRECTORY
        case Vote() if request.pre_vote or request.directory_id is not None:
            return VOTE_WITH_DIRECTORIES
        case FetchSnapshot() if request.directory_id is not None:
            return 1
        case AddVoter():
            return 1
        case AskVersions():
            return 4
    return VERSION


def encode_request(request: Request, correlation_id: int, client_id: str) -> bytes:
    """Return a whole request frame with its size prefix."""
    match request:
        case Vote():
            fields: dict[str, object] = {
                "replica_epoch": request.epoch,
                "replica_id": request.candidate_id,
                "last_offset_epoch": request.last.epoch,
                "last_offset": request.last.offset,
                **({"pre_vote": True} if request.pre_vote else {}),
                **({} if request.directory_id is None else {"voter_directory_id": request.directory_id}),
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
        case AddVoter() | RemoveVoter() | UpdateVoter() | AskVersions():
            entity = cold.request(api_of(request), _version_of(request), **_plain_fields(request))
            return cold.encode_request(api_of(request), _version_of(request), correlation_id, client_id, entity)
    api, version = api_of(request), _version_of(request)
    entity = cold.request(api, version, cluster_id=CLUSTER_ID, topics=_topics(fields))
    return cold.encode_request(api, version, correlation_id, client_id, entity)


def _plain_fields(request: AddVoter | RemoveVoter | UpdateVoter | AskVersions) -> dict[str, object]:
    if isinstance(request, AskVersions):
        return {"client_software_name": "apache-kafka-java", "client_software_version": "4.4.0"}
    voter: dict[str, object] = {"voter_id": request.voter.voter_id, "voter_directory_id": request.voter.directory_id}
    if isinstance(request, RemoveVoter):
        return {"cluster_id": CLUSTER_ID, **voter}
    voter = {"cluster_id": CLUSTER_ID, **voter, "listeners": [{"name": CONTROLLER_LISTENER, "host": "", "port": 0}]}
    if isinstance(request, AddVoter):
        return {**voter, "ack_when_committed": request.ack_when_committed}
    low, high = request.versions
    supported = {"min_supported_version": low, "max_supported_version": high}
    return {**voter, "current_leader_epoch": request.epoch, "k_raft_version_feature": supported}


def decode_voter_change(header: RequestHeader, request: Entity) -> AddVoter | RemoveVoter | PlainAnswer:
    """Return the change of a voter that a request asks for, or the answer that refuses an invalid request.

    Source: KafkaRaftClient.handleAddVoterRequest, handleRemoveVoterRequest
    """
    is_addition = header.api_key == versions.ADD_RAFT_VOTER
    if request.cluster_id not in (None, CLUSTER_ID):
        why = f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{CLUSTER_ID}"'
        return PlainAnswer(ErrorCode.INCONSISTENT_CLUSTER_ID, why)
    if request.voter_id < 0 or request.voter_directory_id is None:
        why = f"{'Add' if is_addition else 'Remove'} voter request didn't include a valid voter"
        return PlainAnswer(ErrorCode.INVALID_REQUEST, why)
    voter = Voter(int(request.voter_id), request.voter_directory_id)
    if not is_addition:
        return RemoveVoter(voter)
    if all(listener.name != CONTROLLER_LISTENER for listener in request.listeners):
        why = f"Add voter request didn't include the endpoint for the default listener {CONTROLLER_LISTENER}"
        return PlainAnswer(ErrorCode.INVALID_REQUEST, why)
    return AddVoter(voter, bool(getattr(request, "ack_when_committed", True)))


def plain_fields(answer: PlainAnswer) -> dict[str, object]:
    return {"error_code": answer.error, "error_message": answer.message}


def _topics(fields: dict[str, object]) -> list[dict[str, object]]:
    return [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0, **fields}]}]


def _encode_fetch(request: FetchLog, correlation_id: int, client_id: str) -> bytes:
    wanted = FetchPartition(
        0,
        request.epoch,
        request.fetch_offset,
        request.last_fetched_epoch,
        0,
        MAX_BYTES,
        directory_id=request.directory_id,
    )
    version = _version_of(request)
    fetch = FetchRequest(
        replica_id=request.replica_id,
        max_wait_ms=MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=MAX_BYTES,
        topics=[(METADATA_TOPIC if version == FETCH_VERSION else METADATA_TOPIC_ID, [wanted])],
    )
    return encode_fetch_request(version, correlation_id, client_id, fetch)


def encode_fetch_snapshot(request: FetchSnapshot, correlation_id: int, client_id: str) -> bytes:
    """Return a whole request frame with its size prefix."""
    wanted = {
        "partition": 0,
        "current_leader_epoch": request.epoch,
        "snapshot_id": {"end_offset": request.snapshot.offset, "epoch": request.snapshot.epoch},
        "position": request.position,
        **({} if request.directory_id is None else {"replica_directory_id": request.directory_id}),
    }
    entity = cold.request(
        versions.FETCH_SNAPSHOT,
        _version_of(request),
        cluster_id=CLUSTER_ID,
        replica_id=request.replica_id,
        max_bytes=request.max_bytes,
        topics=[{"name": METADATA_TOPIC, "partitions": [wanted]}],
    )
    return cold.encode_request(versions.FETCH_SNAPSHOT, _version_of(request), correlation_id, client_id, entity)


def decode_fetch_snapshot(header: RequestHeader, frame: bytearray) -> FetchSnapshot:
    """Decode a FetchSnapshot request.

    Raises:
        PeerViolation: if the request is malformed.
    """
    message = cold.decode_request(header, frame)
    part = _only_partition(message)
    snapshot = OffsetAndEpoch(int(part.snapshot_id.epoch), int(part.snapshot_id.end_offset))
    epoch = int(part.current_leader_epoch)
    return FetchSnapshot(
        int(message.replica_id),
        epoch,
        snapshot,
        int(part.position),
        int(message.max_bytes),
        getattr(part, "replica_directory_id", None),
    )


def encode_snapshot_answer(header: RequestHeader, request: FetchSnapshot, answer: SnapshotAnswer) -> bytes:
    """Return a whole response frame with its size prefix."""
    # Differs from Kafka: the bytes are read into memory, not sent by sendfile.
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
    entity = cold.response(versions.FETCH_SNAPSHOT, header.api_version, topics=topics)
    return cold.encode_response(versions.FETCH_SNAPSHOT, header.api_version, header.correlation_id, entity)


def decode_snapshot_answer(frame: bytearray, version: int = VERSION) -> SnapshotAnswer:
    """Decode a FetchSnapshot response.

    Raises:
        PeerViolation: if the response is malformed.
    """
    part = _only_partition(cold.decode_response(versions.FETCH_SNAPSHOT, version, frame))
    leader = part.current_leader
    return SnapshotAnswer(
        part.error_code,
        leader_or_none(int(leader.leader_id)),
        int(leader.leader_epoch),
        int(part.size),
        part.unaligned_records,
    )


def decode_request(header: RequestHeader, frame: bytearray) -> VoterRequest:
    """Decode a voter's request.

    Raises:
        PeerViolation: if the request is malformed.
    """
    message = cold.decode_request(header, frame)
    if header.api_key == versions.UPDATE_RAFT_VOTER:
        supported = message.k_raft_version_feature
        has_address = any(listener.name == CONTROLLER_LISTENER for listener in message.listeners)
        voter = Voter(int(message.voter_id), message.voter_directory_id if has_address else None)
        levels = (int(supported.min_supported_version), int(supported.max_supported_version))
        return UpdateVoter(voter, int(message.current_leader_epoch), levels)
    part = _only_partition(message)
    if header.api_key == versions.VOTE:
        last = OffsetAndEpoch(int(part.last_offset_epoch), int(part.last_offset))
        directory_id = getattr(part, "voter_directory_id", None)
        pre_vote = bool(getattr(part, "pre_vote", False))
        return Vote(int(part.replica_id), int(part.replica_epoch), last, pre_vote, directory_id)
    if header.api_key == versions.BEGIN_QUORUM_EPOCH:
        return BeginQuorumEpoch(int(part.leader_id), int(part.leader_epoch))
    successors = tuple(int(successor) for successor in part.preferred_successors)
    return EndQuorumEpoch(int(part.leader_id), int(part.leader_epoch), successors)


def encode_answer(header: RequestHeader, answer: VoterAnswer) -> bytes:
    """Return a whole response frame with its size prefix."""
    leader = {"leader_id": NO_BROKER if answer.leader_id is None else answer.leader_id, "leader_epoch": answer.epoch}
    fields: dict[str, object] = {"error_code": answer.error, **leader}
    if header.api_key == versions.UPDATE_RAFT_VOTER:
        entity = cold.response(header.api_key, header.api_version, error_code=answer.error, current_leader=leader)
        return cold.encode_response(header.api_key, header.api_version, header.correlation_id, entity)
    if header.api_key == versions.VOTE:
        fields["vote_granted"] = answer.vote_granted
    entity = cold.response(header.api_key, header.api_version, topics=_topics(fields))
    return cold.encode_response(header.api_key, header.api_version, header.correlation_id, entity)


def decode_answer(request: Request, frame: bytearray) -> AnyAnswer:
    """Decode the response to a request.

    Raises:
        PeerViolation: if the response is malformed.
    """
    if isinstance(request, FetchSnapshot):
        return decode_snapshot_answer(frame, _version_of(request))
    if isinstance(request, FetchLog):
        return _decode_fetch_answer(_version_of(request), frame)
    answer = cold.decode_response(api_of(request), _version_of(request), frame)
    if isinstance(request, AddVoter | RemoveVoter | AskVersions):
        return PlainAnswer(ErrorCode(answer.error_code), getattr(answer, "error_message", None))
    if isinstance(request, UpdateVoter):
        leader = answer.current_leader
        error = ErrorCode(answer.error_code)
        return VoterAnswer(error, leader_or_none(int(leader.leader_id)), int(leader.leader_epoch))
    part = _only_partition(answer)
    granted = isinstance(request, Vote) and bool(part.vote_granted)
    return VoterAnswer(ErrorCode(part.error_code), leader_or_none(int(part.leader_id)), int(part.leader_epoch), granted)


def _decode_fetch_answer(version: int, frame: bytearray) -> FetchAnswer:
    topics = decode_fetch_response(version, frame).topics
    if [len(partitions) for _, partitions in topics] != [1]:
        raise PeerViolation("a controller's response does not have exactly one partition")
    ((_, (part,)),) = topics
    if part.current_leader is None:
        raise PeerViolation("a controller's Fetch response does not name the leader")
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
        raise PeerViolation("a controller's response does not have exactly one partition")
    return message.topics[0].partitions[0]


# --------------------------------------------------------------------------------------------------- metadata snapshots
#
# Snapshots of the metadata as files beside the metadata log: `<end offset>-<epoch>.checkpoint`, batches of records.
#
# Source: KIP-630; Snapshots.java (names), FileRawSnapshotWriter, RecordsSnapshotReader

SNAPSHOTS_KEPT = 2
"""The number of snapshots that are kept.

Simplified: in Kafka metadata.max.retention.bytes and .ms decide, once a minute.
"""
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def file_name(end: OffsetAndEpoch) -> str:
    return f"{end.offset:020d}-{end.epoch:010d}.checkpoint"


def encode_snapshot(snapshot: Snapshot, timestamp_ms: int) -> bytes:
    """Encode a snapshot. Its records have offsets from 0 on, as in Kafka, not their offsets in the log."""
    values = [(None, encode_record(record)) for record in snapshot.records]
    return bytes(build_batch(values, timestamp_ms=timestamp_ms, leader_epoch=snapshot.end.epoch))


def decode_snapshot(end: OffsetAndEpoch, data: bytes) -> Snapshot:
    """Decode a snapshot.

    Raises:
        PeerViolation: if the snapshot is damaged.
    """
    records = []
    try:
        for position, header in batches(data):
            if not check_crc(data, position, header):
                raise PeerViolation(f"snapshot {file_name(end)} is damaged: a batch fails its CRC")
            found = read_records(memoryview(data)[position : position + header.size_bytes])
            records += [decode_record(record.value) for record in found if record.value is not None]
    except KafkaError as error:
        raise PeerViolation(f"snapshot {file_name(end)} is damaged: {error.message}") from error
    check_complete(records)
    return Snapshot(end, records)


class SnapshotFiles:
    """The snapshot files of one controller. `ids` is sorted.

    Simplified: each file is written in one step; Kafka fills a `.part` file and renames it.
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
        """Return the bytes of a snapshot, or None if it does not exist."""
        return (self._directory / file_name(end)).read_bytes() if end in self.ids else None

    def load(self) -> Snapshot | None:
        """Load the latest snapshot; None if there is none.

        Raises:
            PeerViolation: if the snapshot is damaged.
        """
        if self.latest is None:
            return None
        data = self.read(self.latest)
        assert data is not None
        return decode_snapshot(self.latest, data)

    def keep_last(self, count: int) -> None:
        for end in self.ids[:-count]:
            (self._directory / file_name(end)).unlink()
        del self.ids[:-count]
