"""AddPartitionsToTxn (24): a transaction spreads to partitions (KIP-98). Not implemented here.

0  first version
1  a throttled client is answered first and held back then (KIP-219)
2  PRODUCER_FENCED may be the answer (KIP-588)
3  flexible
4  brokers ask, too: of several transactions at once, or only whether they are open (KIP-890)
5  TRANSACTION_ABORTABLE may be the answer (KIP-890)
"""

from __future__ import annotations

from cluster.broker.apis.api import Api, Values
from cluster.broker.apis.refusals import ABSENT, Refused
from cluster.protocol.entities import Entity
from cluster.protocol.versions import ADD_PARTITIONS_TO_TXN


def _partitions(request: Entity) -> Values:
    def refused(topics: tuple[Entity, ...]) -> list[Values]:
        return [
            {
                "name": topic.name,
                "results_by_partition": [
                    {"partition_index": number, "partition_error_code": ABSENT} for number in topic.partitions
                ],
            }
            for topic in topics
        ]

    if hasattr(request, "transactions"):
        found = [
            {"transactional_id": one.transactional_id, "topic_results": refused(one.topics)}
            for one in request.transactions
        ]
        return {"results_by_transaction": found}
    return {"results_by_topic_v3_and_below": refused(request.v3_and_below_topics)}


API = Api(
    key=ADD_PARTITIONS_TO_TXN,
    highest={"0.11": 0, "2.0": 1, "2.1": 1, "2.7": 2, "3.3": 3, "3.5": 3, "3.9": 5, "4.1": 5},
    serve=Refused(_partitions),
)
