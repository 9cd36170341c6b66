"""The start offsets of a share group, which an operator alters or deletes while the group has no members (KIP-932).

1. The group's record says for which partitions that has begun, the share coordinators change the states, and another
   record says that it is done.
2. A changed start offset has the group's epoch as its state epoch, which fences leaders with an older one.
3. What fails at a share coordinator stays begun. A member's heartbeat initializes such a partition again, and a
   second deletion, of the offsets or of the group, deletes its state.

Source: GroupMetadataManager.alterShareGroupOffsets, sharePartitionsEligibleForOffsetDeletion,
completeDeleteShareGroupOffsets; GroupCoordinatorService.persisterInitialize, deleteShareGroupOffsetsState
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from uuid import UUID

from cluster.groups.consumer_change import Change
from cluster.groups.desk import GroupDesk
from cluster.groups.inputs import (
    AlterShareOffsets,
    AlterShareOffsetsResult,
    AlterShares,
    DeleteShareOffsets,
    DeleteShareOffsetsResult,
    ForgetShares,
    ShareRefusal,
    SharesChanged,
    SharesInitialized,
)
from cluster.groups.share_membership import ShareMembership, initializing
from cluster.groups.state.assignors import Partitions, TopicIdPartition
from cluster.groups.state.index import GroupIndex
from cluster.groups.state.share_group import ShareGroup
from cluster.groups.topic_directory import TopicDirectory
from replica.errors import ErrorCode, KafkaError
from replica.ids import Offset, TopicPartition
from replica.wording import shown

DONE = ShareRefusal(ErrorCode.NONE)
UNKNOWN = ShareRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
NO_OFFSETS = ShareRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete.")
Refused = Mapping[TopicIdPartition, ShareRefusal]


class ShareOffsets:
    """The start offsets of all share groups of one coordinator."""

    def __init__(self, index: GroupIndex, desk: GroupDesk, topics: TopicDirectory, members: ShareMembership) -> None:
        self._index = index
        self._desk = desk
        self._topics = topics
        self._members = members
        self._last = 0
        self._waiting: dict[int, Callable[[Refused, int], None]] = {}
        """Functions to call when the share coordinators have answered, by number of the action."""

    def changed(self, event: SharesChanged) -> None:
        """Go on after the share coordinators have answered."""
        self._waiting.pop(event.number)(event.refused, event.now_us)

    def _number(self, then: Callable[[Refused, int], None]) -> int:
        self._last += 1
        self._waiting[self._last] = then
        return self._last

    def _empty_group(self, group_id: str, *, may_begin: bool) -> ShareGroup:
        """Return a share group without members.

        Raises:
            KafkaError: if there is none.
        """
        error = self._index.status(group_id)
        if error is not ErrorCode.NONE:
            raise KafkaError(error)
        group = self._index.share_groups.get(group_id)
        if group is None and self._index.find(group_id) is not None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {shown(group_id)} is not a share group.")
        if group is None and not may_begin:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {shown(group_id)} not found.")
        if group is not None and group.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        return ShareGroup(group_id, self._desk.settings.first_epoch) if group is None else group

    # -------------------------------------------------------------------------------------------------------- altering

    def alter(self, event: AlterShareOffsets) -> None:
        """Set start offsets, and answer when the share coordinators have stored them. A new group begins with that."""
        try:
            group = self._empty_group(event.group_id, may_begin=True)
        except KafkaError as refusal:
            refused = ShareRefusal(refusal.code, refusal.message or None)
            self._desk.answer(event.request, AlterShareOffsetsResult(refused, {}))
            return
        results: dict[TopicPartition, ShareRefusal] = {}
        wanted: dict[TopicIdPartition, Offset] = {}
        asked: dict[TopicIdPartition, TopicPartition] = {}
        known: dict[UUID, str] = {}
        for topic, offsets in event.offsets.items():
            found = self._topics.find(topic)
            if found is not None:
                known[found.topic_id] = topic
            for number, offset in offsets.items():
                name = TopicPartition(topic, number)
                if found is None or number >= found.partitions:
                    results[name] = UNKNOWN
                else:
                    results[name] = DONE
                    item = TopicIdPartition(found.topic_id, number)
                    wanted[item], asked[item] = offset, name

        def stored(refused: Refused, now_us: int) -> None:
            results.update({asked[item]: refusal for item, refusal in refused.items()})
            if not refused:
                done = SharesInitialized(
                    now_us=now_us, group_id=event.group_id, partitions=tuple(wanted), error=ErrorCode.NONE
                )
                self._members.initialized(done)
            self._desk.answer(event.request, AlterShareOffsetsResult(DONE, results))

        def written(error: ErrorCode, now_us: int) -> None:
            if error is not ErrorCode.NONE or not wanted:
                self._desk.answer(event.request, AlterShareOffsetsResult(ShareRefusal(error), {} if error else results))
            else:
                self._desk.want(AlterShares(self._number(stored), event.group_id, group.epoch, wanted))

        if not known:
            written(ErrorCode.NONE, event.now_us)
            return
        change = self._change(group)
        group.initializing_since_ms = self._desk.wall_ms(event.now_us)
        change.add(initializing(group.shares, wanted, {**(group.shares.names or {}), **known}))
        self._index.share_groups[group.group_id] = group
        change.write(self._desk, written, event.now_us)

    def _change(self, group: ShareGroup) -> Change:
        """Return a change of a group's share partitions, with which a new group also begins."""
        change, kept = Change(group), group.shares
        is_new = group.group_id not in self._index.share_groups

        def take_back(now_us: int) -> None:
            group.shares = kept
            if is_new and self._index.share_groups.get(group.group_id) is group:
                del self._index.share_groups[group.group_id]

        change.take_back_with(take_back)
        return change

    # -------------------------------------------------------------------------------------------------------- deleting

    def delete(self, event: DeleteShareOffsets) -> None:
        """Delete the start offsets of topics, and answer when the share coordinators have deleted the states."""
        try:
            group = self._empty_group(event.group_id, may_begin=False)
        except KafkaError as refusal:
            self._refuse_deletion(event, ShareRefusal(refusal.code, refusal.message or None))
            return
        shares = group.shares
        if shares.names is None:
            self._desk.answer(event.request, DeleteShareOffsetsResult(DONE, {}))
            return
        results: dict[str, tuple[UUID | None, ShareRefusal]] = {}
        asked: dict[UUID, str] = {}
        wanted: list[TopicIdPartition] = []
        for name in event.topics:
            topic = self._topics.find(name)
            partitions = () if topic is None else self._states_of(group, topic.topic_id)
            if topic is None:
                results[name] = None, UNKNOWN
            elif not partitions:
                results[name] = None, NO_OFFSETS
            else:
                asked[topic.topic_id] = name
                wanted += partitions

        def deleted(refused: Refused, now_us: int) -> None:
            failed = {item.topic_id: refusal.error for item, refusal in refused.items()}
            results.update({asked[item]: (item, ShareRefusal(error)) for item, error in failed.items()})
            done = {topic_id: name for topic_id, name in asked.items() if topic_id not in failed}
            if done:
                self._complete(event, group, done, results, now_us)
            else:
                self._desk.answer(event.request, DeleteShareOffsetsResult(DONE, results))

        def written(error: ErrorCode, now_us: int) -> None:
            if error is not ErrorCode.NONE:
                self._refuse_deletion(event, ShareRefusal(error))
            elif not wanted:
                self._desk.answer(event.request, DeleteShareOffsetsResult(DONE, results))
            else:
                self._desk.want(ForgetShares(self._number(deleted), event.group_id, tuple(wanted)))

        change = self._change(group)
        begun = replace(
            shares,
            initialized=tuple(item for item in shares.initialized if item.topic_id not in asked),
            names={**shares.names, **asked},
            deleting=tuple(dict.fromkeys((*shares.deleting, *asked))),
        )
        change.add(begun)
        change.write(self._desk, written, event.now_us)

    def _states_of(self, group: ShareGroup, topic_id: UUID) -> Partitions:
        """Return the partitions of a topic whose states can be deleted: all of them if that has begun before."""
        initialized = tuple(item for item in group.shares.initialized if item.topic_id == topic_id)
        if initialized or topic_id not in group.shares.deleting:
            return initialized
        return self._topics.all_of(topic_id)

    def _complete(
        self,
        event: DeleteShareOffsets,
        group: ShareGroup,
        done: Mapping[UUID, str],
        results: dict[str, tuple[UUID | None, ShareRefusal]],
        now_us: int,
    ) -> None:
        """Record that the states of topics are deleted, then answer."""
        if self._index.share_groups.get(event.group_id) is not group:
            self._refuse_deletion(event, ShareRefusal(ErrorCode.NOT_COORDINATOR))
            return

        def written(error: ErrorCode, at_us: int) -> None:
            if error is not ErrorCode.NONE:
                self._refuse_deletion(event, ShareRefusal(error))
                return
            topics = {name: (topic_id, DONE) for topic_id, name in done.items()}
            self._desk.answer(event.request, DeleteShareOffsetsResult(DONE, {**topics, **results}))

        change, shares = self._change(group), group.shares
        change.add(replace(shares, deleting=tuple(item for item in shares.deleting if item not in done)))
        change.write(self._desk, written, now_us)

    def _refuse_deletion(self, event: DeleteShareOffsets, refusal: ShareRefusal) -> None:
        self._desk.answer(event.request, DeleteShareOffsetsResult(refusal, {}))
