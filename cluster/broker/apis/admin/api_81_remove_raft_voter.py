"""RemoveRaftVoter (81): the quorum loses a controller (KIP-853). Not implemented here.

0  the only version
"""

from __future__ import annotations

from cluster.broker.apis.refusals import NOT_HERE, Refused, always

API = Refused(always(NOT_HERE))
