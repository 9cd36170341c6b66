"""The rebalances of classic groups: members join and leave, and a group gets its next generation.

A rebalance has two phases. The first lasts until all members have joined again, or for the longest rebalance timeout.
In the second the coordinator waits for the leader's assignment, writes it to the log, and sends it to all members.
Source: GroupCoordinator.scala, DelayedJoin.scala, DelayedSync.scala, DelayedHeartbeat.scala
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from cluster.groups.desk import WRITE_ERRORS, Departure, GroupDesk, Trigger, left, of_member
from cluster.groups.inputs import NO_MEMBER_ID, JoinedMember, JoinGroup, JoinResult, SyncResult
from cluster.groups.state.group import Group, Member, State
from cluster.groups.state.records import group_key, group_value
from cluster.protocol.consumer_protocol import assigned_partitions
from replica.causes import JoinCause, LeaveCause, RebalanceCause
from replica.errors import ErrorCode
from replica.ids import Offset
from replica.trace import events as trace
from replica.wording import shown, shown_if_any

ASSIGNMENT_BYTES_MAX = 16_384
"""The size up to which an assignment is shown in events (some 4,000 partitions); clients can send larger ones."""
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""The session timeout of a new member while its JoinGroup waits, in case its client has gone away."""
LEAST_REPEATED_WAIT_MS = 1000

