"""Answers fetches of the metadata log. Controllers that are not the leader refuse them and name the leader.

A voter gets all records, and its fetches count for the quorum. A broker is an observer and gets only committed records.
A fetch at the end of the log waits for more records.

Source: KafkaRaftClient.handleFetchRequest
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cluster.clocks import Timer, WallClock
from cluster.controller_node.metadata_log import MetadataLog
from cluster.messages.quorum import CONTROLLER_LISTENER, METADATA_TOPIC_ID
from cluster.node import ConnectionId, Outbox
from cluster.protocol.api_01_fetch import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    SnapshotId,
)
from cluster.protocol.entities import Entity
from cluster.protocol.fetch_request_codec import decode_fetch_request
from cluster.protocol.fetch_response_codec import fetch_response_segments
from cluster.protocol.versions import FETCH, RequestHeader
from controller.quorum.messages import FetchLog, OffsetAndEpoch, Voter
from controller.quorum.quorum import Quorum
from controller.quorum.roles import Leader
from controller.quorum.voters import NEVER_SEEN, Progress
from replica.errors import ErrorCode, KafkaError, PeerViolation
from replica.ids import METADATA_TOPIC, NO_BROKER, UNKNOWN_OFFSET, BrokerId, Offset

# --------------------------------------------------------------------------------------------------- quorum description
#
# DescribeQuorum: how far each voter and each broker has fetched the metadata log, as its leader saw it.
#
# source: LeaderState.ReplicaState, KafkaRaftClient.handleDescribeQuorumRequest

OBSERVER_SESSION_US = 300_000_000
"""How long an observer is remembered after its last fetch."""


class QuorumDescription:
    """Describes how far each replica of the metadata log has fetched in the current leader epoch (DescribeQuorum)."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    def describe(
        self,
        request: Entity,
        addresses: dict[BrokerId, tuple[str, int]],
        clock: WallClock,
        now_us: int,
    ) -> dict[str, object]:
        """Return the fields of a DescribeQuorum response, with times of the leader's wall clock."""
        asked = [
            (str(topic.topic_name), int(item.partition_index)) for topic in request.topics for item in topic.partitions
        ]
        if asked != [(METADATA_TOPIC, 0)]:
            return {
                "topics": [
                    {"topic_name": topic, "partitions": [_refused(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]}
                    for topic, number in asked
                ]
            }
        if self._quorum.is_leader:
            partition = self._partition(clock, now_us)
        else:
            partition = _refused(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        nodes = [
            {"node_id": voter, "listeners": [{"name": CONTROLLER_LISTENER, "host": host, "port": port}]}
            for voter, (host, port) in sorted(addresses.items())
            if voter in self._quorum.voters
        ]
        return {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}], "nodes": nodes}

    def _partition(self, clock: WallClock, now_us: int) -> dict[str, object]:
        quorum = self._quorum
        assert isinstance(quorum.role, Leader), "only the leader can describe the quorum"
        own = quorum.voter_set.find(quorum.local) or quorum.local
        leader_end = quorum.role.progress(own).end_offset
        replicas = {**quorum.role.replicas, own: Progress(leader_end, now_us, now_us)}
        voters = quorum.voter_set.voters
        observers = [
            replica
            for replica, progress in sorted(replicas.items(), key=lambda item: item[0].voter_id)
            if replica not in voters and now_us - progress.last_fetch_us < OBSERVER_SESSION_US
        ]
        return {
            "partition_index": 0,
            "error_code": ErrorCode.NONE,
            "leader_id": quorum.local_id,
            "leader_epoch": quorum.epoch,
            "high_watermark": quorum.high_watermark,
            "current_voters": [_state(voter, replicas.get(voter, Progress()), clock) for voter in voters],
            "observers": [_state(replica, replicas[replica], clock) for replica in observers],
        }


def _refused(number: int, error: ErrorCode) -> dict[str, object]:
    return {
        "partition_index": number,
        "error_code": error,
        "leader_id": NO_BROKER,
        "leader_epoch": -1,
        "high_watermark": UNKNOWN_OFFSET,
    }


def _state(replica: Voter, progress: Progress, clock: WallClock) -> dict[str, object]:
    return {
        "replica_id": replica.voter_id,
        "replica_directory_id": replica.directory_id,
        "log_end_offset": progress.end_offset,
        "last_fetch_timestamp": _ms(progress.last_fetch_us, clock),
        "last_caught_up_timestamp": _ms(progress.last_caught_up_us, clock),
    }


def _ms(at_us: int, clock: WallClock) -> int:
    return at_us if at_us == NEVER_SEEN else clock.at(at_us) // 1000


@dataclass(slots=True, eq=False)
class _Fetch:
    """One fetch. While it waits, it has a `timer`."""

    connection: ConnectionId
    header: RequestHeader
    request: FetchRequest
    wanted: FetchPartition
    timer: Timer | None = None


