"""A coordinator's trace events about its groups: names made fit to be shown, and a sentence for each event."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cluster.groups.inputs import NO_MEMBER_ID, InTransaction
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.group import Group
from cluster.groups.state.member import Member
from cluster.groups.state.offsets import OffsetAndMetadata
from cluster.protocol.consumer_protocol import assigned_partitions
from replica.ids import OFFSETS_TOPIC, LeaderEpoch, TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceEvent
from replica.wording import member_name, shown

ASSIGNMENT_BYTES_MAX = 16_384
"""Some 4,000 partitions. An assignment is what a client has written: what is in a longer one is in no event."""
PARTITIONS_LISTED_MAX = 8
"""In a sentence."""


class GroupEvents:
    """tell: takes each event"""

    def __init__(self, node: str, tell: Callable[[TraceEvent], None]) -> None:
        self._node = node
        self._tell = tell

    def loaded(
        self, partition: int, leader_epoch: LeaderEpoch, groups: Sequence[Group | ConsumerGroup], unreadable: int
    ) -> None:
        name = TopicPartition(OFFSETS_TOPIC, partition)
        offsets = sum(len(group.offsets.committed) for group in groups)
        held_back = sum(len(one) for group in groups for one in group.offsets.transactional.values())
        waiting = f"; {held_back} more wait for the end of their transaction" if held_back else ""
        passed_over = ""
        if unreadable:
            what = (
                "1 record that cannot be read is"
                if unreadable == 1
                else f"{unreadable} records that cannot be read are"
            )
            passed_over = f"; {what} passed over"
        self._tell(
            trace.GroupsLoaded(
                node=self._node,
                topic=name.topic,
                partition=partition,
                leader_epoch=leader_epoch,
                groups=len(groups),
                offsets=offsets,
                reason=f"{self._node} leads {name} and has read it: it coordinates the groups that are kept there, "
                f"{len(groups)} with {offsets} committed offsets{waiting}{passed_over}",
            )
        )

    def unloaded(self, partition: int, groups: Sequence[Group | ConsumerGroup]) -> None:
        name = TopicPartition(OFFSETS_TOPIC, partition)
        self._tell(
            trace.GroupsUnloaded(
                node=self._node,
                topic=name.topic,
                partition=partition,
                groups=len(groups),
                reason=f"{self._node} does not lead {name} any more: the members of the groups that are kept there "
                "have to find their coordinator anew",
            )
        )

    def joined(self, group: Group, member: Member, why: str, client_id: str) -> None:
        """client_id: of the request; a static member that is replaced keeps the one of its first process"""
        self._tell(
            trace.GroupMemberJoined(
                node=self._node,
                group=shown(group.group_id),
                member=shown(member.member_id),
                instance=_shown_or_none(member.instance_id),
                client_id=shown(client_id),
                generation=group.generation,
                reason=f"{self._node} takes {_called(member)} into group {shown(group.group_id)}: {why}",
            )
        )

    def left(self, group: Group, member: Member, why: str) -> None:
        self._tell(
            trace.GroupMemberLeft(
                node=self._node,
                group=shown(group.group_id),
                member=shown(member.member_id),
                instance=_shown_or_none(member.instance_id),
                client_id=shown(member.client_id),
                generation=group.generation,
                reason=f"{self._node} takes {_called(member)} out of group {shown(group.group_id)}: {why}",
            )
        )

    def rebalance_began(self, group: Group, why: str) -> None:
        name = shown(group.group_id)
        what = f"waits for the members of group {name}"
        if not group.is_first_join:
            what = f"has the members of group {name} join again"
        self._tell(
            trace.GroupRebalanceBegan(
                node=self._node,
                group=name,
                generation=group.generation,
                reason=f"{self._node} {what}: {why}",
            )
        )

    def rebalanced(self, group: Group) -> None:
        name, count = shown(group.group_id), len(group.members)
        if group.members:
            assert group.leader_id is not None
            members = "1 member, which assigns" if count == 1 else f"{count} members, of which one assigns"
            reason = f"generation {group.generation} of group {name} has {members} the partitions ({group.protocol})"
        else:
            reason = f"generation {group.generation} of group {name} is empty: all its members are gone"
        self._tell(
            trace.GroupRebalanced(
                node=self._node,
                group=name,
                generation=group.generation,
                members=_ids(group),
                member=_shown_or_none(group.leader_id),
                protocol=_shown_or_none(group.protocol),
                reason=reason,
            )
        )

    def assigned(self, group: Group) -> None:
        name = shown(group.group_id)
        self._tell(
            trace.GroupAssigned(
                node=self._node,
                group=name,
                generation=group.generation,
                members=_ids(group),
                reason=f"the assignment of generation {group.generation} of group {name} is on all in-sync replicas: "
                "its members get their partitions",
            )
        )
        if group.is_consumer_group:
            for member in group.members.values():
                self._member_assigned(group, member)

    def _member_assigned(self, group: Group, member: Member) -> None:
        found = assigned_partitions(member.assignment) if len(member.assignment) <= ASSIGNMENT_BYTES_MAX else None
        if found is None:
            return
        partitions = tuple(f"{shown(one.topic)}-{one.partition}" for one in found)
        self._tell(
            trace.GroupMemberAssigned(
                node=self._node,
                group=shown(group.group_id),
                member=shown(member.member_id),
                client_id=shown(member.client_id),
                generation=group.generation,
                partitions=partitions,
                reason=f"{_called(member)} of group {shown(group.group_id)} is to read "
                f"{_listed(partitions)} in generation {group.generation}",
            )
        )

    def committed(
        self,
        group: Group | ConsumerGroup,
        member_id: str,
        generation: int,
        name: TopicPartition,
        value: OffsetAndMetadata,
    ) -> None:
        who = _member_or_none(member_id)
        self._tell(
            trace.OffsetCommitted(
                node=self._node,
                group=shown(group.group_id),
                member=who,
                generation=generation,
                topic=name.topic,
                partition=name.partition,
                offset=value.offset,
                reason=f"group {shown(group.group_id)} goes on from {name} at {value.offset}: the commit of "
                f"{_by(member_id, group)} is on all in-sync replicas",
            )
        )

    def held_back(
        self,
        group: Group | ConsumerGroup,
        member_id: str,
        generation: int,
        transaction: InTransaction,
        name: TopicPartition,
        value: OffsetAndMetadata,
    ) -> None:
        who = _member_or_none(member_id)
        self._tell(
            trace.OffsetHeldBack(
                node=self._node,
                group=shown(group.group_id),
                member=who,
                generation=generation,
                producer_id=transaction.producer_id,
                topic=name.topic,
                partition=name.partition,
                offset=value.offset,
                reason=f"the commit of {name} at {value.offset} for group {shown(group.group_id)} is on all in-sync "
                f"replicas, and waits for the end of the transaction of producer {transaction.producer_id}",
            )
        )

    def committed_by_transaction(
        self, group: Group | ConsumerGroup, producer_id: int, name: TopicPartition, value: OffsetAndMetadata
    ) -> None:
        self._tell(
            trace.OffsetCommitted(
                node=self._node,
                group=shown(group.group_id),
                member=None,
                generation=group.epoch if isinstance(group, ConsumerGroup) else group.generation,
                topic=name.topic,
                partition=name.partition,
                offset=value.offset,
                reason=f"group {shown(group.group_id)} goes on from {name} at {value.offset}: the transaction of "
                f"producer {producer_id} is committed",
            )
        )

    def aborted_with_transaction(
        self, group: Group | ConsumerGroup, producer_id: int, name: TopicPartition, value: OffsetAndMetadata
    ) -> None:
        self._tell(
            trace.HeldBackOffsetDropped(
                node=self._node,
                group=shown(group.group_id),
                producer_id=producer_id,
                topic=name.topic,
                partition=name.partition,
                offset=value.offset,
                reason=f"the commit of {name} at {value.offset} for group {shown(group.group_id)} is dropped: the "
                f"transaction of producer {producer_id} is aborted",
            )
        )

    def removed(self, group: Group | ConsumerGroup, why: str) -> None:
        self._tell(
            trace.GroupRemoved(
                node=self._node,
                group=shown(group.group_id),
                generation=group.epoch if isinstance(group, ConsumerGroup) else group.generation,
                reason=f"group {shown(group.group_id)} is gone: {why}",
            )
        )

    def offset_removed(self, group: Group | ConsumerGroup, name: TopicPartition, why: str) -> None:
        self._tell(
            trace.CommittedOffsetRemoved(
                node=self._node,
                group=shown(group.group_id),
                topic=name.topic,
                partition=name.partition,
                reason=f"group {shown(group.group_id)} has no committed offset for {name} any more: {why}",
            )
        )


def _ids(group: Group) -> tuple[str, ...]:
    return tuple(shown(member_id) for member_id in group.members)


def _shown_or_none(text: str | None) -> str | None:
    return None if text is None else shown(text)


def _member_or_none(member_id: str) -> str | None:
    return None if member_id == NO_MEMBER_ID else shown(member_id)


def _by(member_id: str, group: Group | ConsumerGroup | None = None) -> str:
    """Who commits, for people. group: if it is known"""
    member = None if group is None else group.members.get(member_id)
    if member_id == NO_MEMBER_ID:
        return "a client outside the group"
    return member_name(member_id, "" if member is None else member.client_id)


def _called(member: Member) -> str:
    kind = "member" if member.instance_id is None else f"static member {shown(member.instance_id)},"
    return f"{kind} {member_name(member.member_id, member.client_id)}"


def _listed(partitions: Sequence[str]) -> str:
    more = len(partitions) - PARTITIONS_LISTED_MAX
    listed = ", ".join(partitions[:PARTITIONS_LISTED_MAX]) or "nothing"
    return f"{listed} and {more} more" if more > 0 else listed
