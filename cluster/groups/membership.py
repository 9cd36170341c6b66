"""The requests of members of classic groups: join, sync, heartbeat, leave. Source: GroupCoordinator.scala

This module checks the requests; `rebalance` applies them to the group.
"""

from __future__ import annotations

from cluster.groups.classic_members import ClassicMembers
from cluster.groups.desk import Departure, GroupDesk, left
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
from cluster.groups.rebalance import Rebalances
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.group import Group, State
from cluster.groups.state.index import GroupIndex
from cluster.protocol.primitives import MAX_TEXT_BYTES
from replica.causes import LeaveCause, RebalanceCause
from replica.errors import ErrorCode
from replica.wording import shown


class Membership:
    """The members of all classic groups of one coordinator.

    Args:
        in_consumer_groups: handler for requests of classic members in consumer groups.
    """

    def __init__(
        self,
        index: GroupIndex,
        desk: GroupDesk,
        rebalances: Rebalances,
        in_consumer_groups: ClassicMembers,
    ) -> None:
        self._index = index
        self._desk = desk
        self._rebalances = rebalances
        self._in_consumer_groups = in_consumer_groups

    def _consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """Return the consumer group with this id, which may have classic members; None if it is empty or unknown."""
        group = self._index.consumer_groups.get(group_id)
        return group if group is not None and group.members and not group.HAS_TASKS else None

    def join(self, event: JoinGroup) -> None:
        """Check a JoinGroup request, and add or update its member. Source: handleJoinGroup"""
        error = self._index.status(event.group_id)
        limits = self._desk.settings
        if error is ErrorCode.NONE and not (
            limits.min_session_timeout_ms <= event.session_timeout_ms <= limits.max_session_timeout_ms
        ):
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        of_consumers = self._consumer_group(event.group_id)
        other = self._index.consumer_groups.get(event.group_id)
        if event.group_id in self._index.share_groups or (of_consumers is None and other is not None and other.members):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error is ErrorCode.NONE and of_consumers is not None:
            self._in_consumer_groups.join(of_consumers, event)
            return
        if error is ErrorCode.NONE and event.group_id in self._index.consumer_groups:
            self._make_classic(event)
        group = self._index.groups.get(event.group_id)
        if error is ErrorCode.NONE and group is None:
            if event.member_id == NO_MEMBER_ID:
                # Differs from Kafka: since 4.0 it writes the new group immediately, without members.
                group = self._index.new(event.group_id, self._desk.wall_ms(event.now_us))
            else:
                error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not ErrorCode.NONE or group is None:
            self._desk.answer(event.request, JoinResult(error, event.member_id))
            return
        if not self._has_room(group, event.member_id):
            member = group.members.get(event.member_id)
            group.remove(event.member_id)
            if member is not None:
                why = Departure(LeaveCause.GROUP_FULL, max_size=limits.max_size)
                self._desk.tell(left(self._desk.node, group, member, why))
            self._desk.answer(event.request, JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED))
            if limits.one_coordinator:
                return  # As in Kafka, even if the other members were waiting only for this one.
        elif not group.supports(event.protocol_type, event.protocols):
            self._desk.answer(event.request, JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, event.member_id))
        elif event.member_id == NO_MEMBER_ID:
            self._join_new(group, event)
        else:
            self._join_again(group, event)
        self._rebalances.maybe_complete_join(group, event.now_us)

    def _make_classic(self, event: JoinGroup) -> None:
        """Replace an empty consumer group by a classic group with its offsets. Source: maybeDeleteEmptyConsumerGroup"""
        old = self._index.consumer_groups[event.group_id]
        tombstones = [old.encoded(record) for record in old.tombstones()]
        self._desk.write(old.group_id, tombstones, None, event.now_us)
        self._index.forget(old.group_id)
        fresh = self._index.new(event.group_id, self._desk.wall_ms(event.now_us))
        fresh.offsets = old.offsets

    def _has_room(self, group: Group, member_id: str) -> bool:
        """Return True if the member is in the group or the group is not full. Source: acceptJoiningMember"""
        member = group.members.get(member_id)
        # Differs from Kafka: assigned ids of pending members count too; otherwise clients could request any number.
        waiting = len(group.pending_members) - (member_id in group.pending_members)
        match group.state:
            case State.EMPTY | State.DEAD:
                return waiting < self._desk.settings.max_size
            case State.PREPARING_REBALANCE:
                is_waiting = member is not None and member.awaiting_join is not None
                return is_waiting or group.awaiting_join + waiting < self._desk.settings.max_size
            case _:
                return member is not None or len(group.members) + waiting < self._desk.settings.max_size

    def _join_new(self, group: Group, event: JoinGroup) -> None:
        """Handle a JoinGroup without a member id. Source: doNewMemberJoinGroup"""
        new_id = f"{event.client_id if event.instance_id is None else event.instance_id}-{self._desk.new_uuid()}"
        if len(new_id.encode()) > MAX_TEXT_BYTES:
            # As in Kafka, which makes the id and then fails to encode it in the response.
            self._desk.answer(event.request, JoinResult(ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        known_id = None if event.instance_id is None else group.static_members.get(event.instance_id)
        if known_id is not None:
            self._rebalances.replace_static(group, group.members[known_id], event, new_id)
        elif event.requires_member_id:
            self._rebalances.give_id(group, event, new_id)
        else:
            self._rebalances.add(group, event, new_id)

    def _join_again(self, group: Group, event: JoinGroup) -> None:
        """Handle a JoinGroup with a member id. Source: doCurrentMemberJoinGroup"""
        if event.member_id in group.pending_members:
            if event.instance_id is None:
                self._rebalances.add(group, event, event.member_id)
            else:  # As in Kafka, where this is an exception, because static members do not get pending ids.
                self._desk.answer(event.request, JoinResult(ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        error = member_error(group, event.member_id, event.instance_id)
        if error is not ErrorCode.NONE:
            self._desk.answer(event.request, JoinResult(error, event.member_id))
            return
        member = group.members[event.member_id]
        if group.state is State.PREPARING_REBALANCE:
            self._rebalances.update(group, member, event, RebalanceCause.MEMBER_REJOINED)
        elif member.protocols != event.protocols:
            self._rebalances.update(group, member, event, RebalanceCause.OTHER_PROTOCOLS)
        elif group.state is State.STABLE and group.is_leader(member.member_id):
            # The leader may have seen a change that its metadata does not show, for example new partitions of a topic.
            self._rebalances.update(group, member, event, RebalanceCause.LEADER_REJOINED)
        else:
            self._rebalances.rejoined(group, event)

    def sync(self, event: SyncGroup) -> None:
        """Answer SyncGroup, or let it wait for the leader's assignment. Source: handleSyncGroup"""
        of_consumers = self._consumer_group(event.group_id)
        if of_consumers is not None:
            self._in_consumer_groups.sync(of_consumers, event)
            return
        error, group = self._group_of_member(event)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # The rebalance in progress ended with the former coordinator, and older clients do not expect this error.
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is ErrorCode.NONE:
            assert group is not None
            wrong_type = event.protocol_type is not None and event.protocol_type != group.protocol_type
            if wrong_type or (event.protocol is not None and event.protocol != group.protocol):
                error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            elif group.state is State.PREPARING_REBALANCE:
                error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not ErrorCode.NONE or group is None:
            self._desk.answer(event.request, SyncResult(error))
            return
        member = group.members[event.member_id]
        self._rebalances.synced(group, event.member_id)
        if group.state is State.COMPLETING_REBALANCE:
            member.awaiting_sync = event.request
            self._rebalances.sync(group, member, event.assignments, event.now_us)
        else:
            result = SyncResult(ErrorCode.NONE, group.protocol_type, group.protocol, member.assignment)
            self._desk.answer(event.request, result)
            self._rebalances.keep_alive(group, member, event.now_us)

    def heartbeat(self, event: Heartbeat) -> None:
        """Answer a heartbeat and restart the member's session timeout. Source: handleHeartbeat"""
        of_consumers = self._consumer_group(event.group_id)
        if of_consumers is not None:
            self._in_consumer_groups.heartbeat(of_consumers, event)
            return
        error, group = self._group_of_member(event)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = ErrorCode.NONE  # The group is still being loaded; the next heartbeat is checked.
        elif error is ErrorCode.NONE:
            assert group is not None
            self._rebalances.keep_alive(group, group.members[event.member_id], event.now_us)
            if group.state is State.PREPARING_REBALANCE:
                error = ErrorCode.REBALANCE_IN_PROGRESS
        self._desk.answer(event.request, HeartbeatResult(error))

    def _group_of_member(self, event: SyncGroup | Heartbeat) -> tuple[ErrorCode, Group | None]:
        """Return the error of a request's group, member or generation, and the group.

        The error is NONE and the group is not None if all are current.
        """
        error = self._index.status(event.group_id)
        group = self._index.groups.get(event.group_id)
        if error is not ErrorCode.NONE:
            return error, None
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID, None
        error = member_error(group, event.member_id, event.instance_id)
        if error is ErrorCode.NONE and event.generation != group.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        return error, group

    def leave(self, event: LeaveGroup) -> None:
        """Remove the members in a LeaveGroup request. Source: handleLeaveGroup"""
        error = self._index.status(event.group_id)
        if error is not ErrorCode.NONE:
            self._desk.answer(event.request, LeaveResult(error))
            return
        of_consumers = self._consumer_group(event.group_id)
        if of_consumers is not None:
            self._in_consumer_groups.leave(of_consumers, event)
            return
        group = self._index.groups.get(event.group_id)
        left = tuple(
            (member, ErrorCode.UNKNOWN_MEMBER_ID if group is None else self._remove(group, member, event.now_us))
            for member in event.members
        )
        self._desk.answer(event.request, LeaveResult(ErrorCode.NONE, left))

    def _remove(self, group: Group, leaving: Leaving, now_us: int) -> ErrorCode:
        member_id, instance_id, reason = leaving
        cause = LeaveCause.LEAVE_REQUEST
        if member_id == NO_MEMBER_ID:
            known_id = None if instance_id is None else group.static_members.get(instance_id)
            if known_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id, cause = known_id, LeaveCause.OPERATOR
        elif member_id in group.pending_members:
            self._rebalances.remove_pending(group, member_id, now_us)
            return ErrorCode.NONE
        else:
            error = member_error(group, member_id, instance_id)
            if error is not ErrorCode.NONE:
                return error
        why = Departure(cause, message=shown(reason) or None)
        self._rebalances.remove(group, group.members[member_id], why, now_us)
        return ErrorCode.NONE


def member_error(group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
    """Return the error of a member id, NONE for a current member; a static one must still own its instance id.

    Source: validateCurrentMember
    """
    if instance_id is not None:
        current = group.static_members.get(instance_id)
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if current != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
