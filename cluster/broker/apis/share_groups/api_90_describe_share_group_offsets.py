"""DescribeShareGroupOffsets (90): where share groups begin to read (KIP-932). Not implemented here.

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.refusals import NOT_HERE, Refused, each

API = Refused(each("groups", "groups", NOT_HERE, group_id="group_id"))
