"""InitProducerId (22): an id for an idempotent or transactional producer (KIP-98). source:
KafkaApis.handleInitProducerIdRequest

0  first version
1  a throttled client is answered first and held back then (KIP-219)
2  flexible
3  the request has the producer's current id and epoch (KIP-360)
4  PRODUCER_FENCED may be the answer (KIP-588)
5  TRANSACTION_ABORTABLE may be the answer (KIP-890)
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import RequestHeader
from cluster.transactions.inputs import InitProducerId, InitResult, ProducerIdAndEpoch, TransactionResult
from replica.errors import ErrorCode

NO_PRODUCER_ID = NO_PRODUCER_EPOCH = -1
FIRST_WITH_PRODUCER_FENCED = 4


class InitProducerIdHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._ids = broker.plane.producer_ids
        self._service = broker.transactions
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        def answer(error: ErrorCode, producer_id: int = NO_PRODUCER_ID, epoch: int = NO_PRODUCER_EPOCH) -> None:
            if error is ErrorCode.PRODUCER_FENCED and header.api_version < FIRST_WITH_PRODUCER_FENCED:
                error = ErrorCode.INVALID_PRODUCER_EPOCH
            self._answer(connection, header, error_code=error, producer_id=producer_id, producer_epoch=epoch)

        def give(producer_id: int | None) -> None:
            if producer_id is None:
                answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            else:
                answer(ErrorCode.NONE, producer_id, 0)

        def respond(result: TransactionResult) -> None:
            assert isinstance(result, InitResult)
            answer(*result)

        request = cold.decode_request(header, frame)
        known = _known(request)
        if (known.producer_id == NO_PRODUCER_ID) != (known.epoch == NO_PRODUCER_EPOCH):
            answer(ErrorCode.INVALID_REQUEST)
            return
        if request.transactional_id is None:
            self._ids.next(give, now_us)
            return

        def make_input(number: int) -> InitProducerId:
            return InitProducerId(
                now_us=now_us,
                request=number,
                transactional_id=str(request.transactional_id),
                timeout_ms=cold.milliseconds(request.transaction_timeout),
                expected=None if known.producer_id == NO_PRODUCER_ID else known,
            )

        self._service.submit(connection, make_input, respond, now_us)


def _known(request: Entity) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(
        int(getattr(request, "producer_id", NO_PRODUCER_ID)),
        int(getattr(request, "producer_epoch", NO_PRODUCER_EPOCH)),
    )


API = InitProducerIdHandler
