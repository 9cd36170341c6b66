"""Replication throttles (KIP-73): quotas on the bytes of throttled replicas that a broker sends or fetches per second.

A throttled replica that lags gets no records while the rate of the last seconds is above the quota. A replica in sync
is not affected; otherwise it would leave the ISR.
Source: ReplicationQuotaManager, SimpleRate
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.broker.metadata.follower import MetadataCache
from cluster.sampled_rate import SimpleRate
from replica.config import NEVER, DynamicBrokerConfig
from replica.ids import BrokerId, Offset, TopicPartition


class ReplicationQuota:
    """The quota and the measured rate of one broker, either as a leader (sending) or as a follower (fetching).

    Attributes:
        bound: maximum rate in bytes per second.
        throttled: numbers of the throttled partitions by topic; None for all partitions of the topic.
    """

    __slots__ = ("_rate", "bound", "throttled")

    def __init__(self) -> None:
        self.bound = NEVER
        self.throttled: dict[str, frozenset[int] | None] = {}
        self._rate = SimpleRate()

    def is_throttled(self, name: TopicPartition) -> bool:
        if name.topic not in self.throttled:
            return False
        partitions = self.throttled[name.topic]
        return partitions is None or name.partition in partitions

    def record(self, size_bytes: int, now_us: int) -> None:
        self._rate.record(size_bytes, now_us)

    def is_exceeded(self, now_us: int) -> bool:
        return self.bound < NEVER and self._rate.per_second(now_us) > self.bound

    def rate(self, now_us: int) -> float:
        """Return the measured rate in bytes per second."""
        return self._rate.per_second(now_us)


class ReplicationQuotas:
    """The quotas of one broker as a leader and as a follower, according to its metadata."""

    __slots__ = ("_broker_id", "_cache", "_follower", "_leader", "_offset")

    def __init__(self, broker_id: BrokerId, cache: MetadataCache) -> None:
        self._broker_id = broker_id
        self._cache = cache
        self._offset: Offset = -1
        self._leader = ReplicationQuota()
        self._follower = ReplicationQuota()

    @property
    def leader(self) -> ReplicationQuota:
        if self._cache.image.offset != self._offset:
            self._follow_metadata()
        return self._leader

    @property
    def follower(self) -> ReplicationQuota:
        if self._cache.image.offset != self._offset:
            self._follow_metadata()
        return self._follower

    def _follow_metadata(self) -> None:
        image = self._cache.image
        self._offset = image.offset
        rates, dynamic = DynamicBrokerConfig.keys(), image.dynamic_config(self._broker_id)
        config = DynamicBrokerConfig.from_mapping({name: value for name, value in dynamic.items() if name in rates})
        self._leader.bound = config.leader_replication_throttled_rate
        self._follower.bound = config.follower_replication_throttled_rate
        topics = {name: topic.log_config for name, topic in image.topics.items()}
        self._leader.throttled = self._marked(
            {name: log_config.leader_replication_throttled_replicas for name, log_config in topics.items()}
        )
        self._follower.throttled = self._marked(
            {name: log_config.follower_replication_throttled_replicas for name, log_config in topics.items()}
        )

    def _marked(self, texts: Mapping[str, str]) -> dict[str, frozenset[int] | None]:
        """Return the partitions throttled on this broker by topic, None for all of a topic.

        Args:
            texts: `*.replication.throttled.replicas` by topic.

        Source: TopicConfigHandler.parseThrottledPartitions
        """
        marked: dict[str, frozenset[int] | None] = {}
        for topic, text in texts.items():
            if text == "*":
                marked[topic] = None
            elif text:
                pairs = [pair.split(":") for pair in text.split(",")]
                mine = frozenset(int(partition) for partition, broker in pairs if int(broker) == self._broker_id)
                if mine:
                    marked[topic] = mine
        return marked
