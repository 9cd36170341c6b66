"""A follower's OffsetForLeaderEpoch request, which asks where an epoch ends in the leader's log (KIP-101).

Source: AbstractFetcherThread.buildLeaderEpochRequest, RemoteLeaderEndPoint.fetchEpochEndOffsets
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import OFFSET_FOR_LEADER_EPOCH
from replica.errors import ErrorCode
from replica.fetch_fencing import current_leader_epoch
from replica.follower import FollowerState
from replica.ids import BrokerId, LeaderEpoch, TopicPartition
from replica.inputs import EpochEndAnswered
from replica.rules import Rules

OFFSET_FOR_LEADER_EPOCH_VERSION = 4
Asked = dict[TopicPartition, tuple[LeaderEpoch, LeaderEpoch]]
"""The request for each partition: the epoch whose end is requested, and the leader epoch."""


def epoch_ends_request(
    rules: Rules, broker_id: BrokerId, comparing: Iterable[tuple[TopicPartition, FollowerState]]
) -> tuple[Entity, Asked]:
    """Return one request for all follower replicas that must compare epochs before they fetch."""
    topics: dict[str, list[dict[str, int]]] = {}
    asked: Asked = {}
    for name, state in comparing:
        assert state.last_fetched_epoch is not None, "the replica has no last fetched epoch to compare"
        asked[name] = (state.last_fetched_epoch, state.leader_epoch)
        topics.setdefault(name.topic, []).append(
            {
                "partition": name.partition,
                "current_leader_epoch": current_leader_epoch(rules, state.leader_epoch),
                "leader_epoch": state.last_fetched_epoch,
            }
        )
    entity = cold.request(
        OFFSET_FOR_LEADER_EPOCH,
        OFFSET_FOR_LEADER_EPOCH_VERSION,
        replica_id=broker_id,
        topics=[{"topic": topic, "partitions": partitions} for topic, partitions in topics.items()],
    )
    return entity, asked


def epoch_ends_answers(
    asked: Asked, frame: bytearray, now_us: int
) -> Iterator[tuple[TopicPartition, EpochEndAnswered]]:
    """Yield the answer for each partition.

    Raises:
        PeerViolation: if the response is malformed.
    """
    answer = cold.decode_response(OFFSET_FOR_LEADER_EPOCH, OFFSET_FOR_LEADER_EPOCH_VERSION, frame)
    for topic in answer.topics:
        for entry in topic.partitions:
            name = TopicPartition(str(topic.topic), int(entry.partition))
            if name in asked:
                yield (
                    name,
                    EpochEndAnswered(
                        now_us=now_us,
                        requested_epoch=asked[name][0],
                        requested_leader_epoch=asked[name][1],
                        error=ErrorCode(int(entry.error_code)),
                        epoch=int(entry.leader_epoch),
                        end_offset=int(entry.end_offset),
                    ),
                )
