"""ListTransactions (66): the transactions of this coordinator (KIP-664). Here there are none.

0  first version
1  by how long they have been open (KIP-994)
2  by a pattern of their ids (KIP-1152)
"""

from __future__ import annotations

from cluster.broker.apis.api import Api
from cluster.broker.apis.refusals import NOTHING, Refused, always
from cluster.protocol.versions import LIST_TRANSACTIONS

API = Api(
    key=LIST_TRANSACTIONS,
    highest={"3.3": 0, "3.5": 0, "3.9": 1, "4.1": 2},
    serve=Refused(always(NOTHING)),
)
