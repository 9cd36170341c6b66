"""The group coordinator of one broker, without I/O: it gets inputs and returns actions.

Each group is stored in one partition of the offsets topic, and the leader of that partition coordinates it. A new
leader reads the groups from its log; a former leader drops them and answers NOT_COORDINATOR.

Source: GroupCoordinator.scala for the classic protocol
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from cluster.clocks import WallClock
from cluster.coordinators.core import CommonInput, Elected, LeadershipResigned, Load, Written
from cluster.groups.classic_members import ClassicMembers
from cluster.groups.commits import Commits
from cluster.groups.consumer_membership import ConsumerMembership
from cluster.groups.consumer_steps import ConsumerSteps
from cluster.groups.deletions import Deletions
from cluster.groups.desk import GroupConfigs, GroupDesk, GroupSettings
from cluster.groups.inputs import (
    NO_MEMBER_ID,
    Action,
    AlterShareOffsets,
    CommitOffsets,
    ConsumerHeartbeat,
    CoordinatorInput,
    DeleteGroups,
    DeleteOffsets,
    DeleteShareOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Loaded,
    PartitionsDeleted,
    ShareHeartbeat,
    SharesChanged,
    SharesDeleted,
    SharesInitialized,
    StreamsHeartbeat,
    SyncGroup,
    TransactionCompleted,
)
from cluster.groups.membership import Membership, member_error
from cluster.groups.migration import Migration
from cluster.groups.rebalance import Rebalances
from cluster.groups.share_membership import ShareMembership
from cluster.groups.share_offsets import ShareOffsets
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.group import Group, State
from cluster.groups.state.index import GroupIndex
from cluster.groups.state.offsets import OffsetAndMetadata
from cluster.groups.state.streams_group import StreamsGroup
from cluster.groups.streams_membership import StreamsMembership
from cluster.groups.topic_directory import TopicDirectory
from replica.errors import ErrorCode, KafkaError
from replica.ids import OFFSETS_TOPIC, TopicPartition
from replica.trace.events import GroupsLoaded, GroupsUnloaded


class GroupCoordinator:
    """The group coordinator; `index` gives read access to its groups, and `step` changes them."""

    def __init__(
        self,
        *,
        node: str,
        settings: GroupSettings,
        clock: WallClock,
        new_uuid: Callable[[], UUID],
        partition_of: Callable[[str], int],
        topics: TopicDirectory,
    ) -> None:
        self.index = GroupIndex(partition_of)
        self._settings = settings
        self._topics = topics
        self._desk = GroupDesk(node=node, settings=settings, clock=clock, new_uuid=new_uuid, partition_of=partition_of)
        self._rebalances = Rebalances(self._desk)
        self._commits = Commits(self._desk)
        self._deletions = Deletions(self.index, self._desk, self._commits, topics)
        configs = GroupConfigs(topics.cache, settings)
        migration = Migration(self.index, self._desk, self._rebalances, topics)
        self._steps = ConsumerSteps(self.index, self._desk, topics, migration, configs)
        self._consumers = ConsumerMembership(self.index, self._desk, self._steps, migration, configs)
        classic = ClassicMembers(self.index, self._desk, self._steps, migration, topics, configs)
        self._membership = Membership(self.index, self._desk, self._rebalances, classic)
        self._streams = StreamsMembership(self.index, self._desk, topics, migration, configs)
        self._shares = ShareMembership(self.index, self._desk, topics, configs)
        self._share_offsets = ShareOffsets(self.index, self._desk, topics, self._shares)
        self._checks_expiry = False
        self._ended_meanwhile: dict[int, list[TransactionCompleted]] = {}
        """Ends of transactions that arrived while the log of their partition was being read, by partition."""

    @property
    def next_deadline_us(self) -> int | None:
        return self._desk.timers.next_deadline_us

    def tick(self, now_us: int) -> list[Action]:
        """Handle the deadlines that are due, and return the actions."""
        self._desk.timers.run_due(now_us)
        return self._desk.take()

    def step(self, event: CommonInput | CoordinatorInput) -> list[Action]:
        match event:
            case JoinGroup():
                self._membership.join(event)
            case SyncGroup():
                self._membership.sync(event)
            case Heartbeat():
                self._membership.heartbeat(event)
            case LeaveGroup():
                self._membership.leave(event)
            case ConsumerHeartbeat():
                self._consumers.heartbeat(event)
            case StreamsHeartbeat():
                self._streams.heartbeat(event)
            case ShareHeartbeat():
                self._shares.heartbeat(event)
            case SharesInitialized():
                self._shares.initialized(event)
            case SharesDeleted():
                self._deletions.shares_deleted(event)
            case AlterShareOffsets():
                self._share_offsets.alter(event)
            case DeleteShareOffsets():
                self._share_offsets.delete(event)
            case SharesChanged():
                self._share_offsets.changed(event)
            case CommitOffsets():
                self._commit(event)
            case TransactionCompleted():
                self._transaction_ended(event)
            case DeleteGroups():
                self._deletions.groups(event)
            case DeleteOffsets():
                self._deletions.offsets(event)
            case PartitionsDeleted():
                self._deletions.with_topic(event)
                self._shares.topics_deleted([partition.topic for partition in event.partitions], event.now_us)
            case Elected():
                self._elected(event)
            case Loaded():
                self._loaded(event)
            case LeadershipResigned():
                self._resigned(event)
            case Written():
                self._desk.written(event)
        return self._desk.take()

    # ------------------------------------------------------------------------------------------------------ questions

    def offsets(
        self,
        group_id: str,
        wanted: Iterable[TopicPartition] | None,
        *,
        stable: bool,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> dict[TopicPartition, OffsetAndMetadata | ErrorCode | None]:
        """Return a group's committed offset or an error for each partition, None for a partition without a commit.

        Args:
            wanted: partitions to return; None for all with a commit.
            stable: True to return UNSTABLE_OFFSET_COMMIT while a commit is being written or its transaction is open
                (KIP-447). Differs from Kafka: since 4.0 the request waits there for a commit outside of transactions.
            member_id: id of the KIP-848 member that asks, None if the request has none.
            member_epoch: epoch of this member, -1 if the request has none.

        Raises:
            KafkaError: if the group or the member is invalid.

        Source: GroupMetadataManager.getOffsets
        """
        error = self.index.status(group_id, unnamed=True)
        if error is not ErrorCode.NONE:
            raise KafkaError(error)
        group = self.index.find(group_id)
        if group is None:
            return dict.fromkeys(wanted or ())
        if isinstance(group, ConsumerGroup) and (member_id is not None or member_epoch >= 0):
            # As in Kafka, where a member id of null causes an exception.
            error = (
                ErrorCode.UNKNOWN_SERVER_ERROR if member_id is None else _epoch_error(group, member_id, member_epoch)
            )
            if error is not ErrorCode.NONE:
                raise KafkaError(error)
        found: dict[TopicPartition, OffsetAndMetadata | ErrorCode | None] = {}
        for name in group.offsets.committed if wanted is None else wanted:
            known = group.offsets.committed.get(name)
            if stable and group.offsets.is_unstable(name):
                found[name] = ErrorCode.UNSTABLE_OFFSET_COMMIT
            else:
                found[name] = None if known is None else known.value
        return found

    # -------------------------------------------------------------------------------------------------------- offsets

    def _commit(self, event: CommitOffsets) -> None:
        """Commit offsets. Source: handleCommitOffsets, handleTxnCommitOffsets"""
        error = self.index.status(event.group_id, unnamed=event.transaction is None)
        of_consumers = self.index.consumer_groups.get(event.group_id)
        if of_consumers is not None:
            self._commit_of_consumer(of_consumers, event)
            return
        group = self.index.groups.get(event.group_id)
        if event.group_id in self.index.share_groups:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        if error is ErrorCode.NONE and group is None:
            if event.generation < 0:  # A consumer without group membership, which only stores its offsets in Kafka.
                group = self.index.new(event.group_id, self._desk.wall_ms(event.now_us))
            else:
                # source: OffsetMetadataManager.validateOffsetCommit; before 4.0 handleCommitOffsets
                knows = event.knows_epochs and self._settings.one_coordinator
                error = ErrorCode.GROUP_ID_NOT_FOUND if knows else ErrorCode.ILLEGAL_GENERATION
        if error is ErrorCode.NONE and group is not None:
            error = _commit_error(group, event)
        if error is not ErrorCode.NONE or group is None:
            self._commits.refuse(event, error)
            return
        member = group.members.get(event.member_id)
        if member is not None and event.transaction is None:
            self._rebalances.keep_alive(group, member, event.now_us)
        self._commits.commit(group, event)

    def _commit_of_consumer(self, group: ConsumerGroup, event: CommitOffsets) -> None:
        error = _commit_error_of_consumer(group, event)
        is_older = error in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION)
        if error is ErrorCode.NONE or (is_older and self._counts_all_the_same(group, event)):
            self._commits.commit(group, event)
        else:
            self._commits.refuse(event, error)

    def _counts_all_the_same(self, group: ConsumerGroup, event: CommitOffsets) -> bool:
        """Return True if a commit with an older member epoch is valid: the member has had the partitions since then.

        Source: ConsumerGroup.createAssignmentEpochValidator (KIP-1251)
        """
        member, partitions = group.members[event.member_id], self._topics.with_ids(event.offsets)
        if isinstance(group, StreamsGroup):
            epochs, is_known = [group.assignment_epoch(member, name) for name in event.offsets], True
        else:
            epochs = [member.assignment_epoch(partition) for partition in partitions]
            is_known = len(partitions) == len(event.offsets) and self._settings.older_epochs_count
        had = all(epoch is not None and epoch <= event.generation for epoch in epochs)
        return is_known and event.generation < member.epoch and had

    def _transaction_ended(self, event: TransactionCompleted) -> None:
        """Apply the end of a transaction to the groups of its partition, or defer it while the partition is loaded.

        Source: GroupMetadataManager.handleTxnCompletion
        """
        if event.partition in self.index.loading:
            self._ended_meanwhile.setdefault(event.partition, []).append(event)
            return
        groups: list[Group | ConsumerGroup] = [
            *self.index.kept_in(event.partition),
            *self.index.consumer_groups_kept_in(event.partition),
        ]
        for group in groups:
            self._commits.transaction_ended(group, event.producer_id, committed=event.committed)

    def _expire(self, now_us: int) -> None:
        """Remove expired offsets, and repeat this after offsets.retention.check.interval.ms.

        Source: cleanupGroupMetadata
        """
        for group in list(self.index.groups.values()):
            if self._commits.expire(group, now_us):
                del self.index.groups[group.group_id]
        for consumers in list(self.index.consumer_groups.values()):
            if self._commits.expire_of_consumers(consumers, now_us):
                del self.index.consumer_groups[consumers.group_id]
        self._checks_expiry = bool(self.index.owned or self.index.loading)
        if self._checks_expiry:
            self._desk.after(self._settings.retention_check_interval_ms, self._expire, now_us)

    # ------------------------------------------------------------------------------------------------------ leadership

    def _elected(self, event: Elected) -> None:
        """Begin to load the groups of a partition that this broker now leads.

        Source: onElection, loadGroupsAndOffsets
        """
        if not self.index.is_news(event) or event.partition in self.index.owned:
            return  # The change is not new, or this broker led already and has the groups.
        self.index.loading[event.partition] = event.leader_epoch
        self._desk.want(Load(partition=event.partition, leader_epoch=event.leader_epoch))
        if not self._checks_expiry:
            self._checks_expiry = True
            self._desk.after(self._settings.retention_check_interval_ms, self._expire, event.now_us)

    def _loaded(self, event: Loaded) -> None:
        if not self.index.loaded(event.partition, event.leader_epoch):
            return
        found: list[Group | ConsumerGroup] = [*event.groups, *event.consumer_groups, *event.share_groups]
        if found or event.unreadable:
            self._desk.tell(
                GroupsLoaded(
                    self._desk.node,
                    OFFSETS_TOPIC,
                    event.partition,
                    leader_epoch=event.leader_epoch,
                    groups=len(found),
                    offsets=sum(len(group.offsets.committed) for group in found),
                    held_back=sum(len(item) for group in found for item in group.offsets.transactional.values()),
                    unreadable=event.unreadable,
                )
            )
        for group in event.groups:
            self.index.groups[group.group_id] = group
            self._rebalances.loaded(group, event.now_us)
        for consumers in event.consumer_groups:
            self.index.consumer_groups[consumers.group_id] = consumers
            (self._streams if consumers.HAS_TASKS else self._steps).begin(consumers, event.now_us)
        for shares in event.share_groups:
            self.index.share_groups[shares.group_id] = shares
            self._shares.begin(shares, event.now_us)
        for ended in self._ended_meanwhile.pop(event.partition, ()):
            self._transaction_ended(ended)

    def _resigned(self, event: LeadershipResigned) -> None:
        """Drop the groups of a partition that this broker no longer leads.

        Source: onResignation, removeGroupsAndOffsets
        """
        if not self.index.is_news(event):
            return
        self.index.lost(event.partition)
        self._ended_meanwhile.pop(event.partition, None)
        lost = self.index.kept_in(event.partition)
        for group in lost:
            self._rebalances.unload(group, event.now_us)
            del self.index.groups[group.group_id]
        lost_consumers = self.index.consumer_groups_kept_in(event.partition)
        for consumers in lost_consumers:
            consumers.stop_timers()
            del self.index.consumer_groups[consumers.group_id]
        lost_shares = self.index.share_groups_kept_in(event.partition)
        for shares in lost_shares:
            shares.stop_timers()
            del self.index.share_groups[shares.group_id]
        count = len(lost) + len(lost_consumers) + len(lost_shares)
        if count:
            self._desk.tell(GroupsUnloaded(self._desk.node, OFFSETS_TOPIC, event.partition, groups=count))


def _commit_error(group: Group, event: CommitOffsets) -> ErrorCode:
    """Return the error of a commit to a classic group, NONE if it is valid.

    Source: validateOffsetCommit, doCommitOffsets
    """
    if event.generation < 0 and group.state is State.EMPTY:
        return ErrorCode.NONE
    in_transaction = event.transaction is not None
    if _names_member(event):
        error = member_error(group, event.member_id, event.instance_id)
        if error is not ErrorCode.NONE:
            return error
        if event.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        # With the latest generation, the member should request its assignment before it commits.
        waits = group.state is State.COMPLETING_REBALANCE and not in_transaction
        return ErrorCode.REBALANCE_IN_PROGRESS if waits else ErrorCode.NONE
    # Before KIP-447 producers do not name the member.
    return ErrorCode.NONE if in_transaction else ErrorCode.UNKNOWN_MEMBER_ID


def _names_member(event: CommitOffsets) -> bool:
    return event.generation >= 0 or event.member_id != NO_MEMBER_ID or event.instance_id is not None


def _commit_error_of_consumer(group: ConsumerGroup, event: CommitOffsets) -> ErrorCode:
    """Return the error of a commit to a consumer group, NONE if it is valid.

    Source: ConsumerGroup.validateOffsetCommit
    """
    in_transaction = event.transaction is not None
    if event.generation < 0 and not group.members:
        return ErrorCode.NONE
    if in_transaction and not _names_member(event):
        return ErrorCode.NONE  # Before KIP-447 producers do not name the member.
    member = group.members.get(event.member_id)
    speaks_kip_848 = member is not None and member.classic is None
    if speaks_kip_848 and not in_transaction and not event.knows_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    error = _epoch_error(group, event.member_id, event.generation)
    is_unknown = error is ErrorCode.STALE_MEMBER_EPOCH and not event.knows_epochs
    return ErrorCode.ILLEGAL_GENERATION if is_unknown else error


def _epoch_error(group: ConsumerGroup, member_id: str, epoch: int) -> ErrorCode:
    """Return the error of a request with this member id and epoch, NONE if both are current.

    Source: ConsumerGroup.validateMemberEpoch
    """
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.epoch == epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
