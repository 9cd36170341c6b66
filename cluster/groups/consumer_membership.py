"""The heartbeats of members of KIP-848's consumer groups: they join, report what they read, and leave by them.

A heartbeat has three parts: the member is made or changed, which may raise the group epoch; a new group epoch gets a
target assignment; the member comes a step nearer to its target. source: GroupMetadataManager.consumerGroupHeartbeat
"""

from __future__ import annotations

from dataclasses import replace

from cluster.groups.assignors import ranges, uniform
from cluster.groups.assignors.specification import Assign, AssignableMember, GroupSpecification, Partitions
from cluster.groups.consumer_change import Change
from cluster.groups.consumer_events import ConsumerGroupEvents
from cluster.groups.consumer_group import ConsumerGroup
from cluster.groups.consumer_member import (
    JOINS,
    LEAVES,
    LEAVES_FOR_A_WHILE,
    ConsumerMember,
    MemberState,
    reconciled,
)
from cluster.groups.consumer_records import (
    CurrentAssignmentRecord,
    GroupEpochRecord,
    GroupTopicsRecord,
    MemberRecord,
    SubscribedTopic,
    TargetEpochRecord,
    TargetRecord,
    current_record,
)
from cluster.groups.desk import Desk
from cluster.groups.group import State
from cluster.groups.index import GroupIndex
from cluster.groups.inputs import NO_MEMBER_ID, ConsumerHeartbeat, ConsumerHeartbeatResult
from cluster.groups.patterns import check_pattern, matching
from cluster.groups.records import group_key
from cluster.groups.topic_directory import TopicDirectory
from cluster.timers import Timer
from replica.errors import ErrorCode, KafkaError
from replica.log.checkpoints import as_kafka_spells
from replica.wording import shown

ASSIGNORS: dict[str, Assign] = {uniform.NAME: uniform.assign, ranges.NAME: ranges.assign}
"""The first one is taken where no member asks for one (group.consumer.assignors)."""
DEFAULT_ASSIGNOR = uniform.NAME
NOT_SAID_MS = -1
TIMER_RETRY_MS = 500
"""How long after a session that ended and could not be written. source: EventBasedCoordinatorTimer.schedule"""


