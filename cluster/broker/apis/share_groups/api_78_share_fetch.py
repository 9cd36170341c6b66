"""ShareFetch (78): records for a member of a share group (KIP-932). Not implemented here.

1  the first that Kafka keeps: version 0 was for early access in 4.0
"""

from __future__ import annotations

from cluster.broker.apis.api import Api
from cluster.broker.apis.refusals import NOT_HERE, Refused, always
from cluster.protocol.versions import SHARE_FETCH

API = Api(
    key=SHARE_FETCH,
    highest={"4.1": 1},
    serve=Refused(always(NOT_HERE)),
)
