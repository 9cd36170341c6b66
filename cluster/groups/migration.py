"""Online migration of groups from the classic protocol to KIP-848's and back.

A classic group becomes a consumer group when a member with KIP-848's protocol joins it; from then on `classic_members`
answers its classic members. A consumer group becomes a classic group when its last member with KIP-848's protocol
leaves. Each migration is one batch of records; if it cannot be written, the group is restored.

Source: GroupMetadataManager.convertToConsumerGroup, convertToClassicGroup, ConsumerGroup.fromClassicGroup,
ClassicGroup.fromConsumerGroup, ConsumerGroupMigrationPolicy.java
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial

from cluster.groups.consumer_change import Change, reconciliation
from cluster.groups.desk import GroupDesk, Trigger
from cluster.groups.rebalance import Rebalances
from cluster.groups.state.assignors import Partitions
from cluster.groups.state.consumer_group import ConsumerGroup, GroupContents
from cluster.groups.state.consumer_member import ClassicMetadata, ConsumerMember
from cluster.groups.state.consumer_records import encode
from cluster.groups.state.group import CLASSIC, Group, Member, State
from cluster.groups.state.index import GroupIndex
from cluster.groups.state.records import group_key, group_value
from cluster.groups.topic_directory import TopicDirectory
from cluster.protocol.consumer_protocol import (
    CONSUMER,
    read_assignment,
    read_subscription,
    read_version,
    write_assignment,
)
from replica.causes import RebalanceCause
from replica.errors import ErrorCode, KafkaError, PeerViolation
from replica.trace.events import GroupMigrated
from replica.wording import shown

UPGRADES, DOWNGRADES = ("bidirectional", "upgrade"), ("bidirectional", "downgrade")
"""Values of group.consumer.migration.policy that allow upgrades or downgrades."""

Resume = Callable[[ConsumerGroup, int], None]
"""A function that starts the deadlines of a restored consumer group: (group, now_us)."""


class Migration:
    """The migrations in all groups of one coordinator."""

    def __init__(
        self,
        index: GroupIndex,
        desk: GroupDesk,
        rebalances: Rebalances,
        topics: TopicDirectory,
    ) -> None:
        self._index = index
        self._desk = desk
        self._rebalances = rebalances
        self._topics = topics

    # ------------------------------------------------------------------------------------------ to a consumer group

    def upgraded(self, classic: Group) -> Change:
        """Return a change that converts a classic group to a consumer group, and make its waiting members join again.

        The caller then calls `take_over`. Source: validateOnlineUpgrade, convertToConsumerGroup

        Raises:
            KafkaError: if the group cannot be converted.
        """
        self._check_upgrade(classic)
        # The new member raises the group epoch, so all members have to join again.
        self._rebalances.dismiss(classic)
        fresh = consumer_group_of(classic, self._topics)
        change = Change(fresh, [(group_key(classic.group_id), None)])
        change.append(encode(fresh.group_id, record) for record in fresh.records())
        change.say(self._migrated(fresh, CONSUMER, fresh.members))
        for member in fresh.members.values():
            change.say(reconciliation(self._desk.node, fresh, member, self._topics))
        return change

    def emptied(self, classic: Group, fresh: ConsumerGroup) -> Change:
        """Return a change that replaces a classic group without members by `fresh`, which gets its offsets.

        Source: maybeDeleteEmptyClassicGroup
        """
        fresh.offsets = classic.offsets
        return Change(fresh, [(group_key(classic.group_id), None)])

    def take_over(self, change: Change, classic: Group) -> None:
        """Replace the classic group by the consumer group of the change; a failed write restores it."""
        fresh = change.group
        self._rebalances.rest(classic)
        del self._index.groups[classic.group_id]
        self._index.consumer_groups[classic.group_id] = fresh
        change.take_back_with(partial(self._take_back_upgrade, fresh, classic))

    def _take_back_upgrade(self, fresh: ConsumerGroup, classic: Group, now_us: int) -> None:
        if self._index.consumer_groups.get(classic.group_id) is fresh:
            fresh.stop_timers()
            del self._index.consumer_groups[classic.group_id]
            self._index.groups[classic.group_id] = classic
            self._rebalances.resume(classic, now_us)

    def _check_upgrade(self, classic: Group) -> None:
        why = ""
        if self._desk.settings.consumer_migration_policy not in UPGRADES:
            why = "online upgrade is disabled"
        elif not classic.is_consumer_group:
            why = "the group does not use the consumer embedded protocol"
        elif len(classic.members) > self._desk.settings.consumer_max_size:
            why = "the group size exceeds the consumer group maximum size"
        if why:
            raise _not_upgraded(classic, f"{why}.")

    # ------------------------------------------------------------------------------------------- to a classic group

    def may_downgrade(self, group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> bool:
        """Return True if only classic members remain after these leave, and the group may be downgraded.

        Source: validateOnlineDowngradeWithFencedMembers
        """
        left = len(group.members) - len(leaving)
        classic_left = group.classic_members - sum(member.classic is not None for member in leaving)
        return left > 0 and classic_left == left and self._allows_downgrade(left)

    def may_downgrade_by(self, group: ConsumerGroup, replaced: ConsumerMember | None) -> bool:
        """Return True if a classic client replaces the last KIP-848 member, and the group may be downgraded.

        Source: validateOnlineDowngradeWithReplacedMember
        """
        if replaced is None or replaced.classic is not None:
            return False
        return group.classic_members == len(group.members) - 1 and self._allows_downgrade(len(group.members))

    def _allows_downgrade(self, members: int) -> bool:
        settings = self._desk.settings
        return settings.consumer_migration_policy in DOWNGRADES and members <= settings.max_size

    def downgrade(
        self,
        change: Change,
        leaving: Collection[str],
        joining: ConsumerMember | None,
        resume: Resume,
        now_us: int,
        *,
        rebalances: bool = True,
    ) -> None:
        """Convert a consumer group to a classic group. Source: convertToClassicGroup

        Args:
            leaving: ids of the members that leave.
            joining: classic member that replaces the leaving one, None if there is none.
            resume: called if the write fails and the consumer group is restored.
            rebalances: True if all members have to join again; False if the replacing member reads the same topics.

        Raises:
            KafkaError: if the group cannot be converted.
        """
        group = change.group
        classic = classic_group_of(group, change.kept, leaving, joining, self._topics, self._desk.wall_ms(now_us))
        assignments = {member.member_id: member.assignment for member in classic.members.values()}
        change.append(encode(group.group_id, record) for record in group.tombstones())
        version = self._desk.settings.versions.group
        change.append([(group_key(group.group_id), group_value(classic, assignments, version))])
        del self._index.consumer_groups[group.group_id]
        self._index.groups[group.group_id] = classic
        group.stop_timers()
        change.take_back_with(partial(self._take_back_downgrade, group, classic, resume))
        change.say(self._migrated(group, CLASSIC, classic.members))
        self._rebalances.begin(classic, now_us)
        if rebalances:
            self._rebalances.prepare(classic, Trigger(RebalanceCause.DOWNGRADED), now_us)

    def _migrated(self, group: ConsumerGroup, group_type: str, members: Iterable[str]) -> GroupMigrated:
        return GroupMigrated(
            node=self._desk.node,
            group=shown(group.group_id),
            generation=group.epoch,
            members=tuple(map(shown, members)),
            protocol=group_type,
        )

    def _take_back_downgrade(self, group: ConsumerGroup, classic: Group, resume: Resume, now_us: int) -> None:
        if self._index.groups.get(group.group_id) is classic:
            # Differs from Kafka: it drops the classic group without answering its waiting requests.
            self._rebalances.unload(classic, now_us)
            del self._index.groups[group.group_id]
            self._index.consumer_groups[group.group_id] = group
            resume(group, now_us)


def _not_upgraded(classic: Group, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {shown(classic.group_id)} to consumer group because {why}",
    )


def consumer_group_of(classic: Group, topics: TopicDirectory) -> ConsumerGroup:
    """Return a consumer group with the members of a classic group; their partitions are also their targets.

    Raises:
        KafkaError: if the assignments cannot be read.

    Source: ConsumerGroup.fromClassicGroup
    """
    fresh = ConsumerGroup(classic.group_id)
    fresh.offsets = classic.offsets
    fresh.epoch = fresh.target_epoch = classic.generation
    for old in classic.members.values():
        try:
            member = _consumer_member(classic, old, topics)
        except PeerViolation:
            raise _not_upgraded(classic, "the embedded consumer protocol is malformed.") from None
        if any(fresh.holder(item) is not None for item in member.assigned):
            # As in Kafka (addPartitionEpochs): the leader has assigned a partition to two members.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        fresh.members[member.member_id] = member
        fresh.targets[member.member_id] = member.assigned
    fresh.metadata_hash = topics.hash_of(fresh.subscribed)
    return fresh


def _consumer_member(classic: Group, old: Member, topics: TopicDirectory) -> ConsumerMember:
    assigned: Partitions = ()
    if old.assignment:
        value = read_assignment(old.assignment)
        if value.user_data_bytes:
            raise _not_upgraded(
                classic,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade.",
            )
        assigned = topics.with_ids(value.partitions)
    metadata = dict(old.protocols).get(classic.protocol or "")
    if metadata is None:
        # As in Kafka: there is no generation yet, or this member joined later and does not support its protocol.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    says = read_subscription(metadata)
    return ConsumerMember(
        member_id=old.member_id,
        instance_id=old.instance_id,
        rack_id=says.rack_id or None,
        client_id=old.client_id,
        client_host=old.client_host,
        rebalance_timeout_ms=old.rebalance_timeout_ms,
        topics=tuple(sorted(set(says.topics))),
        epoch=classic.generation,
        previous_epoch=classic.generation,
        assigned=assigned,
        classic=ClassicMetadata(old.session_timeout_ms, old.protocols),
    )


def classic_group_of(
    group: ConsumerGroup,
    contents: GroupContents,
    leaving: Collection[str],
    joining: ConsumerMember | None,
    topics: TopicDirectory,
    now_ms: int,
) -> Group:
    """Return a stable classic group; its generation and assignments are the consumer group's epoch and targets.

    Args:
        contents: contents of the consumer group before the change that ends it.
        leaving: ids of the members that leave.
        joining: member that gets the target of the leaving one, None if there is none.

    Raises:
        KafkaError: if the group cannot be converted.

    Source: ClassicGroup.fromConsumerGroup
    """
    classic = Group(group.group_id, State.STABLE, now_ms=now_ms)
    classic.offsets = group.offsets
    classic.generation = contents.epoch
    stays = {name: member for name, member in contents.members.items() if name not in leaving}
    targets = {name: contents.targets.get(name, ()) for name in stays}
    if joining is not None:
        stays[joining.member_id] = joining
        targets[joining.member_id] = next(contents.targets.get(name, ()) for name in leaving)
    for member in stays.values():
        assert member.classic is not None
        classic.add(
            Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocol_type=CONSUMER,
                protocols=member.classic.protocols,
            )
        )
    classic.protocol = classic.select_protocol()
    classic.restore_subscribed()
    for name, known in classic.members.items():
        try:
            version = read_version(known.metadata(classic.protocol))
        except PeerViolation as error:
            group_id = shown(group.group_id)
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot downgrade the classic group {group_id}: {error}."
            ) from None
        known.assignment = write_assignment(topics.with_names(targets[name]), version)
    return classic
