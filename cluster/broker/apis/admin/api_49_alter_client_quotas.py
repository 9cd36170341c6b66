"""AlterClientQuotas (49): set quotas of users and clients (KIP-546). The controller decides.

0  first version
1  flexible

source: ControllerApis.handleAlterClientQuotas
"""

from __future__ import annotations

from cluster.broker.apis.api import Values, answered_by_controller
from cluster.broker.apis.refusals import NOT_HERE, Refused
from cluster.protocol.entities import Entity
from cluster.protocol.versions import ALTER_CLIENT_QUOTAS


def _refused(request: Entity) -> Values:
    def entity(entry: Entity) -> list[Values]:
        return [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity]

    return {"entries": [{**NOT_HERE, "entity": entity(entry)} for entry in request.entries]}


API = answered_by_controller(ALTER_CLIENT_QUOTAS, otherwise=Refused(_refused))
