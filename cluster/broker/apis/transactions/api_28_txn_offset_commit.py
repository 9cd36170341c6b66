"""TxnOffsetCommit (28): offsets of a group, in a transaction (KIP-98). Not implemented here.

0  first version
1  a throttled client is answered first and held back then (KIP-219)
2  leader epochs (KIP-320)
3  flexible; which member of the group commits (KIP-447)
4  TRANSACTION_ABORTABLE may be the answer (KIP-890)
5  the group need not be added to the transaction first (KIP-890)
"""

from __future__ import annotations

from cluster.broker.apis.api import Api
from cluster.broker.apis.refusals import ABSENT, Refused, by_partition
from cluster.protocol.versions import TXN_OFFSET_COMMIT

API = Api(
    key=TXN_OFFSET_COMMIT,
    highest={"0.11": 0, "2.0": 1, "2.1": 2, "2.7": 3, "3.3": 3, "3.5": 3, "3.9": 4, "4.1": 5},
    serve=Refused(by_partition("topics", {"error_code": ABSENT}, {"name": "name"}, "partition_index")),
)
