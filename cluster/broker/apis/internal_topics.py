"""The topics in which coordinators keep what they know, and the broker that leads the partition of a key.

source: KafkaApis.getCoordinator, AutoTopicCreationManager, GroupCoordinator.offsetsTopicConfigs,
TransactionStateManager.transactionTopicConfigs
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.control_planes.auto_topics import WantedTopic
from cluster.broker.metadata.follower import MetadataCache
from cluster.config import BrokerConfig
from cluster.coordinators.kept_in import partition_of
from controller.image import BrokerRegistration
from replica.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

CreateTopic = Callable[[WantedTopic, int], None]
"""Asks the controller, if that has not been done: (topic, now_us)"""


def wanted_topic(name: str, config: BrokerConfig) -> WantedTopic:
    """Settings of a topic that a client's request creates. source: AutoTopicCreationManager.creatableTopic"""
    if name == OFFSETS_TOPIC:
        return WantedTopic(
            name,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTIONS_TOPIC:
        return WantedTopic(
            name,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            {
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
            },
        )
    return WantedTopic(name, config.num_partitions, config.default_replication_factor)


class CoordinatorTopic:
    """create: how the topic comes to be, when the first client looks for a coordinator"""

    def __init__(self, name: str, config: BrokerConfig, cache: MetadataCache, create: CreateTopic) -> None:
        self._name = name
        self._wanted = wanted_topic(name, config)
        self._cache = cache
        self._create = create

    def partition_of(self, key: str) -> int:
        """A broker of the ZooKeeper era may have heard that it leads a partition, and nothing of the topic yet."""
        topic = self._cache.image.topics.get(self._name)
        known = 0 if topic is None else len(topic.partitions)
        return partition_of(key, known or self._wanted.partitions)

    def coordinator(self, key: str, now_us: int) -> BrokerRegistration | None:
        """The broker that coordinates it; None: there is none yet, or it is not alive."""
        if self._name not in self._cache.image.topics:
            # Clients come again until it is there. With too few brokers for its replicas the controller refuses.
            self._create(self._wanted, now_us)
            return None
        registration = self._cache.image.partition(self._name, self.partition_of(key))
        broker = None if registration is None else self._cache.image.brokers.get(registration.leader)
        return None if broker is None or broker.fenced else broker
