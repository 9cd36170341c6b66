"""ShareAcknowledge (79): a member of a share group is done with records (KIP-932). Not implemented here.

1  the first that Kafka keeps: version 0 was for early access in 4.0
"""

from __future__ import annotations

from cluster.broker.apis.api import Api
from cluster.broker.apis.refusals import NOT_HERE, Refused, always
from cluster.protocol.versions import SHARE_ACKNOWLEDGE

API = Api(
    key=SHARE_ACKNOWLEDGE,
    highest={"4.1": 1},
    serve=Refused(always(NOT_HERE)),
)
