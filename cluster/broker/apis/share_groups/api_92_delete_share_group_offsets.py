"""DeleteShareGroupOffsets (92): forget where a share group begins to read (KIP-932). Not implemented here.

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.refusals import NOT_HERE, Refused, always

API = Refused(always(NOT_HERE))
