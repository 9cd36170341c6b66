"""OffsetFetch (9): how far a group has come. source: KafkaApis.handleOffsetFetchRequest

1  offsets that the coordinator keeps: the oldest version that Kafka 4 takes
2  null asks for all partitions; an error of the whole answer
3  throttle time
4  a throttled client is answered first and held back then (KIP-219)
5  leader epochs (KIP-320)
6  flexible
7  only stable offsets, on request: UNSTABLE_OFFSET_COMMIT while a transaction is open (KIP-447)
8  several groups at once (KIP-709)
9  members of KIP-848's groups, by id and epoch
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cluster.broker.apis.api import BrokerParts, Values
from cluster.broker.apis.groups.partition_answers import by_topic
from cluster.groups.inputs import NO_GENERATION
from cluster.groups.state.offsets import OffsetAndMetadata
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import RequestHeader
from replica.errors import ErrorCode, KafkaError
from replica.ids import UNDEFINED_EPOCH, UNKNOWN_OFFSET, TopicPartition

FIRST_WITH_ERROR = 2
FIRST_OF_MANY = 8


class OffsetFetchHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._groups = broker.groups.coordinator
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        stable = bool(getattr(request, "require_stable", False))
        if header.api_version >= FIRST_OF_MANY:
            found = [self._of_group(one, stable) for one in request.groups]
            self._answer(connection, header, groups=found)
            return
        wanted = _wanted(request.topics)
        answer = self._committed(str(request.group_id), wanted, stable)
        error = answer["error_code"]
        if header.api_version < FIRST_WITH_ERROR and error is not ErrorCode.NONE:
            answer["topics"] = by_topic((name, _no_offset(name, error)) for name in wanted or ())
        self._answer(connection, header, error_code=error, topics=answer["topics"])

    def _of_group(self, asked: Entity, stable: bool) -> Values:
        member_id, epoch = getattr(asked, "member_id", None), int(getattr(asked, "member_epoch", NO_GENERATION))
        return self._committed(str(asked.group_id), _wanted(asked.topics), stable, member_id, epoch)

    def _committed(
        self,
        group_id: str,
        wanted: Sequence[TopicPartition] | None,
        stable: bool,
        member_id: str | None = None,
        member_epoch: int = NO_GENERATION,
    ) -> Values:
        """source: fetchOffsets, fetchAllOffsets"""
        try:
            found = self._groups.offsets(
                group_id, wanted, stable=stable, member_id=member_id, member_epoch=member_epoch
            )
        except KafkaError as refusal:
            return {"group_id": group_id, "error_code": refusal.code, "topics": []}
        topics = by_topic(
            (name, _offset_fields(name, value) if isinstance(value, OffsetAndMetadata) else _no_offset(name, value))
            for name, value in found.items()
        )
        return {"group_id": group_id, "error_code": ErrorCode.NONE, "topics": list(topics)}


def _wanted(topics: Iterable[Entity] | None) -> list[TopicPartition] | None:
    """None: all that the group has."""
    if topics is None:
        return None
    return [TopicPartition(str(topic.name), int(number)) for topic in topics for number in topic.partition_indexes]


def _offset_fields(name: TopicPartition, value: OffsetAndMetadata) -> Values:
    return {
        "partition_index": name.partition,
        "committed_offset": value.offset,
        "committed_leader_epoch": value.leader_epoch,
        "metadata": value.metadata,
        "error_code": ErrorCode.NONE,
    }


def _no_offset(name: TopicPartition, error: object) -> Values:
    """error: None where there is no error, only no commit"""
    return {
        "partition_index": name.partition,
        "committed_offset": UNKNOWN_OFFSET,
        "committed_leader_epoch": UNDEFINED_EPOCH,
        "metadata": "",
        "error_code": error or ErrorCode.NONE,
    }


API = OffsetFetchHandler
