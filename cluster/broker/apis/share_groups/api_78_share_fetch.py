"""ShareFetch (78): records for a member of a share group (KIP-932). Not implemented here.

1  the first that Kafka keeps: version 0 was for early access in 4.0
"""

from __future__ import annotations

from cluster.broker.apis.refusals import NOT_HERE, Refused, always

API = Refused(always(NOT_HERE))
