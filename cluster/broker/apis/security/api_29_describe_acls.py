"""DescribeAcls (29): who may do what (KIP-140). There is no authorizer here, as in a Kafka that has none.

1  patterns of resource names (KIP-290): the oldest version that Kafka 4 takes
2  flexible
3  users as resources (KIP-373)
"""

from __future__ import annotations

from cluster.broker.apis.api import Api
from cluster.broker.apis.refusals import NO_AUTHORIZER, Refused, always
from cluster.protocol.versions import DESCRIBE_ACLS

API = Api(
    key=DESCRIBE_ACLS,
    highest={"0.11": 0, "2.0": 1, "2.1": 1, "2.7": 2, "3.3": 3, "3.5": 3, "3.9": 3, "4.1": 3},
    serve=Refused(always(NO_AUTHORIZER)),
)
