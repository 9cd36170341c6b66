"""The group coordinator of one broker: inputs in, actions out. source: GroupCoordinator.scala, classic protocol

Each group is kept in one partition of the offsets topic, and coordinated by the leader of that partition: a new leader
reads the groups from its log, a former leader forgets them, and NOT_COORDINATOR makes members look for the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from cluster.groups.commits import Commits
from cluster.groups.desk import Desk, GroupSettings
from cluster.groups.events import GroupEvents
from cluster.groups.group import Group, State
from cluster.groups.index import GroupIndex
from cluster.groups.inputs import (
    NO_MEMBER_ID,
    Action,
    CommitOffsets,
    CoordinatorInput,
    DeleteGroups,
    DeleteGroupsResult,
    DeleteOffsets,
    DeleteOffsetsResult,
    Elected,
    Heartbeat,
    JoinGroup,
    LeadershipResigned,
    LeaveGroup,
    Load,
    Loaded,
    PartitionsDeleted,
    SyncGroup,
    Written,
)
from cluster.groups.membership import Membership, member_error
from cluster.groups.offsets import OffsetAndMetadata
from cluster.groups.rebalance import Rebalances
from cluster.wall_clock import WallClock
from replica.errors import ErrorCode, KafkaError
from replica.ids import LeaderEpoch, TopicPartition


class GroupCoordinator:
    """index: which groups there are, to be looked at; `step` changes them"""

    def __init__(
        self,
        *,
        node: str,
        settings: GroupSettings,
        clock: WallClock,
        new_uuid: Callable[[], UUID],
        partition_of: Callable[[str], int],
    ) -> None:
        self.index = GroupIndex(partition_of)
        self._epochs: dict[int, LeaderEpoch] = {}
        self._settings = settings
        self._desk = Desk(node=node, settings=settings, clock=clock, new_uuid=new_uuid, partition_of=partition_of)
        self._events = GroupEvents(node, self._desk.tell)
        self._rebalances = Rebalances(self._desk, self._events)
        self._membership = Membership(self.index, self._desk, self._events, self._rebalances)
        self._commits = Commits(self._desk, self._events)
        self._checks_expiry = False

    @property
    def next_deadline_us(self) -> int | None:
        return self._desk.timers.next_deadline_us

    def tick(self, now_us: int) -> list[Action]:
        """Deadlines that have come."""
        self._desk.timers.run_due(now_us)
        return self._desk.take()

    def step(self, given: CoordinatorInput) -> list[Action]:
        match given:
            case JoinGroup():
                self._membership.join(given)
            case SyncGroup():
                self._membership.sync(given)
            case Heartbeat():
                self._membership.heartbeat(given)
            case LeaveGroup():
                self._membership.leave(given)
            case CommitOffsets():
                self._commit(given)
            case DeleteGroups():
                errors = {group_id: self._delete_group(group_id, given.now_us) for group_id in given.group_ids}
                self._desk.answer(given.request, DeleteGroupsResult(errors))
            case DeleteOffsets():
                self._delete_offsets(given)
            case PartitionsDeleted():
                self._forget_partitions(given)
            case Elected():
                self._elected(given)
            case Loaded():
                self._loaded(given)
            case LeadershipResigned():
                self._resigned(given)
            case Written():
                self._desk.written(given.write, given.error, given.offset, given.now_us)
        return self._desk.take()

    # ------------------------------------------------------------------------------------------------------ questions

    def offsets(
        self, group_id: str, wanted: Iterable[TopicPartition] | None, *, stable: bool
    ) -> dict[TopicPartition, OffsetAndMetadata | ErrorCode | None]:
        """The group's committed offsets; None: none. wanted: None for all

        stable: a commit that is on its way makes its partition UNSTABLE_OFFSET_COMMIT (KIP-447)
        raises: KafkaError       source: GroupMetadataManager.getOffsets
        """
        error = self.index.status(group_id, unnamed=True)
        if error is not ErrorCode.NONE:
            raise KafkaError(error)
        group = self.index.groups.get(group_id)
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

    # -------------------------------------------------------------------------------------------------------- offsets

    def _commit(self, given: CommitOffsets) -> None:
        """source: handleCommitOffsets"""
        error = self.index.status(given.group_id, unnamed=True)
        group = self.index.groups.get(given.group_id)
        if error is ErrorCode.NONE and group is None:
            if given.generation < 0:  # For this group Kafka only stores offsets.
                group = self.index.new(given.group_id, self._desk.wall_ms(given.now_us))
            else:
                error = ErrorCode.ILLEGAL_GENERATION
        if error is ErrorCode.NONE and group is not None:
            error = _commit_error(group, given)
        if error is not ErrorCode.NONE or group is None:
            self._commits.refuse(given, error)
            return
        member = group.members.get(given.member_id)
        if member is not None:
            self._rebalances.keep_alive(group, member, given.now_us)
        self._commits.commit(group, given)

    def _delete_group(self, group_id: str, now_us: int) -> ErrorCode:
        """source: handleDeleteGroups"""
        error = self.index.status(group_id, unnamed=True)
        group = self.index.groups.get(group_id)
        if error is ErrorCode.NONE and group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif error is ErrorCode.NONE and group is not None and group.state is not State.EMPTY:
            error = ErrorCode.NON_EMPTY_GROUP
        if error is ErrorCode.NONE and group is not None:
            group.enter(State.DEAD, self._desk.wall_ms(now_us))
            self._commits.delete(group, list(group.offsets.committed), "an operator has deleted it", now_us)
            del self.index.groups[group_id]
        return error

    def _delete_offsets(self, given: DeleteOffsets) -> None:
        """source: handleDeleteOffsets"""
        error = self.index.status(given.group_id)
        group = self.index.groups.get(given.group_id)
        if error is ErrorCode.NONE and group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif group is not None and group.state is not State.EMPTY and not group.is_consumer_group:
            error = ErrorCode.NON_EMPTY_GROUP
        errors: dict[TopicPartition, ErrorCode] = {}
        if error is ErrorCode.NONE and group is not None:
            in_use = group.state is not State.EMPTY
            errors = {
                name: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use and group.reads(name.topic) else ErrorCode.NONE
                for name in given.partitions
            }
            free = [name for name, refusal in errors.items() if refusal is ErrorCode.NONE]
            if free:
                self._clean_up([group], free, "an operator has deleted it", given.now_us)
        self._desk.answer(given.request, DeleteOffsetsResult(error, errors))

    def _forget_partitions(self, given: PartitionsDeleted) -> None:
        """source: handleDeletedPartitions"""
        self._clean_up(list(self.index.groups.values()), given.partitions, "the topic is deleted", given.now_us)

    def _clean_up(self, groups: Iterable[Group], names: Iterable[TopicPartition], why: str, now_us: int) -> None:
        for group in groups:
            if self._commits.delete(group, names, why, now_us):
                del self.index.groups[group.group_id]

    def _expire(self, now_us: int) -> None:
        """source: cleanupGroupMetadata, every offsets.retention.check.interval.ms"""
        for group in list(self.index.groups.values()):
            if self._commits.expire(group, now_us):
                del self.index.groups[group.group_id]
        self._checks_expiry = bool(self.index.owned or self.index.loading)
        if self._checks_expiry:
            self._desk.after(self._settings.retention_check_interval_ms, self._expire, now_us)

    # ------------------------------------------------------------------------------------------------------ leadership

    def _elected(self, given: Elected) -> None:
        """source: onElection, loadGroupsAndOffsets"""
        if given.leader_epoch <= self._epochs.get(given.partition, -1):
            return  # Known already: only the ISR has changed.
        self._epochs[given.partition] = given.leader_epoch
        if given.partition in self.index.owned:
            return  # It led before, too, so it has what the log says.
        self.index.loading[given.partition] = given.leader_epoch
        self._desk.want(Load(partition=given.partition, leader_epoch=given.leader_epoch))
        if not self._checks_expiry:
            self._checks_expiry = True
            self._desk.after(self._settings.retention_check_interval_ms, self._expire, given.now_us)

    def _loaded(self, given: Loaded) -> None:
        if self.index.loading.get(given.partition) != given.leader_epoch:
            return  # Another broker leads by now.
        del self.index.loading[given.partition]
        self.index.owned[given.partition] = given.leader_epoch
        if given.groups or given.unreadable:
            self._events.loaded(given.partition, given.leader_epoch, given.groups, given.unreadable)
        for group in given.groups:
            self.index.groups[group.group_id] = group
            self._rebalances.loaded(group, given.now_us)

    def _resigned(self, given: LeadershipResigned) -> None:
        """source: onResignation, removeGroupsAndOffsets"""
        if given.leader_epoch is not None:
            if given.leader_epoch <= self._epochs.get(given.partition, -1):
                return
            self._epochs[given.partition] = given.leader_epoch
        else:
            self._epochs.pop(given.partition, None)
        self.index.owned.pop(given.partition, None)
        self.index.loading.pop(given.partition, None)
        lost = self.index.kept_in(given.partition)
        for group in lost:
            self._rebalances.unload(group, given.now_us)
            del self.index.groups[group.group_id]
        if lost:
            self._events.unloaded(given.partition, lost)


def _commit_error(group: Group, given: CommitOffsets) -> ErrorCode:
    """source: validateOffsetCommit, doCommitOffsets"""
    if given.generation < 0 and group.state is State.EMPTY:
        return ErrorCode.NONE
    if given.generation >= 0 or given.member_id != NO_MEMBER_ID or given.instance_id is not None:
        error = member_error(group, given.member_id, given.instance_id)
        if error is not ErrorCode.NONE:
            return error
        if given.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        # Its generation is the latest, so it knows that it is to ask for its assignment first.
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.COMPLETING_REBALANCE else ErrorCode.NONE
    return ErrorCode.UNKNOWN_MEMBER_ID
