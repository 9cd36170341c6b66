"""EndTxn (26): a transaction commits or aborts (KIP-98). source: KafkaApis.handleEndTxnRequest

0  first version
1  a throttled client is answered first and held back then (KIP-219)
2  PRODUCER_FENCED may be the answer (KIP-588)
3  flexible
4  TRANSACTION_ABORTABLE may be the answer (KIP-890)
5  the answer has the producer's next epoch (KIP-890)
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts
from cluster.broker.apis.transactions.errors import error_in
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from cluster.transactions.inputs import EndResult, EndTxn, TransactionResult
from cluster.transactions.transaction import BUMPS_EPOCH

FIRST_WITH_NEXT_EPOCH = 5


class EndTxnHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.transactions
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)

        def make_input(number: int) -> EndTxn:
            return EndTxn(
                now_us=now_us,
                request=number,
                transactional_id=str(request.transactional_id),
                producer_id=int(request.producer_id),
                producer_epoch=int(request.producer_epoch),
                commit=bool(request.committed),
                version=BUMPS_EPOCH if header.api_version >= FIRST_WITH_NEXT_EPOCH else 0,
            )

        def respond(result: TransactionResult) -> None:
            assert isinstance(result, EndResult)
            self._answer(
                connection,
                header,
                error_code=error_in(header.api_version, result.error),
                producer_id=result.producer_id,
                producer_epoch=result.producer_epoch,
            )

        self._service.submit(connection, make_input, respond, now_us)


API = EndTxnHandler
