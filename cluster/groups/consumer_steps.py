"""The steps that members of either protocol take in a consumer group: they are found or made, their topics counted, all
are assigned to, one comes nearer to its target, and some are out. Each step is part of a `Change`.

source: GroupMetadataManager.getOrMaybeSubscribe*, hasMemberSubscriptionChanged, updateTargetAssignment, maybeReconcile,
consumerGroupFenceMembers, schedule*Timeout
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cluster.groups.assignors import ranges, uniform
from cluster.groups.assignors.specification import Assign, AssignableMember, GroupSpecification, Partitions
from cluster.groups.consumer_change import Change, reconciliation
from cluster.groups.desk import Departure, Desk, left
from cluster.groups.group_configs import GroupConfigs
from cluster.groups.migration import Migration
from cluster.groups.pattern_subscriptions import PatternSubscriptions
from cluster.groups.state.consumer_group import ConsumerGroup, stop
from cluster.groups.state.consumer_member import JOINS, LEAVES_FOR_A_WHILE, ConsumerMember, MemberState, reconciled
from cluster.groups.state.consumer_records import (
    CurrentAssignmentRecord,
    GroupEpochRecord,
    GroupTopicsRecord,
    MemberRecord,
    TargetEpochRecord,
    TargetRecord,
    current_record,
)
from cluster.groups.state.index import GroupIndex
from cluster.groups.topic_directory import TopicDirectory
from cluster.protocol.versions import CONSUMER_GROUP_HEARTBEAT, JOIN_GROUP, api_name
from replica.causes import JoinCause, LeaveCause
from replica.errors import ErrorCode, KafkaError
from replica.trace.events import GroupAssigned, GroupMemberJoined
from replica.wording import shown, shown_if_any

ASSIGNORS: dict[str, Assign] = {uniform.NAME: uniform.assign, ranges.NAME: ranges.assign}
"""The first one is taken where no member asks for one (group.consumer.assignors)."""
DEFAULT_ASSIGNOR = uniform.NAME
TIMER_RETRY_MS = 500
"""How long after a session that ended and could not be written. source: EventBasedCoordinatorTimer.schedule"""


class ConsumerSteps:
    """Of all consumer groups of one coordinator."""

    def __init__(
        self,
        index: GroupIndex,
        desk: Desk,
        topics: TopicDirectory,
        migration: Migration,
        configs: GroupConfigs,
    ) -> None:
        self._index = index
        self._desk = desk
        self._topics = topics
        self._migration = migration
        self._configs = configs
        self._patterns = PatternSubscriptions(desk, topics)

    # --------------------------------------------------------------------------------------------------------- members

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        """source: throwIfConsumerGroupIsFull"""
        limit = self._desk.settings.consumer_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {limit} members.",
            )

    @staticmethod
    def member(
        change: Change, member_id: str, instance_id: str | None, *, may_join: bool, is_classic: bool
    ) -> ConsumerMember:
        """The member as it was, new where it may be. source: getOrMaybeSubscribe*ConsumerGroupMember"""
        group = change.group
        if instance_id is None:
            known = group.members.get(member_id)
            if known is None and not may_join:
                raise unknown(group, member_id)
            return ConsumerMember(member_id=member_id) if known is None else known
        if not may_join:
            return named(group, member_id, instance_id)
        before = group.static_member(instance_id)
        if before is None:
            return group.members.get(member_id, ConsumerMember(member_id=member_id))
        if not is_classic and before.classic is None and before.epoch != LEAVES_FOR_A_WHILE:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {shown(member_id)} with instance id {shown(instance_id)} cannot join the group "
                f"because the instance id is owned by {shown(before.member_id)} member.",
            )
        returned = replace(before, member_id=member_id, epoch=JOINS, previous_epoch=JOINS)
        target = group.targets.get(before.member_id, ())
        _remove(change, before.member_id)
        change.add(MemberRecord(member_id, returned))
        change.add(TargetRecord(member_id, target))
        change.add(current_record(returned))
        return returned

    def subscribe(self, change: Change, before: ConsumerMember, after: ConsumerMember, now_us: int) -> bool:
        """Keep what the member says; other topics are a new group epoch. Returns whether the member reads others.

        source: hasMemberSubscriptionChanged, maybeUpdateRegularExpressions, updateSubscriptionMetadata
        """
        group, known = change.group, change.kept.members
        # A new group leaves epoch 0, though it may know none of its topics yet.
        raised = group.epoch == 0
        if after != before:
            change.add(MemberRecord(after.member_id, after))
            raised |= after.topics != before.topics
        raised |= self._patterns.update(change, before.topic_regex, after.topic_regex, now_us)
        metadata_hash = self._topics.hash_of(group.subscribed)
        if raised or metadata_hash != group.metadata_hash:
            change.add(GroupEpochRecord(group.epoch + 1, metadata_hash))
        if group.has_topics_record:
            change.add(GroupTopicsRecord(None))
        if after.member_id not in known:
            of_instance = (one for one in known.values() if one.instance_id is not None)
            replaced = next((one for one in of_instance if one.instance_id == after.instance_id), None)
            change.say(
                GroupMemberJoined(
                    node=self._desk.node,
                    group=shown(group.group_id),
                    member=shown(after.member_id),
                    instance=shown_if_any(after.instance_id),
                    client_id=shown(after.client_id),
                    generation=group.epoch,
                    cause=JoinCause.NEW if replaced is None else JoinCause.STATIC_RETURNED,
                    replaced=None if replaced is None else shown(replaced.member_id),
                    replaced_client_id=None if replaced is None else shown(replaced.client_id),
                    group_type=group.TYPE,
                    api=api_name(CONSUMER_GROUP_HEARTBEAT if after.classic is None else JOIN_GROUP),
                    topics=tuple(map(shown, after.topics)),
                    pattern=shown(after.topic_regex) if after.topic_regex else None,
                )
            )
        return raised

    # ------------------------------------------------------------------------------------------------------ assignment

    def _assign(self, change: Change) -> None:
        """A target for every member, of the group's epoch. source: updateTargetAssignment, TargetAssignmentBuilder"""
        group = change.group
        name = group.preferred_assignor() or DEFAULT_ASSIGNOR
        known = {topic: found for topic in group.subscribed if (found := self._topics.find(topic)) is not None}
        specification = GroupSpecification(
            members={
                member.member_id: AssignableMember(
                    instance_id=member.instance_id,
                    topics=tuple(known[topic].topic_id for topic in group.topics_of(member) if topic in known),
                    target=group.targets.get(member.member_id, ()),
                )
                for member in group.members.values()
            },
            partition_counts={topic.topic_id: topic.partitions for topic in known.values()},
        )
        targets = ASSIGNORS[name](specification)
        for member_id in group.members:
            if group.targets.get(member_id) != targets[member_id]:
                change.add(TargetRecord(member_id, targets[member_id]))
        change.add(TargetEpochRecord(group.epoch))
        change.say(
            GroupAssigned(
                node=self._desk.node,
                group=shown(group.group_id),
                generation=group.target_epoch,
                members=tuple(map(shown, group.members)),
                assignor=name,
            )
        )

    def assign(self, change: Change, member_id: str, owned: Partitions | None, now_us: int) -> ConsumerMember:
        """A target for all where the group epoch is a new one, and the member one step nearer to its own; returned as
        it is then. source: consumerGroupHeartbeat, 2 and 3
        """
        if change.group.epoch > change.group.target_epoch:
            self._assign(change)
        return self.reconcile(change, member_id, owned, now_us)

    def reconcile(self, change: Change, member_id: str, owned: Partitions | None, now_us: int) -> ConsumerMember:
        """source: maybeReconcile"""
        group = change.group
        member = group.members[member_id]
        target = group.targets.get(member.member_id, ())
        after = reconciled(member, group.target_epoch, target, lambda one: group.holder(one) is None, owned)
        if after != member:
            change.add(current_record(after))
            if replace(after, previous_epoch=member.previous_epoch) != member:
                change.say(reconciliation(self._desk.node, group, after, self._topics))
            # Classic members have deadlines for their JoinGroup and SyncGroup instead.
            if after.classic is None:
                stop(group.rebalances, after.member_id)
                if after.state is MemberState.UNREVOKED_PARTITIONS:
                    self._await_revocation(group, after, now_us)
        return after

    # --------------------------------------------------------------------------------------------------------- leaving

    def fence(self, change: Change, members: Sequence[ConsumerMember], why: Departure, now_us: int) -> None:
        """They are out, and the others get what they had; where only classic ones are left, it is a classic group.

        source: consumerGroupFenceMembers
        """
        group = change.group
        for member in members:
            change.say(left(self._desk.node, group, member, why))
        if self._migration.may_downgrade(group, members):
            self._migration.downgrade(change, [one.member_id for one in members], None, self.begin, now_us)
            return
        for member in members:
            _remove(change, member.member_id)
        self._patterns.forget(change, members)
        change.add(GroupEpochRecord(group.epoch + 1, self._topics.hash_of(group.subscribed)))
        for member in members:
            group.stop_timers_of(member.member_id)

    # ---------------------------------------------------------------------------------------------------------- timers

    def begin(self, group: ConsumerGroup, now_us: int) -> None:
        """It was read from the log, or is the current one again: every member gets a new session. source: onLoaded"""
        for member in group.members.values():
            self.begin_session(group, member.member_id, now_us)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._await_revocation(group, member, now_us)

    def begin_session(
        self, group: ConsumerGroup, member_id: str, now_us: int, classic_timeout_ms: int | None = None
    ) -> None:
        """classic_timeout_ms: the member's own, where it speaks the classic protocol"""
        if classic_timeout_ms is None:
            key, timeout_ms = self._configs.session_timeout_ms(group.group_id)
        else:
            key, timeout_ms = "session.timeout.ms", classic_timeout_ms
        why = Departure(LeaveCause.SESSION_TIMEOUT, timeout_ms, key)
        stop(group.sessions, member_id)
        group.sessions[member_id] = self._desk.after(timeout_ms, self._end(group, member_id, why), now_us)

    def await_join(self, group: ConsumerGroup, member: ConsumerMember, now_us: int) -> None:
        """A classic member has heard that it is to join again. source: scheduleConsumerGroupJoinTimeoutIfAbsent"""
        if member.member_id not in group.joins:
            timeout_ms = member.rebalance_timeout_ms
            why = Departure(LeaveCause.JOIN_TIMEOUT, timeout_ms)
            end = self._end(group, member.member_id, why)
            group.joins[member.member_id] = self._desk.after(timeout_ms, end, now_us)

    def await_sync(self, group: ConsumerGroup, member_id: str, timeout_ms: int, now_us: int) -> None:
        """A classic member has joined. source: scheduleConsumerGroupSyncTimeout"""
        stop(group.syncs, member_id)
        why = Departure(LeaveCause.SYNC_TIMEOUT, timeout_ms)
        group.syncs[member_id] = self._desk.after(timeout_ms, self._end(group, member_id, why), now_us)

    def _end(self, group: ConsumerGroup, member_id: str, why: Departure) -> Callable[[int], None]:
        def end(ended_us: int) -> None:
            member = group.members.get(member_id)
            if member is not None:
                self._give_up(group, member, why, ended_us)

        return end

    def _await_revocation(self, group: ConsumerGroup, member: ConsumerMember, now_us: int) -> None:
        """source: scheduleConsumerGroupRebalanceTimeout"""
        timeout_ms, epoch = member.rebalance_timeout_ms, member.epoch

        def end(ended_us: int) -> None:
            known = group.members.get(member.member_id)
            if known is not None and known.epoch == epoch:
                why = Departure(LeaveCause.REVOCATION_TIMEOUT, timeout_ms)
                self._give_up(group, known, why, ended_us)

        group.rebalances[member.member_id] = self._desk.after(timeout_ms, end, now_us)

    def _give_up(self, group: ConsumerGroup, member: ConsumerMember, why: Departure, now_us: int) -> None:
        """Tried again where it cannot be written. source: CoordinatorRuntime.EventBasedCoordinatorTimer"""
        change = Change(group)

        def again(at_us: int) -> None:
            known = group.members.get(member.member_id)
            if known is not None:
                self._give_up(group, known, why, at_us)

        def retry(at_us: int) -> None:
            stop(group.sessions, member.member_id)
            group.sessions[member.member_id] = self._desk.after(TIMER_RETRY_MS, again, at_us)

        def written(error: ErrorCode, at_us: int) -> None:
            if error is not ErrorCode.NONE and self._index.consumer_groups.get(group.group_id) is group:
                retry(at_us)

        try:
            self.fence(change, [member], why, now_us)
        except KafkaError:  # Of a downgrade: nothing has changed.
            retry(now_us)
        else:
            change.write(self._desk, written, now_us)


def _remove(change: Change, member_id: str) -> None:
    change.add(CurrentAssignmentRecord(member_id, None))
    change.add(TargetRecord(member_id, None))
    change.add(MemberRecord(member_id, None))


def named(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member of this id and, where it is static, this instance.  raises: KafkaError"""
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise unknown(group, member_id)
        return member
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {shown(instance_id)} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {shown(member_id)} with instance id {shown(instance_id)} was fenced by "
            f"member {shown(member.member_id)}.",
        )
    return member


def unknown(group: ConsumerGroup, member_id: str) -> KafkaError:
    return KafkaError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {shown(member_id)} is not a member of group {shown(group.group_id)}.",
    )
