"""AlterUserScramCredentials (51): set and remove passwords of users for SCRAM (KIP-554, KIP-900).

The client sends the salted password; the metadata log gets what follows from it.

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts, Values
from cluster.broker.apis.refusals import NOT_HERE, Refused
from cluster.protocol.entities import Entity
from cluster.protocol.versions import ALTER_USER_SCRAM_CREDENTIALS
from cluster.server.responder import Handler


def _not_here(request: Entity) -> Values:
    names = dict.fromkeys(str(one.name) for one in (*request.deletions, *request.upsertions))
    return {"results": [{"user": name, **NOT_HERE} for name in names]}


def _serve(broker: BrokerParts) -> Handler | None:
    """Refused in the ZooKeeper era, whose credentials are those of the start (BrokerCore._gate)."""
    if broker.plane.zookeeper is not None:
        return Refused(_not_here)(broker)
    return broker.plane.for_controller(ALTER_USER_SCRAM_CREDENTIALS)


API = _serve
