"""What an assignor knows of a group, and what it answers. source: PartitionAssignor.java, GroupSpec.java (KIP-848)"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID


class TopicIdPartition(NamedTuple):
    topic_id: UUID
    partition: int


Partitions = tuple[TopicIdPartition, ...]
"""In ascending order, each once."""


def ordered(partitions: Mapping[TopicIdPartition, object] | set[TopicIdPartition]) -> Partitions:
    return tuple(sorted(partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignableMember:
    """topics: those it subscribes to that exist     target: what the last target assignment gave it"""

    instance_id: str | None
    topics: tuple[UUID, ...]
    target: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpecification:
    """members: by member id, in order of arrival     partition_counts: of each topic that is subscribed to

    Simplified: no racks; the assignors of Kafka 4 do not look at them either.
    """

    members: Mapping[str, AssignableMember]
    partition_counts: Mapping[UUID, int]

    def partitions_of(self, topic: UUID) -> list[TopicIdPartition]:
        return [TopicIdPartition(topic, number) for number in range(self.partition_counts[topic])]

    @property
    def is_homogeneous(self) -> bool:
        """All members subscribe to the same topics. source: SubscriptionType"""
        subscriptions = [frozenset(member.topics) for member in self.members.values()]
        return all(one == subscriptions[0] for one in subscriptions)


Targets = dict[str, Partitions]
"""By member id, of every member."""
Assign = Callable[[GroupSpecification], Targets]
