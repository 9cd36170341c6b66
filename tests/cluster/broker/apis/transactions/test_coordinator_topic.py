"""Which partition of its topic keeps a transactional id."""

from __future__ import annotations

from uuid import UUID

from cluster.broker.apis.coordinators import CoordinatorTopic
from cluster.broker.metadata.follower import MetadataCache
from cluster.config import BrokerConfig
from controller.image import TopicImage
from replica.config import TopicConfig
from replica.ids import TRANSACTIONS_TOPIC, partition_of


def test_a_topic_of_which_no_partition_is_known_has_as_many_as_are_configured() -> None:
    """ZooKeeper era: LeaderAndIsr may come before UpdateMetadata. `search --swarm` found it in 0.11."""
    cache = MetadataCache()
    topic = CoordinatorTopic(TRANSACTIONS_TOPIC, BrokerConfig(), cache, lambda wanted, now_us: None)
    expected = partition_of("orders", BrokerConfig().transaction_state_log_num_partitions)
    assert topic.partition_of("orders") == expected
    cache.image.topics[TRANSACTIONS_TOPIC] = TopicImage(
        topic_id=UUID(int=1), config={}, log_config=TopicConfig(), partitions={}
    )
    assert topic.partition_of("orders") == expected
