"""DeleteTopics (20): topics go, with all of their records. The controller decides.

1  throttle time: the oldest version that Kafka 4 takes
2  a throttled client is answered first and held back then (KIP-219)
3  TOPIC_DELETION_DISABLED may be the answer (KIP-322)
4  flexible
5  error message; THROTTLING_QUOTA_EXCEEDED may be the answer (KIP-599)
6  topics by id (KIP-516)
"""

from __future__ import annotations

from cluster.broker.apis.api import answered_by_controller
from cluster.protocol.versions import DELETE_TOPICS

API = answered_by_controller(DELETE_TOPICS)
