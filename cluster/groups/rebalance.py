"""How members come and go, and how a group gets its next generation. source: GroupCoordinator.scala, DelayedJoin.scala,
DelayedSync.scala, DelayedHeartbeat.scala

A rebalance has two phases. In the first all members join again, until the last one has or the longest rebalance
timeout is over; in the second the leader's assignment is awaited, written to the log, and given to all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from cluster.groups.desk import WRITE_ERRORS, Departure, Desk, Trigger, left
from cluster.groups.inputs import NO_MEMBER_ID, JoinedMember, JoinGroup, JoinResult, SyncResult
from cluster.groups.state.group import Group, State
from cluster.groups.state.member import Member
from cluster.groups.state.records import group_key, group_value
from cluster.protocol.consumer_protocol import assigned_partitions
from replica.causes import JoinCause, LeaveCause, RebalanceCause
from replica.errors import ErrorCode
from replica.ids import Offset
from replica.trace import events as trace
from replica.wording import shown, shown_if_any

ASSIGNMENT_BYTES_MAX = 16_384
"""Some 4,000 partitions. An assignment is what a client has written: what is in a longer one is in no event."""
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""A new member that waits longer is dropped: its client may be gone, for the connection is not read meanwhile."""
LEAST_REPEATED_WAIT_MS = 1000

