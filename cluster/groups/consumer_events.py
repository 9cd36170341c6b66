"""A coordinator's trace events about KIP-848's groups. Their generation is an epoch: the group's, or one member's.

They are emitted once what they say is on all in-sync replicas: a change that cannot be written has not happened.
"""

from __future__ import annotations

from cluster.groups.assignors.specification import Partitions
from cluster.groups.state.consumer_group import ConsumerGroup
from cluster.groups.state.consumer_member import ConsumerMember, MemberState
from cluster.groups.topic_directory import TopicDirectory
from cluster.protocol.consumer_protocol import CONSUMER
from replica.trace import events as trace
from replica.trace.events import TraceEvent
from replica.wording import member_name, shown


class ConsumerGroupEvents:
    def __init__(self, node: str, topics: TopicDirectory) -> None:
        self._node = node
        self._topics = topics

    def joined(
        self, group: ConsumerGroup, member: ConsumerMember, replaced: ConsumerMember | None = None
    ) -> TraceEvent:
        """replaced: the holder of its group.instance.id until now"""
        place = (
            ""
            if replaced is None
            else f", and it takes the place of {member_name(replaced.member_id, replaced.client_id)}"
        )
        name = shown(group.group_id)
        request = "first heartbeat" if member.classic is None else "JoinGroup"
        return trace.GroupMemberJoined(
            node=self._node,
            group=name,
            member=shown(member.member_id),
            instance=None if member.instance_id is None else shown(member.instance_id),
            client_id=shown(member.client_id),
            generation=group.epoch,
            reason=f"{self._node} takes {_called(member)} into consumer group {name}: its {request} "
            f"subscribes to {_wishes(member)}{place}",
        )

    def left(self, group: ConsumerGroup, member: ConsumerMember, why: str) -> TraceEvent:
        name = shown(group.group_id)
        return trace.GroupMemberLeft(
            node=self._node,
            group=name,
            member=shown(member.member_id),
            instance=None if member.instance_id is None else shown(member.instance_id),
            client_id=shown(member.client_id),
            generation=group.epoch,
            reason=f"{self._node} takes {_called(member)} out of consumer group {name}: {why}",
        )

    def migrated(self, group: ConsumerGroup, kind: str, why: str, members: tuple[str, ...] | None = None) -> TraceEvent:
        """kind: what it is from now on     members: those that go on, where not all do"""
        going_on = tuple(group.members) if members is None else members
        before, after = (
            ("a classic group", "a consumer group") if kind == CONSUMER else ("a consumer group", "a classic group")
        )
        return trace.GroupMigrated(
            node=self._node,
            group=shown(group.group_id),
            generation=group.epoch,
            members=tuple(shown(member_id) for member_id in going_on),
            protocol=kind,
            reason=f"group {shown(group.group_id)} was {before} and is {after} now, from epoch {group.epoch} on: {why}",
        )

    def assigned(self, group: ConsumerGroup, assignor: str) -> TraceEvent:
        """The group has a new target."""
        name, count = shown(group.group_id), len(group.members)
        members = "its member" if count == 1 else f"its {count} members"
        return trace.GroupAssigned(
            node=self._node,
            group=name,
            generation=group.target_epoch,
            members=tuple(shown(member_id) for member_id in group.members),
            reason=f"epoch {group.target_epoch} of consumer group {name} has a target for {members} ({assignor}): "
            "only what moves is given up first",
        )

    def moved(self, group: ConsumerGroup, member: ConsumerMember) -> TraceEvent:
        """A member has come a step nearer to its target."""
        partitions, revoking = self._names(member.assigned), self._names(member.pending_revocation)
        match member.state:
            case MemberState.UNREVOKED_PARTITIONS:
                what = f"has to give up {', '.join(revoking)} first"
            case MemberState.UNRELEASED_PARTITIONS:
                what = "waits for partitions that other members have not given up yet"
            case _:
                what = "has its target"
        return trace.GroupMemberReconciled(
            node=self._node,
            group=shown(group.group_id),
            member=shown(member.member_id),
            client_id=shown(member.client_id),
            generation=member.epoch,
            partitions=partitions,
            revoking=revoking,
            reason=f"{_called(member)} of consumer group {shown(group.group_id)} {what}; it is to read "
            f"{', '.join(partitions) or 'nothing'}",
        )

    def _names(self, partitions: Partitions) -> tuple[str, ...]:
        return tuple(f"{self._topics.name_of(one.topic_id) or 'a deleted topic'}-{one.partition}" for one in partitions)


def _wishes(member: ConsumerMember) -> str:
    pattern = [f"all that is called {shown(member.topic_regex)}"] if member.topic_regex else []
    return ", ".join([*(shown(topic) for topic in member.topics), *pattern]) or "no topic"


def _called(member: ConsumerMember) -> str:
    kind = "member" if member.instance_id is None else f"static member {shown(member.instance_id)},"
    return f"{kind} {member_name(member.member_id, member.client_id)}"
