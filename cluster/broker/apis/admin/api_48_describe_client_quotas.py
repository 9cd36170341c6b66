"""DescribeClientQuotas (48): quotas of users and clients (KIP-546).

0  first version
1  flexible

source: KafkaApis.handleDescribeClientQuotasRequest
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts
from cluster.messages.admin.quota_requests import describe_client_quotas
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from replica.errors import KafkaError


class DescribeClientQuotas:
    """From this broker's own copy of the metadata."""

    def __init__(self, broker: BrokerParts) -> None:
        self._cache = broker.cache
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        try:
            self._answer(connection, header, **describe_client_quotas(request, self._cache.image.client_quotas))
        except KafkaError as error:
            self._answer(connection, header, error_code=error.code, error_message=error.message, entries=None)


API = DescribeClientQuotas
