"""AlterShareGroupOffsets (91): set where a share group begins to read (KIP-932). Not implemented here.

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.api import Api
from cluster.broker.apis.refusals import NOT_HERE, Refused, always
from cluster.protocol.versions import ALTER_SHARE_GROUP_OFFSETS

API = Api(
    key=ALTER_SHARE_GROUP_OFFSETS,
    highest={"4.1": 0},
    serve=Refused(always(NOT_HERE)),
)
