"""The group coordinator of one broker: events in, actions out. source: GroupCoordinator.scala, classic protocol

Each group is kept in one partition of the offsets topic, and coordinated by whoever leads that partition: a new leader
reads the groups from its log, one that leads no more forgets them, and members find the way by NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from cluster.groups.commits import Commits
from cluster.groups.desk import Desk, GroupSettings
from cluster.groups.events import (
    NO_MEMBER_ID,
    Action,
    CommitOffsets,
    DeleteGroups,
    DeleteGroupsResult,
    DeleteOffsets,
    DeleteOffsetsResult,
    Elected,
    Event,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    Leaving,
    Load,
    Loaded,
    PartitionsDeleted,
    Resigned,
    SyncGroup,
    SyncResult,
    Written,
)
from cluster.groups.facts import GroupFacts
from cluster.groups.group import Group, State
from cluster.groups.offsets import OffsetAndMetadata
from cluster.groups.rebalance import Rebalances
from cluster.wall_clock import WallClock
from replica.errors import ErrorCode, KafkaError
from replica.ids import LeaderEpoch, TopicPartition
from replica.wording import shown

_REJOINS_WITH_NEWS = "{} has joined again with other protocols"


class GroupCoordinator:
    """groups: those of the partitions that this broker leads, in order of arrival

    owned, loading: leader epoch of each such partition
    """

    def __init__(
        self,
        *,
        node: str,
        settings: GroupSettings,
        clock: WallClock,
        new_uuid: Callable[[], UUID],
        partition_of: Callable[[str], int],
    ) -> None:
        self.groups: dict[str, Group] = {}
        self.owned: dict[int, LeaderEpoch] = {}
        self.loading: dict[int, LeaderEpoch] = {}
        self._epochs: dict[int, LeaderEpoch] = {}
        self._settings = settings
        self._partition_of = partition_of
        self._desk = Desk(node=node, settings=settings, clock=clock, new_uuid=new_uuid, partition_of=partition_of)
        self._facts = GroupFacts(node, self._desk.tell)
        self._rebalances = Rebalances(self._desk, self._facts)
        self._commits = Commits(self._desk, self._facts)
        self._checks_expiry = False

    @property
    def next_deadline_us(self) -> int | None:
        return self._desk.timers.next_deadline_us

    def tick(self, now_us: int) -> list[Action]:
        """Deadlines that have come."""
        self._desk.timers.run_due(now_us)
        return self._desk.take()

    def step(self, event: Event) -> list[Action]:
        match event:
            case JoinGroup():
                self._join(event)
            case SyncGroup():
                self._sync(event)
            case Heartbeat():
                self._heartbeat(event)
            case LeaveGroup():
                self._leave(event)
            case CommitOffsets():
                self._commit(event)
            case DeleteGroups():
                errors = {group_id: self._delete_group(group_id, event.now_us) for group_id in event.group_ids}
                self._desk.answer(event.request, DeleteGroupsResult(errors))
            case DeleteOffsets():
                self._delete_offsets(event)
            case PartitionsDeleted():
                self._forget_partitions(event)
            case Elected():
                self._elected(event)
            case Loaded():
                self._loaded(event)
            case Resigned():
                self._resigned(event)
            case Written():
                self._desk.written(event.write, event.error, event.offset, event.now_us)
        return self._desk.take()

    # ------------------------------------------------------------------------------------------------------ questions

    def status(self, group_id: str, *, unnamed: bool = False) -> ErrorCode:
        """Whether this broker can speak for the group. source: validateGroupStatus, isValidGroupId

        unnamed: the id may be empty; clients of old keep offsets under it
        """
        if not group_id and not unnamed:
            return ErrorCode.INVALID_GROUP_ID
        partition = self._partition_of(group_id)
        if partition in self.loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE if partition in self.owned else ErrorCode.NOT_COORDINATOR

    def offsets(
        self, group_id: str, wanted: Iterable[TopicPartition] | None, *, stable: bool
    ) -> dict[TopicPartition, OffsetAndMetadata | ErrorCode | None]:
        """What the group has committed; None: nothing. wanted: None for all

        stable: a commit that is on its way makes its partition UNSTABLE_OFFSET_COMMIT (KIP-447)
        raises: KafkaError       source: GroupMetadataManager.getOffsets
        """
        error = self.status(group_id, unnamed=True)
        if error is not ErrorCode.NONE:
            raise KafkaError(error)
        group = self.groups.get(group_id)
        if group is None:
            return dict.fromkeys(wanted or ())
        found: dict[TopicPartition, OffsetAndMetadata | ErrorCode | None] = {}
        for name in group.offsets.committed if wanted is None else wanted:
            known = group.offsets.committed.get(name)
            if stable and name in group.offsets.pending:
                found[name] = ErrorCode.UNSTABLE_OFFSET_COMMIT
            else:
                found[name] = None if known is None else known.value
        return found

    # -------------------------------------------------------------------------------------------------------- members

    def _join(self, event: JoinGroup) -> None:
        """source: handleJoinGroup"""
        error = self.status(event.group_id)
        limits = self._settings
        if error is ErrorCode.NONE and not (
            limits.min_session_timeout_ms <= event.session_timeout_ms <= limits.max_session_timeout_ms
        ):
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        group = self.groups.get(event.group_id)
        if error is ErrorCode.NONE and group is None:
            if event.member_id == NO_MEMBER_ID:
                group = self._new_group(event.group_id, event.now_us)
            else:
                error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not ErrorCode.NONE or group is None:
            self._desk.answer(event.request, JoinResult(error, event.member_id))
            return
        if not self._has_room(group, event.member_id):
            member = group.members.get(event.member_id)
            group.remove(event.member_id)
            if member is not None:
                self._facts.left(group, member, f"the group has group.max.size={limits.max_size} members without it")
            self._desk.answer(event.request, JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif not group.supports(event.protocol_type, event.protocols):
            self._desk.answer(event.request, JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, event.member_id))
        elif event.member_id == NO_MEMBER_ID:
            self._join_new(group, event)
        else:
            self._join_again(group, event)
        self._rebalances.maybe_complete_join(group, event.now_us)

    def _new_group(self, group_id: str, now_us: int) -> Group:
        group = self.groups[group_id] = Group(group_id, now_ms=self._desk.wall_ms(now_us))
        return group

    def _has_room(self, group: Group, member_id: str) -> bool:
        """source: acceptJoiningMember"""
        member = group.members.get(member_id)
        # Differs from Kafka: ids that were given out count as well, else a client could ask for any number of them.
        waiting = len(group.pending_members) - (member_id in group.pending_members)
        match group.state:
            case State.EMPTY | State.DEAD:
                return waiting < self._settings.max_size
            case State.PREPARING_REBALANCE:
                is_waiting = member is not None and member.awaiting_join is not None
                return is_waiting or group.awaiting_join + waiting < self._settings.max_size
            case _:
                return member is not None or len(group.members) + waiting < self._settings.max_size

    def _join_new(self, group: Group, event: JoinGroup) -> None:
        """source: doNewMemberJoinGroup"""
        new_id = f"{event.client_id if event.instance_id is None else event.instance_id}-{self._desk.new_uuid()}"
        known_id = None if event.instance_id is None else group.static_members.get(event.instance_id)
        if known_id is not None:
            self._rebalances.replace_static(group, group.members[known_id], event, new_id)
        elif event.instance_id is None and event.requires_member_id:
            self._rebalances.give_id(group, event, new_id)
        else:
            self._rebalances.add(group, event, new_id)

    def _join_again(self, group: Group, event: JoinGroup) -> None:
        """source: doCurrentMemberJoinGroup"""
        if event.member_id in group.pending_members and event.instance_id is None:
            self._rebalances.add(group, event, event.member_id)
            return
        error = _member_error(group, event.member_id, event.instance_id)
        if error is ErrorCode.NONE and group.state is State.EMPTY:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not ErrorCode.NONE:
            self._desk.answer(event.request, JoinResult(error, event.member_id))
            return
        member = group.members[event.member_id]
        name = shown(member.member_id)
        if group.state is State.PREPARING_REBALANCE:
            self._rebalances.update(group, member, event, f"{name} has joined again")
        elif member.protocols != event.protocols:
            self._rebalances.update(group, member, event, _REJOINS_WITH_NEWS.format(name))
        elif group.state is State.STABLE and group.is_leader(member.member_id):
            # What the leader sees may have changed without its own metadata: partitions of a topic, for example.
            self._rebalances.update(group, member, event, f"its leader {name} has joined again")
        else:
            self._rebalances.rejoined(group, event)

    def _sync(self, event: SyncGroup) -> None:
        """source: handleSyncGroup"""
        error, group = self._group_of_member(event)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # The rebalance in progress is lost with the coordinator it had; older clients do not expect this error.
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

    def _heartbeat(self, event: Heartbeat) -> None:
        """source: handleHeartbeat"""
        error, group = self._group_of_member(event)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = ErrorCode.NONE  # The group is being read: the member will be known, or hear so next time.
        elif error is ErrorCode.NONE:
            assert group is not None
            self._rebalances.keep_alive(group, group.members[event.member_id], event.now_us)
            if group.state is State.PREPARING_REBALANCE:
                error = ErrorCode.REBALANCE_IN_PROGRESS
        self._desk.answer(event.request, HeartbeatResult(error))

    def _group_of_member(self, event: SyncGroup | Heartbeat) -> tuple[ErrorCode, Group | None]:
        """NONE if it is a member, and of this generation."""
        error = self.status(event.group_id)
        group = self.groups.get(event.group_id)
        if error is not ErrorCode.NONE:
            return error, None
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID, None
        error = _member_error(group, event.member_id, event.instance_id)
        if error is ErrorCode.NONE and event.generation != group.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        return error, group

    def _leave(self, event: LeaveGroup) -> None:
        """source: handleLeaveGroup"""
        error = self.status(event.group_id)
        if error is not ErrorCode.NONE:
            self._desk.answer(event.request, LeaveResult(error))
            return
        group = self.groups.get(event.group_id)
        left = tuple(
            (one, ErrorCode.UNKNOWN_MEMBER_ID if group is None else self._remove(group, one, event.now_us))
            for one in event.members
        )
        self._desk.answer(event.request, LeaveResult(ErrorCode.NONE, left))

    def _remove(self, group: Group, leaving: Leaving, now_us: int) -> ErrorCode:
        member_id, instance_id, reason = leaving
        why = "it says so itself" + (f" ({shown(reason)})" if reason else "")
        if member_id == NO_MEMBER_ID:
            known_id = None if instance_id is None else group.static_members.get(instance_id)
            if known_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id, why = known_id, "an operator removes it" + (f" ({shown(reason)})" if reason else "")
        elif member_id in group.pending_members:
            self._rebalances.remove_pending(group, member_id, now_us)
            return ErrorCode.NONE
        else:
            error = _member_error(group, member_id, instance_id)
            if error is not ErrorCode.NONE:
                return error
        self._rebalances.remove(group, group.members[member_id], why, now_us)
        return ErrorCode.NONE

    # -------------------------------------------------------------------------------------------------------- offsets

    def _commit(self, event: CommitOffsets) -> None:
        """source: handleCommitOffsets"""
        error = self.status(event.group_id, unnamed=True)
        group = self.groups.get(event.group_id)
        if error is ErrorCode.NONE and group is None:
            if event.generation < 0:  # Kafka is no more than a place to keep offsets for this group.
                group = self._new_group(event.group_id, event.now_us)
            else:
                error = ErrorCode.ILLEGAL_GENERATION
        if error is ErrorCode.NONE and group is not None:
            error = _commit_error(group, event)
        if error is not ErrorCode.NONE or group is None:
            self._commits.refuse(event, error)
            return
        member = group.members.get(event.member_id)
        if member is not None:
            self._rebalances.keep_alive(group, member, event.now_us)
        self._commits.commit(group, event)

    def _delete_group(self, group_id: str, now_us: int) -> ErrorCode:
        """source: handleDeleteGroups"""
        error = self.status(group_id, unnamed=True)
        group = self.groups.get(group_id)
        if error is ErrorCode.NONE and group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif error is ErrorCode.NONE and group is not None and group.state is not State.EMPTY:
            error = ErrorCode.NON_EMPTY_GROUP
        if error is ErrorCode.NONE and group is not None:
            group.enter(State.DEAD, self._desk.wall_ms(now_us))
            self._commits.delete(group, list(group.offsets.committed), "an operator has deleted it", now_us)
            del self.groups[group_id]
        return error

    def _delete_offsets(self, event: DeleteOffsets) -> None:
        """source: handleDeleteOffsets"""
        error = self.status(event.group_id)
        group = self.groups.get(event.group_id)
        if error is ErrorCode.NONE and group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif group is not None and group.state is not State.EMPTY and not group.is_consumer_group:
            error = ErrorCode.NON_EMPTY_GROUP
        errors: dict[TopicPartition, ErrorCode] = {}
        if error is ErrorCode.NONE and group is not None:
            in_use = group.state is not State.EMPTY
            errors = {
                name: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use and group.reads(name.topic) else ErrorCode.NONE
                for name in event.partitions
            }
            free = [name for name, refusal in errors.items() if refusal is ErrorCode.NONE]
            if free:
                self._clean_up([group], free, "an operator has deleted it", event.now_us)
        self._desk.answer(event.request, DeleteOffsetsResult(error, errors))

    def _forget_partitions(self, event: PartitionsDeleted) -> None:
        """source: handleDeletedPartitions"""
        self._clean_up(list(self.groups.values()), event.partitions, "the topic is deleted", event.now_us)

    def _clean_up(self, groups: Iterable[Group], names: Iterable[TopicPartition], why: str, now_us: int) -> None:
        for group in groups:
            if self._commits.delete(group, names, why, now_us):
                del self.groups[group.group_id]

    def _expire(self, now_us: int) -> None:
        """source: cleanupGroupMetadata, every offsets.retention.check.interval.ms"""
        for group in list(self.groups.values()):
            if self._commits.expire(group, now_us):
                del self.groups[group.group_id]
        self._checks_expiry = bool(self.owned)
        if self._checks_expiry:
            self._desk.after(self._settings.retention_check_interval_ms, self._expire, now_us)

    # ------------------------------------------------------------------------------------------------------ leadership

    def _elected(self, event: Elected) -> None:
        """source: onElection, loadGroupsAndOffsets"""
        if event.leader_epoch <= self._epochs.get(event.partition, -1):
            return  # Known already: only the ISR has changed.
        self._epochs[event.partition] = event.leader_epoch
        if event.partition in self.owned:
            return  # It led before, too, so it has what the log says.
        self.loading[event.partition] = event.leader_epoch
        self._desk.want(Load(partition=event.partition, leader_epoch=event.leader_epoch))
        if not self._checks_expiry:
            self._checks_expiry = True
            self._desk.after(self._settings.retention_check_interval_ms, self._expire, event.now_us)

    def _loaded(self, event: Loaded) -> None:
        if self.loading.get(event.partition) != event.leader_epoch:
            return  # Somebody else leads by now.
        del self.loading[event.partition]
        self.owned[event.partition] = event.leader_epoch
        if event.groups:
            self._facts.loaded(event.partition, event.leader_epoch, event.groups)
        for group in event.groups:
            self.groups[group.group_id] = group
            self._rebalances.loaded(group, event.now_us)

    def _resigned(self, event: Resigned) -> None:
        """source: onResignation, removeGroupsAndOffsets"""
        if event.leader_epoch is not None:
            if event.leader_epoch <= self._epochs.get(event.partition, -1):
                return
            self._epochs[event.partition] = event.leader_epoch
        else:
            self._epochs.pop(event.partition, None)
        self.owned.pop(event.partition, None)
        self.loading.pop(event.partition, None)
        lost = [group for group in self.groups.values() if self._partition_of(group.group_id) == event.partition]
        for group in lost:
            self._rebalances.unload(group, event.now_us)
            del self.groups[group.group_id]
        if lost:
            self._facts.unloaded(event.partition, lost)


def _member_error(group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
    """Whether this is a member, and if static the one that has the name now. source: validateCurrentMember"""
    if instance_id is not None:
        current = group.static_members.get(instance_id)
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if current != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def _commit_error(group: Group, event: CommitOffsets) -> ErrorCode:
    """source: validateOffsetCommit, doCommitOffsets"""
    if event.generation < 0 and group.state is State.EMPTY:
        return ErrorCode.NONE
    if event.generation >= 0 or event.member_id != NO_MEMBER_ID or event.instance_id is not None:
        error = _member_error(group, event.member_id, event.instance_id)
        if error is not ErrorCode.NONE:
            return error
        if event.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        # Its generation is the latest, so it knows that it is to ask for its assignment first.
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.COMPLETING_REBALANCE else ErrorCode.NONE
    return ErrorCode.UNKNOWN_MEMBER_ID
