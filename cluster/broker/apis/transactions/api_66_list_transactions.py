"""ListTransactions (66): the transactions of this coordinator (KIP-664).
source: KafkaApis.handleListTransactionsRequest

0  first version
1  by how long they have been open (KIP-994)
2  by a pattern of their ids (KIP-1152)
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from cluster.slices import paced
from cluster.topic_pattern import described_by
from cluster.transactions.transaction import TransactionState as State
from replica.errors import ErrorCode, KafkaError

ANY_TIME = -1
_STATES = {state.value: state for state in State}


class ListTransactionsHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.transactions
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        names = [str(name) for name in request.state_filters]
        states = [_STATES[name] for name in names if name in _STATES]
        try:
            found = self._service.coordinator.listed(
                {int(one) for one in request.producer_id_filters},
                states if names else None,
                int(getattr(request, "duration_filter", ANY_TIME)),
                now_us,
            )
            pattern = getattr(request, "transactional_id_pattern", None)
            is_wanted = described_by(str(pattern), "Transaction ID pattern") if pattern else None
        except KafkaError as error:
            self._answer(connection, header, error_code=error.code)
            return
        self._answer(
            connection,
            header,
            error_code=ErrorCode.NONE,
            unknown_state_filters=[name for name in names if name not in _STATES],
            transaction_states=[
                {
                    "transactional_id": one.transactional_id,
                    "producer_id": one.producer_id,
                    "transaction_state": one.state.value,
                }
                for one in paced(found)
                if is_wanted is None or is_wanted(one.transactional_id)
            ],
        )


API = ListTransactionsHandler
