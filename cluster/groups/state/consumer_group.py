"""A consumer group of KIP-848: its epochs, its members and what each is to have.

The group epoch grows with members and topics; the target assignment is of one group epoch; each member comes to it by
itself. What changes a group is written as records, and `replay` is the one way in which a record changes it: after an
append as after an election. source: ConsumerGroup.java, ModernGroup.java
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from cluster.clocks import Timer
from cluster.groups.assignors.specification import Partitions, TopicIdPartition
from cluster.groups.state.consumer_member import ConsumerMember
from cluster.groups.state.consumer_records import (
    NO_HASH,
    ConsumerRecord,
    CurrentAssignmentRecord,
    GroupEpochRecord,
    GroupTopicsRecord,
    MemberRecord,
    PatternRecord,
    ResolvedPattern,
    TargetEpochRecord,
    TargetRecord,
    current_record,
)
from cluster.groups.state.member import Protocols
from cluster.groups.state.offsets import GroupOffsets
from cluster.protocol.consumer_protocol import CONSUMER

NO_EPOCH = -1


class ConsumerGroupState(Enum):
    """Kafka's names, as ConsumerGroupDescribe and ListGroups return them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class GroupContents(NamedTuple):
    """What a failed write takes back."""

    epoch: int
    metadata_hash: int
    target_epoch: int
    members: dict[str, ConsumerMember]
    targets: dict[str, Partitions]
    resolved: dict[str, ResolvedPattern]
    has_topics_record: bool


