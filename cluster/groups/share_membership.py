"""Heartbeats of members of share groups (KIP-932), by which they join, learn their partitions, and leave.

A heartbeat is handled in four steps: the member is created or changed, which may raise the group epoch; for a new group
epoch, a target assignment is computed; the member gets its target immediately; and the share coordinator initializes
partitions of its topics that have no share state yet. The first heartbeat after that assigns these partitions.

Since 4.3 targets are computed at most once in group.share.assignment.interval.ms (KIP-1263).
Source: GroupMetadataManager.shareGroupHeartbeat, initializeShareGroupState, uninitializeShareGroupState
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypedDict
from uuid import UUID

from cluster.groups.consumer_change import Change
from cluster.groups.consumer_steps import (
    TIMER_RETRY_MS,
    fenced,
    hear,
    is_due,
    note_emptied,
    remove,
    target_epoch_record,
    unknown,
)
from cluster.groups.desk import GroupConfigs, GroupDesk
from cluster.groups.inputs import ConsumerHeartbeatResult, InitializeShares, ShareHeartbeat, SharesInitialized
from cluster.groups.state.assignors import Partitions, TopicIdPartition
from cluster.groups.state.consumer_group import stop
from cluster.groups.state.consumer_member import JOINS, LEAVES, ConsumerMember
from cluster.groups.state.consumer_records import (
    GroupEpochRecord,
    MemberRecord,
    ShareTopics,
    TargetRecord,
    current_record,
)
from cluster.groups.state.index import GroupIndex
from cluster.groups.state.share_group import ShareGroup, assign_simply
from cluster.groups.topic_directory import TopicDirectory
from replica.causes import LeaveCause
from replica.errors import ErrorCode, KafkaError
from replica.trace.events import ShareMemberAssigned, ShareMemberJoined, ShareMemberLeft
from replica.wording import shown

SIMPLE = "simple"
"""The only assignor of share groups (group.share.assignors)."""


class _About(TypedDict):
    node: str
    group: str
    member: str
    client_id: str
    epoch: int


class ShareMembership:
    """The members of all share groups of one coordinator."""

    def __init__(self, index: GroupIndex, desk: GroupDesk, topics: TopicDirectory, configs: GroupConfigs) -> None:
        self._index = index
        self._desk = desk
        self._topics = topics
        self._configs = configs

    def heartbeat(self, event: ShareHeartbeat) -> None:
        """Handle a heartbeat, and answer it when all in-sync replicas have its changes."""
        hear(self._index, self._desk, event, _check, self._stay, self._leave)

    def _stay(self, event: ShareHeartbeat) -> None:
        joins = event.member_epoch == JOINS
        group = self._group(event.group_id, may_begin=joins)
        self._configs.check_room(group, event.member_id)
        known = group.members.get(event.member_id)
        if known is None and not joins:
            raise unknown(group, event.member_id)
        before = ConsumerMember(member_id=event.member_id) if known is None else known
        _check_epoch(before, event)
        self._index.share_groups[group.group_id] = group
        change = _change(group)
        raised = self._subscribe(change, group, before, event)
        pause_ms = self._desk.settings.share_assignment_interval_ms
        if group.epoch > group.target_epoch and is_due(self._desk, group, pause_ms, event.now_us):
            self._assign(change, group)
            change.add(target_epoch_record(self._desk, group, pause_ms, event.now_us))
        after = self._reconcile(change, group, event.member_id, forced=raised)
        self._begin_session(group, after.member_id, event.now_us)
        wanted = self._initialize(change, group, event.now_us)
        is_told = joins or event.topics is not None or after.assigned != before.assigned
        interval_ms = self._configs.heartbeat_interval_ms(group)

        def answer(error: ErrorCode, now_us: int) -> None:
            result = ConsumerHeartbeatResult(error)
            if error is ErrorCode.NONE:
                assigned = after.assigned if is_told else None
                result = ConsumerHeartbeatResult(error, after.member_id, after.epoch, interval_ms, assigned)
                if wanted:
                    self._desk.want(InitializeShares(group.group_id, group.epoch, wanted))
            self._desk.answer(event.request, result)

        change.write(self._desk, answer, event.now_us)

    def _group(self, group_id: str, *, may_begin: bool) -> ShareGroup:
        group = self._index.share_groups.get(group_id)
        if group is not None:
            return group
        if self._index.find(group_id) is not None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {shown(group_id)} is not a share group.")
        if not may_begin:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {shown(group_id)} not found.")
        return ShareGroup(group_id, self._desk.settings.first_epoch)

    def _subscribe(self, change: Change, group: ShareGroup, before: ConsumerMember, event: ShareHeartbeat) -> bool:
        """Apply a member's new fields, and return True if that raised the group epoch."""
        is_new = before.member_id not in group.members
        after = replace(
            before,
            rack_id=before.rack_id if event.rack_id is None else event.rack_id,
            topics=before.topics if event.topics is None else tuple(sorted(set(event.topics))),
            client_id=event.client_id,
            client_host=event.client_host,
        )
        raised = after.topics != before.topics or is_new
        if after != before or is_new:
            change.add(MemberRecord(after.member_id, after))
        raised |= group.target_epoch >= group.epoch and group.needs_assignment
        metadata_hash = self._topics.hash_of(group.subscribed)
        raised |= metadata_hash != group.metadata_hash
        if raised:
            change.add(GroupEpochRecord(group.epoch + 1, metadata_hash))
        if is_new:
            change.say(ShareMemberJoined(**self._about(group, after), topics=tuple(map(shown, after.topics))))
        return raised

    def _assign(self, change: Change, group: ShareGroup) -> None:
        known = {topic: found.topic_id for topic in group.subscribed if (found := self._topics.find(topic)) is not None}
        topics_of = {
            member.member_id: [known[topic] for topic in member.topics if topic in known]
            for member in group.members.values()
        }
        targets = assign_simply(topics_of, group.targets, group.shares.initialized)
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                change.add(TargetRecord(member_id, target))

    def _reconcile(self, change: Change, group: ShareGroup, member_id: str, *, forced: bool) -> ConsumerMember:
        """Move a member to its target at once, because members of a share group share partitions; return the member.

        Args:
            forced: True if the group epoch was raised.

        Source: ShareGroupAssignmentBuilder
        """
        member = group.members[member_id]
        if member.epoch == group.target_epoch and not forced:
            return member
        names = self._topics.with_names
        target = tuple(
            item
            for item in group.targets.get(member_id, ())
            if any(name.topic in member.topics for name in names((item,)))
        )
        after = replace(member, epoch=group.target_epoch, previous_epoch=member.epoch, assigned=target)
        if after != member:
            change.add(current_record(after))
            partitions = tuple(map(str, names(target)))
            change.say(ShareMemberAssigned(**self._about(group, after), partitions=partitions))
        return after

    def _about(self, group: ShareGroup, member: ConsumerMember) -> _About:
        return {
            "node": self._desk.node,
            "group": shown(group.group_id),
            "member": shown(member.member_id),
            "client_id": shown(member.client_id),
            "epoch": group.epoch,
        }

    # --------------------------------------------------------------------------------------------------- initialization

    def _initialize(self, change: Change, group: ShareGroup, now_us: int) -> Partitions:
        """Return the partitions whose share state has to be initialized, and mark them as being initialized.

        Source: subscribedTopicsChangeMap
        """
        now_ms, shares = self._desk.wall_ms(now_us), group.shares
        is_recent = now_ms - group.initializing_since_ms < self._desk.settings.share_initialize_retry_interval_ms
        known = {*shares.initialized, *(shares.initializing if is_recent else ())}
        wanted, names = [], dict(shares.names or {})
        for name in group.subscribed:
            topic = self._topics.find(name)
            for number in range(0 if topic is None else topic.partitions):
                assert topic is not None
                names[topic.topic_id] = name
                if (item := TopicIdPartition(topic.topic_id, number)) not in known:
                    wanted.append(item)
        if wanted:
            group.initializing_since_ms = now_ms
            change.add(initializing(shares, wanted, names))
        return tuple(wanted)

    def initialized(self, event: SharesInitialized) -> None:
        """Mark partitions as initialized; after an error, the next heartbeat tries again."""
        group = self._index.share_groups.get(event.group_id)
        if group is None:
            return
        change, shares = _change(group), group.shares
        left_over = tuple(item for item in shares.initializing if item not in event.partitions)
        done = shares.initialized
        if event.error is ErrorCode.NONE:
            done = tuple(sorted({*done, *event.partitions}))
        change.add(replace(shares, initializing=left_over, initialized=done))
        change.write(self._desk, lambda error, now_us: None, event.now_us)

    def topics_deleted(self, topics: Iterable[str], now_us: int) -> None:
        """Remove the partitions of deleted topics from share groups. Source: maybeCleanupShareGroupState"""
        gone = frozenset(topics)
        for group in self._index.share_groups.values():
            names = group.shares.names or {}
            if any(name in gone for name in names.values()):
                stays = {topic_id: name for topic_id, name in names.items() if name not in gone}
                kept = ShareTopics(
                    initializing=tuple(item for item in group.shares.initializing if item.topic_id in stays),
                    initialized=tuple(item for item in group.shares.initialized if item.topic_id in stays),
                    names=stays,
                    deleting=tuple(item for item in group.shares.deleting if item in stays),
                )
                change = _change(group)
                change.add(kept)
                change.write(self._desk, lambda error, at_us: None, now_us)

    # --------------------------------------------------------------------------------------------------------- leaving

    def _leave(self, event: ShareHeartbeat) -> None:
        group = self._group(event.group_id, may_begin=False)
        member = group.members.get(event.member_id)
        if member is None:
            raise unknown(group, event.member_id)
        change = self._removal(group, member, LeaveCause.LEAVE_REQUEST)

        def answer(error: ErrorCode, now_us: int) -> None:
            self._desk.answer(event.request, ConsumerHeartbeatResult(error, event.member_id, event.member_epoch))

        change.write(self._desk, answer, event.now_us)

    def _removal(self, group: ShareGroup, member: ConsumerMember, cause: LeaveCause) -> Change:
        """Return the change that removes a member. Source: shareGroupFenceMember"""
        change = Change(group)
        change.say(ShareMemberLeft(**self._about(group, member), cause=cause))
        remove(change, member.member_id)
        change.add(GroupEpochRecord(group.epoch + 1, self._topics.hash_of(group.subscribed)))
        note_emptied(change, self._desk.settings)
        group.stop_timers_of(member.member_id)
        return change

    def begin(self, group: ShareGroup, now_us: int) -> None:
        """Start a session for every member of a loaded group."""
        for member_id in group.members:
            self._begin_session(group, member_id, now_us)

    def _begin_session(self, group: ShareGroup, member_id: str, now_us: int) -> None:
        timeout_ms = self._configs.session_timeout_ms(group).value
        stop(group.sessions, member_id)
        end = self._desk.after(timeout_ms, lambda at_us: self._end(group, member_id, at_us), now_us)
        group.sessions[member_id] = end

    def _end(self, group: ShareGroup, member_id: str, now_us: int) -> None:
        """Remove a member after its session timeout; retry later if the removal cannot be written."""
        member = group.members.get(member_id)
        if member is None:
            return

        def written(error: ErrorCode, at_us: int) -> None:
            if error is not ErrorCode.NONE and self._index.share_groups.get(group.group_id) is group:
                again = self._desk.after(TIMER_RETRY_MS, lambda due_us: self._end(group, member_id, due_us), at_us)
                group.sessions[member_id] = again

        self._removal(group, member, LeaveCause.SESSION_TIMEOUT).write(self._desk, written, now_us)


