"""A consumer group of KIP-848: its epochs, its members and their target assignments.

1. The group epoch grows with changes of members and topics.
2. A target assignment is computed for one group epoch, and each member moves to its target independently.
3. Every change is a record. Only `replay` applies records to a group, both when they are written and when the group is
   loaded.

Source: ConsumerGroup.java, ModernGroup.java
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from typing import ClassVar, NamedTuple

from cluster.clocks import Timer
from cluster.groups.state.assignors import Partitions, TopicIdPartition
from cluster.groups.state.consumer_member import ConsumerMember
from cluster.groups.state.consumer_records import (
    NEVER_ASSIGNED,
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
    encode,
)
from cluster.groups.state.group import Protocols
from cluster.groups.state.offsets import GroupOffsets
from cluster.protocol.consumer_protocol import CONSUMER

NO_EPOCH = -1
FIRST_EPOCH = 1
"""The epoch of a new group and of its target assignment. Up to 4.2 consumer and share groups begin at 0."""


class ConsumerGroupState(Enum):
    """The state of a group, with Kafka's names as in ConsumerGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class GroupContents(NamedTuple):
    """The contents of a group before a change, to restore if the write fails."""

    epoch: int
    metadata_hash: int
    target_epoch: int
    assigned_ms: int
    members: dict[str, ConsumerMember]
    targets: dict[str, Partitions]
    resolved: dict[str, ResolvedPattern]
    has_topics_record: bool


