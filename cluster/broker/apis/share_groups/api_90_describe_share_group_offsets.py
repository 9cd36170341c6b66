"""DescribeShareGroupOffsets (90): where share groups begin to read (KIP-932). Not implemented here.

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.api import Api
from cluster.broker.apis.refusals import NOT_HERE, Refused, each
from cluster.protocol.versions import DESCRIBE_SHARE_GROUP_OFFSETS

API = Api(
    key=DESCRIBE_SHARE_GROUP_OFFSETS,
    highest={"4.1": 0},
    serve=Refused(each("groups", "groups", NOT_HERE, group_id="group_id")),
)
