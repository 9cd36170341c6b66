"""ConsumerGroupHeartbeat (68): a member of a group of KIP-848. Not implemented here. Every group is a classic one.

0  first version
1  topics by a regular expression, and ids that clients make (KIP-1082)
"""

from __future__ import annotations

from cluster.broker.apis.api import Api
from cluster.broker.apis.refusals import NOT_HERE, Refused, always
from cluster.protocol.versions import CONSUMER_GROUP_HEARTBEAT

API = Api(
    key=CONSUMER_GROUP_HEARTBEAT,
    highest={"3.9": 0, "4.1": 1},
    serve=Refused(always(NOT_HERE)),
)
