"""Server-side assignors of KIP-848's consumer groups, without I/O: they assign partitions to members.

range: each member gets adjacent partitions of each topic, and the same partition numbers in topics of the same size.
uniform: partitions are divided as evenly as possible; otherwise members keep their partitions.

Source: PartitionAssignor.java, GroupSpec.java, RangeAssignor.java, UniformAssignor.java,
UniformHomogeneousAssignmentBuilder.java, UniformHeterogeneousAssignmentBuilder.java (KIP-848)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID


class TopicIdPartition(NamedTuple):
    topic_id: UUID
    partition: int


Partitions = tuple[TopicIdPartition, ...]
"""Partitions in ascending order, without duplicates."""


def ordered(partitions: Mapping[TopicIdPartition, object] | set[TopicIdPartition]) -> Partitions:
    return tuple(sorted(partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignableMember:
    """A member as an assignor sees it: the ids of the existing topics that it reads, and its last target assignment."""

    instance_id: str | None
    topics: tuple[UUID, ...]
    target: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpecification:
    """The input of an assignor: the members and topics of a group.

    Simplified: there are no racks, which the assignors of Kafka 4 ignore too.

    Attributes:
        members: members by id, in the order in which they joined.
        partition_counts: number of partitions, by id, of each topic that members read.
    """

    members: Mapping[str, AssignableMember]
    partition_counts: Mapping[UUID, int]

    def partitions_of(self, topic: UUID) -> list[TopicIdPartition]:
        return [TopicIdPartition(topic, number) for number in range(self.partition_counts[topic])]

    @property
    def is_homogeneous(self) -> bool:
        """True if all members read the same topics. Source: SubscriptionType"""
        subscriptions = [frozenset(member.topics) for member in self.members.values()]
        return all(subscription == subscriptions[0] for subscription in subscriptions)


Targets = dict[str, Partitions]
"""The target assignment of every member, by member id."""
Assign = Callable[[GroupSpecification], Targets]


# ---------------------------------------------------------------------------------------------------------------- range


def assign_ranges(group: GroupSpecification) -> Targets:
    """Assign each member a range of each topic that it reads.

    Static members come first, ordered by instance id, and so keep their ranges when they return.
    """
    found: dict[str, list[TopicIdPartition]] = {name: [] for name in group.members}
    in_order = sorted(group.members, key=lambda name: _place(name, group.members[name].instance_id))
    readers: dict[UUID, list[str]] = {}
    for name in in_order:
        for topic in group.members[name].topics:
            readers.setdefault(topic, []).append(name)
    for topic, names in readers.items():
        least, extra = divmod(group.partition_counts[topic], len(names))
        begin = 0
        for index, name in enumerate(names):
            end = begin + least + (1 if index < extra else 0)
            found[name] += group.partitions_of(topic)[begin:end]
            begin = end
    return {name: tuple(sorted(partitions)) for name, partitions in found.items()}


def _place(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    return (True, member_id) if instance_id is None else (False, instance_id)


# -------------------------------------------------------------------------------------------------------------- uniform


def assign_uniformly(group: GroupSpecification) -> Targets:
    if not group.members:
        return {}
    return _equal_subscriptions(group) if group.is_homogeneous else _different_subscriptions(group)


def _equal_subscriptions(group: GroupSpecification) -> Targets:
    """Assign partitions to members that all read the same topics.

    Every member has a quota; partitions above one member's quota move to members below their quotas.
    """
    topics = next(iter(group.members.values())).topics
    kept = {name: [item for item in member.target if item.topic_id in topics] for name, member in group.members.items()}
    taken = {partition for partitions in kept.values() for partition in partitions}
    free = [partition for topic in topics for partition in group.partitions_of(topic) if partition not in taken]
    total = sum(group.partition_counts[topic] for topic in topics)
    least, extra = divmod(total, len(group.members))
    room: dict[str, int] = {}
    for name, partitions in kept.items():
        quota = least + (1 if extra > 0 else 0)
        extra -= 1
        free += partitions[quota:]
        del partitions[quota:]
        room[name] = quota - len(partitions)
    for name, partitions in kept.items():
        partitions += free[: room[name]]
        del free[: room[name]]
    return {name: tuple(sorted(partitions)) for name, partitions in kept.items()}


def _different_subscriptions(group: GroupSpecification) -> Targets:
    """Assign partitions to members that read different topics.

    Unassigned partitions with few possible readers come first; each goes to the reader with the fewest partitions. Then
    partitions move until the assignment is balanced.

    Simplified: the result is as balanced as that of Kafka's builder, but may be another of several such assignments.
    """
    readers: dict[UUID, list[str]] = {}
    for name, member in group.members.items():
        for topic in member.topics:
            readers.setdefault(topic, []).append(name)
    owned: dict[str, dict[TopicIdPartition, None]] = {}
    for name, member in group.members.items():
        owned[name] = dict.fromkeys(item for item in member.target if item.topic_id in member.topics)
    taken = {item for partitions in owned.values() for item in partitions}
    for topic in sorted(readers, key=lambda reader: (len(readers[reader]), reader)):
        for partition in group.partitions_of(topic):
            if partition not in taken:
                owned[min(readers[topic], key=lambda name: len(owned[name]))][partition] = None
    while _move_one(owned, readers):
        pass
    return {name: ordered(partitions) for name, partitions in owned.items()}


def _move_one(owned: dict[str, dict[TopicIdPartition, None]], readers: dict[UUID, list[str]]) -> bool:
    """Move one partition to a member with at least two partitions fewer; return False if that is not possible.

    Args:
        owned: partitions of each member; changed in place.
        readers: members that read each topic.
    """
    for name in sorted(owned, key=lambda item: -len(owned[item])):
        for partition in owned[name]:
            poorest = min(readers[partition.topic_id], key=lambda reader: len(owned[reader]))
            if len(owned[poorest]) + 1 < len(owned[name]):
                del owned[name][partition]
                owned[poorest][partition] = None
                return True
    return False
