"""EndTxn (26): a transaction commits or aborts (KIP-98). Not implemented here.

0  first version
1  a throttled client is answered first and held back then (KIP-219)
2  PRODUCER_FENCED may be the answer (KIP-588)
3  flexible
4  TRANSACTION_ABORTABLE may be the answer (KIP-890)
5  the answer has the producer's next epoch (KIP-890)
"""

from __future__ import annotations

from cluster.broker.apis.api import Api
from cluster.broker.apis.refusals import ABSENT, Refused, always
from cluster.protocol.versions import END_TXN

API = Api(
    key=END_TXN,
    highest={"0.11": 0, "2.0": 1, "2.1": 1, "2.7": 2, "3.3": 3, "3.5": 3, "3.9": 4, "4.1": 5},
    serve=Refused(always({"error_code": ABSENT})),
)
