"""The deletion of groups and of groups' offsets by an operator, and of the offsets of a deleted topic.

1. In a classic group a deletion takes effect and is answered immediately.
2. In a KIP-848 group it is answered when every in-sync replica has it, and undone if it cannot be written.
3. Before a share group is deleted, its share coordinators delete the states of its partitions.

Source: GroupCoordinator.handleDeleteGroups, handleDeleteOffsets, handleDeletedPartitions;
GroupCoordinatorShard.deleteGroups, OffsetMetadataManager.deleteOffsets
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from cluster.coordinators.core import CHANGE_ERRORS
from cluster.groups.commits import Commits
from cluster.groups.desk import GroupDesk
from cluster.groups.inputs import (
    DeleteGroups,
    DeleteGroupsResult,
    DeleteOffsets,
    DeleteOffsetsResult,
    DeleteShares,
    PartitionsDeleted,
    SharesDeleted,
)
from cluster.groups.state.assignors import Partitions
from cluster.groups.state.consumer_group import ConsumerGroup, ConsumerGroupState
from cluster.groups.state.group import Group, State
from cluster.groups.state.index import GroupIndex
from cluster.groups.state.share_group import ShareGroup
from cluster.groups.topic_directory import TopicDirectory
from replica.causes import RemovalCause
from replica.errors import ErrorCode
from replica.ids import UNKNOWN_OFFSET, Offset, TopicPartition

BY_OPERATOR, WITH_TOPIC = RemovalCause.OPERATOR, RemovalCause.TOPIC_DELETED


class Deletions:
    """The deletions in all groups of one coordinator."""

    def __init__(self, index: GroupIndex, desk: GroupDesk, commits: Commits, topics: TopicDirectory) -> None:
        self._index = index
        self._desk = desk
        self._commits = commits
        self._topics = topics
        self._deleting: dict[str, list[Callable[[ErrorCode], None]]] = {}
        """Callbacks of the deletions of share groups that wait for the share coordinator, by group id."""

    def groups(self, event: DeleteGroups) -> None:
        """Delete groups, and answer when all are done."""
        errors = dict.fromkeys(event.group_ids, ErrorCode.NONE)
        waiting = dict(errors)

        def done(group_id: str, error: ErrorCode) -> None:
            errors[group_id] = error
            del waiting[group_id]
            if not waiting:
                self._desk.answer(event.request, DeleteGroupsResult(errors))

        if not waiting:
            self._desk.answer(event.request, DeleteGroupsResult(errors))
        for group_id in errors:
            error = self._index.status(group_id, unnamed=True)
            group = self._index.find(group_id)
            if error is ErrorCode.NONE and group is None:
                error = ErrorCode.GROUP_ID_NOT_FOUND
            elif group is not None and group.state not in (State.EMPTY, ConsumerGroupState.EMPTY):
                error = ErrorCode.NON_EMPTY_GROUP
            if error is not ErrorCode.NONE or group is None:
                done(group_id, error)
            else:
                self._delete_group(group, partial(done, group_id), event.now_us)

    def _delete_group(
        self, group: Group | ConsumerGroup | ShareGroup, done: Callable[[ErrorCode], None], now_us: int
    ) -> None:
        group_id = group.group_id
        if isinstance(group, ShareGroup):
            if group_id not in self._deleting:
                self._desk.want(DeleteShares(group_id, self._states_of(group)))
            self._deleting.setdefault(group_id, []).append(done)
        elif isinstance(group, ConsumerGroup):
            self._delete_consumer_group(group, done, now_us)
        else:
            group.enter(State.DEAD, self._desk.wall_ms(now_us))
            # source: OffsetMetadataManager.deleteAllOffsets; before 4.0 GroupMetadata.removeAllOffsets
            is_new = self._desk.settings.one_coordinator
            names = group.offsets.names if is_new else list(group.offsets.committed)
            self._commits.delete(group, names, BY_OPERATOR, now_us)
            self._index.forget(group_id)
            done(ErrorCode.NONE)

    def _states_of(self, group: ShareGroup) -> Partitions:
        """Return the share partitions with state, and those whose deletion failed before.

        Source: shareGroupBuildPartitionDeleteRequest
        """
        shares = group.shares
        left_over = (item for topic_id in shares.deleting for item in self._topics.all_of(topic_id))
        return tuple(dict.fromkeys((*shares.initializing, *shares.initialized, *left_over)))

    def _delete_consumer_group(self, group: ConsumerGroup, done: Callable[[ErrorCode], None], now_us: int) -> None:
        group.stop_timers()
        self._index.forget(group.group_id)

        def written(error: ErrorCode, is_in_log: bool) -> None:
            # There may be a new group with this id already.
            if not is_in_log and self._index.find(group.group_id) is None:
                self._index.consumer_groups[group.group_id] = group
            done(CHANGE_ERRORS.get(error, error))

        self._commits.delete_consumer_group(group, BY_OPERATOR, written, now_us)

    def shares_deleted(self, event: SharesDeleted) -> None:
        """Delete a share group after its share states were deleted. Source: performShareGroupsDeletion"""
        waiting = self._deleting.pop(event.group_id)

        def written(error: ErrorCode, offset: Offset, now_us: int) -> None:
            for done in waiting:
                done(CHANGE_ERRORS.get(error, error))

        group = self._index.share_groups.get(event.group_id)
        if event.error is not ErrorCode.NONE or group is None:
            written(ErrorCode.NOT_COORDINATOR if group is None else event.error, UNKNOWN_OFFSET, event.now_us)
            return
        group.stop_timers()
        self._index.forget(event.group_id)
        tombstones = [group.encoded(record) for record in group.tombstones()]
        self._desk.write(event.group_id, tombstones, written, event.now_us)

    def offsets(self, event: DeleteOffsets) -> None:
        error = self._index.status(event.group_id)
        group = self._index.find(event.group_id)
        in_use = group is not None and group.state not in (State.EMPTY, ConsumerGroupState.EMPTY)
        if error is ErrorCode.NONE and group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif isinstance(group, Group) and in_use and not group.is_consumer_group:
            error = ErrorCode.NON_EMPTY_GROUP
        if error is not ErrorCode.NONE or group is None:
            self._desk.answer(event.request, DeleteOffsetsResult(error, {}))
            return
        errors = {
            name: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use and group.reads(name.topic) else ErrorCode.NONE
            for name in event.partitions
        }
        free = [name for name, refusal in errors.items() if refusal is ErrorCode.NONE]

        def written(error: ErrorCode, is_in_log: bool) -> None:
            answer = CHANGE_ERRORS.get(error, error)
            partition_errors = errors if answer is ErrorCode.NONE else {}
            self._desk.answer(event.request, DeleteOffsetsResult(answer, partition_errors))

        if isinstance(group, ConsumerGroup):
            self._commits.delete_of_consumers(group, free, BY_OPERATOR, written, event.now_us)
        else:
            self._clean_up([group], free, BY_OPERATOR, event.now_us)
            written(ErrorCode.NONE, True)

    def with_topic(self, event: PartitionsDeleted) -> None:
        self._clean_up(list(self._index.groups.values()), event.partitions, WITH_TOPIC, event.now_us)
        for group in self._index.consumer_groups.values():
            self._commits.delete_of_consumers(group, event.partitions, WITH_TOPIC, None, event.now_us)

    def _clean_up(
        self, groups: Iterable[Group], names: Iterable[TopicPartition], why: RemovalCause, now_us: int
    ) -> None:
        for group in groups:
            if self._commits.delete(group, names, why, now_us):
                self._index.forget(group.group_id)
