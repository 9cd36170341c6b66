"""A group that has members goes from the classic protocol to KIP-848's, and back (online upgrade and downgrade).

A classic group becomes a consumer group when a member of KIP-848 joins it; from then on `classic_members` answers its
classic members. A consumer group whose last member of KIP-848 goes becomes a classic group again. Both are one batch of
records; where it cannot be written, the group is again what it was.

source: GroupMetadataManager.convertToConsumerGroup, convertToClassicGroup, ConsumerGroup.fromClassicGroup,
ClassicGroup.fromConsumerGroup, ConsumerGroupMigrationPolicy.java
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial

from cluster.groups.assignors.specification import Partitions
from cluster.groups.consumer_change import Change, reconciliation
from cluster.groups.desk import Desk, Trigger
from cluster.groups.rebalance import Rebalances
from cluster.groups.state.consumer_group import ConsumerGroup, GroupContents
from cluster.groups.state.consumer_member import ClassicMetadata, ConsumerMember
from cluster.groups.state.consumer_records import encode
from cluster.groups.state.group import CLASSIC, Group, State
from cluster.groups.state.index import GroupIndex
from cluster.groups.state.member import Member
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
"""Values of group.consumer.migration.policy."""

Resume = Callable[[ConsumerGroup, int], None]
"""Starts the deadlines of a consumer group that is the current one again. (group, now_us)"""


class Migration:
    """Of all groups of one coordinator."""

    def __init__(
        self,
        index: GroupIndex,
        desk: Desk,
        rebalances: Rebalances,
        topics: TopicDirectory,
    ) -> None:
        self._index = index
        self._desk = desk
        self._rebalances = rebalances
        self._topics = topics

    # ------------------------------------------------------------------------------------------ to a consumer group

    def upgraded(self, classic: Group) -> Change:
        """What makes a consumer group of it; `take_over` puts it in its place. Members that wait are answered.

        raises: KafkaError     source: validateOnlineUpgrade, convertToConsumerGroup
        """
        self._check_upgrade(classic)
        # The new member raises the group epoch, so that all join again.
        self._rebalances.dismiss(classic)
        fresh = consumer_group_of(classic, self._topics)
        change = Change(fresh, [(group_key(classic.group_id), None)])
        change.append(encode(fresh.group_id, record) for record in fresh.records())
        change.say(self._migrated(fresh, CONSUMER, fresh.members))
        for member in fresh.members.values():
            change.say(reconciliation(self._desk.node, fresh, member, self._topics))
        return change

    def emptied(self, classic: Group) -> Change:
        """Of a classic group without members. source: maybeDeleteEmptyClassicGroup"""
        fresh = ConsumerGroup(classic.group_id)
        fresh.offsets = classic.offsets
        return Change(fresh, [(group_key(classic.group_id), None)])

    def take_over(self, change: Change, classic: Group) -> None:
        """The consumer group is the current one from now on."""
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
        """Whether only classic members are left when these go. source: validateOnlineDowngradeWithFencedMembers"""
        left = len(group.members) - len(leaving)
        classic_left = group.classic_members - sum(member.classic is not None for member in leaving)
        return left > 0 and classic_left == left and self._allows_downgrade(left)

    def may_downgrade_by(self, group: ConsumerGroup, replaced: ConsumerMember | None) -> bool:
        """Whether a classic client takes the place of the last member of KIP-848, which is a static one.

        source: validateOnlineDowngradeWithReplacedMember
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
        """It is a classic group from now on. joining: takes the place of the one that leaves
        rebalances: all are to join again, unless it reads the same topics

        raises: KafkaError     source: convertToClassicGroup
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
            # Differs from Kafka: it forgets the classic group with the requests that wait in it.
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
    """Its members have what the last generation gave them; that is their target, too.

    raises: KafkaError     source: ConsumerGroup.fromClassicGroup
    """
    fresh = ConsumerGroup(classic.group_id)
    fresh.offsets = classic.offsets
    fresh.epoch = fresh.target_epoch = classic.generation
    for old in classic.members.values():
        try:
            member = _consumer_member(classic, old, topics)
        except PeerViolation:
            raise _not_upgraded(classic, "the embedded consumer protocol is malformed.") from None
        if any(fresh.holder(one) is not None for one in member.assigned):
            # As in Kafka (addPartitionEpochs): the member that assigns has given a partition to two.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        fresh.members[member.member_id] = member
        fresh.targets[member.member_id] = member.assigned
    fresh.metadata_hash = topics.hash_of(fresh.subscribed)
    return fresh


def _consumer_member(classic: Group, old: Member, topics: TopicDirectory) -> ConsumerMember:
    assigned: Partitions = ()
    if old.assignment:
        given = read_assignment(old.assignment)
        if given.user_data_bytes:
            raise _not_upgraded(
                classic,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade.",
            )
        assigned = topics.with_ids(given.partitions)
    metadata = dict(old.protocols).get(classic.protocol or "")
    if metadata is None:
        # As in Kafka: there is no generation yet, or this member came since then and does not know its protocol.
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
    """A stable group of its epoch, in which each has its target.

    contents: before the change that ends it     joining: has the target of the one that leaves
    raises: KafkaError     source: ClassicGroup.fromConsumerGroup
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
