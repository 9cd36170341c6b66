"""The group coordinator's view of the topics in the broker's metadata."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from cluster.broker.metadata.follower import MetadataCache
from cluster.groups.state.assignors import Partitions, TopicIdPartition
from cluster.groups.state.topic_hash import Racks, group_hash, topic_hash
from controller.image import TopicImage
from replica.ids import Offset, TopicPartition


class SubscribedTopic(NamedTuple):
    """A topic that a group reads: its id and number of partitions."""

    topic_id: UUID
    partitions: int


class TopicDirectory:
    """The topics in the metadata that the broker has applied."""

    def __init__(self, cache: MetadataCache) -> None:
        self.cache = cache

    def find(self, name: str) -> SubscribedTopic | None:
        topic = self.cache.image.topics.get(name)
        return None if topic is None else SubscribedTopic(topic.topic_id, len(topic.partitions))

    def partitions_of(self, name: str) -> int | None:
        topic = self.cache.image.topics.get(name)
        return None if topic is None else len(topic.partitions)

    def name_of(self, topic_id: UUID) -> str | None:
        return self.cache.topic_name(topic_id)

    def all_of(self, topic_id: UUID) -> Partitions:
        """Return all partitions of a topic, none if the topic does not exist."""
        name = self.name_of(topic_id)
        count = 0 if name is None else self.partitions_of(name) or 0
        return tuple(TopicIdPartition(topic_id, number) for number in range(count))

    def names(self) -> tuple[str, ...]:
        return tuple(self.cache.image.topics)

    @property
    def version(self) -> Offset:
        """The offset of the last metadata record. Source: MetadataProvenance.lastContainedOffset"""
        return self.cache.image.offset

    @property
    def version_of_newest(self) -> Offset:
        """The offset of the last metadata record that created a topic. Source: lastMetadataImageWithNewTopics

        Differs from Kafka: there it can also be the offset of the first metadata that a broker loads after its start.
        """
        return self.cache.image.new_topics_offset

    def hash_of(self, names: Iterable[str]) -> int:
        """Return a hash of those topics that exist; it changes with their partitions, racks and ids.

        Args:
            names: topic names in ascending order.

        Source: ModernGroup.computeMetadataHash
        """
        known = ((name, self.cache.image.topics.get(name)) for name in names)
        return group_hash(
            topic_hash(name, topic.topic_id, self._racks(topic)) for name, topic in known if topic is not None
        )

    def _racks(self, topic: TopicImage) -> Racks:
        of_brokers = {broker_id: broker.rack for broker_id, broker in self.cache.image.brokers.items() if broker.rack}
        if not of_brokers:
            return ((),) * len(topic.partitions)
        return tuple(
            tuple(sorted(of_brokers[replica] for replica in partition.replicas if replica in of_brokers))
            for _, partition in sorted(topic.partitions.items())
        )

    def with_ids(self, partitions: Iterable[TopicPartition]) -> Partitions:
        """Replace topic names by ids, and drop unknown topics. Source: Utils.toTopicPartitionMap"""
        found = ((self.find(partition.topic), partition.partition) for partition in partitions)
        return tuple(sorted({TopicIdPartition(topic.topic_id, number) for topic, number in found if topic is not None}))

    def with_names(self, partitions: Partitions) -> tuple[TopicPartition, ...]:
        """Replace topic ids by names, and drop unknown topics. Source: Utils.toConsumerProtocolAssignment"""
        found = ((self.cache.topic_name(partition.topic_id), partition.partition) for partition in partitions)
        return tuple(TopicPartition(name, number) for name, number in found if name is not None)
