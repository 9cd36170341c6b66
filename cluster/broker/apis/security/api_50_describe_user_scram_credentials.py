"""DescribeUserScramCredentials (50): which users have passwords (KIP-554). Here none has.

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.api import Api, Values
from cluster.broker.apis.refusals import Refused
from cluster.protocol.entities import Entity
from cluster.protocol.versions import DESCRIBE_USER_SCRAM_CREDENTIALS
from replica.errors import ErrorCode


def _users(request: Entity) -> Values:
    unknown = {"error_code": ErrorCode.RESOURCE_NOT_FOUND, "error_message": "there are no SCRAM credentials here"}
    return {"results": [{"user": user.name, **unknown} for user in request.users or ()]}


API = Api(
    key=DESCRIBE_USER_SCRAM_CREDENTIALS,
    highest={"2.7": 0, "3.5": 0, "3.9": 0, "4.1": 0},
    serve=Refused(_users),
)
