"""The steps of handling a member's request in a consumer group, for both protocols; all add to a `Change`.

The steps find or create a member, apply its topics, compute target assignments, move a member towards its target, and
remove members.
Source: GroupMetadataManager.getOrMaybeSubscribe*, hasMemberSubscriptionChanged, updateTargetAssignment, maybeReconcile,
consumerGroupFenceMembers, schedule*Timeout
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from cluster.groups.consumer_change import Change, reconciliation
from cluster.groups.desk import Departure, GroupConfigs, GroupDesk, GroupSettings, left, of_member
from cluster.groups.inputs import ConsumerHeartbeatResult, MemberHeartbeat
from cluster.groups.migration import Migration
from cluster.groups.state.assignors import (
    Assign,
    AssignableMember,
    GroupSpecification,
    Partitions,
    assign_ranges,
    assign_uniformly,
)
from cluster.groups.state.consumer_group import ConsumerGroup, GroupContents, stop
from cluster.groups.state.consumer_member import JOINS, LEAVES_FOR_A_WHILE, ConsumerMember, MemberState, reconciled
from cluster.groups.state.consumer_records import (
    NEVER_ASSIGNED,
    CurrentAssignmentRecord,
    GroupEpochRecord,
    GroupTopicsRecord,
    MemberRecord,
    PatternRecord,
    ResolvedPattern,
    TargetEpochRecord,
    TargetRecord,
    current_record,
)
from cluster.groups.state.index import GroupIndex
from cluster.groups.topic_directory import TopicDirectory
from cluster.protocol.versions import CONSUMER_GROUP_HEARTBEAT, JOIN_GROUP, api_name
from cluster.topic_pattern import matching
from replica.causes import JoinCause, LeaveCause
from replica.errors import ErrorCode, KafkaError
from replica.trace.events import GroupAssigned, GroupMemberJoined
from replica.wording import shown

ASSIGNORS: dict[str, Assign] = {"uniform": assign_uniformly, "range": assign_ranges}
"""Server-side assignors; the first is the default (group.consumer.assignors)."""
DEFAULT_ASSIGNOR = "uniform"
TIMER_RETRY_MS = 500
"""The delay before the write of a member's removal is retried. Source: EventBasedCoordinatorTimer.schedule"""


