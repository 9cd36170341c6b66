"""DescribeAcls (29): who may do what (KIP-140).

1  patterns of resource names (KIP-290): the oldest version that Kafka 4 takes
2  flexible
3  users as resources (KIP-373)
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts
from cluster.broker.apis.refusals import NO_AUTHORIZER, Refused, always
from cluster.messages.admin.acl_requests import described, filter_of
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from cluster.server.responder import Handler
from controller.acl_control import unknown_part
from replica.errors import PeerViolation


class DescribeAclsHandler:
    """Of the metadata that this broker has."""

    def __init__(self, broker: BrokerParts) -> None:
        self._responder = broker.responder
        self._cache = broker.cache

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        wanted = filter_of(cold.decode_request(header, frame))
        if unknown := unknown_part(wanted):
            # As in Kafka, which cannot even read such a request (DescribeAclsRequest.normalizeAndValidate).
            raise PeerViolation(f"DescribeAcls: {unknown}")
        self._responder.answer(
            connection, header, **described(acl for acl in self._cache.image.acls if wanted.matches(acl))
        )


def _serve(broker: BrokerParts) -> Handler | None:
    if broker.access.is_on:
        return DescribeAclsHandler(broker)
    return Refused(always({**NO_AUTHORIZER, "error_message": "No Authorizer is configured on the broker"}))(broker)


API = _serve
