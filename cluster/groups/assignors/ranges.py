"""`range`: neighbouring partitions of each topic to each member, the same numbers in topics of the same size.

source: RangeAssignor.java
"""

from __future__ import annotations

from uuid import UUID

from cluster.groups.assignors.specification import GroupSpecification, Targets, TopicIdPartition

NAME = "range"


def assign(group: GroupSpecification) -> Targets:
    """Static members come first, by instance id, so that they keep their ranges when they come back."""
    found: dict[str, list[TopicIdPartition]] = {name: [] for name in group.members}
    in_order = sorted(group.members, key=lambda name: _place(name, group.members[name].instance_id))
    readers: dict[UUID, list[str]] = {}
    for name in in_order:
        for topic in group.members[name].topics:
            readers.setdefault(topic, []).append(name)
    for topic, names in readers.items():
        least, extra = divmod(group.partition_counts[topic], len(names))
        begin = 0
        for place, name in enumerate(names):
            end = begin + least + (1 if place < extra else 0)
            found[name] += group.partitions_of(topic)[begin:end]
            begin = end
    return {name: tuple(sorted(partitions)) for name, partitions in found.items()}


def _place(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    return (True, member_id) if instance_id is None else (False, instance_id)
