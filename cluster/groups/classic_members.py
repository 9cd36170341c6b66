"""Members of a consumer group that use the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

When such a member has to act, its heartbeat is answered with REBALANCE_IN_PROGRESS. The member then reports the
partitions that it keeps with JoinGroup, which is answered immediately, and requests its new ones with SyncGroup. Its
generation is its member epoch.

Source: GroupMetadataManager.classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup,
classicGroupHeartbeatToConsumerGroup, classicGroupLeaveToConsumerGroup
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from cluster.groups.consumer_change import Change
from cluster.groups.consumer_steps import ConsumerSteps, named
from cluster.groups.desk import Departure, GroupConfigs, GroupDesk
from cluster.groups.inputs import (
    NO_MEMBER_ID,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    Leaving,
    SyncGroup,
    SyncResult,
)
from cluster.groups.migration import Migration
from cluster.groups.state.consumer_group import ConsumerGroup, stop
from cluster.groups.state.consumer_member import ClassicMetadata, ConsumerMember, MemberState
from cluster.groups.state.index import GroupIndex
from cluster.groups.topic_directory import TopicDirectory
from cluster.protocol.consumer_protocol import (
    CONSUMER,
    Subscription,
    read_subscription,
    read_version,
    write_assignment,
)
from replica.causes import LeaveCause
from replica.errors import ErrorCode, KafkaError, PeerViolation
from replica.log.files.checkpoints import as_kafka_spells
from replica.wording import shown

NOT_SAID_MS = -1
T = TypeVar("T")


class ClassicMembers:
    """The classic members in all consumer groups of one coordinator."""

    def __init__(
        self,
        index: GroupIndex,
        desk: GroupDesk,
        steps: ConsumerSteps,
        migration: Migration,
        topics: TopicDirectory,
        configs: GroupConfigs,
    ) -> None:
        self._index = index
        self._desk = desk
        self._steps = steps
        self._migration = migration
        self._topics = topics
        self._configs = configs

    # ------------------------------------------------------------------------------------------------------- joining

    def join(self, group: ConsumerGroup, event: JoinGroup) -> None:
        try:
            self._join(group, event)
        except KafkaError as refusal:
            self._desk.answer(event.request, JoinResult(refusal.code))

    def _join(self, group: ConsumerGroup, event: JoinGroup) -> None:
        is_new = event.member_id == NO_MEMBER_ID
        member_id = as_kafka_spells(self._desk.new_uuid()) if is_new else event.member_id
        self._configs.check_room(group, member_id, event.instance_id)
        if not group.supports(event.protocol_type, event.protocols):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if is_new and event.requires_member_id:
            # The new id is not stored, because any id may join.
            self._desk.answer(event.request, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return
        # All its protocols have the same subscription, so the first one is used. source: deserializeSubscription
        says = _readable(read_subscription, event.protocols[0][1])
        change = Change(group)
        # Decided before the static member is replaced.
        known = None if event.instance_id is None else group.static_member(event.instance_id)
        replaced = known if self._migration.may_downgrade_by(group, known) else None
        may_join = is_new or event.instance_id is None
        before = self._steps.member(change, member_id, event.instance_id, may_join=may_join, is_classic=True)
        owned = self._topics.with_ids(says.owned)
        raised = self._steps.subscribe(change, before, _as_it_says(before, event, says), event.now_us)
        if replaced is None:
            after = self._steps.assign(change, before.member_id, owned, event.now_us)
        else:
            after = group.members[before.member_id]
            if not raised:
                after = self._steps.reconcile(change, before.member_id, owned, event.now_us)
            gone, resume = [replaced.member_id], self._steps.begin
            self._migration.downgrade(change, gone, after, resume, event.now_us, rebalances=raised)

        def answer(error: ErrorCode, now_us: int) -> None:
            if error is not ErrorCode.NONE:
                self._desk.answer(event.request, JoinResult(error))
                return
            if self._index.consumer_groups.get(group.group_id) is group:
                stop(group.joins, after.member_id)
                self._steps.begin_session(group, after.member_id, now_us, event.session_timeout_ms)
                self._steps.await_sync(group, after.member_id, event.rebalance_timeout_ms, now_us)
            result = JoinResult(
                error, after.member_id, after.epoch, protocol_type=CONSUMER, protocol=event.protocols[0][0]
            )
            self._desk.answer(event.request, result)

        change.write(self._desk, answer, event.now_us)

    # -------------------------------------------------------------------------------------------- staying and leaving

    def sync(self, group: ConsumerGroup, event: SyncGroup) -> None:
        """Answer SyncGroup with the member's current partitions, or with an error."""
        try:
            member, classic = _classic_member(group, event)
            protocol = classic.protocols[0][0]
            wrong_type = event.protocol_type is not None and event.protocol_type != CONSUMER
            if wrong_type or (event.protocol is not None and event.protocol != protocol):
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
                self._steps.await_join(group, member, event.now_us)
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
            version = _readable(read_version, classic.protocols[0][1])
        except KafkaError as refusal:
            self._desk.answer(event.request, SyncResult(refusal.code))
            return
        stop(group.syncs, member.member_id)
        self._steps.begin_session(group, member.member_id, event.now_us, classic.session_timeout_ms)
        assignment = write_assignment(self._topics.with_names(member.assigned), version)
        result = SyncResult(ErrorCode.NONE, event.protocol_type, event.protocol, assignment)
        self._desk.answer(event.request, result)

    def heartbeat(self, group: ConsumerGroup, event: Heartbeat) -> None:
        """Answer a heartbeat, with REBALANCE_IN_PROGRESS if the member must join again to revoke or get partitions."""
        try:
            member, classic = _classic_member(group, event)
        except KafkaError as refusal:
            self._desk.answer(event.request, HeartbeatResult(refusal.code))
            return
        self._steps.begin_session(group, member.member_id, event.now_us, classic.session_timeout_ms)
        error = ErrorCode.NONE
        if member.epoch < group.epoch or (
            member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
        ):
            error = ErrorCode.REBALANCE_IN_PROGRESS
            self._steps.await_join(group, member, event.now_us)
        self._desk.answer(event.request, HeartbeatResult(error))

    def leave(self, group: ConsumerGroup, event: LeaveGroup) -> None:
        """Handle LeaveGroup; an operator can use it to remove members with KIP-848's protocol, too."""
        leaving: dict[str, ConsumerMember] = {}
        results: list[tuple[Leaving, ErrorCode]] = []
        for item in event.members:
            try:
                member = _leaving_member(group, item)
                leaving[member.member_id] = member
                results.append((item, ErrorCode.NONE))
            except KafkaError as refusal:
                results.append((item, refusal.code))
        if not leaving:
            self._desk.answer(event.request, LeaveResult(ErrorCode.NONE, tuple(results)))
            return
        change = Change(group)
        try:
            self._steps.fence(change, list(leaving.values()), _why(event.members), event.now_us)
        except KafkaError as error:
            self._desk.answer(event.request, LeaveResult(error.code))
            return

        def answer(error: ErrorCode, now_us: int) -> None:
            result = LeaveResult(error, tuple(results) if error is ErrorCode.NONE else ())
            self._desk.answer(event.request, result)

        change.write(self._desk, answer, event.now_us)


