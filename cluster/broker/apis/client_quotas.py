"""Quotas of users and clients: DescribeClientQuotas (48), AlterClientQuotas (49)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.broker.apis.api import BrokerParts, Serve, Values, answered_by_controller
from cluster.broker.apis.refusals import NOT_HERE, Refused
from cluster.messages.admin.quota_requests import describe_client_quotas
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS, RequestHeader
from replica.errors import KafkaError


class DescribeClientQuotas:
    """DescribeClientQuotas (48): quotas of users and clients (KIP-546).

    0  first version
    1  flexible

    source: KafkaApis.handleDescribeClientQuotasRequest

    From this broker's own copy of the metadata.
    """

    def __init__(self, broker: BrokerParts) -> None:
        self._cache = broker.base.cache
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        try:
            self._answer(connection, header, **describe_client_quotas(request, self._cache.image.client_quotas))
        except KafkaError as error:
            self._answer(connection, header, error_code=error.code, error_message=error.message, entries=None)


# AlterClientQuotas (49): set quotas of users and clients (KIP-546). The controller decides.
#   0  first version
#   1  flexible
# source: ControllerApis.handleAlterClientQuotas
def _refused(request: Entity) -> Values:
    def entity(entry: Entity) -> list[Values]:
        return [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity]

    return {"entries": [{**NOT_HERE, "entity": entity(entry)} for entry in request.entries]}


APIS: Final[Mapping[int, Serve]] = {
    DESCRIBE_CLIENT_QUOTAS: DescribeClientQuotas,
    ALTER_CLIENT_QUOTAS: answered_by_controller(ALTER_CLIENT_QUOTAS, otherwise=Refused(_refused)),
}
