"""ListTransactions (66): the transactions of this coordinator (KIP-664).
source: KafkaApis.handleListTransactionsRequest

0  first version
1  by how long they have been open (KIP-994)
2  by a pattern of their ids (KIP-1152)
"""

from __future__ import annotations

import re

from cluster.broker.apis.api import BrokerParts
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
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
            pattern = _pattern(getattr(request, "transactional_id_pattern", None))
            found = self._service.coordinator.listed(
                {int(one) for one in request.producer_id_filters},
                states if names else None,
                int(getattr(request, "duration_filter", ANY_TIME)),
                now_us,
            )
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
                for one in found
                if pattern is None or pattern.fullmatch(one.transactional_id)
            ],
        )


def _pattern(text: str | None) -> re.Pattern[str] | None:
    """Simplified: Kafka's brokers take RE2's patterns. raises: KafkaError INVALID_REGULAR_EXPRESSION"""
    if not text:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION) from error


API = ListTransactionsHandler
