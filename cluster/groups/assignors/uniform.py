"""`uniform`: as even as can be, and what a member has it keeps where that is fair. source: UniformAssignor.java,
UniformHomogeneousAssignmentBuilder.java, UniformHeterogeneousAssignmentBuilder.java
"""

from __future__ import annotations

from uuid import UUID

from cluster.groups.assignors.specification import GroupSpecification, Targets, TopicIdPartition, ordered

NAME = "uniform"


def assign(group: GroupSpecification) -> Targets:
    if not group.members:
        return {}
    return _equal_subscriptions(group) if group.is_homogeneous else _different_subscriptions(group)


def _equal_subscriptions(group: GroupSpecification) -> Targets:
    """Each member has a quota; what exceeds it goes to members that are below theirs."""
    topics = next(iter(group.members.values())).topics
    kept = {name: [one for one in member.target if one.topic_id in topics] for name, member in group.members.items()}
    taken = {one for partitions in kept.values() for one in partitions}
    free = [one for topic in topics for one in group.partitions_of(topic) if one not in taken]
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
    """Partitions that few members may read come first, each goes to the member with the fewest; then it is evened out.

    Simplified: the same balance as Kafka's builder reaches; of several such assignments it may take another one.
    """
    readers: dict[UUID, list[str]] = {}
    for name, member in group.members.items():
        for topic in member.topics:
            readers.setdefault(topic, []).append(name)
    owned: dict[str, dict[TopicIdPartition, None]] = {}
    for name, member in group.members.items():
        owned[name] = dict.fromkeys(one for one in member.target if one.topic_id in member.topics)
    taken = {one for partitions in owned.values() for one in partitions}
    for topic in sorted(readers, key=lambda one: (len(readers[one]), one)):
        for partition in group.partitions_of(topic):
            if partition not in taken:
                owned[min(readers[topic], key=lambda name: len(owned[name]))][partition] = None
    while _move_one(owned, readers):
        pass
    return {name: ordered(partitions) for name, partitions in owned.items()}


def _move_one(owned: dict[str, dict[TopicIdPartition, None]], readers: dict[UUID, list[str]]) -> bool:
    """One partition from a member to one that has at least two fewer; False: none is left to move."""
    for name in sorted(owned, key=lambda one: -len(owned[one])):
        for partition in owned[name]:
            poorest = min(readers[partition.topic_id], key=lambda one: len(owned[one]))
            if len(owned[poorest]) + 1 < len(owned[name]):
                del owned[name][partition]
                owned[poorest][partition] = None
                return True
    return False
