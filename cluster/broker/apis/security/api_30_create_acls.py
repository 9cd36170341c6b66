"""CreateAcls (30): say who may do what (KIP-140).

1  patterns of resource names (KIP-290): the oldest version that Kafka 4 takes
2  flexible
3  users as resources (KIP-373)
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts
from cluster.broker.apis.refusals import NO_AUTHORIZER, Refused, each
from cluster.protocol.versions import CREATE_ACLS
from cluster.server.responder import Handler


def _serve(broker: BrokerParts) -> Handler | None:
    if broker.access.is_on:
        return broker.plane.for_controller(CREATE_ACLS)
    return Refused(each("results", "creations", NO_AUTHORIZER))(broker)


API = _serve