_OnStored = Callable[[ErrorCode, int], None]
"""A callback with (error for the members' responses, now_us)."""
_WRITE_ERRORS = {
    **WRITE_ERRORS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The error that members get, by the error of writing their group. Source: GroupMetadataManager.storeGroup"""


class Rebalances:
    """The rebalances of all classic groups of one coordinator."""

    def __init__(self, desk: GroupDesk) -> None:
        self._desk = desk

    # ----------------------------------------------------------------------------------------------------- joining

    def add(self, group: Group, event: JoinGroup, member_id: str) -> None:
        """Add a member and start a rebalance. Source: addMemberAndRebalance"""
        member = Member(
            member_id=member_id,
            instance_id=event.instance_id,
            client_id=event.client_id,
            client_host=event.client_host,
            rebalance_timeout_ms=event.rebalance_timeout_ms,
            session_timeout_ms=event.session_timeout_ms,
            protocol_type=event.protocol_type,
            protocols=event.protocols,
            awaiting_join=event.request,
            is_new=True,
        )
        # Before 4.0 this applies only to a new group, since then also to one that had become empty.
        if group.is_first_join and (group.generation == 0 or self._desk.settings.one_coordinator):
            group.member_came = True
        group.add(member)
        self._tell_joined(group, member, event)
        self._expect(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS, event.now_us)
        self._maybe_prepare(group, _trigger(RebalanceCause.MEMBER_JOINED, member), event.now_us)

    def update(self, group: Group, member: Member, event: JoinGroup, cause: RebalanceCause) -> None:
        """Update a member that joins again, and start a rebalance. Source: updateMemberAndRebalance"""
        _take_over(member, event, event.request)
        self._maybe_prepare(group, _trigger(cause, member), event.now_us)

    def give_id(self, group: Group, event: JoinGroup, member_id: str) -> None:
        """Answer MEMBER_ID_REQUIRED with a new id; the client becomes a member when it joins with this id (KIP-394)."""
        out = partial(self.remove_pending, group, member_id)
        group.pending_members[member_id] = self._desk.after(event.session_timeout_ms, out, event.now_us)
        self._desk.answer(event.request, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))

    def remove_pending(self, group: Group, member_id: str, now_us: int) -> None:
        group.remove(member_id)
        self.maybe_complete_join(group, now_us)

    def replace_static(self, group: Group, member: Member, event: JoinGroup, new_id: str) -> None:
        """Give a static member that has returned without its member id the id `new_id`; rebalance only if necessary.

        Source: updateStaticMemberAndRebalance (KIP-345, KIP-814)
        """
        old_id, previous_leader = member.member_id, group.leader_id
        # A waiting request with the old id is a duplicate and is fenced immediately.
        self._answer_join(member, JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_id))
        self._answer_sync(member, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        group.replace(member, new_id)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self.keep_alive(group, member, event.now_us)
        _take_over(member, event, event.request)
        self._tell_joined(group, member, event, replaced=old_id)
        if group.state is State.COMPLETING_REBALANCE:
            # The leader may already be assigning partitions to the old id.
            self.prepare(group, _trigger(RebalanceCause.STATIC_RETURNED, member), event.now_us)
        elif group.protocol != group.select_protocol():
            self._maybe_prepare(group, _trigger(RebalanceCause.PROTOCOL_CHANGED, member), event.now_us)
        elif group.state is State.STABLE:
            assignments = {item.member_id: item.assignment for item in group.members.values()}

            def stored(error: ErrorCode, now_us: int) -> None:
                if member.awaiting_join != event.request:
                    return  # Already answered, because of a new rebalance or because the member returned once more.
                if error is not ErrorCode.NONE:
                    member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms = before
                    group.replace(member, old_id)
                    self._answer_join(member, _joined(group, NO_MEMBER_ID, error, leader_id=previous_leader))
                    self.keep_alive(group, member, now_us)
                elif event.may_skip_assignment:
                    leads = group.is_leader(new_id)
                    members = _members(group) if leads else ()
                    self._answer_join(member, _joined(group, new_id, members=members, skip_assignment=leads))
                else:
                    # An old client that believes it leads would assign partitions, but no member would get them.
                    self._answer_join(member, _joined(group, new_id, leader_id=previous_leader))

            self.store(group, assignments, stored, event.now_us)

    def rejoined(self, group: Group, event: JoinGroup) -> None:
        """Answer JoinGroup with the group's current generation: the client may have missed the response."""
        # Either the member is not the leader, or the group waits for its assignment.
        members = _members(group) if group.is_leader(event.member_id) else ()
        self._desk.answer(event.request, _joined(group, event.member_id, members=members))

    def _tell_joined(self, group: Group, member: Member, event: JoinGroup, replaced: str | None = None) -> None:
        """Emit the event that a member joined; `replaced` is the previous id of a returned static member."""
        node, group_id, member_id, client_id, instance_id = of_member(self._desk.node, group, member)
        self._desk.tell(
            trace.GroupMemberJoined(
                node,
                group_id,
                member_id,
                shown(event.client_id),
                instance_id,
                generation=group.generation,
                cause=JoinCause.NEW if replaced is None else JoinCause.STATIC_RETURNED,
                replaced=shown_if_any(replaced),
                replaced_client_id=None if replaced is None else client_id,
                message=shown(event.reason) or None,
            )
        )

    # ---------------------------------------------------------------------------------------------------- rebalancing

    def _maybe_prepare(self, group: Group, why: Trigger, now_us: int) -> None:
        if group.can_rebalance:
            self.prepare(group, why, now_us)

    def prepare(self, group: Group, why: Trigger, now_us: int) -> None:
        """Start a rebalance: the first phase, in which members join. Source: prepareRebalance, InitialDelayedJoin"""
        if group.state is State.COMPLETING_REBALANCE:
            self._reset_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS, now_us)
        group.stop_sync()
        group.is_first_join = group.state is State.EMPTY
        group.enter(State.PREPARING_REBALANCE, self._desk.wall_ms(now_us))
        self._desk.tell(
            trace.GroupRebalanceBegan(
                node=self._desk.node,
                group=shown(group.group_id),
                generation=group.generation,
                is_first=group.is_first_join,
                **why._asdict(),
            )
        )
        if group.is_first_join:
            delay_ms = self._desk.settings.initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._await_first(group, delay_ms, remaining_ms, now_us)
        else:
            self._await_all(group, now_us)

    def _await_first(self, group: Group, delay_ms: int, remaining_ms: int, now_us: int) -> None:
        """Wait for more first members of a group, which often start together; each new member prolongs the wait."""

        def over(now_us: int) -> None:
            if group.member_came:
                group.member_came = False
                again_ms = min(self._desk.settings.initial_rebalance_delay_ms, remaining_ms)
                self._await_first(group, again_ms, max(remaining_ms - delay_ms, 0), now_us)
            else:
                self._complete_join(group, now_us)

        group.join = self._desk.after(delay_ms, over, now_us)

    def _await_all(self, group: Group, now_us: int, least_ms: int = 0) -> None:
        if group.all_have_joined:
            self._complete_join(group, now_us)
        else:
            timeout_ms = max(group.rebalance_timeout_ms, least_ms)
            group.join = self._desk.after(timeout_ms, partial(self._complete_join, group), now_us)

    def maybe_complete_join(self, group: Group, now_us: int) -> None:
        """Complete the join phase if all members have joined and the first generation is not delayed."""
        if group.join is not None and not group.is_first_join and group.all_have_joined:
            self._complete_join(group, now_us)

    def _complete_join(self, group: Group, now_us: int) -> None:
        """Remove members that have not joined, and begin the next generation. Source: onCompleteJoin"""
        group.stop_join()
        group.is_first_join = False
        for member in list(group.members.values()):
            if member.awaiting_join is None and not member.is_static:
                why = Departure(LeaveCause.JOIN_TIMEOUT, group.rebalance_timeout_ms)
                group.remove(member.member_id)
                self._desk.tell(left(self._desk.node, group, member, why))
        if group.members and not group.elect_joined_leader():
            # Only static members are left, and none has joined, so the group waits for them or for the end of their
            # sessions. Differs from Kafka: its threads check continuously if the rebalance timeout is 0.
            self._await_all(group, now_us, least_ms=LEAST_REPEATED_WAIT_MS)
            return
        group.begin_generation(self._desk.wall_ms(now_us))
        self._desk.tell(
            trace.GroupRebalanced(
                node=self._desk.node,
                group=shown(group.group_id),
                generation=group.generation,
                members=tuple(map(shown, group.members)),
                member=shown_if_any(group.leader_id),
                protocol=shown_if_any(group.protocol),
            )
        )
        if group.state is State.EMPTY:
            self.store(group, {}, lambda error, now_us: None, now_us)
            return
        for member in group.members.values():
            members = _members(group) if group.is_leader(member.member_id) else ()
            self._answer_join(member, _joined(group, member.member_id, members=members))
            self.keep_alive(group, member, now_us)
            member.is_new = False
            group.pending_sync[member.member_id] = None
        group.sync = self._desk.after(group.rebalance_timeout_ms, partial(self._sync_expired, group), now_us)

    # -------------------------------------------------------------------------------------------------------- syncing

    def sync(self, group: Group, member: Member, assignments: Mapping[str, bytes], now_us: int) -> None:
        """Write the assignments in the leader's SyncGroup; requests of other members only wait for them."""
        if not group.is_leader(member.member_id):
            return
        generation = group.generation
        complete = {member_id: assignments.get(member_id, b"") for member_id in group.members}

        def stored(error: ErrorCode, now_us: int) -> None:
            # A member may have joined or left while the log was written.
            if group.state is not State.COMPLETING_REBALANCE or group.generation != generation:
                return
            if error is not ErrorCode.NONE:
                self._reset_assignment(group, error, now_us)
                self._maybe_prepare(group, Trigger(RebalanceCause.NOT_WRITTEN, error=error.name), now_us)
                return
            for item in group.members.values():
                item.assignment = complete[item.member_id]
            self.tell_assigned(group)
            self._propagate(group, ErrorCode.NONE, now_us)
            group.enter(State.STABLE, self._desk.wall_ms(now_us))

        self.store(group, complete, stored, now_us)

    def tell_assigned(self, group: Group) -> None:
        node, name, generation = self._desk.node, shown(group.group_id), group.generation
        members = tuple(map(shown, group.members))
        self._desk.tell(trace.GroupAssigned(node=node, group=name, generation=generation, members=members))
        for member in group.members.values() if group.is_consumer_group else ():
            is_short = len(member.assignment) <= ASSIGNMENT_BYTES_MAX
            found = assigned_partitions(member.assignment) if is_short else None
            if found is not None:
                self._desk.tell(
                    trace.GroupMemberAssigned(
                        *of_member(node, group, member),
                        generation=generation,
                        partitions=tuple(f"{shown(item.topic)}-{item.partition}" for item in found),
                    )
                )

    def synced(self, group: Group, member_id: str) -> None:
        """Note that a member has requested its assignment."""
        group.pending_sync.pop(member_id, None)
        if not group.pending_sync:
            group.stop_sync()

    def _sync_expired(self, group: Group, now_us: int) -> None:
        """Remove members that have not requested their assignment in time. Source: onExpirePendingSync"""
        why = Departure(LeaveCause.SYNC_TIMEOUT, group.rebalance_timeout_ms)
        for member_id in list(group.pending_sync):
            member = group.members.get(member_id)
            group.remove(member_id)
            if member is not None:  # A static member may have returned with another id.
                self._desk.tell(left(self._desk.node, group, member, why))
        self.prepare(group, Trigger(RebalanceCause.SYNC_TIMEOUT), now_us)

    def _reset_assignment(self, group: Group, error: ErrorCode, now_us: int) -> None:
        for member in group.members.values():
            member.assignment = b""
        self._propagate(group, error, now_us)

    def _propagate(self, group: Group, error: ErrorCode, now_us: int) -> None:
        """Answer all waiting SyncGroup requests with the assignments or an error. Source: propagateAssignment"""
        for member in group.members.values():
            if member.awaiting_sync is None:
                continue
            result = SyncResult(error)
            if error is ErrorCode.NONE:
                result = SyncResult(error, group.protocol_type, group.protocol, member.assignment)
            self._answer_sync(member, result)
            # Sessions do not end during the wait for the leader and the log, so they are restarted here.
            self.keep_alive(group, member, now_us)

    def store(
        self,
        group: Group,
        assignments: Mapping[str, bytes],
        stored: _OnStored,
        now_us: int,
    ) -> None:
        """Write the group's record with these assignments by member id. Source: GroupMetadataManager.storeGroup"""

        def written(error: ErrorCode, offset: Offset, now_us: int) -> None:
            stored(_WRITE_ERRORS.get(error, error), now_us)

        value = group_value(group, assignments, self._desk.settings.versions.group)
        self._desk.write(group.group_id, [(group_key(group.group_id), value)], written, now_us)

    # ------------------------------------------------------------------------------------------------------- sessions

    def keep_alive(self, group: Group, member: Member, now_us: int) -> None:
        """Restart a member's session timeout. Source: completeAndScheduleNextHeartbeatExpiration"""
        self._expect(group, member, member.session_timeout_ms, now_us)

    def _expect(self, group: Group, member: Member, timeout_ms: int, now_us: int) -> None:
        member.stop_session()
        member.session = self._desk.after(timeout_ms, partial(self._session_expired, group, member), now_us)

    def _session_expired(self, group: Group, member: Member, now_us: int) -> None:
        """Remove a member whose session has timed out, unless its request waits. Source: onExpireHeartbeat"""
        member.session = None
        # A member whose request waits need not send anything; but the client of a new member may be gone.
        if member.is_new or not member.is_awaiting:
            limit_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
            self.remove(group, member, Departure(LeaveCause.SESSION_TIMEOUT, limit_ms), now_us)

    # -------------------------------------------------------------------------------------------------------- leaving

    def remove(self, group: Group, member: Member, why: Departure, now_us: int) -> None:
        """Remove a member, and rebalance if necessary. Source: removeMemberAndUpdateGroup"""
        # A new member may wait for its first generation; after this error its client joins again if it is alive.
        self._answer_join(member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)
        self._desk.tell(left(self._desk.node, group, member, why))
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            self._maybe_prepare(group, _trigger(RebalanceCause.MEMBER_LEFT, member), now_us)
        else:
            self.maybe_complete_join(group, now_us)

    def unload(self, group: Group, now_us: int) -> None:
        """Stop coordinating a group, and answer waiting members with NOT_COORDINATOR. Source: onGroupUnloaded"""
        group.enter(State.DEAD, self._desk.wall_ms(now_us))
        for member in group.members.values():
            self._answer_join(member, JoinResult(ErrorCode.NOT_COORDINATOR, member.member_id))
            self._answer_sync(member, SyncResult(ErrorCode.NOT_COORDINATOR))
        self.rest(group)

    def loaded(self, group: Group, now_us: int) -> None:
        """Start the sessions of a group's members after it was loaded. Source: onGroupLoaded"""
        if len(group.members) > self._desk.settings.max_size:
            limit = self._desk.settings.max_size
            self.prepare(group, Trigger(RebalanceCause.GROUP_TOO_LARGE, max_size=limit), now_us)
        for member in group.members.values():
            self.keep_alive(group, member, now_us)

    # ------------------------------------------------------------------------------ between the two kinds of groups

    def begin(self, group: Group, now_us: int) -> None:
        """Start the sessions of a group's members after it was converted from a consumer group."""
        for member in group.members.values():
            self.keep_alive(group, member, now_us)

    def dismiss(self, group: Group) -> None:
        """Answer all waiting requests with REBALANCE_IN_PROGRESS, after which the members join again.

        Source: completeAllJoinFutures, completeAllSyncFutures
        """
        for member in group.members.values():
            self._answer_join(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
            self._answer_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))

    def rest(self, group: Group) -> None:
        """Cancel all deadlines of a group that this coordinator no longer manages as a classic group."""
        for member in group.members.values():
            member.stop_session()
        for member_id in list(group.pending_members):
            group.forget_pending(member_id)
        group.stop_join()
        group.stop_sync()

    def resume(self, group: Group, now_us: int) -> None:
        """Restart the deadlines of a group whose conversion to a consumer group has failed; its members join again."""
        self.begin(group, now_us)
        if group.state is State.PREPARING_REBALANCE:
            group.is_first_join = False
            self._await_all(group, now_us)
        elif group.state is State.COMPLETING_REBALANCE:
            self.prepare(group, Trigger(RebalanceCause.UPGRADE_FAILED), now_us)

    # ------------------------------------------------------------------------------------------------------- answers

    def _answer_join(self, member: Member, result: JoinResult) -> None:
        if member.awaiting_join is not None:
            self._desk.answer(member.awaiting_join, result)
            member.awaiting_join = None

    def _answer_sync(self, member: Member, result: SyncResult) -> None:
        if member.awaiting_sync is not None:
            self._desk.answer(member.awaiting_sync, result)
            member.awaiting_sync = None