_OnStored = Callable[[ErrorCode, int], None]
"""(error as in the members' answers, now_us)"""
_WRITE_ERRORS = {
    **WRITE_ERRORS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The members' answer when their group could not be written. source: GroupMetadataManager.storeGroup"""


class Rebalances:
    """Of all groups of one coordinator."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    # ----------------------------------------------------------------------------------------------------- joining

    def add(self, group: Group, given: JoinGroup, member_id: str) -> None:
        """source: addMemberAndRebalance"""
        member = Member(
            member_id=member_id,
            instance_id=given.instance_id,
            client_id=given.client_id,
            client_host=given.client_host,
            rebalance_timeout_ms=given.rebalance_timeout_ms,
            session_timeout_ms=given.session_timeout_ms,
            protocol_type=given.protocol_type,
            protocols=given.protocols,
            awaiting_join=given.request,
            is_new=True,
        )
        # Before 4.0 in a group that is new, since then also in one that was empty for a while.
        if group.is_first_join and (group.generation == 0 or self._desk.settings.one_coordinator):
            group.member_came = True
        group.add(member)
        self._tell_joined(group, member, given)
        self._expect(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS, given.now_us)
        self._maybe_prepare(group, _trigger(RebalanceCause.MEMBER_JOINED, member), given.now_us)

    def update(self, group: Group, member: Member, given: JoinGroup, cause: RebalanceCause) -> None:
        """A member joins again. source: updateMemberAndRebalance"""
        _take_over(member, given, given.request)
        self._maybe_prepare(group, _trigger(cause, member), given.now_us)

    def give_id(self, group: Group, given: JoinGroup, member_id: str) -> None:
        """KIP-394: it is a member only once it comes again under this id."""
        out = partial(self.remove_pending, group, member_id)
        group.pending_members[member_id] = self._desk.after(given.session_timeout_ms, out, given.now_us)
        self._desk.answer(given.request, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))

    def remove_pending(self, group: Group, member_id: str, now_us: int) -> None:
        group.remove(member_id)
        self.maybe_complete_join(group, now_us)

    def replace_static(self, group: Group, member: Member, given: JoinGroup, new_id: str) -> None:
        """A static member has come back without its id. source: updateStaticMemberAndRebalance (KIP-345, KIP-814)"""
        old_id, previous_leader = member.member_id, group.leader_id
        # A request that waits under the old id is a duplicate, fenced at once.
        self._answer_join(member, JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_id))
        self._answer_sync(member, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        group.replace(member, new_id)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self.keep_alive(group, member, given.now_us)
        _take_over(member, given, given.request)
        self._tell_joined(group, member, given, replaced=old_id)
        if group.state is State.COMPLETING_REBALANCE:
            # The leader may be assigning to the old id already.
            self.prepare(group, _trigger(RebalanceCause.STATIC_RETURNED, member), given.now_us)
        elif group.protocol != group.select_protocol():
            self._maybe_prepare(group, _trigger(RebalanceCause.PROTOCOL_CHANGED, member), given.now_us)
        elif group.state is State.STABLE:
            assignments = {one.member_id: one.assignment for one in group.members.values()}

            def stored(error: ErrorCode, now_us: int) -> None:
                if member.awaiting_join != given.request:
                    return  # Answered meanwhile: the group moves on, or the member has come back once more.
                if error is not ErrorCode.NONE:
                    member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms = before
                    group.replace(member, old_id)
                    self._answer_join(member, _joined(group, NO_MEMBER_ID, error, leader_id=previous_leader))
                    self.keep_alive(group, member, now_us)
                elif given.may_skip_assignment:
                    leads = group.is_leader(new_id)
                    members = _members(group) if leads else ()
                    self._answer_join(member, _joined(group, new_id, members=members, skip_assignment=leads))
                else:
                    # An old client that read its own id as the leader's would assign, and no member would get any.
                    self._answer_join(member, _joined(group, new_id, leader_id=previous_leader))

            self.store(group, assignments, stored, given.now_us)

    def rejoined(self, group: Group, given: JoinGroup) -> None:
        """Nothing has changed, the client has missed our answer: told again where the group is."""
        # It is no leader, or the leader of a group that waits for its assignment.
        members = _members(group) if group.is_leader(given.member_id) else ()
        self._desk.answer(given.request, _joined(group, given.member_id, members=members))

    def _tell_joined(self, group: Group, member: Member, given: JoinGroup, replaced: str | None = None) -> None:
        """replaced: the id that a static member had until now, which keeps the client.id of its first process"""
        self._desk.tell(
            trace.GroupMemberJoined(
                node=self._desk.node,
                group=shown(group.group_id),
                member=shown(member.member_id),
                instance=shown_if_any(member.instance_id),
                client_id=shown(given.client_id),
                generation=group.generation,
                cause=JoinCause.NEW if replaced is None else JoinCause.STATIC_RETURNED,
                replaced=shown_if_any(replaced),
                replaced_client_id=None if replaced is None else shown(member.client_id),
                message=shown(given.reason) or None,
            )
        )

    # ---------------------------------------------------------------------------------------------------- rebalancing

    def _maybe_prepare(self, group: Group, why: Trigger, now_us: int) -> None:
        if group.can_rebalance:
            self.prepare(group, why, now_us)

    def prepare(self, group: Group, why: Trigger, now_us: int) -> None:
        """source: prepareRebalance, InitialDelayedJoin"""
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
        """The first members of a group come at about the same time: each new one prolongs the wait."""

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
        """A member came or went. The first generation waits for its delay all the same."""
        if group.join is not None and not group.is_first_join and group.all_have_joined:
            self._complete_join(group, now_us)

    def _complete_join(self, group: Group, now_us: int) -> None:
        """source: onCompleteJoin"""
        group.stop_join()
        group.is_first_join = False
        for member in list(group.members.values()):
            if member.awaiting_join is None and not member.is_static:
                why = Departure(LeaveCause.JOIN_TIMEOUT, group.rebalance_timeout_ms)
                group.remove(member.member_id)
                self._desk.tell(left(self._desk.node, group, member, why))
        if group.members and not group.elect_joined_leader():
            # Only static members are left, and none has come: their sessions decide. Differs from Kafka: with a
            # rebalance timeout of 0 its threads look again and again until then.
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
        """A member asks for its assignment; the leader brings those of all. The group awaits them."""
        if not group.is_leader(member.member_id):
            return
        generation = group.generation
        complete = {member_id: assignments.get(member_id, b"") for member_id in group.members}

        def stored(error: ErrorCode, now_us: int) -> None:
            # A member may have come or gone while the log was written.
            if group.state is not State.COMPLETING_REBALANCE or group.generation != generation:
                return
            if error is not ErrorCode.NONE:
                self._reset_assignment(group, error, now_us)
                self._maybe_prepare(group, Trigger(RebalanceCause.NOT_WRITTEN, error=error.name), now_us)
                return
            for one in group.members.values():
                one.assignment = complete[one.member_id]
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
                        node=node,
                        group=name,
                        member=shown(member.member_id),
                        instance=shown_if_any(member.instance_id),
                        client_id=shown(member.client_id),
                        generation=generation,
                        partitions=tuple(f"{shown(one.topic)}-{one.partition}" for one in found),
                    )
                )

    def synced(self, group: Group, member_id: str) -> None:
        """The member has asked for its assignment."""
        group.pending_sync.pop(member_id, None)
        if not group.pending_sync:
            group.stop_sync()

    def _sync_expired(self, group: Group, now_us: int) -> None:
        """source: onExpirePendingSync"""
        why = Departure(LeaveCause.SYNC_TIMEOUT, group.rebalance_timeout_ms)
        for member_id in list(group.pending_sync):
            member = group.members.get(member_id)
            group.remove(member_id)
            if member is not None:  # A static member may have come back under another id.
                self._desk.tell(left(self._desk.node, group, member, why))
        self.prepare(group, Trigger(RebalanceCause.SYNC_TIMEOUT), now_us)

    def _reset_assignment(self, group: Group, error: ErrorCode, now_us: int) -> None:
        for member in group.members.values():
            member.assignment = b""
        self._propagate(group, error, now_us)

    def _propagate(self, group: Group, error: ErrorCode, now_us: int) -> None:
        """source: propagateAssignment"""
        for member in group.members.values():
            if member.awaiting_sync is None:
                continue
            result = SyncResult(error)
            if error is ErrorCode.NONE:
                result = SyncResult(error, group.protocol_type, group.protocol, member.assignment)
            self._answer_sync(member, result)
            # A session that ended while we waited for the leader or the log was passed over: it begins anew.
            self.keep_alive(group, member, now_us)

    def store(
        self,
        group: Group,
        assignments: Mapping[str, bytes],
        stored: _OnStored,
        now_us: int,
    ) -> None:
        """Write the group as it is now, with these assignments. source: GroupMetadataManager.storeGroup"""

        def written(error: ErrorCode, offset: Offset, now_us: int) -> None:
            stored(_WRITE_ERRORS.get(error, error), now_us)

        value = group_value(group, assignments, self._desk.settings.versions.group)
        self._desk.write(group.group_id, [(group_key(group.group_id), value)], written, now_us)

    # ------------------------------------------------------------------------------------------------------- sessions

    def keep_alive(self, group: Group, member: Member, now_us: int) -> None:
        """The member has shown that it lives. source: completeAndScheduleNextHeartbeatExpiration"""
        self._expect(group, member, member.session_timeout_ms, now_us)

    def _expect(self, group: Group, member: Member, timeout_ms: int, now_us: int) -> None:
        member.stop_session()
        member.session = self._desk.after(timeout_ms, partial(self._session_expired, group, member), now_us)

    def _session_expired(self, group: Group, member: Member, now_us: int) -> None:
        """source: onExpireHeartbeat"""
        member.session = None
        # A member that waits for the others is not expected to send anything; a new one may still be gone.
        if member.is_new or not member.is_awaiting:
            limit_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
            self.remove(group, member, Departure(LeaveCause.SESSION_TIMEOUT, limit_ms), now_us)

    # -------------------------------------------------------------------------------------------------------- leaving

    def remove(self, group: Group, member: Member, why: Departure, now_us: int) -> None:
        """source: removeMemberAndUpdateGroup"""
        # A new member may wait for its first generation: told so, its client comes again if it lives.
        self._answer_join(member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)
        self._desk.tell(left(self._desk.node, group, member, why))
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            self._maybe_prepare(group, _trigger(RebalanceCause.MEMBER_LEFT, member), now_us)
        else:
            self.maybe_complete_join(group, now_us)

    def unload(self, group: Group, now_us: int) -> None:
        """Another broker coordinates the group now; waiting members are sent to look for it. source: onGroupUnloaded"""
        group.enter(State.DEAD, self._desk.wall_ms(now_us))
        for member in group.members.values():
            self._answer_join(member, JoinResult(ErrorCode.NOT_COORDINATOR, member.member_id))
            self._answer_sync(member, SyncResult(ErrorCode.NOT_COORDINATOR))
        self.rest(group)

    def loaded(self, group: Group, now_us: int) -> None:
        """The group was read from the log: its members have a session's time to find us. source: onGroupLoaded"""
        if len(group.members) > self._desk.settings.max_size:
            limit = self._desk.settings.max_size
            self.prepare(group, Trigger(RebalanceCause.GROUP_TOO_LARGE, max_size=limit), now_us)
        for member in group.members.values():
            self.keep_alive(group, member, now_us)

    # ------------------------------------------------------------------------------ between the two kinds of groups

    def begin(self, group: Group, now_us: int) -> None:
        """It was a consumer group until now: its members have a session's time."""
        for member in group.members.values():
            self.keep_alive(group, member, now_us)

    def dismiss(self, group: Group) -> None:
        """Members that wait are to come again. source: completeAllJoinFutures, completeAllSyncFutures"""
        for member in group.members.values():
            self._answer_join(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
            self._answer_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))

    def rest(self, group: Group) -> None:
        """It is not the current one any more: no deadline of it counts."""
        for member in group.members.values():
            member.stop_session()
        for member_id in list(group.pending_members):
            group.forget_pending(member_id)
        group.stop_join()
        group.stop_sync()

    def resume(self, group: Group, now_us: int) -> None:
        """It is the current one again; members that waited were dismissed."""
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


def _take_over(member: Member, given: JoinGroup, request: int) -> None:
    """Take over the client's current description of itself. source: updateMember"""
    member.protocols = given.protocols
    member.rebalance_timeout_ms = given.rebalance_timeout_ms
    member.session_timeout_ms = given.session_timeout_ms
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
    """Where the group is now. leader_id: where it is not the group's"""
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
