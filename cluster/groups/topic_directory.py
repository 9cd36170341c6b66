"""The topics of the cluster, as a coordinator of groups sees them."""

from __future__ import annotations

from cluster.broker.metadata.follower import MetadataCache
from cluster.groups.consumer_records import SubscribedTopic


class TopicDirectory:
    """Of one broker, as of the last metadata record it has applied."""

    def __init__(self, cache: MetadataCache) -> None:
        self.cache = cache

    def find(self, name: str) -> SubscribedTopic | None:
        topic = self.cache.image.topics.get(name)
        return None if topic is None else SubscribedTopic(name, topic.topic_id, len(topic.partitions))

    def names(self) -> tuple[str, ...]:
        return tuple(self.cache.image.topics)
