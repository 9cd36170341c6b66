"""CreateTopics (19): topics are made. The controller decides; with ZooKeeper it is the broker that was asked.

     2  throttle time: the oldest version that Kafka 4 takes
     3  a throttled client is answered first and held back then (KIP-219)
     4  -1 stands for the broker's number of partitions and of replicas (KIP-464)
     5  flexible; the answer has the settings of the new topic (KIP-525)
     6  THROTTLING_QUOTA_EXCEEDED may be the answer (KIP-599)
     7  the answer has the id of the new topic (KIP-516)

source: ControllerApis.handleCreateTopics, KafkaApis.handleCreateTopicsRequest of the ZooKeeper era
"""

from __future__ import annotations

from cluster.broker.apis.api import answered_by_controller
from cluster.protocol.versions import CREATE_TOPICS

API = answered_by_controller(CREATE_TOPICS)