class ConsumerMembership:
    """Of all consumer groups of one coordinator."""

    def __init__(self, index: GroupIndex, desk: Desk, events: ConsumerGroupEvents, topics: TopicDirectory) -> None:
        self._index = index
        self._desk = desk
        self._events = events
        self._topics = topics

    def heartbeat(self, given: ConsumerHeartbeat) -> None:
        """Answers it, at once or when what it changes is on all in-sync replicas."""
        try:
            _check(given)
            error = self._index.status(given.group_id)
            if error is not ErrorCode.NONE:
                raise KafkaError(error)
            if given.member_epoch in (LEAVES, LEAVES_FOR_A_WHILE):
                self._leave(given)
            else:
                self._stay(given)
        except KafkaError as refusal:
            message = refusal.message or None
            self._desk.answer(given.request, ConsumerHeartbeatResult(refusal.code, message=message))

    def loaded(self, group: ConsumerGroup, now_us: int) -> None:
        """It was read from the log: every member gets a new session. source: onLoaded"""
        for member in group.members.values():
            self._begin_session(group, member.member_id, now_us)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._await_revocation(group, member, now_us)

    # ------------------------------------------------------------------------------------------------------ heartbeats

    def _stay(self, given: ConsumerHeartbeat) -> None:
        joins = given.member_epoch == JOINS
        change = self._change_of(given.group_id, may_begin=joins)
        group = change.group
        before = self._member(change, given, joins)
        self._index.consumer_groups[group.group_id] = group
        was_in = before.member_id in group.members
        after = _as_it_says(before, given)
        self._subscribe(change, before, after)
        if not was_in:
            change.say(self._events.joined(group, after))
        if group.epoch > group.target_epoch:
            self._assign(change)
        after = self._reconcile(change, group.members[after.member_id], given.owned, given.now_us)
        self._begin_session(group, after.member_id, given.now_us)
        is_full = joins or (
            given.rebalance_timeout_ms != NOT_SAID_MS and given.topics is not None and given.owned is not None
        )
        assigned = after.assigned if is_full or before.assigned != after.assigned else None
        interval_ms = self._desk.settings.consumer_heartbeat_interval_ms

        def answer(error: ErrorCode, now_us: int) -> None:
            result = ConsumerHeartbeatResult(error)
            if error is ErrorCode.NONE:
                result = ConsumerHeartbeatResult(error, after.member_id, after.epoch, interval_ms, assigned)
            self._desk.answer(given.request, result)

        change.write(self._desk, answer, given.now_us)

    def _change_of(self, group_id: str, *, may_begin: bool) -> Change:
        """To the group, made if it may. source: getOrMaybeCreateConsumerGroup"""
        group = self._index.consumer_groups.get(group_id)
        if group is not None:
            return Change(group)
        classic = self._index.groups.get(group_id)
        if classic is None:
            if not may_begin:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {shown(group_id)} not found.")
            return Change(ConsumerGroup(group_id))
        # Simplified: only an empty group changes its protocol; in Kafka one whose members are consumers does, too.
        if not may_begin or classic.state is not State.EMPTY or classic.pending_members:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {shown(group_id)} is not a consumer group.")
        fresh = ConsumerGroup(group_id)
        fresh.offsets = classic.offsets
        del self._index.groups[group_id]
        return Change(fresh, [(group_key(group_id), None)] if classic.generation > 0 else [])

    def _member(self, change: Change, given: ConsumerHeartbeat, joins: bool) -> ConsumerMember:
        """The member as it was. source: getOrMaybeSubscribeDynamicConsumerGroupMember and its static sister"""
        group, limit = change.group, self._desk.settings.consumer_max_size
        if len(group.members) >= limit and given.member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {limit} members.",
            )
        member_id = given.member_id
        if member_id == NO_MEMBER_ID:
            member_id = as_kafka_spells(self._desk.new_uuid())
        if given.instance_id is not None:
            return self._static_member(change, given, member_id, joins)
        known = group.members.get(member_id)
        if known is None:
            if not joins:
                raise _unknown(group, member_id)
            return ConsumerMember(member_id=member_id)
        _check_epoch(known, given)
        return known

    def _static_member(self, change: Change, given: ConsumerHeartbeat, member_id: str, joins: bool) -> ConsumerMember:
        group = change.group
        assert given.instance_id is not None
        known = group.static_member(given.instance_id)
        if not joins:
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {shown(given.instance_id)} is unknown.")
            _check_instance(known, given)
            _check_epoch(known, given)
            return known
        if known is None:
            return ConsumerMember(member_id=member_id)
        if known.epoch != LEAVES_FOR_A_WHILE:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {shown(member_id)} with instance id {shown(given.instance_id)} cannot join the group "
                f"because the instance id is owned by {shown(known.member_id)} member.",
            )
        returned = replace(known, member_id=member_id, epoch=JOINS, previous_epoch=JOINS)
        target = group.targets.get(known.member_id, ())
        self._remove(change, known.member_id)
        change.add(MemberRecord(member_id, returned))
        change.add(TargetRecord(member_id, target))
        change.add(current_record(returned))
        return returned

    def _subscribe(self, change: Change, before: ConsumerMember, after: ConsumerMember) -> None:
        """Keep what the member says; other topics are a new group epoch. source: hasMemberSubscriptionChanged"""
        group = change.group
        raised = False
        if after != before:
            change.add(MemberRecord(after.member_id, after))
            raised = after.topics != before.topics or after.topic_regex != before.topic_regex
        topics = self._existing(group)
        if topics != group.topics:
            change.add(GroupTopicsRecord(topics))
            raised = True
        if raised:
            change.add(GroupEpochRecord(group.epoch + 1))

    def _existing(self, group: ConsumerGroup) -> tuple[SubscribedTopic, ...]:
        """The topics that the group subscribes to and that exist."""
        names = set(group.subscribed)
        for pattern in group.patterns:
            names.update(matching(pattern, self._topics.names()))
        found = (self._topics.find(name) for name in sorted(names))
        return tuple(topic for topic in found if topic is not None)

    # ------------------------------------------------------------------------------------------------------ assignment

    def _assign(self, change: Change) -> None:
        """A target for every member, of the group's epoch. source: updateTargetAssignment, TargetAssignmentBuilder"""
        group = change.group
        name = group.preferred_assignor() or DEFAULT_ASSIGNOR
        specification = GroupSpecification(
            members={
                member.member_id: AssignableMember(
                    instance_id=member.instance_id,
                    topics=group.topics_of(member),
                    target=group.targets.get(member.member_id, ()),
                )
                for member in group.members.values()
            },
            partition_counts={topic.topic_id: topic.partitions for topic in group.topics},
        )
        targets = ASSIGNORS[name](specification)
        for member_id in group.members:
            if group.targets.get(member_id) != targets[member_id]:
                change.add(TargetRecord(member_id, targets[member_id]))
        change.add(TargetEpochRecord(group.epoch))
        change.say(self._events.assigned(group, name))

    def _reconcile(
        self, change: Change, member: ConsumerMember, owned: Partitions | None, now_us: int
    ) -> ConsumerMember:
        """source: maybeReconcile"""
        group = change.group
        if member.is_reconciled_to(group.target_epoch):
            return member
        target = group.targets.get(member.member_id, ())
        after = reconciled(member, group.target_epoch, target, lambda one: group.holder(one) is None, owned)
        if after != member:
            change.add(current_record(after))
            if replace(after, previous_epoch=member.previous_epoch) != member:
                change.say(self._events.moved(group, after))
            _stop(group.rebalances, after.member_id)
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                self._await_revocation(group, after, now_us)
        return after

    # --------------------------------------------------------------------------------------------------------- leaving

    def _leave(self, given: ConsumerHeartbeat) -> None:
        """source: consumerGroupLeave"""
        group = self._change_of(given.group_id, may_begin=False).group
        if given.instance_id is None:
            member = group.members.get(given.member_id)
            if member is None:
                raise _unknown(group, given.member_id)
        else:
            member = group.static_member(given.instance_id)
            if member is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {shown(given.instance_id)} is unknown.")
            _check_instance(member, given)
        change = Change(group)
        if given.member_epoch == LEAVES_FOR_A_WHILE:
            change.add(current_record(replace(member, epoch=LEAVES_FOR_A_WHILE, pending_revocation=())))
        else:
            self._fence(change, member, "it says so itself")

        def answer(error: ErrorCode, now_us: int) -> None:
            self._desk.answer(given.request, ConsumerHeartbeatResult(error, member.member_id, given.member_epoch))

        change.write(self._desk, answer, given.now_us)

    def _fence(self, change: Change, member: ConsumerMember, why: str) -> None:
        """The member is out, and the others get what it had. source: consumerGroupFenceMember"""
        group = change.group
        self._remove(change, member.member_id)
        topics = self._existing(group)
        if topics != group.topics:
            change.add(GroupTopicsRecord(topics))
        change.add(GroupEpochRecord(group.epoch + 1))
        _stop(group.sessions, member.member_id)
        _stop(group.rebalances, member.member_id)
        change.say(self._events.left(group, member, why))

    @staticmethod
    def _remove(change: Change, member_id: str) -> None:
        change.add(CurrentAssignmentRecord(member_id, None))
        change.add(TargetRecord(member_id, None))
        change.add(MemberRecord(member_id, None))

    # ---------------------------------------------------------------------------------------------------------- timers

    def _begin_session(self, group: ConsumerGroup, member_id: str, now_us: int) -> None:
        timeout_ms = self._desk.settings.consumer_session_timeout_ms
        _stop(group.sessions, member_id)

        def end(ended_us: int) -> None:
            member = group.members.get(member_id)
            if member is not None:
                why = f"no heartbeat came for group.consumer.session.timeout.ms={timeout_ms}"
                self._give_up(group, member, why, ended_us)

        group.sessions[member_id] = self._desk.after(timeout_ms, end, now_us)

    def _await_revocation(self, group: ConsumerGroup, member: ConsumerMember, now_us: int) -> None:
        """source: scheduleConsumerGroupRebalanceTimeout"""
        timeout_ms, epoch = member.rebalance_timeout_ms, member.epoch

        def end(ended_us: int) -> None:
            known = group.members.get(member.member_id)
            if known is not None and known.epoch == epoch:
                why = f"it did not give up its partitions within {timeout_ms} ms"
                self._give_up(group, known, why, ended_us)

        group.rebalances[member.member_id] = self._desk.after(timeout_ms, end, now_us)

    def _give_up(self, group: ConsumerGroup, member: ConsumerMember, why: str, now_us: int) -> None:
        """Tried again where it cannot be written. source: CoordinatorRuntime.EventBasedCoordinatorTimer"""
        change = Change(group)
        self._fence(change, member, why)

        def again(at_us: int) -> None:
            known = group.members.get(member.member_id)
            if known is not None:
                self._give_up(group, known, why, at_us)

        def written(error: ErrorCode, at_us: int) -> None:
            is_still_in = self._index.consumer_groups.get(group.group_id) is group and member.member_id in group.members
            if error is not ErrorCode.NONE and is_still_in and member.member_id not in group.sessions:
                group.sessions[member.member_id] = self._desk.after(TIMER_RETRY_MS, again, at_us)

        change.write(self._desk, written, now_us)


