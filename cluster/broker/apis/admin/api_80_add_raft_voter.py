"""AddRaftVoter (80): the quorum gets one more controller (KIP-853). Not implemented here.

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.api import Api
from cluster.broker.apis.refusals import NOT_HERE, Refused, always
from cluster.protocol.versions import ADD_RAFT_VOTER

API = Api(
    key=ADD_RAFT_VOTER,
    highest={"3.9": 0, "4.1": 0},
    serve=Refused(always(NOT_HERE)),
)
