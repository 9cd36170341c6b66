"""FindCoordinator (10): which broker coordinates a group or a transactional.id.
source: KafkaApis.handleFindCoordinatorRequest

0  first version
1  type of the key, throttle time, error message
2  a throttled client is answered first and held back then (KIP-219)
3  flexible
4  several keys at once (KIP-699)
5  TRANSACTION_ABORTABLE may be the answer (KIP-890)
6  share groups have coordinators, too (KIP-932)
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts, Values
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from replica.errors import ErrorCode
from replica.ids import NO_BROKER

FIRST_OF_MANY = 4
GROUP, TRANSACTION, SHARE = range(3)
"""FindCoordinatorRequest.CoordinatorType"""
MESSAGES = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
}
"""Error messages up to version 3. source: Errors.message"""
NOT_COORDINATED = {SHARE: "share groups are not implemented here"}
"""Key types without a coordinator, and why. Differs from Kafka, which has them."""


class FindCoordinatorHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._topics = {GROUP: broker.coordinators.offsets_topic}
        if broker.rules.transactions != "none":
            self._topics[TRANSACTION] = broker.coordinators.transactions_topic
        self._answer = broker.responder.answer
        self._connections = broker.connections

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        key_type = int(getattr(request, "key_type", GROUP))
        listener = self._connections.listener(connection)
        if header.api_version < FIRST_OF_MANY:
            error, message, where = self._coordinator(str(request.key), key_type, listener, now_us)
            message = message or MESSAGES[error]
            self._answer(connection, header, error_code=error, error_message=message, **where)
            return
        found = []
        for key in request.coordinator_keys:
            # Kafka fills the message of an entry only where it refuses the whole request.
            error, message, where = self._coordinator(str(key), key_type, listener, now_us)
            found.append({"key": key, "error_code": error, "error_message": message, **where})
        self._answer(connection, header, coordinators=found)

    def _coordinator(self, key: str, key_type: int, listener: str, now_us: int) -> tuple[ErrorCode, str, Values]:
        """Why there can be none, and its address if there is one."""
        no_node: Values = {"node_id": NO_BROKER, "host": "", "port": NO_BROKER}
        topic = self._topics.get(key_type)
        if topic is None:
            unknown = f"there are no coordinators of type {key_type}"
            return ErrorCode.INVALID_REQUEST, NOT_COORDINATED.get(key_type, unknown), no_node
        broker = topic.coordinator(key, now_us)
        address = None if broker is None else broker.address_by(listener)
        if broker is None or address is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, "", no_node
        host, port = address
        return ErrorCode.NONE, "", {"node_id": broker.broker_id, "host": host, "port": port}


API = FindCoordinatorHandler