def _readable(read: Callable[[bytes], T], metadata: bytes) -> T:
    """Return a member's metadata as decoded by `read`.

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR if the metadata is malformed.
    """
    try:
        return read(metadata)
    except PeerViolation:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from None


def _as_it_says(member: ConsumerMember, event: JoinGroup, says: Subscription) -> ConsumerMember:
    timeout_ms = event.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if event.instance_id is None else event.instance_id,
        rack_id=says.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NOT_SAID_MS else timeout_ms,
        topics=tuple(sorted(set(says.topics))),
        topic_regex="",
        client_id=event.client_id,
        client_host=event.client_host,
        classic=ClassicMetadata(event.session_timeout_ms, event.protocols),
    )


def _classic_member(group: ConsumerGroup, event: SyncGroup | Heartbeat) -> tuple[ConsumerMember, ClassicMetadata]:
    """Return the member that sent a request, and its classic metadata.

    Source: validateConsumerGroupMember, throwIfMemberDoesNotUseClassicProtocol

    Raises:
        KafkaError: if the member is unknown, does not use the classic protocol, or has another generation.
    """
    member = named(group, event.member_id, event.instance_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.epoch != event.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def _leaving_member(group: ConsumerGroup, leaving: Leaving) -> ConsumerMember:
    """Return the member to remove; an operator may give only the instance id of a static member."""
    if leaving.instance_id is not None and leaving.member_id == NO_MEMBER_ID:
        member = group.static_member(leaving.instance_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member
    return named(group, leaving.member_id, leaving.instance_id)


def _why(leaving: Sequence[Leaving]) -> Departure:
    reasons = ", ".join(dict.fromkeys(shown(item.reason) for item in leaving if item.reason))
    return Departure(LeaveCause.OPERATOR, message=reasons or None)
