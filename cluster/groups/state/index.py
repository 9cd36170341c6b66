"""Which groups a coordinator has, and for which it can speak. source: GroupMetadataManager (groupMetadataCache,
ownedPartitions, loadingPartitions), GroupCoordinator.validateGroupStatus"""

from __future__ import annotations

from collections.abc import Callable

from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.group import Group
from replica.errors import ErrorCode
from replica.ids import LeaderEpoch


class GroupIndex:
    """groups, consumer_groups: classic ones and KIP-848's of the partitions that this broker leads, in order of arrival

    partition_of: where each is kept; no id is in both     owned, loading: leader epoch of each such partition
    """

    def __init__(self, partition_of: Callable[[str], int]) -> None:
        self.groups: dict[str, Group] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self.owned: dict[int, LeaderEpoch] = {}
        self.loading: dict[int, LeaderEpoch] = {}
        self.partition_of = partition_of

    @property
    def any(self) -> bool:
        return bool(self.groups or self.consumer_groups)

    def status(self, group_id: str, *, unnamed: bool = False) -> ErrorCode:
        """Whether this broker can speak for the group.

        unnamed: the id may be empty; clients of old keep offsets under it (isValidGroupId)
        """
        if not group_id and not unnamed:
            return ErrorCode.INVALID_GROUP_ID
        partition = self.partition_of(group_id)
        if partition in self.loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE if partition in self.owned else ErrorCode.NOT_COORDINATOR

    def new(self, group_id: str, now_ms: int) -> Group:
        """An empty group. now_ms: by the wall clock"""
        group = self.groups[group_id] = Group(group_id, now_ms=now_ms)
        return group

    def find(self, group_id: str) -> Group | ConsumerGroup | None:
        """Of either kind."""
        return self.groups.get(group_id) or self.consumer_groups.get(group_id)

    def forget(self, group_id: str) -> None:
        self.groups.pop(group_id, None)
        self.consumer_groups.pop(group_id, None)

    def kept_in(self, partition: int) -> list[Group]:
        return [group for group in self.groups.values() if self.partition_of(group.group_id) == partition]

    def consumer_groups_kept_in(self, partition: int) -> list[ConsumerGroup]:
        return [group for group in self.consumer_groups.values() if self.partition_of(group.group_id) == partition]