class ConsumerSteps:
    """The steps of requests in all consumer groups of one coordinator."""

    def __init__(
        self,
        index: GroupIndex,
        desk: GroupDesk,
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

    @staticmethod
    def member(
        change: Change, member_id: str, instance_id: str | None, *, may_join: bool, is_classic: bool = False
    ) -> ConsumerMember:
        """Return the member as it was before the request, or a new one if it is unknown and may join.

        A returning static member gets the target of its earlier member id.

        Raises:
            KafkaError: if the member may not join and is unknown or fenced, or if its instance id is in use.

        Source: getOrMaybeSubscribe*ConsumerGroupMember, getOrMaybeCreate*StreamsGroupMember
        """
        group = change.group
        if instance_id is None:
            known = group.members.get(member_id)
            if known is None and not may_join:
                raise unknown(group, member_id)
            return group.MEMBER(member_id=member_id) if known is None else known
        if not may_join:
            return named(group, member_id, instance_id)
        before = group.static_member(instance_id)
        if before is None:
            return group.members.get(member_id, group.MEMBER(member_id=member_id))
        if not is_classic and before.classic is None and before.epoch != LEAVES_FOR_A_WHILE:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {shown(member_id)} with instance id {shown(instance_id)} cannot join the group "
                f"because the instance id is owned by {shown(before.member_id)} member.",
            )
        returned = replace(before, member_id=member_id, epoch=JOINS, previous_epoch=JOINS)
        target = group.targets.get(before.member_id, ())
        remove(change, before.member_id)
        change.add(MemberRecord(member_id, returned))
        change.add(TargetRecord(member_id, target))
        change.add(current_record(returned))
        return returned

    def subscribe(self, change: Change, before: ConsumerMember, after: ConsumerMember, now_us: int) -> bool:
        """Apply a member's new fields, and raise the group epoch if the group's topics have changed.

        Return True if the member's fields were the reason. Since 4.4 another preferred assignor is a reason, too.

        Source: hasMemberSubscriptionChanged, hasPreferredServerAssignorChanged, maybeUpdateRegularExpressions,
        updateSubscriptionMetadata
        """
        group = change.group
        assignor = assignor_of(group)
        # Up to 4.2 a new group always leaves epoch 0, even if none of its topics exists yet.
        raised = group.epoch == 0
        if after != before:
            change.add(MemberRecord(after.member_id, after))
            raised |= after.topics != before.topics
            raised |= self._desk.settings.assignor_raises_epoch and assignor_of(group) != assignor
        raised |= self._patterns.update(change, before.topic_regex, after.topic_regex, now_us)
        metadata_hash = self._topics.hash_of(group.subscribed)
        if raised or metadata_hash != group.metadata_hash:
            change.add(GroupEpochRecord(group.epoch + 1, metadata_hash))
        if group.has_topics_record:
            change.add(GroupTopicsRecord(None))
        self.say_joined(change, after, CONSUMER_GROUP_HEARTBEAT if after.classic is None else JOIN_GROUP, after.topics)
        return raised

    def say_joined(self, change: Change, member: ConsumerMember, api: int, topics: Sequence[str]) -> None:
        """Emit an event if the member was not in the group before the change."""
        group, known = change.group, change.kept.members
        if member.member_id in known:
            return
        of_instance = (item for item in known.values() if item.instance_id is not None)
        replaced = next((item for item in of_instance if item.instance_id == member.instance_id), None)
        change.say(
            GroupMemberJoined(
                *of_member(self._desk.node, group, member),
                generation=group.epoch,
                cause=JoinCause.NEW if replaced is None else JoinCause.STATIC_RETURNED,
                replaced=None if replaced is None else shown(replaced.member_id),
                replaced_client_id=None if replaced is None else shown(replaced.client_id),
                group_type=group.TYPE,
                api=api_name(api),
                topics=tuple(map(shown, topics)),
                pattern=shown(member.topic_regex) if member.topic_regex else None,
            )
        )

    def leave(self, change: Change, member: ConsumerMember, event: MemberHeartbeat) -> None:
        """Remove a member, unless it is a static one that leaves for a while, and answer its heartbeat.

        Source: consumerGroupLeave, streamsGroupLeave
        """
        if event.member_epoch == LEAVES_FOR_A_WHILE:
            since = dict.fromkeys(member.assigned, 0) if member.since else {}
            gone = replace(member, epoch=LEAVES_FOR_A_WHILE, pending_revocation=(), since=since)
            change.add(current_record(gone))
        else:
            self.fence(change, [member], Departure(LeaveCause.LEAVE_REQUEST), event.now_us)

        def answer(error: ErrorCode, now_us: int) -> None:
            self._desk.answer(event.request, ConsumerHeartbeatResult(error, member.member_id, event.member_epoch))

        change.write(self._desk, answer, event.now_us)

    # ------------------------------------------------------------------------------------------------------ assignment

    def _assign(self, change: Change, now_us: int) -> None:
        """Compute the target assignments of all members for the group epoch.

        Source: updateTargetAssignment, TargetAssignmentBuilder
        """
        group = change.group
        name = assignor_of(group)
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
        self.set_targets(change, targets, name, self._desk.settings.consumer_assignment_interval_ms, now_us)

    def set_targets(
        self, change: Change, targets: Mapping[str, tuple[Any, ...]], assignor: str, interval_ms: int, now_us: int
    ) -> None:
        """Set the target assignments of all members for the group epoch.

        Args:
            interval_ms: minimum interval between assignments; if not 0, the current time is stored, too.
        """
        group = change.group
        for member_id in group.members:
            if group.targets.get(member_id) != targets[member_id]:
                change.add(TargetRecord(member_id, targets[member_id]))
        change.add(target_epoch_record(self._desk, group, interval_ms, now_us))
        change.say(
            GroupAssigned(
                node=self._desk.node,
                group=shown(group.group_id),
                generation=group.target_epoch,
                members=tuple(map(shown, group.members)),
                assignor=assignor,
                group_type=group.TYPE,
            )
        )

    def assign(self, change: Change, member_id: str, owned: Partitions | None, now_us: int) -> ConsumerMember:
        """Compute target assignments if the group epoch is new, and return the member after a step towards its target.

        Since 4.3 targets are computed at most once per interval; if it is too early, a later heartbeat computes them
        (KIP-1263). Source: consumerGroupHeartbeat, 2 and 3

        Args:
            owned: partitions that the member reports, None if it reports none.
        """
        group, interval_ms = change.group, self._desk.settings.consumer_assignment_interval_ms
        if group.epoch > group.target_epoch and is_due(self._desk, group, interval_ms, now_us):
            self._assign(change, now_us)
        return self.reconcile(change, member_id, owned, now_us)

    def reconcile(self, change: Change, member_id: str, owned: tuple[Any, ...] | None, now_us: int) -> ConsumerMember:
        """Move a member one step towards its target assignment, and return it. Source: maybeReconcile"""
        group = change.group
        member = group.members[member_id]
        target = group.targets.get(member.member_id, ())
        after = reconciled(
            member,
            group.target_epoch,
            target,
            partial(group.is_free, member),
            owned,
            revoking_raises_epoch=self._desk.settings.revoking_raises_epoch or group.HAS_TASKS,
        )
        if after != member:
            if self._desk.settings.older_epochs_count or group.HAS_TASKS:
                after = after.with_epochs_of(member)
            change.add(current_record(after))
            if replace(after, previous_epoch=member.previous_epoch, since=member.since) != member:
                change.say(reconciliation(self._desk.node, group, after, self._topics))
            # Classic members have deadlines for their JoinGroup and SyncGroup instead.
            if after.classic is None:
                stop(group.rebalances, after.member_id)
                if after.state is MemberState.UNREVOKED_PARTITIONS:
                    self._await_revocation(group, after, now_us)
        return after

    # --------------------------------------------------------------------------------------------------------- leaving

    def fence(self, change: Change, members: Sequence[ConsumerMember], why: Departure, now_us: int) -> None:
        """Remove these members and reassign their partitions; if only classic members remain, downgrade the group.

        Source: consumerGroupFenceMembers
        """
        group = change.group
        for member in members:
            change.say(left(self._desk.node, group, member, why))
        if self._migration.may_downgrade(group, members):
            self._migration.downgrade(change, [item.member_id for item in members], None, self.begin, now_us)
            return
        for member in members:
            remove(change, member.member_id)
        self._patterns.forget(change, members)
        change.add(GroupEpochRecord(group.epoch + 1, self._topics.hash_of(group.subscribed)))
        note_emptied(change, self._desk.settings)
        for member in members:
            group.stop_timers_of(member.member_id)

    # ---------------------------------------------------------------------------------------------------------- timers

    def begin(self, group: ConsumerGroup, now_us: int) -> None:
        """Start a session for every member of a group that was loaded, or restored after a failed downgrade.

        Source: onLoaded
        """
        for member in group.members.values():
            self.begin_session(group, member.member_id, now_us)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._await_revocation(group, member, now_us)

    def begin_session(
        self, group: ConsumerGroup, member_id: str, now_us: int, classic_timeout_ms: int | None = None
    ) -> None:
        """Start or restart a member's session timeout.

        Args:
            classic_timeout_ms: session timeout that a classic member has set; None for the group's timeout.
        """
        if classic_timeout_ms is None:
            key, timeout_ms = self._configs.session_timeout_ms(group)
        else:
            key, timeout_ms = "session.timeout.ms", classic_timeout_ms
        why = Departure(LeaveCause.SESSION_TIMEOUT, timeout_ms, key)
        stop(group.sessions, member_id)
        group.sessions[member_id] = self._desk.after(timeout_ms, self._end(group, member_id, why), now_us)

    def await_join(self, group: ConsumerGroup, member: ConsumerMember, now_us: int) -> None:
        """Start the deadline by which a classic member has to join again, unless it runs already.

        Source: scheduleConsumerGroupJoinTimeoutIfAbsent
        """
        if member.member_id not in group.joins:
            timeout_ms = member.rebalance_timeout_ms
            why = Departure(LeaveCause.JOIN_TIMEOUT, timeout_ms)
            end = self._end(group, member.member_id, why)
            group.joins[member.member_id] = self._desk.after(timeout_ms, end, now_us)

    def await_sync(self, group: ConsumerGroup, member_id: str, timeout_ms: int, now_us: int) -> None:
        """Start the deadline by which a classic member has to send SyncGroup.

        Source: scheduleConsumerGroupSyncTimeout
        """
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
        """Start the deadline by which a member has to revoke partitions.

        Source: scheduleConsumerGroupRebalanceTimeout
        """
        timeout_ms, epoch = member.rebalance_timeout_ms, member.epoch

        def end(ended_us: int) -> None:
            known = group.members.get(member.member_id)
            if known is not None and known.epoch == epoch:
                why = Departure(LeaveCause.REVOCATION_TIMEOUT, timeout_ms)
                self._give_up(group, known, why, ended_us)

        group.rebalances[member.member_id] = self._desk.after(timeout_ms, end, now_us)

    def _give_up(self, group: ConsumerGroup, member: ConsumerMember, why: Departure, now_us: int) -> None:
        """Remove a member after a timeout, and retry if the removal cannot be written.

        Source: CoordinatorRuntime.EventBasedCoordinatorTimer
        """
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
        except KafkaError:  # A downgrade failed, and nothing has changed.
            retry(now_us)
        else:
            change.write(self._desk, written, now_us)


