"""DescribeTransactions (65): the state of transactions (KIP-664). source: KafkaApis.handleDescribeTransactionsRequest

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts, Values
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from replica.errors import ErrorCode, KafkaError


class DescribeTransactionsHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.transactions
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        asked = cold.decode_request(header, frame).transactional_ids
        self._answer(connection, header, transaction_states=[self._state(str(name)) for name in asked])

    def _state(self, transactional_id: str) -> Values:
        try:
            found = self._service.coordinator.describe(transactional_id)
        except KafkaError as error:
            return {"transactional_id": transactional_id, "error_code": error.code}
        topics: dict[str, list[int]] = {}
        for name in found.partitions:
            topics.setdefault(name.topic, []).append(name.partition)
        return {
            "error_code": ErrorCode.NONE,
            "transactional_id": transactional_id,
            "transaction_state": found.state.value,
            "transaction_timeout": found.timeout_ms,
            "transaction_start_time": found.started_ms,
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
            "topics": [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()],
        }


API = DescribeTransactionsHandler
