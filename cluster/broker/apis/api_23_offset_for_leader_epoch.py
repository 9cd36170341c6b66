"""OffsetForLeaderEpoch (23): where a leader epoch ends in a log, for followers that truncate and consumers (KIP-101).

     2  the request fences by the leader epoch it knows (KIP-320): the oldest version that Kafka 4 takes
     3  replica id
     4  flexible

source: KafkaApis.handleOffsetForLeaderEpochRequest, Partition.lastOffsetForLeaderEpoch
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts, Values
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import RequestHeader
from replica.errors import ErrorCode, KafkaError
from replica.ids import UNDEFINED_EPOCH, UNKNOWN_OFFSET, TopicPartition


class OffsetForLeaderEpochHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._replicas = broker.replicas
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        topics = [
            {
                "topic": str(topic.topic),
                "partitions": [self._epoch_end(str(topic.topic), entry) for entry in topic.partitions],
            }
            for topic in request.topics
        ]
        self._answer(connection, header, topics=topics)

    def _epoch_end(self, topic: str, entry: Entity) -> Values:
        name = TopicPartition(topic, int(entry.partition))
        error, epoch, end_offset = ErrorCode.NONE, UNDEFINED_EPOCH, UNKNOWN_OFFSET
        try:
            partition = self._replicas.hosted(name)
            partition.check_leading(int(entry.current_leader_epoch))
            epoch, end_offset = partition.log.end_offset_for_epoch(int(entry.leader_epoch))
        except KafkaError as refusal:
            error = refusal.code
        return {"error_code": error, "partition": name.partition, "leader_epoch": epoch, "end_offset": end_offset}


API = OffsetForLeaderEpochHandler
