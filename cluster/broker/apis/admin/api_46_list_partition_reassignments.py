"""ListPartitionReassignments (46): partitions that are on the move (KIP-455). The controller answers.

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.api import answered_by_controller
from cluster.protocol.versions import LIST_PARTITION_REASSIGNMENTS

API = answered_by_controller(LIST_PARTITION_REASSIGNMENTS)
