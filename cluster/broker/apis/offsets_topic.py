"""The topic in which groups and their offsets are kept, and the broker that leads the partition of a group.

source: KafkaApis.getCoordinator, AutoTopicCreationManager, GroupCoordinator.offsetsTopicConfigs
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.control_planes.auto_topics import WantedTopic
from cluster.broker.metadata.follower import MetadataCache
from cluster.config import BrokerConfig
from cluster.coordinators.kept_in import partition_of
from controller.image import BrokerRegistration
from replica.ids import OFFSETS_TOPIC

CreateTopic = Callable[[WantedTopic, int], None]
"""Asks the controller, if that has not been done: (topic, now_us)"""


def wanted_topic(name: str, config: BrokerConfig) -> WantedTopic:
    """Settings of a topic that a client's request creates. source: AutoTopicCreationManager.creatableTopic"""
    if name != OFFSETS_TOPIC:
        return WantedTopic(name, config.num_partitions, config.default_replication_factor)
    return WantedTopic(
        name,
        config.offsets_topic_num_partitions,
        config.offsets_topic_replication_factor,
        # Simplified: the policy is kept and described, but no log is compacted.
        {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )


class OffsetsTopic:
    """create: how the topic comes to be, when the first client looks for a coordinator"""

    def __init__(self, config: BrokerConfig, cache: MetadataCache, create: CreateTopic) -> None:
        self._config = config
        self._cache = cache
        self._create = create

    def partition_of(self, group_id: str) -> int:
        topic = self._cache.image.topics.get(OFFSETS_TOPIC)
        partitions = self._config.offsets_topic_num_partitions if topic is None else len(topic.partitions)
        return partition_of(group_id, partitions)

    def coordinator(self, group_id: str, now_us: int) -> BrokerRegistration | None:
        """The broker that coordinates the group; None: there is none yet, or it is not alive."""
        if OFFSETS_TOPIC not in self._cache.image.topics:
            self._ask_for_it(now_us)
            return None
        registration = self._cache.image.partition(OFFSETS_TOPIC, self.partition_of(group_id))
        broker = None if registration is None else self._cache.image.brokers.get(registration.leader)
        return None if broker is None or broker.fenced else broker

    def _ask_for_it(self, now_us: int) -> None:
        """Clients come again until it is there. With too few brokers for its replicas the controller refuses."""
        self._create(wanted_topic(OFFSETS_TOPIC, self._config), now_us)