def _take_over(member: Member, event: JoinGroup, request: int) -> None:
    """Update a member's fields from its JoinGroup request `request`, which then waits. Source: updateMember"""
    member.protocols = event.protocols
    member.rebalance_timeout_ms = event.rebalance_timeout_ms
    member.session_timeout_ms = event.session_timeout_ms
    member.awaiting_join = request


def _members(group: Group) -> tuple[JoinedMember, ...]:
    assert group.protocol is not None
    return tuple(
        JoinedMember(member.member_id, member.instance_id, member.metadata(group.protocol))
        for member in group.members.values()
    )


def _joined(
    group: Group,
    member_id: str,
    error: ErrorCode = ErrorCode.NONE,
    *,
    members: tuple[JoinedMember, ...] = (),
    leader_id: str | None = None,
    skip_assignment: bool = False,
) -> JoinResult:
    """Return the JoinGroup result for the group's current state; `leader_id` overrides the group's leader."""
    return JoinResult(
        error=error,
        member_id=member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader_id=leader_id or group.leader_id or NO_MEMBER_ID,
        members=members,
        skip_assignment=skip_assignment,
    )


def _trigger(cause: RebalanceCause, member: Member) -> Trigger:
    instance = shown_if_any(member.instance_id)
    return Trigger(cause, shown(member.member_id), instance, client_id=shown(member.client_id))
