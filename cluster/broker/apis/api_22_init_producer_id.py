"""InitProducerId (22): an id for an idempotent producer (KIP-98). source: KafkaApis.handleInitProducerIdRequest

0  first version
1  a throttled client is answered first and held back then (KIP-219)
2  flexible
3  the request has the producer's current id and epoch (KIP-360)
4  PRODUCER_FENCED may be the answer (KIP-588)
5  TRANSACTION_ABORTABLE may be the answer (KIP-890)
"""

from __future__ import annotations

from cluster.broker.apis.api import Api, BrokerParts
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.headers import RequestHeader
from cluster.protocol.versions import INIT_PRODUCER_ID
from replica.errors import ErrorCode

NO_PRODUCER_ID = -1


class InitProducerIdHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._ids = broker.plane.producer_ids
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        def refuse(error: ErrorCode) -> None:
            self._answer(connection, header, error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=-1)

        def give(producer_id: int | None) -> None:
            if producer_id is None:
                refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            else:
                self._answer(connection, header, error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)

        if cold.decode_request(header, frame).transactional_id is not None:
            # Simplified: no transactional ids. The answer has no room to say why, and FindCoordinator has said it.
            refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        else:
            self._ids.next(give, now_us)


API = Api(
    key=INIT_PRODUCER_ID,
    highest={"0.11": 0, "2.0": 1, "2.1": 1, "2.7": 4, "3.3": 4, "3.5": 4, "3.9": 5, "4.1": 5},
    serve=InitProducerIdHandler,
)