def _stop(timers: dict[str, Timer], member_id: str) -> None:
    timer = timers.pop(member_id, None)
    if timer is not None:
        timer.cancel()


def _as_it_says(member: ConsumerMember, given: ConsumerHeartbeat) -> ConsumerMember:
    """What a heartbeat leaves out stays as it was."""
    return replace(
        member,
        instance_id=member.instance_id if given.instance_id is None else given.instance_id,
        rack_id=member.rack_id if given.rack_id is None else given.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if given.rebalance_timeout_ms == NOT_SAID_MS else given.rebalance_timeout_ms
        ),
        assignor=member.assignor if given.assignor is None else given.assignor,
        topics=member.topics if given.topics is None else tuple(sorted(set(given.topics))),
        topic_regex=member.topic_regex if given.topic_regex is None else given.topic_regex,
        client_id=given.client_id,
        client_host=given.client_host,
    )


def _check(given: ConsumerHeartbeat) -> None:
    """source: throwIfConsumerGroupHeartbeatRequestIsInvalid"""
    wrong = ""
    if not given.group_id.strip():
        wrong = "GroupId can't be empty."
    elif given.instance_id is not None and not given.instance_id.strip():
        wrong = "InstanceId can't be empty."
    elif given.rack_id is not None and not given.rack_id.strip():
        wrong = "RackId can't be empty."
    elif given.member_epoch < LEAVES_FOR_A_WHILE:
        wrong = "MemberEpoch is invalid."
    elif given.member_epoch != JOINS and not given.member_id.strip():
        wrong = "MemberId can't be empty."
    elif given.member_epoch == LEAVES_FOR_A_WHILE and given.instance_id is None:
        wrong = "InstanceId can't be null."
    elif given.member_epoch == JOINS:
        wrong = _wrong_at_joining(given)
    if wrong:
        raise KafkaError(ErrorCode.INVALID_REQUEST, wrong)
    if given.topic_regex:
        check_pattern(given.topic_regex)
    if given.assignor is not None and given.assignor not in ASSIGNORS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {shown(given.assignor)} is not supported. Supported assignors: {', '.join(ASSIGNORS)}.",
        )


