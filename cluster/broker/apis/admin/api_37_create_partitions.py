"""CreatePartitions (37): topics get more partitions (KIP-195). The controller decides.

0  first version
1  a throttled client is answered first and held back then (KIP-219)
2  flexible
3  THROTTLING_QUOTA_EXCEEDED may be the answer (KIP-599)
"""

from __future__ import annotations

from cluster.broker.apis.api import answered_by_controller
from cluster.protocol.versions import CREATE_PARTITIONS

API = answered_by_controller(CREATE_PARTITIONS)