HB = TypeVar("HB", bound=MemberHeartbeat)


def hear(
    index: GroupIndex,
    desk: GroupDesk,
    event: HB,
    check: Callable[[HB], None],
    stay: Callable[[HB], None],
    leave: Callable[[HB], None],
) -> None:
    """Check a heartbeat and pass it to `stay` or, if the member leaves, to `leave`; answer a raised KafkaError."""
    try:
        check(event)
        error = index.status(event.group_id)
        if error is not ErrorCode.NONE:
            raise KafkaError(error)
        (leave if event.member_epoch < JOINS else stay)(event)
    except KafkaError as refusal:
        desk.answer(event.request, ConsumerHeartbeatResult(refusal.code, message=refusal.message or None))


def fenced(group_type: str, said: int, known: int) -> KafkaError:
    size = "greater" if said > known else "smaller"
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {group_type} group member has a {size} member epoch ({said}) than the one known by the group coordinator "
        f"({known}). The member must abandon all its partitions and rejoin.",
    )


def remove(change: Change, member_id: str) -> None:
    change.add(CurrentAssignmentRecord(member_id, None))
    change.add(TargetRecord(member_id, None))
    change.add(MemberRecord(member_id, None))


def assignor_of(group: ConsumerGroup) -> str:
    return group.preferred_assignor() or DEFAULT_ASSIGNOR


