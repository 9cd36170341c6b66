"""DescribeQuorum: how far each voter and each broker has fetched the metadata log, as its leader saw it.

source: LeaderState.ReplicaState, KafkaRaftClient.handleDescribeQuorumRequest
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster.clocks import WallClock
from cluster.protocol.entities import Entity
from controller.quorum.messages import ControllerEpoch
from controller.quorum.quorum import Quorum
from replica.errors import ErrorCode
from replica.ids import METADATA_TOPIC, NO_BROKER, UNKNOWN_OFFSET, BrokerId, Offset

OBSERVER_SESSION_US = 300_000_000
"""An observer that has not fetched for so long is forgotten."""
NEVER_SEEN = -1


@dataclass(slots=True)
class _Progress:
    """last_caught_up_us: when it last had all that the leader had"""

    end_offset: Offset = UNKNOWN_OFFSET
    last_fetch_us: int = NEVER_SEEN
    last_caught_up_us: int = NEVER_SEEN
    leader_end_then: Offset = UNKNOWN_OFFSET

    def fetched(self, fetch_offset: Offset, leader_end: Offset, now_us: int) -> None:
        if fetch_offset >= leader_end:
            self.last_caught_up_us = now_us
        elif 0 < self.leader_end_then <= fetch_offset:
            self.last_caught_up_us = self.last_fetch_us
        self.end_offset, self.leader_end_then, self.last_fetch_us = fetch_offset, leader_end, now_us


class QuorumDescription:
    """Covers one epoch of one leader: it begins anew with the next."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._epoch: ControllerEpoch = -1
        self._replicas: dict[BrokerId, _Progress] = {}

    def fetched(self, replica_id: BrokerId, fetch_offset: Offset, leader_end: Offset, now_us: int) -> None:
        if self._quorum.is_leader and replica_id >= 0:
            self._of_this_epoch().setdefault(replica_id, _Progress()).fetched(fetch_offset, leader_end, now_us)

    def _of_this_epoch(self) -> dict[BrokerId, _Progress]:
        if self._epoch != self._quorum.epoch:
            self._epoch = self._quorum.epoch
            self._replicas.clear()
        return self._replicas

    def describe(
        self,
        request: Entity,
        addresses: dict[BrokerId, tuple[str, int]],
        leader_end: Offset,
        clock: WallClock,
        now_us: int,
    ) -> dict[str, object]:
        """Fields of the answer; its times are those of the leader's wall clock."""
        asked = [
            (str(topic.topic_name), int(one.partition_index)) for topic in request.topics for one in topic.partitions
        ]
        if asked != [(METADATA_TOPIC, 0)]:
            return {
                "topics": [
                    {"topic_name": topic, "partitions": [_refused(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]}
                    for topic, number in asked
                ]
            }
        if self._quorum.is_leader:
            partition = self._partition(leader_end, clock, now_us)
        else:
            partition = _refused(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        nodes = [
            {"node_id": voter, "listeners": [{"name": "CONTROLLER", "host": host, "port": port}]}
            for voter, (host, port) in sorted(addresses.items())
        ]
        return {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}], "nodes": nodes}

    def _partition(self, leader_end: Offset, clock: WallClock, now_us: int) -> dict[str, object]:
        quorum = self._quorum
        replicas = dict(self._of_this_epoch())
        replicas[quorum.local_id] = _Progress(leader_end, now_us, now_us)
        observers = [
            replica_id
            for replica_id, progress in sorted(replicas.items())
            if replica_id not in quorum.voters and now_us - progress.last_fetch_us < OBSERVER_SESSION_US
        ]
        return {
            "partition_index": 0,
            "error_code": ErrorCode.NONE,
            "leader_id": quorum.local_id,
            "leader_epoch": quorum.epoch,
            "high_watermark": quorum.high_watermark,
            "current_voters": [_state(voter, replicas.get(voter, _Progress()), clock) for voter in quorum.voters],
            "observers": [_state(replica_id, replicas[replica_id], clock) for replica_id in observers],
        }


def _refused(number: int, error: ErrorCode) -> dict[str, object]:
    return {
        "partition_index": number,
        "error_code": error,
        "leader_id": NO_BROKER,
        "leader_epoch": -1,
        "high_watermark": UNKNOWN_OFFSET,
    }


def _state(replica_id: BrokerId, progress: _Progress, clock: WallClock) -> dict[str, object]:
    return {
        "replica_id": replica_id,
        "log_end_offset": progress.end_offset,
        "last_fetch_timestamp": _ms(progress.last_fetch_us, clock),
        "last_caught_up_timestamp": _ms(progress.last_caught_up_us, clock),
    }


def _ms(at_us: int, clock: WallClock) -> int:
    return at_us if at_us == NEVER_SEEN else clock.at(at_us) // 1000
