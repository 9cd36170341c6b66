"""ConsumerGroupDescribe (69): groups of KIP-848. Here every group is a classic one.

0  first version
1  the type of each member (KIP-1099)
"""

from __future__ import annotations

from cluster.broker.apis.api import Api, Values
from cluster.broker.apis.refusals import Refused
from cluster.protocol.entities import Entity
from cluster.protocol.versions import CONSUMER_GROUP_DESCRIBE
from replica.errors import ErrorCode


def _not_one(request: Entity) -> Values:
    return {
        "groups": [
            {
                "group_id": group,
                "error_code": ErrorCode.GROUP_ID_NOT_FOUND,
                "error_message": f"Group {group} is not a consumer group.",
            }
            for group in request.group_ids
        ]
    }


API = Api(
    key=CONSUMER_GROUP_DESCRIBE,
    highest={"3.9": 0, "4.1": 1},
    serve=Refused(_not_one),
)
