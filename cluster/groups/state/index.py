"""The groups that a coordinator has, and the offsets partitions that it leads.

Source: GroupMetadataManager (groupMetadataCache, ownedPartitions, loadingPartitions),
GroupCoordinator.validateGroupStatus
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.coordinators.core import LedPartitions
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.group import Group
from cluster.groups.state.share_group import ShareGroup
from replica.errors import ErrorCode


class GroupIndex(LedPartitions):
    """The groups of the partitions that this broker leads, in the order in which they were added.

    A group id is in at most one of the three maps.

    Attributes:
        groups: classic groups by id.
        consumer_groups: consumer groups (KIP-848) and streams groups (KIP-1071) by id.
        share_groups: share groups (KIP-932) by id.
    """

    def __init__(self, partition_of: Callable[[str], int]) -> None:
        super().__init__(partition_of)
        self.groups: dict[str, Group] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self.share_groups: dict[str, ShareGroup] = {}

    @property
    def any(self) -> bool:
        return bool(self.groups or self.consumer_groups or self.share_groups)

    def status(self, group_id: str, *, unnamed: bool = False) -> ErrorCode:
        """Return NONE if this broker coordinates the group, otherwise the error for a request.

        Args:
            unnamed: True if the group id may be empty, as in requests about offsets (isValidGroupId).
        """
        if not group_id and not unnamed:
            return ErrorCode.INVALID_GROUP_ID
        return super().status(group_id)

    def new(self, group_id: str, now_ms: int) -> Group:
        """Create an empty classic group; `now_ms` is wall-clock time."""
        group = self.groups[group_id] = Group(group_id, now_ms=now_ms)
        return group

    def find(self, group_id: str) -> Group | ConsumerGroup | None:
        """Return the classic, consumer or share group with this id, None if there is none."""
        return self.groups.get(group_id) or self.consumer_groups.get(group_id) or self.share_groups.get(group_id)

    def forget(self, group_id: str) -> None:
        self.groups.pop(group_id, None)
        self.consumer_groups.pop(group_id, None)
        self.share_groups.pop(group_id, None)

    def kept_in(self, partition: int) -> list[Group]:
        return [group for group in self.groups.values() if self.partition_of(group.group_id) == partition]

    def consumer_groups_kept_in(self, partition: int) -> list[ConsumerGroup]:
        return [group for group in self.consumer_groups.values() if self.partition_of(group.group_id) == partition]

    def share_groups_kept_in(self, partition: int) -> list[ShareGroup]:
        return [group for group in self.share_groups.values() if self.partition_of(group.group_id) == partition]
