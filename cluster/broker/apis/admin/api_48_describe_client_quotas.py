"""DescribeClientQuotas (48): quotas of users and clients (KIP-546). Here there are none.

0  first version
1  flexible
"""

from __future__ import annotations

from cluster.broker.apis.api import Api
from cluster.broker.apis.refusals import NOTHING, Refused, always
from cluster.protocol.versions import DESCRIBE_CLIENT_QUOTAS

API = Api(
    key=DESCRIBE_CLIENT_QUOTAS,
    highest={"2.7": 0, "3.3": 1, "3.5": 1, "3.9": 1, "4.1": 1},
    serve=Refused(always({**NOTHING, "entries": ()})),
)
