"""Events of consumer groups, emitted by their coordinators: members, and committed offsets.

Names that clients choose (groups, members, clients) are cut to 100 printable characters (`wording.shown`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from replica.causes import JoinCause, LeaveCause, RebalanceCause, RemovalCause
from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import GroupEvent, OfMember, OfPartitions, OnPartition, of_each, where
from replica.trace.ranges import counted
from replica.wording import duration, member_name

Group = Annotated[str, "group id"]
Instance = Annotated[str | None, "group.instance.id of a static member"]
ClientIdIfAny = Annotated[str | None, "client.id of the member"]
Generation = Annotated[int, "generation of the group"]
ProducerId = Annotated[int, "producer id of the transaction"]
Members = Annotated[tuple[str, ...], "member ids, in order of arrival"]
GroupType = Annotated[str, "Kafka's type of the group: `classic`, `consumer` (KIP-848) or `streams` (KIP-1071)"]
Said = Annotated[str | None, "reason that the client sent"]

CLASSIC, CONSUMER, STREAMS = "classic", "consumer", "streams"
_WHOSE = {"session.timeout.ms": "its ", "consumer.session.timeout.ms": "the group's own "}
PARTITIONS_LISTED_MAX = 8
"""Limit for the partitions that a sentence lists."""


def _called(member: str, instance: str | None, client_id: str) -> str:
    kind = "member" if instance is None else f"static member {instance},"
    return f"{kind} {member_name(member, client_id)}"


def _in_brackets(said: str | None) -> str:
    return f" ({said})" if said else ""


def _kind(group_type: str) -> str:
    return "group" if group_type == CLASSIC else f"{group_type} group"


def _listed(partitions: Sequence[str]) -> str:
    more = len(partitions) - PARTITIONS_LISTED_MAX
    listed = ", ".join(partitions[:PARTITIONS_LISTED_MAX]) or "nothing"
    return f"{listed} and {more} more" if more > 0 else listed


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsLoaded(OfPartitions, OnPartition, GroupEvent):
    """A broker became the leader of a partition of the offsets topic, and has loaded the groups in it."""

    leader_epoch: column.Epoch
    groups: Annotated[int, "number of groups in the partition"]
    offsets: Annotated[int, "number of committed offsets of these groups"]
    held_back: Annotated[int, "number of offset commits that wait for the end of their transaction"] = 0
    unreadable: Annotated[int, "number of records that could not be read and were skipped"] = 0

    MAY_DIFFER = ("leader_epoch", "groups", "offsets", "held_back", "unreadable")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        found = f"{many[0].node} loaded the groups of {where(many)}, which it leads"
        return found + of_each(many, cls._kept)

    def _kept(self) -> str:
        found = f"{counted(self.groups, 'group')} with {counted(self.offsets, 'committed offset')}"
        if self.held_back:
            found += f", and {counted(self.held_back, 'offset commit')} of open transactions"
        if self.unreadable:
            found += f" ({counted(self.unreadable, 'unreadable record')} skipped)"
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsUnloaded(OnPartition, GroupEvent):
    """A broker no longer coordinates the groups of a partition of the offsets topic."""

    groups: Annotated[int, "number of groups in the partition"]

    def sentence(self) -> str:
        return f"{self.node} no longer leads {self.name}: the members of its groups have to find the new coordinator"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberJoined(OfMember):
    """A group accepted a member, which gets partitions in the next generation."""

    generation: Generation
    cause: Annotated[JoinCause, "why the group accepted the member, see JoinCause"]
    replaced: Annotated[str | None, "previous member id with the same group.instance.id"] = None
    replaced_client_id: Annotated[str | None, "client.id of the replaced member"] = None
    group_type: GroupType = CLASSIC
    message: Said = None
    api: Annotated[str | None, "the request with which it joined a group that is not classic"] = None
    topics: Annotated[tuple[str, ...], "topics to which it subscribed, in a group that is not classic"] = ()
    pattern: Annotated[str | None, "pattern of the topics to which it subscribed (KIP-848)"] = None

    def sentence(self) -> str:
        who = _called(self.member, self.instance, self.client_id)
        taken = f"{self.node} accepted {who} into {_kind(self.group_type)} {self.group}: "
        before = "" if self.replaced is None else member_name(self.replaced, self.replaced_client_id or "")
        if self.group_type != CLASSIC:
            request = "JoinGroup" if self.api == "JoinGroup" else "first heartbeat"
            pattern = [f"topics that match {self.pattern}"] if self.pattern else []
            wishes = ", ".join([*self.topics, *pattern]) or "no topic"
            replacing = f", and it replaces {before}" if before else ""
            return f"{taken}its {request} subscribed to {wishes}{replacing}"
        if self.cause is JoinCause.STATIC_RETURNED:
            return f"{taken}it came back and replaces {before}"
        return f"{taken}it is a new member{_in_brackets(self.message)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberLeft(OfMember):
    """A member is no longer part of its group."""

    generation: Generation
    cause: Annotated[LeaveCause, "why the member left, see LeaveCause"]
    group_type: GroupType = CLASSIC
    timeout_ms: Annotated[int | None, "the timeout that expired, in milliseconds"] = None
    config: Annotated[str | None, "the setting of `timeout_ms`, for sessions in a group that is not classic"] = None
    max_size: Annotated[int | None, "group.max.size"] = None
    message: Said = None

    def sentence(self) -> str:
        who = _called(self.member, self.instance, self.client_id)
        return f"{self.node} removed {who} from {_kind(self.group_type)} {self.group}: {self._why()}"

    def _why(self) -> str:
        of_consumers, timeout_ms = self.group_type != CLASSIC, self.timeout_ms or 0
        limit = duration(timeout_ms * 1000)
        match self.cause:
            case LeaveCause.LEAVE_REQUEST:
                return "it asked to leave" + _in_brackets(self.message)
            case LeaveCause.OPERATOR:
                what = "a LeaveGroup request named it" if of_consumers else "an operator asked for it"
                return what + _in_brackets(self.message)
            case LeaveCause.SESSION_TIMEOUT:
                if self.config is None:
                    return f"no request from it arrived for {limit}"
                return f"no heartbeat arrived within {_WHOSE.get(self.config, '')}{self.config}={timeout_ms}"
            case LeaveCause.JOIN_TIMEOUT:
                if of_consumers:
                    return f"it did not join again within its rebalance timeout of {timeout_ms} ms"
                return f"it did not join again within the rebalance timeout of {limit}"
            case LeaveCause.SYNC_TIMEOUT:
                if of_consumers:
                    return f"it did not ask for its assignment within its rebalance timeout of {timeout_ms} ms"
                return f"it did not ask for its assignment within {limit}"
            case LeaveCause.REVOCATION_TIMEOUT:
                return f"it did not give up its partitions within {timeout_ms} ms"
            case LeaveCause.GROUP_FULL:
                return f"the group already has group.max.size={self.max_size} members"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRebalanceBegan(GroupEvent):
    """A rebalance began: all members have to join again. Records that a member reads until then may be read twice."""

    node: column.Node
    group: Group
    generation: Generation
    cause: Annotated[RebalanceCause, "why the members have to join again, see RebalanceCause"]
    is_first: Annotated[bool, "true: the group was empty before"] = False
    member: Annotated[str | None, "id of the member that joined or left"] = None
    instance: Instance = None
    client_id: ClientIdIfAny = None
    error: Annotated[str | None, "error in the responses to the members"] = None
    max_size: Annotated[int | None, "group.max.size"] = None

    def sentence(self) -> str:
        what = f"began a rebalance of group {self.group}"
        if self.is_first:
            what = f"began to wait for the members of group {self.group}"
        return f"{self.node} {what}: {self._why()}"

    def _why(self) -> str:
        who = member_name(self.member or "", self.client_id or "")
        match self.cause:
            case RebalanceCause.MEMBER_JOINED:
                return f"{who} joined"
            case RebalanceCause.MEMBER_LEFT:
                return f"{who} is no longer a member"
            case RebalanceCause.MEMBER_REJOINED:
                return f"{self.member} joined again"
            case RebalanceCause.LEADER_REJOINED:
                return f"the group's leader {self.member} joined again"
            case RebalanceCause.OTHER_PROTOCOLS:
                return f"{self.member} joined again with other protocols"
            case RebalanceCause.STATIC_RETURNED:
                return f"static member {self.instance} came back"
            case RebalanceCause.PROTOCOL_CHANGED:
                return f"static member {self.instance} came back and changed the protocol"
            case RebalanceCause.SYNC_TIMEOUT:
                return "members that never asked for their assignment were removed"
            case RebalanceCause.NOT_WRITTEN:
                return f"the assignment could not be written; the members got {self.error}"
            case RebalanceCause.GROUP_TOO_LARGE:
                return f"the group has more than group.max.size={self.max_size} members"
            case RebalanceCause.UPGRADE_FAILED | RebalanceCause.DOWNGRADED:
                return self.cause.meaning


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRebalanced(GroupEvent):
    """A new generation of a classic group began. The group's leader now assigns the partitions."""

    node: column.Node
    group: Group
    generation: Generation
    members: Members
    member: Annotated[str | None, "the group's leader, which assigns the partitions; null in an empty group"]
    protocol: Annotated[str | None, "name of the assignor; null in an empty group"]

    def sentence(self) -> str:
        generation, count = f"generation {self.generation} of group {self.group}", len(self.members)
        if count == 0:
            return f"{generation} is empty, because all members left"
        return (
            f"{generation} began with {counted(count, 'member')}; its leader assigns the partitions ({self.protocol})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssigned(GroupEvent):
    """Every in-sync replica has stored the group's assignment, and the members receive their partitions."""

    node: column.Node
    group: Group
    generation: Generation
    members: Members
    assignor: Annotated[str | None, "assignor of the coordinator (KIP-848); null: a member assigned the partitions"] = (
        None
    )
    group_type: GroupType = CONSUMER

    def sentence(self) -> str:
        if self.assignor is None:
            return (
                f"the assignment of generation {self.generation} of group {self.group} is on all in-sync replicas, so "
                "the members get their partitions"
            )
        members = "its member" if len(self.members) == 1 else f"its {len(self.members)} members"
        return (
            f"epoch {self.generation} of {_kind(self.group_type)} {self.group} has a target assignment for {members} "
            f"({self.assignor}); members give up only the partitions that move"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberAssigned(OfMember):
    """The assignment of one member of a classic group, as the group's leader has sent it; see GroupAssigned."""

    generation: Generation
    partitions: Annotated[tuple[str, ...], "partitions assigned to the member, as topic-number"]

    def sentence(self) -> str:
        who = _called(self.member, self.instance, self.client_id)
        return f"{who} of group {self.group} was assigned {_listed(self.partitions)} in generation {self.generation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberReconciled(OfMember):
    """The assignment of a member of a KIP-848 group changed, in a step towards the target assignment."""

    generation: Annotated[int, "epoch of the member"]
    state: Annotated[str, "Kafka's name of the member's state"] = "STABLE"
    partitions: Annotated[tuple[str, ...], "partitions assigned to the member, as topic-number"]
    revoking: Annotated[tuple[str, ...], "partitions that the member still has to give up, as topic-number"]
    group_type: GroupType = CONSUMER

    def sentence(self) -> str:
        match self.state:
            case "UNREVOKED_PARTITIONS":
                what = f"has to give up {', '.join(self.revoking) or 'standby tasks'} first"
            case "UNRELEASED_PARTITIONS":
                what = "waits for partitions that other members have not given up yet"
            case _:
                what = "has its target assignment"
        who, read = _called(self.member, self.instance, self.client_id), ", ".join(self.partitions) or "nothing"
        return f"{who} of {_kind(self.group_type)} {self.group} {what}; it is assigned {read}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMigrated(GroupEvent):
    """A group with members changed from the classic to the consumer protocol or back; the members stay (KIP-848)."""

    node: column.Node
    group: Group
    generation: Annotated[int, "generation or epoch with which the group continues"]
    members: Members
    protocol: Annotated[str, "the new type of the group: `consumer` or `classic`"]

    def sentence(self) -> str:
        if self.protocol == CONSUMER:
            before, after, why = "classic", "consumer", "a member with the KIP-848 protocol joined it"
        else:
            before, after, why = "consumer", "classic", "its last member with the KIP-848 protocol left"
        changed = f"group {self.group} changed from a {before} to a {after} group"
        return f"{changed} at epoch {self.generation}: {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitted(OnPartition, GroupEvent):
    """A group's offset was committed: every in-sync replica has the commit.

    If the commit is part of a transaction, every in-sync replica also has the marker of the committed transaction.
    """

    group: Group
    member: Annotated[
        str | None,
        "the member that committed; null: an operator, a consumer outside the group or a transaction",
    ]
    client_id: ClientIdIfAny = None
    generation: Generation
    producer_id: Annotated[int | None, "producer id of the transaction that contained the commit; null: none"] = None
    offset: column.Offset

    def sentence(self) -> str:
        moved = f"group {self.group} committed offset {self.offset} of {self.name}"
        if self.producer_id is not None:
            return f"{moved}: the transaction of producer id {self.producer_id} was committed"
        who = "a client outside the group"
        if self.member is not None:
            who = member_name(self.member, self.client_id or "")
        return f"{moved}: the commit of {who} is on all in-sync replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetHeldBack(OnPartition, GroupEvent):
    """Every in-sync replica has an offset commit of a transaction, which takes effect when the transaction commits."""

    group: Group
    member: Annotated[str | None, "the member that committed; null: the producer did not name it"]
    generation: Generation
    producer_id: ProducerId
    offset: column.Offset

    def sentence(self) -> str:
        return (
            f"the commit of offset {self.offset} of {self.name} for group {self.group} is on all in-sync replicas, and "
            f"waits for the end of the transaction of producer id {self.producer_id}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBackOffsetDropped(OnPartition, GroupEvent):
    """The transaction of an offset commit was aborted, so the group's committed offset does not change."""

    group: Group
    producer_id: ProducerId
    offset: column.Offset

    def sentence(self) -> str:
        return (
            f"the commit of offset {self.offset} of {self.name} for group {self.group} was dropped: the transaction of "
            f"producer id {self.producer_id} was aborted"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRemoved(GroupEvent):
    """A group was removed, with its committed offsets."""

    node: column.Node
    group: Group
    generation: Generation
    cause: Annotated[RemovalCause, "why the group was removed, see RemovalCause"]

    def sentence(self) -> str:
        return f"group {self.group} was removed: {self.cause.meaning}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffsetRemoved(OnPartition, GroupEvent):
    """A group's committed offset for a partition was removed."""

    group: Group
    cause: Annotated[RemovalCause, "why the offset was removed, see RemovalCause"]

    def sentence(self) -> str:
        return f"the committed offset of group {self.group} for {self.name} was removed: {self.cause.meaning}"
