"""AddOffsetsToTxn (25): a transaction will commit offsets of a group, so the partition in which the group is kept is
one of its own (KIP-98). source: KafkaApis.handleAddOffsetsToTxnRequest

0  first version
1  a throttled client is answered first and held back then (KIP-219)
2  PRODUCER_FENCED may be the answer (KIP-588)
3  flexible
4  TRANSACTION_ABORTABLE may be the answer (KIP-890)
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts
from cluster.broker.apis.transactions.api_24_add_partitions_to_txn import BY_CLIENT
from cluster.broker.apis.transactions.errors import error_in
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from cluster.transactions.inputs import AddPartitions, AddResult, TransactionResult
from replica.ids import OFFSETS_TOPIC, TopicPartition


class AddOffsetsToTxnHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.transactions
        self._offsets_topic = broker.coordinators.offsets_topic
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        kept_in = TopicPartition(OFFSETS_TOPIC, self._offsets_topic.partition_of(str(request.group_id)))

        def make_input(number: int) -> AddPartitions:
            return AddPartitions(
                now_us=now_us,
                request=number,
                transactional_id=str(request.transactional_id),
                producer_id=int(request.producer_id),
                producer_epoch=int(request.producer_epoch),
                partitions=(kept_in,),
                verify_only=False,
                version=BY_CLIENT,
            )

        def respond(result: TransactionResult) -> None:
            assert isinstance(result, AddResult)
            self._answer(connection, header, error_code=error_in(header.api_version, result.errors[kept_in]))

        self._service.submit(connection, make_input, respond, now_us)


API = AddOffsetsToTxnHandler
