"""DeleteShareGroupState (86): forget a share group's partitions (KIP-932). Not implemented here.

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.refusals import NOT_HERE, Refused, by_partition

API = Refused(by_partition("results", NOT_HERE, {"topic_id": "topic_id"}, "partition"))