class ConsumerGroup:
    """One consumer group.

    Attributes:
        members: members by id, in the order in which they joined.
        targets: target assignments by member id.
        metadata_hash: hash of the topics that the group reads, computed for the group epoch.
        assigned_ms: time of the last target assignment if a minimum interval is set (KIP-1263), else NEVER_ASSIGNED.
        resolved: topics by pattern.
        has_topics_record: True if the log has a topics record of Kafka 4.0 for the group, which has to be deleted.
        sessions: timers by member id; each removes a member that sends no heartbeats.
        rebalances: timers by member id; each removes a member that does not revoke its partitions.
        joins: timers by member id; each removes a classic member that does not join again.
        syncs: timers by member id; each removes a classic member that does not send SyncGroup.
        changes: number of writes so far.
        taken_back: number of the last write that was rolled back after a failed write.
        resolving: timer of the next resolution of patterns.
        undo: functions to call if a write fails, by the number of the write.
    """

    TYPE = CONSUMER
    HAS_TASKS = False
    """True for a streams group, whose members have tasks instead of partitions."""
    MEMBER: ClassVar[type[ConsumerMember]] = ConsumerMember

    def __init__(self, group_id: str, first_epoch: int = FIRST_EPOCH) -> None:
        self.group_id = group_id
        self.epoch = self.target_epoch = first_epoch
        self.metadata_hash = NO_HASH
        self.assigned_ms = NEVER_ASSIGNED
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
        """The group epoch, which is the generation for classic members."""
        return self.epoch

    @property
    def state(self) -> ConsumerGroupState:
        """The state of the group. Source: maybeUpdateGroupState"""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def subscribed(self) -> tuple[str, ...]:
        """The topics of all members' subscriptions, by name or pattern, existing or not, in ascending order.

        Source: ModernGroup.subscribedTopicNames
        """
        named = {topic for member in self.members.values() for topic in member.topics}
        return tuple(sorted(named.union(*(item.topics for item in self.resolved.values()))))

    @property
    def patterns(self) -> tuple[str, ...]:
        return tuple(sorted({member.topic_regex for member in self.members.values() if member.topic_regex}))

    def topics_of(self, member: ConsumerMember) -> tuple[str, ...]:
        """Return the topics that a member subscribes to by name and by pattern, in ascending order."""
        resolved = self.resolved.get(member.topic_regex or "")
        return member.topics if resolved is None else tuple(sorted({*member.topics, *resolved.topics}))

    def reads(self, topic: str) -> bool:
        """Return True if a member subscribes to the topic. Source: isSubscribedToTopic"""
        return topic in self.subscribed

    def holder(self, partition: TopicIdPartition) -> str | None:
        """Return the id of the member that has the partition or has yet to revoke it, None if there is none.

        Source: currentPartitionEpoch
        """
        for member in self.members.values():
            if partition in member.assigned or partition in member.pending_revocation:
                return member.member_id
        return None

    def is_free(self, member: ConsumerMember, partition: TopicIdPartition) -> bool:
        """Return True if no member has the partition, and `member` may get it."""
        return self.holder(partition) is None

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    @property
    def classic_members(self) -> int:
        """The number of members that use the classic protocol. Source: numClassicProtocolMembers"""
        return sum(member.classic is not None for member in self.members.values())

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return True if a classic client with these protocols can be a member. Source: supportsClassicProtocols"""
        if protocol_type != CONSUMER:
            return False
        known = [[name for name, _ in member.classic.protocols] for member in self.members.values() if member.classic]
        return any(all(name in names for names in known) for name, _ in protocols)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Return True if another member still has a partition of this member's target.

        Source: waitingOnUnreleasedPartition
        """
        wanted = (target for target in self.targets.get(member.member_id, ()) if target not in member.assigned)
        return any(self.holder(item) is not None for item in wanted)

    def preferred_assignor(self) -> str | None:
        """Return the assignor that most members prefer, None if no member names one.

        Source: computePreferredServerAssignor
        """
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
            case TargetEpochRecord(epoch, assigned_ms):
                self.target_epoch, self.assigned_ms = NO_EPOCH if epoch is None else epoch, assigned_ms
            case TargetRecord(member_id, partitions):
                if partitions is None:
                    self.targets.pop(member_id, None)
                else:
                    self.targets[member_id] = partitions
            case CurrentAssignmentRecord(member_id, current):
                if current is None:
                    self._forget_assignment(member_id)
                else:
                    known = self.members.get(member_id, self.MEMBER(member_id=member_id))
                    self.members[member_id] = replace(known, **current._asdict())
            case PatternRecord(pattern, resolved):
                if resolved is None:
                    self.resolved.pop(pattern, None)
                else:
                    self.resolved[pattern] = resolved

    def encoded(self, record: ConsumerRecord) -> tuple[bytes, bytes | None]:
        """Encode a record of this group as key and value."""
        return encode(self.group_id, record)

    def _subscribe(self, member_id: str, said: ConsumerMember) -> None:
        known = self.members.get(member_id, said)
        self.members[member_id] = replace(
            said,
            epoch=known.epoch,
            previous_epoch=known.previous_epoch,
            state=known.state,
            assigned=known.assigned,
            pending_revocation=known.pending_revocation,
            since=known.since,
        )

    def _forget_assignment(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is not None:
            fresh = ConsumerMember(member_id=member_id)
            self.members[member_id] = replace(
                member, epoch=-1, previous_epoch=-1, state=fresh.state, assigned=(), pending_revocation=(), since={}
            )

    def records(self) -> Iterator[ConsumerRecord]:
        """Yield all records of the group, to write after a conversion from a classic group.

        Source: createConsumerGroupRecords
        """
        for member in self.members.values():
            yield MemberRecord(member.member_id, member)
        yield GroupEpochRecord(self.epoch, self.metadata_hash)
        for member_id, target in self.targets.items():
            yield TargetRecord(member_id, target)
        yield TargetEpochRecord(self.target_epoch, self.assigned_ms)
        for member in self.members.values():
            yield current_record(member)

    def tombstones(self) -> Iterator[ConsumerRecord]:
        """Yield the tombstones that delete the group. Source: createGroupTombstoneRecords"""
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
            self.assigned_ms,
            dict(self.members),
            dict(self.targets),
            dict(self.resolved),
            self.has_topics_record,
        )

    def restore(self, kept: GroupContents) -> None:
        self.epoch, self.metadata_hash, self.target_epoch = kept.epoch, kept.metadata_hash, kept.target_epoch
        self.assigned_ms = kept.assigned_ms
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
        """Cancel the timers of a member. Source: cancelTimers"""
        for timers in (self.sessions, self.rebalances, self.joins, self.syncs):
            stop(timers, member_id)


def stop(timers: dict[str, Timer], member_id: str) -> None:
    timer = timers.pop(member_id, None)
    if timer is not None:
        timer.cancel()
