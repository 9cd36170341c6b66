"""AlterReplicaLogDirs (34): replicas move to other log directories (KIP-113). Not implemented here.

1  a throttled client is answered first and held back then (KIP-219): the oldest version that Kafka 4 takes
2  flexible
"""

from __future__ import annotations

from cluster.broker.apis.api import Api, Values
from cluster.broker.apis.refusals import ABSENT, Refused
from cluster.protocol.entities import Entity
from cluster.protocol.versions import ALTER_REPLICA_LOG_DIRS


def _moves(request: Entity) -> Values:
    topics = [topic for directory in request.dirs for topic in directory.topics]
    return {
        "results": [
            {
                "topic_name": topic.name,
                "partitions": [{"partition_index": number, "error_code": ABSENT} for number in topic.partitions],
            }
            for topic in topics
        ]
    }


API = Api(
    key=ALTER_REPLICA_LOG_DIRS,
    highest={"2.0": 1, "2.1": 1, "2.7": 1, "3.3": 2, "3.5": 2, "3.9": 2, "4.1": 2},
    serve=Refused(_moves),
)