class ConsumerGroup:
    """members, targets: by member id, in order of arrival
    metadata_hash: of the topics that it reads, as of its epoch     resolved: by pattern, the topics that it describes
    has_topics_record: its log has one of Kafka 4.0, which is to go

    sessions, rebalances: when a member is given up that is not heard of, or does not give up its partitions
    joins, syncs: when a classic member is given up that does not join again, or does not ask for its assignment
    changes: writes so far     taken_back: the last of them that a failed write has taken back
    resolving: when its patterns are looked up again, if they are about to be
    undo: by the number of a write that is under way, what else is taken back if it fails
    """

    TYPE = CONSUMER

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = NO_HASH
        self.target_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.resolved: dict[str, ResolvedPattern] = {}
        self.has_topics_record = False
        self.offsets = GroupOffsets()
        self.sessions: dict[str, Timer] = {}
        self.rebalances: dict[str, Timer] = {}
        self.joins: dict[str, Timer] = {}
        self.syncs: dict[str, Timer] = {}
        self.resolving: Timer | None = None
        self.changes = 0
        self.taken_back = 0
        self.undo: dict[int, Callable[[int], None]] = {}

    @property
    def generation(self) -> int:
        """The epoch, which members of the classic protocol know as the generation."""
        return self.epoch

    @property
    def state(self) -> ConsumerGroupState:
        """source: maybeUpdateGroupState"""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def subscribed(self) -> tuple[str, ...]:
        """The topics that its members name, whether they exist or not, and those that patterns describe, in ascending
        order. source: ModernGroup.subscribedTopicNames
        """
        named = {topic for member in self.members.values() for topic in member.topics}
        return tuple(sorted(named.union(*(one.topics for one in self.resolved.values()))))

    @property
    def patterns(self) -> tuple[str, ...]:
        return tuple(sorted({member.topic_regex for member in self.members.values() if member.topic_regex}))

    def topics_of(self, member: ConsumerMember) -> tuple[str, ...]:
        """Those it names and those that its pattern describes, in ascending order."""
        resolved = self.resolved.get(member.topic_regex or "")
        return member.topics if resolved is None else tuple(sorted({*member.topics, *resolved.topics}))

    def reads(self, topic: str) -> bool:
        """source: isSubscribedToTopic"""
        return topic in self.subscribed

    def holder(self, partition: TopicIdPartition) -> str | None:
        """The member that has it, or has still to give it up. source: currentPartitionEpoch"""
        for member in self.members.values():
            if partition in member.assigned or partition in member.pending_revocation:
                return member.member_id
        return None

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        return next((one for one in self.members.values() if one.instance_id == instance_id), None)

    @property
    def classic_members(self) -> int:
        """How many of its members speak the classic protocol. source: numClassicProtocolMembers"""
        return sum(member.classic is not None for member in self.members.values())

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a classic client with these protocols can be a member. source: supportsClassicProtocols"""
        if protocol_type != CONSUMER:
            return False
        known = [[name for name, _ in one.classic.protocols] for one in self.members.values() if one.classic]
        return any(all(name in names for names in known) for name, _ in protocols)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Another member has still something that this one is to have. source: waitingOnUnreleasedPartition"""
        wanted = (one for one in self.targets.get(member.member_id, ()) if one not in member.assigned)
        return any(self.holder(one) is not None for one in wanted)

    def preferred_assignor(self) -> str | None:
        """That most members ask for; None: none asks. source: computePreferredServerAssignor"""
        votes: dict[str, int] = {}
        for member in self.members.values():
            if member.assignor is not None:
                votes[member.assignor] = votes.get(member.assignor, 0) + 1
        return max(votes, key=lambda name: votes[name]) if votes else None

    # -------------------------------------------------------------------------------------------------------- records

    def replay(self, record: ConsumerRecord) -> None:
        match record:
            case GroupEpochRecord(epoch, metadata_hash):
                self.epoch, self.metadata_hash = NO_EPOCH if epoch is None else epoch, metadata_hash
            case GroupTopicsRecord(topics):
                self.has_topics_record = topics is not None
            case MemberRecord(member_id, subscription):
                if subscription is None:
                    self.members.pop(member_id, None)
                else:
                    self._subscribe(member_id, subscription)
            case TargetEpochRecord(epoch):
                self.target_epoch = NO_EPOCH if epoch is None else epoch
            case TargetRecord(member_id, partitions):
                if partitions is None:
                    self.targets.pop(member_id, None)
                else:
                    self.targets[member_id] = partitions
            case CurrentAssignmentRecord(member_id, current):
                if current is None:
                    self._forget_assignment(member_id)
                else:
                    known = self.members.get(member_id, ConsumerMember(member_id=member_id))
                    self.members[member_id] = replace(known, **current._asdict())
            case PatternRecord(pattern, resolved):
                if resolved is None:
                    self.resolved.pop(pattern, None)
                else:
                    self.resolved[pattern] = resolved

    def _subscribe(self, member_id: str, said: ConsumerMember) -> None:
        known = self.members.get(member_id, said)
        self.members[member_id] = replace(
            said,
            epoch=known.epoch,
            previous_epoch=known.previous_epoch,
            state=known.state,
            assigned=known.assigned,
            pending_revocation=known.pending_revocation,
        )

    def _forget_assignment(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is not None:
            fresh = ConsumerMember(member_id=member_id)
            self.members[member_id] = replace(
                member, epoch=-1, previous_epoch=-1, state=fresh.state, assigned=(), pending_revocation=()
            )

    def records(self) -> Iterator[ConsumerRecord]:
        """A group that was another one before. source: createConsumerGroupRecords"""
        for member in self.members.values():
            yield MemberRecord(member.member_id, member)
        yield GroupEpochRecord(self.epoch, self.metadata_hash)
        for member_id, target in self.targets.items():
            yield TargetRecord(member_id, target)
        yield TargetEpochRecord(self.target_epoch)
        for member in self.members.values():
            yield current_record(member)

    def tombstones(self) -> Iterator[ConsumerRecord]:
        """That the group is gone. source: createGroupTombstoneRecords"""
        for member_id in self.members:
            yield CurrentAssignmentRecord(member_id, None)
        for member_id in self.members:
            yield TargetRecord(member_id, None)
        yield TargetEpochRecord(None)
        for member_id in self.members:
            yield MemberRecord(member_id, None)
        for pattern in self.resolved:
            yield PatternRecord(pattern, None)
        yield GroupTopicsRecord(None)
        yield GroupEpochRecord(None)

    def kept(self) -> GroupContents:
        return GroupContents(
            self.epoch,
            self.metadata_hash,
            self.target_epoch,
            dict(self.members),
            dict(self.targets),
            dict(self.resolved),
            self.has_topics_record,
        )

    def restore(self, kept: GroupContents) -> None:
        self.epoch, self.metadata_hash, self.target_epoch = kept.epoch, kept.metadata_hash, kept.target_epoch
        self.members, self.targets, self.resolved = kept.members, kept.targets, kept.resolved
        self.has_topics_record = kept.has_topics_record

    def stop_timers(self) -> None:
        for timers in (self.sessions, self.rebalances, self.joins, self.syncs):
            for timer in timers.values():
                timer.cancel()
            timers.clear()
        if self.resolving is not None:
            self.resolving.cancel()
            self.resolving = None

    def stop_timers_of(self, member_id: str) -> None:
        """source: cancelTimers"""
        for timers in (self.sessions, self.rebalances, self.joins, self.syncs):
            stop(timers, member_id)


def stop(timers: dict[str, Timer], member_id: str) -> None:
    timer = timers.pop(member_id, None)
    if timer is not None:
        timer.cancel()
