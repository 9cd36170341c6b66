"""Heartbeats of KIP-848 group members, by which they join, report their partitions, and leave.

A heartbeat is handled in three steps: the member is created or changed, which may raise the group epoch; for a new
group epoch, a target assignment is computed; the member moves one step towards its target.

Source: GroupMetadataManager.consumerGroupHeartbeat
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from cluster.groups.consumer_change import Change
from cluster.groups.consumer_steps import ASSIGNORS, ConsumerSteps, fenced, hear, named
from cluster.groups.desk import GroupConfigs, GroupDesk
from cluster.groups.inputs import NO_MEMBER_ID, ConsumerHeartbeat, ConsumerHeartbeatResult
from cluster.groups.migration import Migration
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.consumer_member import JOINS, LEAVES, LEAVES_FOR_A_WHILE, ConsumerMember
from cluster.groups.state.group import Group, State
from cluster.groups.state.index import GroupIndex
from cluster.topic_pattern import described_by
from replica.errors import ErrorCode, KafkaError
from replica.log.files.checkpoints import as_kafka_spells
from replica.wording import shown

NOT_SAID_MS = -1


class ConsumerMembership:
    """The KIP-848 members of all consumer groups of one coordinator."""

    def __init__(
        self, index: GroupIndex, desk: GroupDesk, steps: ConsumerSteps, migration: Migration, configs: GroupConfigs
    ) -> None:
        self._index = index
        self._desk = desk
        self._steps = steps
        self._migration = migration
        self._configs = configs

    def heartbeat(self, event: ConsumerHeartbeat) -> None:
        """Handle a heartbeat, and answer it immediately, or when all in-sync replicas have its changes."""
        check = partial(_check, takes_empty=self._desk.settings.one_coordinator)
        hear(self._index, self._desk, event, check, self._stay, self._leave)

    def _stay(self, event: ConsumerHeartbeat) -> None:
        joins = event.member_epoch == JOINS
        classic = self._index.groups.get(event.group_id)
        change = self._change_of(event.group_id, classic, may_begin=joins)
        group = change.group
        before = self._member(change, event, joins)
        if classic is not None:
            self._migration.take_over(change, classic)
            for member in group.members.values():
                if member.classic is not None:
                    timeout_ms = member.classic.session_timeout_ms
                    self._steps.begin_session(group, member.member_id, event.now_us, timeout_ms)
        self._index.consumer_groups[group.group_id] = group
        self._steps.subscribe(change, before, _as_it_says(before, event), event.now_us)
        after = self._steps.assign(change, before.member_id, event.owned, event.now_us)
        self._steps.begin_session(group, after.member_id, event.now_us)
        is_full = (  # A member that joins sends all these fields, see _wrong_at_joining.
            event.rebalance_timeout_ms != NOT_SAID_MS
            and (event.topics is not None or event.topic_regex is not None)
            and event.owned is not None
        )
        assigned = after.assigned if is_full or before.assigned != after.assigned else None
        interval_ms = self._configs.heartbeat_interval_ms(group)

        def answer(error: ErrorCode, now_us: int) -> None:
            result = ConsumerHeartbeatResult(error)
            if error is ErrorCode.NONE:
                result = ConsumerHeartbeatResult(error, after.member_id, after.epoch, interval_ms, assigned)
            self._desk.answer(event.request, result)

        change.write(self._desk, answer, event.now_us)

    def _change_of(self, group_id: str, classic: Group | None, *, may_begin: bool) -> Change:
        """Return a new change of the group, which is created or converted from a classic group if `may_begin`.

        Source: getOrMaybeCreateConsumerGroup
        """
        group = self._index.consumer_groups.get(group_id)
        if group is not None and not group.HAS_TASKS:
            return Change(group)
        if group is not None or group_id in self._index.share_groups:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {shown(group_id)} is not a consumer group.")
        if classic is None:
            if not may_begin:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {shown(group_id)} not found.")
            return Change(ConsumerGroup(group_id, self._desk.settings.first_epoch))
        if not may_begin:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {shown(group_id)} is not a consumer group.")
        if classic.state is State.EMPTY:
            return self._migration.emptied(classic, ConsumerGroup(group_id, self._desk.settings.first_epoch))
        return self._migration.upgraded(classic)

    def _member(self, change: Change, event: ConsumerHeartbeat, joins: bool) -> ConsumerMember:
        """Check the group's size and the member's epoch, and return the member as it was before the heartbeat."""
        self._configs.check_room(change.group, event.member_id, event.instance_id)
        member_id = event.member_id
        if member_id == NO_MEMBER_ID:
            member_id = as_kafka_spells(self._desk.new_uuid())
        member = self._steps.member(change, member_id, event.instance_id, may_join=joins, is_classic=False)
        if event.instance_id is None or not joins:
            check_epoch(member, event.member_epoch, event.owned)
        return member

    def _leave(self, event: ConsumerHeartbeat) -> None:
        """Handle a heartbeat by which a member leaves. Source: consumerGroupLeave"""
        group = self._index.consumer_groups.get(event.group_id)
        if group is None or group.HAS_TASKS:
            what = "not found" if self._index.find(event.group_id) is None else "is not a consumer group"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {shown(event.group_id)} {what}.")
        change = Change(group)
        member = named(group, event.member_id, event.instance_id)
        self._steps.leave(change, member, event)


def _as_it_says(member: ConsumerMember, event: ConsumerHeartbeat) -> ConsumerMember:
    """Return the member with the fields of a heartbeat; fields that the heartbeat leaves out stay as they are."""
    return replace(
        member,
        instance_id=member.instance_id if event.instance_id is None else event.instance_id,
        rack_id=member.rack_id if event.rack_id is None else event.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if event.rebalance_timeout_ms == NOT_SAID_MS else event.rebalance_timeout_ms
        ),
        assignor=member.assignor if event.assignor is None else event.assignor,
        topics=member.topics if event.topics is None else tuple(sorted(set(event.topics))),
        topic_regex=member.topic_regex if event.topic_regex is None else event.topic_regex,
        client_id=event.client_id,
        client_host=event.client_host,
        classic=None,
    )


def _check(event: ConsumerHeartbeat, *, takes_empty: bool) -> None:
    """Check the fields of a heartbeat. Source: throwIfConsumerGroupHeartbeatRequestIsInvalid

    Args:
        takes_empty: True if a member may join without topics, as since 4.0.

    Raises:
        KafkaError: INVALID_REQUEST, INVALID_REGULAR_EXPRESSION or UNSUPPORTED_ASSIGNOR.
    """
    wrong = ""
    needs_id = event.makes_its_id or event.member_epoch > JOINS or event.member_epoch == LEAVES
    if needs_id and not event.member_id.strip():
        wrong = "MemberId can't be empty."
    elif not event.group_id.strip():
        wrong = "GroupId can't be empty."
    elif event.instance_id is not None and not event.instance_id.strip():
        wrong = "InstanceId can't be empty."
    elif event.rack_id is not None and not event.rack_id.strip():
        wrong = "RackId can't be empty."
    elif event.member_epoch < LEAVES_FOR_A_WHILE:
        wrong = "MemberEpoch is invalid."
    elif event.member_epoch == LEAVES_FOR_A_WHILE and event.instance_id is None:
        wrong = "InstanceId can't be null."
    elif event.member_epoch == JOINS:
        wrong = _wrong_at_joining(event, takes_empty=takes_empty)
    if wrong:
        raise KafkaError(ErrorCode.INVALID_REQUEST, wrong)
    if event.topic_regex:
        # Differs from Kafka: it checks the member first, and the pattern only if it is new in the group.
        described_by(event.topic_regex, "SubscribedTopicRegex")
    if event.assignor is not None and event.assignor not in ASSIGNORS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {shown(event.assignor)} is not supported. Supported assignors: {', '.join(ASSIGNORS)}.",
        )


def _wrong_at_joining(event: ConsumerHeartbeat, *, takes_empty: bool) -> str:
    if event.rebalance_timeout_ms == NOT_SAID_MS:
        return "RebalanceTimeoutMs must be provided in first request."
    if event.owned is None or event.owned:
        return "TopicPartitions must be empty when (re-)joining."
    names_none = event.topics is None and event.topic_regex is None
    if names_none or not (takes_empty or event.topics or event.topic_regex):
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return ""


def check_epoch(
    member: ConsumerMember, said: int, owned: tuple[Any, ...] | None, group_type: str = ConsumerGroup.TYPE
) -> None:
    """Raise FENCED_MEMBER_EPOCH if a heartbeat has a wrong member epoch.

    The previous epoch is accepted if the response with the new one may have been lost.

    Args:
        said: member epoch in the heartbeat.
        owned: partitions or tasks in the heartbeat, None if it has none.

    Source: throwIfConsumerGroupMemberEpochIsInvalid
    """
    known = member.epoch
    if said == known:
        return
    may_have_missed_it = (
        said == member.previous_epoch and owned is not None and all(item in member.assigned for item in owned)
    )
    if said > known or not may_have_missed_it:
        raise fenced(group_type, said, known)