def is_due(desk: GroupDesk, group: ConsumerGroup, interval_ms: int, now_us: int) -> bool:
    """Return True if the minimum interval since the last assignment is over. Source: canComputeNextTargetAssignment"""
    return group.assigned_ms == NEVER_ASSIGNED or desk.wall_ms(now_us) >= group.assigned_ms + interval_ms


def target_epoch_record(desk: GroupDesk, group: ConsumerGroup, interval_ms: int, now_us: int) -> TargetEpochRecord:
    """Return the record of an assignment for the group epoch, with its time if there is a minimum interval."""
    return TargetEpochRecord(group.epoch, desk.wall_ms(now_us) if interval_ms else NEVER_ASSIGNED)


def note_emptied(change: Change, settings: GroupSettings) -> None:
    """Since 4.4, let the next member get partitions immediately if a change has removed the last member.

    Source: consumerGroupFenceMembers, shareGroupFenceMember, streamsGroupFenceMember (4.4.0)
    """
    if settings.empty_is_assigned and not change.group.members:
        change.add(TargetEpochRecord(change.group.epoch))


def named(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """Return the member with this id and, if it is static, this instance id.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has the instance id.
    """
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


# ------------------------------------------------------------------------------------------------ pattern subscriptions
#
# If a KIP-848 member subscribes with a pattern, the coordinator resolves the pattern to topics and stores them.
#
# A heartbeat with a new pattern is answered first. Then all patterns of the group are resolved together and raise the
# group epoch only once. A later heartbeat resolves them again if a topic was created, if a pattern is not resolved yet,
# or after an interval, but not within ten seconds.
#
# source: GroupMetadataManager.maybeUpdateRegularExpressions, refreshRegularExpressions, handleRegularExpressionsResult,
# maybeDeleteResolvedRegularExpressions


LEAST_INTERVAL_MS = 10_000
"""The shortest interval between resolutions (REGEX_BATCH_REFRESH_MIN_INTERVAL_MS)."""


class PatternSubscriptions:
    """The pattern subscriptions in all consumer groups of one coordinator."""

    def __init__(self, desk: GroupDesk, topics: TopicDirectory) -> None:
        self._desk = desk
        self._topics = topics

    def update(self, change: Change, before: str | None, after: str | None, now_us: int) -> bool:
        """Apply a change of a member's pattern, and schedule a resolution of the group's patterns if necessary.

        The group's member already has the new pattern. Return True if this changes the group's topics immediately.

        Args:
            before: previous pattern, "" or None for none.
            after: new pattern, "" or None for none.
        """
        group, is_new, raised = change.group, False, False
        if after != before:
            if before and before not in group.patterns:
                change.add(PatternRecord(before, None))
            if after:
                is_new = sum(member.topic_regex == after for member in group.members.values()) == 1
                raised = after in group.resolved
            elif before:
                raised = True
        if group.patterns and group.resolving is None and self._is_due(group, change.kept, is_new, now_us):
            group.resolving = self._desk.after(0, lambda at_us: self._resolve(group, at_us), now_us)
        return raised

    def _is_due(self, group: ConsumerGroup, known: GroupContents, is_new: bool, now_us: int) -> bool:
        """Return True if the group's patterns have to be resolved again.

        Args:
            known: contents of the group before the heartbeat.
            is_new: True if the heartbeat has a pattern that the group did not have.
        """
        last = next(iter(known.resolved.values()), None)
        if last is None:
            return True
        waited_ms = self._desk.wall_ms(now_us) - last.resolved_ms
        if waited_ms <= LEAST_INTERVAL_MS:
            return False
        return (
            is_new
            or len(group.patterns) != len(known.resolved)
            or last.version < self._topics.version_of_newest
            or waited_ms > self._desk.settings.regex_refresh_interval_ms
        )

    def _resolve(self, group: ConsumerGroup, now_us: int) -> None:
        """Resolve all patterns of a group to topics. Simplified: this takes no time; Kafka uses a separate thread."""
        group.resolving = None
        change, raised = Change(group), False
        for pattern in group.patterns:
            topics = tuple(sorted(matching(pattern, self._topics.names())))
            known = group.resolved.get(pattern)
            raised |= topics != (() if known is None else known.topics)
            resolved = ResolvedPattern(topics, self._topics.version, self._desk.wall_ms(now_us))
            change.add(PatternRecord(pattern, resolved))
        metadata_hash = self._topics.hash_of(group.subscribed)
        if raised or metadata_hash != group.metadata_hash:
            change.add(GroupEpochRecord(group.epoch + 1, metadata_hash))
        # If the write fails, a later heartbeat resolves the patterns again.
        change.write(self._desk, lambda error, written_us: None, now_us)

    @staticmethod
    def forget(change: Change, gone: Iterable[ConsumerMember]) -> None:
        """Delete the resolved patterns that only the members in `gone` had."""
        patterns = dict.fromkeys(member.topic_regex for member in gone if member.topic_regex)
        for pattern in patterns:
            if pattern not in change.group.patterns:
                change.add(PatternRecord(pattern, None))
