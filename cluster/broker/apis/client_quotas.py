"""Quotas of users and clients: DescribeClientQuotas (48), AlterClientQuotas (49)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.broker.apis.api import ApiHandler, Serve, Values, answered_by_controller
from cluster.broker.apis.refusals import NOT_HERE, Refused
from cluster.messages.admin.quota_requests import describe_client_quotas
from cluster.protocol.entities import Entity
from cluster.protocol.versions import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from cluster.server.responder import Call
from replica.errors import KafkaError


class DescribeClientQuotas(ApiHandler):
    """DescribeClientQuotas (48): return the quotas of users and clients (KIP-546).

    0  first version
    1  flexible

    The quotas come from this broker's own copy of the metadata.

    Source: KafkaApis.handleDescribeClientQuotasRequest
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        try:
            self._answer(call, **describe_client_quotas(request, self._cache.image.client_quotas))
        except KafkaError as error:
            self._answer(call, error_code=error.code, error_message=error.message, entries=None)


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
