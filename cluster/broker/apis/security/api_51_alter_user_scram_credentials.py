"""AlterUserScramCredentials (51): set and remove passwords of users (KIP-554). Not implemented here.

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.api import Api, Values
from cluster.broker.apis.refusals import NOT_HERE, Refused
from cluster.protocol.entities import Entity
from cluster.protocol.versions import ALTER_USER_SCRAM_CREDENTIALS


def _changes(request: Entity) -> Values:
    names = dict.fromkeys(str(one.name) for one in (*request.deletions, *request.upsertions))
    return {"results": [{"user": name, **NOT_HERE} for name in names]}


API = Api(
    key=ALTER_USER_SCRAM_CREDENTIALS,
    highest={"2.7": 0, "3.5": 0, "3.9": 0, "4.1": 0},
    serve=Refused(_changes),
)