def _change(group: ShareGroup) -> Change:
    """Return a change of a group whose `shares` are restored if the change cannot be written."""
    change, shares = Change(group), group.shares
    change.take_back_with(lambda now_us: setattr(group, "shares", shares))
    return change


def initializing(shares: ShareTopics, wanted: Iterable[TopicIdPartition], names: dict[UUID, str]) -> ShareTopics:
    """Return the record by which the initialization of partitions begins. Source: addInitializingTopicsRecords

    Args:
        names: names of all topics.
    """
    partitions = tuple(sorted({*shares.initializing, *wanted}))
    topics = {partition.topic_id for partition in partitions}
    deleting = tuple(item for item in shares.deleting if item not in topics)
    return ShareTopics(partitions, shares.initialized, names, deleting)


def _check(event: ShareHeartbeat) -> None:
    """Raise INVALID_REQUEST if a field of a heartbeat is invalid. Source: throwIfShareGroupHeartbeatRequestIsInvalid"""
    wrong = ""
    if not event.member_id.strip():
        wrong = "MemberId can't be empty."
    elif not event.group_id.strip():
        wrong = "GroupId can't be empty."
    elif event.rack_id is not None and not event.rack_id.strip():
        wrong = "RackId can't be empty."
    elif event.member_epoch == JOINS and not event.topics:
        wrong = "SubscribedTopicNames must be set in first request."
    elif event.member_epoch < LEAVES:
        wrong = "MemberEpoch is invalid."
    if wrong:
        raise KafkaError(ErrorCode.INVALID_REQUEST, wrong)


def _check_epoch(member: ConsumerMember, event: ShareHeartbeat) -> None:
    """Raise FENCED_MEMBER_EPOCH if a heartbeat has a wrong member epoch.

    The previous epoch is accepted, since the response with the new one may have been lost.
    Source: throwIfShareGroupMemberEpochIsInvalid
    """
    said, known = event.member_epoch, member.epoch
    if said not in (JOINS, known, member.previous_epoch) or said > known:
        raise fenced(ShareGroup.TYPE, said, known)
