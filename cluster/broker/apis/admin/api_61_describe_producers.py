"""DescribeProducers (61): the producers whose batches a partition remembers, and since when each has a
transaction open there (KIP-664).

     0  the only version

source: ReplicaManager.activeProducerState
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts, Values
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from controller.topics import check_legal
from replica.errors import ErrorCode, KafkaError
from replica.ids import TopicPartition

NO_TRANSACTION = -1


class DescribeProducersHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._replicas = broker.replicas
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        topics = [
            {
                "name": str(topic.name),
                "partitions": [
                    self._producers(TopicPartition(str(topic.name), int(number))) for number in topic.partition_indexes
                ],
            }
            for topic in request.topics
        ]
        self._answer(connection, header, topics=topics)

    def _producers(self, name: TopicPartition) -> Values:
        partition = self._replicas.partitions.get(name)
        if partition is None:
            try:
                check_legal(name.topic)
                error, message = self._replicas.missing_partition_error(name), None
            except KafkaError as illegal:
                error, message = illegal.code, illegal.message
            return {"partition_index": name.partition, "error_code": error, "error_message": message}
        return {
            "partition_index": name.partition,
            "error_code": ErrorCode.NONE,
            "active_producers": [
                {
                    "producer_id": producer_id,
                    "producer_epoch": entry.epoch,
                    "last_sequence": entry.last_sequence,
                    "last_timestamp": entry.last_timestamp_ms,
                    "coordinator_epoch": entry.coordinator_epoch,
                    "current_txn_start_offset": NO_TRANSACTION
                    if entry.transaction_offset is None
                    else entry.transaction_offset,
                }
                for producer_id, entry in sorted(partition.log.producers.producers.items())
            ],
        }


API = DescribeProducersHandler