class MetadataFetches:
    """Answers the fetches at one controller. Call `wake` when the log, high watermark or leader has changed."""

    def __init__(self, outbox: Outbox, quorum: Quorum, log: MetadataLog) -> None:
        self.description = QuorumDescription(quorum)
        self._outbox = outbox
        self._quorum = quorum
        self._log = log
        self._waiting: list[_Fetch] = []

    def fetch(self, connection: ConnectionId, header: RequestHeader, frame: bytearray, now_us: int) -> None:
        """Answer a fetch of the metadata log, or keep it until there are new records.

        Raises:
            PeerViolation: if the request is malformed or not for the metadata log.
        """
        request = decode_fetch_request(header, frame)
        if [len(partitions) for _, partitions in request.topics] != [1]:
            raise PeerViolation("a Fetch request from a controller does not have exactly one partition")
        ((topic, (wanted,)),) = request.topics
        if topic not in (METADATA_TOPIC, METADATA_TOPIC_ID):
            raise PeerViolation("a Fetch request from a controller is not for the metadata log")
        fetch = _Fetch(connection, header, request, wanted)
        if request.replica_id >= 0 and request.replica_id not in self._quorum.controllers:
            self._quorum.note_progress(Voter(request.replica_id), wanted.fetch_offset, now_us)
        answer = self._answer_of(fetch, now_us)
        if answer is None and request.max_wait_ms > 0:
            fetch.timer = self._outbox.timers.at(
                now_us + request.max_wait_ms * 1000, lambda now_us: self._out_of_patience(fetch)
            )
            self._waiting.append(fetch)
        else:
            self._send(fetch, answer or self._nothing_new())

    def wake(self, now_us: int) -> None:
        for fetch in list(self._waiting):
            answer = self._answer_of(fetch, now_us)
            # Sending an answer may end a connection, which takes its other fetches out of the list.
            if answer is not None and fetch in self._waiting:
                self._forget(fetch)
                self._send(fetch, answer)

    def gone(self, connection: ConnectionId) -> None:
        """Drop the waiting fetches of a closed connection."""
        for fetch in [fetch for fetch in self._waiting if fetch.connection == connection]:
            self._forget(fetch)

    def _out_of_patience(self, fetch: _Fetch) -> None:
        self._waiting.remove(fetch)
        self._send(fetch, self._nothing_new())

    def _forget(self, fetch: _Fetch) -> None:
        assert fetch.timer is not None, "a waiting fetch has no timer"
        fetch.timer.cancel()
        self._waiting.remove(fetch)

    # ------------------------------------------------------------------------------------------------------- answers

    def _answer_of(self, fetch: _Fetch, now_us: int) -> FetchPartitionResponse | None:
        """Return the response; None if the fetch has to wait."""
        if fetch.request.replica_id in self._quorum.controllers:
            return self._answer_of_voter(fetch, now_us)
        # Simplified: a broker keeps no metadata log that could diverge, so its fetch names no epoch, and it gets only
        # committed records; Kafka's observers fetch like voters and apply what is below the high watermark.
        # Differs from Kafka: brokers learn of a commit immediately (KIP-1166, 4.1), not with the next record or after
        # 0.5 s.
        if not self._quorum.is_leader:
            return self._refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if fetch.wanted.fetch_offset < self._log.start_offset:
            snapshot = self._log.latest_snapshot
            return (
                self._refusal(ErrorCode.OFFSET_OUT_OF_RANGE) if snapshot is None else self._snapshot_instead(snapshot)
            )
        end = self._quorum.high_watermark
        offset = fetch.wanted.fetch_offset
        return None if end <= offset <= self._log.end_offset else self._records(fetch, end)

    def _answer_of_voter(self, fetch: _Fetch, now_us: int) -> FetchPartitionResponse | None:
        wanted = fetch.wanted
        asked = FetchLog(
            fetch.request.replica_id,
            wanted.current_leader_epoch,
            wanted.fetch_offset,
            wanted.last_fetched_epoch,
            wanted.directory_id,
        )
        answer = self._quorum.fetched(asked, now_us)
        if answer.error is not ErrorCode.NONE:
            return self._refusal(answer.error)
        if answer.snapshot is not None:
            return self._snapshot_instead(answer.snapshot)
        if answer.diverging is not None:
            return replace(self._nothing_new(), diverging_epoch=(answer.diverging.epoch, answer.diverging.offset))
        end = self._log.end_offset
        return None if wanted.fetch_offset == end else self._records(fetch, end)

    def _refusal(self, error: ErrorCode) -> FetchPartitionResponse:
        return FetchPartitionResponse(0, error, current_leader=self._leader())

    def _nothing_new(self) -> FetchPartitionResponse:
        high_watermark = self._quorum.high_watermark
        error = ErrorCode.NONE if self._quorum.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
        return FetchPartitionResponse(0, error, high_watermark, high_watermark, 0, current_leader=self._leader())

    def _snapshot_instead(self, end: OffsetAndEpoch) -> FetchPartitionResponse:
        return replace(self._nothing_new(), snapshot_id=SnapshotId(end.offset, end.epoch))

    def _records(self, fetch: _Fetch, end: Offset) -> FetchPartitionResponse:
        wanted = fetch.wanted
        try:
            found = self._log.log.read(wanted.fetch_offset, wanted.max_bytes, end, True)
        except KafkaError as error:  # The only controller lost its disk, and with it the metadata quorum.
            return self._refusal(error.code)
        return replace(self._nothing_new(), slice=found)

    def _leader(self) -> tuple[int, int]:
        leader_id = self._quorum.leader_id
        return (NO_BROKER if leader_id is None else leader_id, self._quorum.epoch)

    def _send(self, fetch: _Fetch, answer: FetchPartitionResponse) -> None:
        header = fetch.header
        topic = METADATA_TOPIC if header.api_version < FIRST_VERSION_WITH_TOPIC_IDS else METADATA_TOPIC_ID
        segments = fetch_response_segments(
            header.api_version, header.correlation_id, [(topic, [answer])], ErrorCode.NONE
        )
        self._outbox.respond(fetch.connection, segments, FETCH)