def _wrong_at_joining(given: ConsumerHeartbeat) -> str:
    if given.rebalance_timeout_ms == NOT_SAID_MS:
        return "RebalanceTimeoutMs must be provided in first request."
    if given.owned is None or given.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if not given.topics and not given.topic_regex:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return ""


def _check_epoch(member: ConsumerMember, given: ConsumerHeartbeat) -> None:
    """The epoch before counts, too, if the answer that raised it may have been lost.

    source: throwIfConsumerGroupMemberEpochIsInvalid
    """
    said, known = given.member_epoch, member.epoch
    if said == known:
        return
    may_have_missed_it = (
        said == member.previous_epoch and given.owned is not None and all(one in member.assigned for one in given.owned)
    )
    if said > known or not may_have_missed_it:
        size = "greater" if said > known else "smaller"
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {size} member epoch ({said}) than the one known by the group coordinator "
            f"({known}). The member must abandon all its partitions and rejoin.",
        )


def _check_instance(member: ConsumerMember, given: ConsumerHeartbeat) -> None:
    if member.member_id != given.member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {shown(given.member_id)} with instance id {shown(str(given.instance_id))} was fenced by "
            f"member {shown(member.member_id)}.",
        )


def _unknown(group: ConsumerGroup, member_id: str) -> KafkaError:
    return KafkaError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {shown(member_id)} is not a member of group {shown(group.group_id)}.",
    )
