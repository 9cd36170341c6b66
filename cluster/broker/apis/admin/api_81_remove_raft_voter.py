"""RemoveRaftVoter (81): the quorum loses a controller (KIP-853). Not implemented here.

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.api import Api
from cluster.broker.apis.refusals import NOT_HERE, Refused, always
from cluster.protocol.versions import REMOVE_RAFT_VOTER

API = Api(
    key=REMOVE_RAFT_VOTER,
    highest={"3.9": 0, "4.1": 0},
    serve=Refused(always(NOT_HERE)),
)
