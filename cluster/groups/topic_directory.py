"""The topics of the cluster, as a coordinator of groups sees them."""

from __future__ import annotations

from collections.abc import Iterable

from cluster.broker.metadata.follower import MetadataCache
from cluster.groups.assignors.specification import Partitions, TopicIdPartition
from cluster.groups.state.consumer_records import SubscribedTopic
from replica.ids import TopicPartition


class TopicDirectory:
    """Of one broker, as of the last metadata record it has applied."""

    def __init__(self, cache: MetadataCache) -> None:
        self.cache = cache

    def find(self, name: str) -> SubscribedTopic | None:
        topic = self.cache.image.topics.get(name)
        return None if topic is None else SubscribedTopic(name, topic.topic_id, len(topic.partitions))

    def names(self) -> tuple[str, ...]:
        return tuple(self.cache.image.topics)

    def with_ids(self, partitions: Iterable[TopicPartition]) -> Partitions:
        """Without those of topics that there are not. source: Utils.toTopicPartitionMap"""
        found = ((self.find(one.topic), one.partition) for one in partitions)
        return tuple(sorted({TopicIdPartition(topic.topic_id, number) for topic, number in found if topic is not None}))

    def with_names(self, partitions: Partitions) -> tuple[TopicPartition, ...]:
        """Without those of topics that there are not. source: Utils.toConsumerProtocolAssignment"""
        found = ((self.cache.topic_name(one.topic_id), one.partition) for one in partitions)
        return tuple(TopicPartition(name, number) for name, number in found if name is not None)
