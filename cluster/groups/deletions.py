"""What an operator deletes: groups without members, offsets of a group, and with a topic what is committed of it.

Of a classic group it is gone at once, and answered; of one of KIP-848's when every in-sync replica has it, and it stays
where it cannot be written. source: GroupCoordinator.handleDeleteGroups, handleDeleteOffsets, handleDeletedPartitions;
GroupCoordinatorShard.deleteGroups, OffsetMetadataManager.deleteOffsets
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from cluster.groups.commits import Commits
from cluster.groups.consumer_change import CHANGE_ERRORS
from cluster.groups.desk import Desk
from cluster.groups.inputs import (
    DeleteGroups,
    DeleteGroupsResult,
    DeleteOffsets,
    DeleteOffsetsResult,
    PartitionsDeleted,
)
from cluster.groups.state.consumer_group import ConsumerGroup, ConsumerGroupState
from cluster.groups.state.group import Group, State
from cluster.groups.state.index import GroupIndex
from replica.causes import RemovalCause
from replica.errors import ErrorCode
from replica.ids import TopicPartition

BY_OPERATOR, WITH_TOPIC = RemovalCause.OPERATOR, RemovalCause.TOPIC_DELETED


class Deletions:
    """Of all groups of one coordinator."""

    def __init__(self, index: GroupIndex, desk: Desk, commits: Commits) -> None:
        self._index = index
        self._desk = desk
        self._commits = commits

    def groups(self, given: DeleteGroups) -> None:
        """All are answered together."""
        errors = dict.fromkeys(given.group_ids, ErrorCode.NONE)
        waiting = dict(errors)

        def done(group_id: str, error: ErrorCode) -> None:
            errors[group_id] = error
            del waiting[group_id]
            if not waiting:
                self._desk.answer(given.request, DeleteGroupsResult(errors))

        if not waiting:
            self._desk.answer(given.request, DeleteGroupsResult(errors))
        for group_id in errors:
            self._delete_group(group_id, partial(done, group_id), given.now_us)

    def _delete_group(self, group_id: str, done: Callable[[ErrorCode], None], now_us: int) -> None:
        error = self._index.status(group_id, unnamed=True)
        group = self._index.find(group_id)
        if error is ErrorCode.NONE and group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif group is not None and group.state not in (State.EMPTY, ConsumerGroupState.EMPTY):
            error = ErrorCode.NON_EMPTY_GROUP
        if error is not ErrorCode.NONE or group is None:
            done(error)
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

    def _delete_consumer_group(self, group: ConsumerGroup, done: Callable[[ErrorCode], None], now_us: int) -> None:
        group.stop_timers()
        self._index.forget(group.group_id)

        def written(error: ErrorCode, is_in_log: bool) -> None:
            # Another group may have the name by now.
            if not is_in_log and self._index.find(group.group_id) is None:
                self._index.consumer_groups[group.group_id] = group
            done(CHANGE_ERRORS.get(error, error))

        self._commits.delete_consumer_group(group, BY_OPERATOR, written, now_us)

    def offsets(self, given: DeleteOffsets) -> None:
        error = self._index.status(given.group_id)
        group = self._index.find(given.group_id)
        in_use = group is not None and group.state not in (State.EMPTY, ConsumerGroupState.EMPTY)
        if error is ErrorCode.NONE and group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif isinstance(group, Group) and in_use and not group.is_consumer_group:
            error = ErrorCode.NON_EMPTY_GROUP
        if error is not ErrorCode.NONE or group is None:
            self._desk.answer(given.request, DeleteOffsetsResult(error, {}))
            return
        errors = {
            name: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use and group.reads(name.topic) else ErrorCode.NONE
            for name in given.partitions
        }
        free = [name for name, refusal in errors.items() if refusal is ErrorCode.NONE]

        def written(error: ErrorCode, is_in_log: bool) -> None:
            answer = CHANGE_ERRORS.get(error, error)
            told = errors if answer is ErrorCode.NONE else {}
            self._desk.answer(given.request, DeleteOffsetsResult(answer, told))

        if isinstance(group, ConsumerGroup):
            self._commits.delete_of_consumers(group, free, BY_OPERATOR, written, given.now_us)
        else:
            self._clean_up([group], free, BY_OPERATOR, given.now_us)
            written(ErrorCode.NONE, True)

    def with_topic(self, given: PartitionsDeleted) -> None:
        self._clean_up(list(self._index.groups.values()), given.partitions, WITH_TOPIC, given.now_us)
        for group in self._index.consumer_groups.values():
            self._commits.delete_of_consumers(group, given.partitions, WITH_TOPIC, None, given.now_us)

    def _clean_up(
        self, groups: Iterable[Group], names: Iterable[TopicPartition], why: RemovalCause, now_us: int
    ) -> None:
        for group in groups:
            if self._commits.delete(group, names, why, now_us):
                self._index.forget(group.group_id)
