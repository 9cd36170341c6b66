"""ShareGroupDescribe (77): share groups and their members (KIP-932). Not implemented here.

1  the first that Kafka keeps: version 0 was for early access in 4.0
"""

from __future__ import annotations

from cluster.broker.apis.refusals import NOT_HERE, Refused, each

API = Refused(each("groups", "group_ids", NOT_HERE, group_id=""))
