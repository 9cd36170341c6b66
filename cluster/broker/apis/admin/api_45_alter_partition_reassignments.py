"""AlterPartitionReassignments (45): partitions move to other brokers (KIP-455). The controller decides.

0  first version
1  the request says whether the number of replicas may change (KIP-860)
"""

from __future__ import annotations

from cluster.broker.apis.api import answered_by_controller
from cluster.protocol.versions import ALTER_PARTITION_REASSIGNMENTS

API = answered_by_controller(ALTER_PARTITION_REASSIGNMENTS)
