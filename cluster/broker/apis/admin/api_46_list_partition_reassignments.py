"""ListPartitionReassignments (46): partitions that are on the move (KIP-455). The controller answers.

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.api import Api, answered_by_controller
from cluster.protocol.versions import LIST_PARTITION_REASSIGNMENTS

API = Api(
    key=LIST_PARTITION_REASSIGNMENTS,
    highest={"2.7": 0, "3.3": 0, "3.5": 0, "3.9": 0, "4.1": 0},
    serve=answered_by_controller(LIST_PARTITION_REASSIGNMENTS),
)
