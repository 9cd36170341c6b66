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
Said = Annotated[str | None, "why, as the client itself says"]

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
    groups: Annotated[int, "groups kept in the partition"]
    offsets: Annotated[int, "offsets committed in them"]
    held_back: Annotated[int, "offsets that wait for the end of their transaction"] = 0
    unreadable: Annotated[int, "records that cannot be read, and are passed over"] = 0

    MAY_DIFFER = ("leader_epoch", "groups", "offsets", "held_back", "unreadable")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        found = f"{many[0].node} loaded the groups of {where(many)}, which it leads"
        return found + of_each(many, cls._kept)

    def _kept(self) -> str:
        found = f"{counted(self.groups, 'group')} with {counted(self.offsets, 'committed offset')}"
        if self.held_back:
            found += f", and {self.held_back} more that wait for the end of their transaction"
        if self.unreadable:
            what = "record that cannot be read was" if self.unreadable == 1 else "records that cannot be read were"
            found += f" ({self.unreadable} {what} passed over)"
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsUnloaded(OnPartition, GroupEvent):
    """A broker no longer coordinates the groups of a partition of the offsets topic."""

    groups: Annotated[int, "groups kept in the partition"]

    def sentence(self) -> str:
        return f"{self.node} no longer leads {self.name}: the members of its groups have to find their new coordinator"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberJoined(OfMember):
    """A group accepted a member, which gets partitions in the next generation."""

    generation: Generation
    cause: Annotated[JoinCause, "why it is taken in"]
    replaced: Annotated[str | None, "member id that its group.instance.id had until now"] = None
    replaced_client_id: Annotated[str | None, "client.id that went with it"] = None
    group_type: GroupType = CLASSIC
    message: Said = None
    api: Annotated[str | None, "the request that it joins with, in a consumer group"] = None
    topics: Annotated[tuple[str, ...], "topics that it subscribes to, in a consumer group"] = ()
    pattern: Annotated[str | None, "pattern of topics that it subscribes to (KIP-848)"] = None

    def sentence(self) -> str:
        who = _called(self.member, self.instance, self.client_id)
        taken = f"{self.node} accepted {who} into {_kind(self.group_type)} {self.group}: "
        before = "" if self.replaced is None else member_name(self.replaced, self.replaced_client_id or "")
        if self.group_type != CLASSIC:
            request = "JoinGroup" if self.api == "JoinGroup" else "first heartbeat"
            pattern = [f"topics that match {self.pattern}"] if self.pattern else []
            wishes = ", ".join([*self.topics, *pattern]) or "no topic"
            place = f", and it replaces {before}" if before else ""
            return f"{taken}its {request} subscribes to {wishes}{place}"
        if self.cause is JoinCause.STATIC_RETURNED:
            return f"{taken}it has come back and replaces {before}"
        return f"{taken}it is new{_in_brackets(self.message)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberLeft(OfMember):
    """A member is no longer part of its group."""

    generation: Generation
    cause: Annotated[LeaveCause, "why it is out"]
    group_type: GroupType = CLASSIC
    timeout_ms: Annotated[int | None, "the time that has passed, or that it had"] = None
    config: Annotated[str | None, "the setting that says this time, of a session in a consumer group"] = None
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
                    return f"it was silent for {limit}"
                return f"no heartbeat came for {_WHOSE.get(self.config, '')}{self.config}={timeout_ms}"
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
    cause: Annotated[RebalanceCause, "why they are to join"]
    is_first: Annotated[bool, "the group was empty"] = False
    member: Annotated[str | None, "id of the member that has come or gone"] = None
    instance: Instance = None
    client_id: ClientIdIfAny = None
    error: Annotated[str | None, "what the members hear"] = None
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
                return f"{who} is gone"
            case RebalanceCause.MEMBER_REJOINED:
                return f"{self.member} joined again"
            case RebalanceCause.LEADER_REJOINED:
                return f"its leader {self.member} joined again"
            case RebalanceCause.OTHER_PROTOCOLS:
                return f"{self.member} joined again with other protocols"
            case RebalanceCause.STATIC_RETURNED:
                return f"static member {self.instance} came back"
            case RebalanceCause.PROTOCOL_CHANGED:
                return f"static member {self.instance} came back and changed the protocol"
            case RebalanceCause.SYNC_TIMEOUT:
                return "members that never asked for their assignment were removed"
            case RebalanceCause.NOT_WRITTEN:
                return f"its assignment could not be written (members get {self.error})"
            case RebalanceCause.GROUP_TOO_LARGE:
                return f"it has more than group.max.size={self.max_size} members"
            case RebalanceCause.UPGRADE_FAILED | RebalanceCause.DOWNGRADED:
                return self.cause.meaning


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRebalanced(GroupEvent):
    """A new generation of a classic group began. The group's leader now assigns the partitions."""

    node: column.Node
    group: Group
    generation: Generation
    members: Members
    member: Annotated[str | None, "the member that assigns; null in an empty group"]
    protocol: Annotated[str | None, "how partitions are assigned; null in an empty group"]

    def sentence(self) -> str:
        generation, count = f"generation {self.generation} of group {self.group}", len(self.members)
        if count == 0:
            return f"{generation} is empty: all its members are gone"
        members = "1 member, which assigns" if count == 1 else f"{count} members, one of which assigns"
        return f"{generation} has {members} the partitions ({self.protocol})"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssigned(GroupEvent):
    """Every in-sync replica has stored the group's assignment, and the members receive their partitions."""

    node: column.Node
    group: Group
    generation: Generation
    members: Members
    assignor: Annotated[str | None, "how the coordinator has assigned (KIP-848); null: a member has assigned"] = None
    group_type: GroupType = CONSUMER

    def sentence(self) -> str:
        if self.assignor is None:
            return (
                f"the assignment of generation {self.generation} of group {self.group} is on all in-sync replicas: its "
                "members get their partitions"
            )
        members = "its member" if len(self.members) == 1 else f"its {len(self.members)} members"
        return (
            f"epoch {self.generation} of {_kind(self.group_type)} {self.group} has a target assignment for {members} "
            f"({self.assignor}); only partitions that move are given up first"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberAssigned(OfMember):
    """The assignment of one member of a classic group, as the group's leader has sent it; see GroupAssigned."""

    generation: Generation
    partitions: Annotated[tuple[str, ...], "partitions that the member is to read, as topic-number"]

    def sentence(self) -> str:
        who = _called(self.member, self.instance, self.client_id)
        return f"{who} of group {self.group} is to read {_listed(self.partitions)} in generation {self.generation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberReconciled(OfMember):
    """The assignment of a member of a KIP-848 group changed, in a step towards the target assignment."""

    generation: Annotated[int, "epoch of the member"]
    state: Annotated[str, "Kafka's name of the member's state"] = "STABLE"
    partitions: Annotated[tuple[str, ...], "partitions that the member is to read, as topic-number"]
    revoking: Annotated[tuple[str, ...], "partitions that the member has still to give up, as topic-number"]
    group_type: GroupType = CONSUMER

    def sentence(self) -> str:
        match self.state:
            case "UNREVOKED_PARTITIONS":
                what = f"has to give up {', '.join(self.revoking) or 'standby tasks'} first"
            case "UNRELEASED_PARTITIONS":
                what = "waits for partitions that other members have not given up yet"
            case _:
                what = "has its target"
        who, read = _called(self.member, self.instance, self.client_id), ", ".join(self.partitions) or "nothing"
        return f"{who} of {_kind(self.group_type)} {self.group} {what}; it is to read {read}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMigrated(GroupEvent):
    """A group with members changed from the classic to the consumer protocol or back; the members stay (KIP-848)."""

    node: column.Node
    group: Group
    generation: Annotated[int, "generation or epoch from which it goes on"]
    members: Members
    protocol: Annotated[str, "the kind of group that it is now: `consumer` or `classic`"]

    def sentence(self) -> str:
        if self.protocol == CONSUMER:
            before, after, why = "classic", "consumer", "a member of KIP-848 joined it"
        else:
            before, after, why = "consumer", "classic", "its last member of KIP-848 left"
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
        "the member that committed; null: an operator, a consumer outside of the group, or a transaction",
    ]
    client_id: ClientIdIfAny = None
    generation: Generation
    producer_id: Annotated[int | None, "producer id of the transaction that the commit was part of"] = None
    offset: column.Offset

    def sentence(self) -> str:
        moved = f"group {self.group} has committed offset {self.offset} of {self.name}"
        if self.producer_id is not None:
            return f"{moved}: the transaction of producer {self.producer_id} was committed"
        who = "a client outside the group"
        if self.member is not None:
            who = member_name(self.member, self.client_id or "")
        return f"{moved}: the commit of {who} is on all in-sync replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetHeldBack(OnPartition, GroupEvent):
    """Every in-sync replica has an offset commit of a transaction, which takes effect when the transaction commits."""

    group: Group
    member: Annotated[str | None, "the member that committed; null: the producer did not say"]
    generation: Generation
    producer_id: ProducerId
    offset: column.Offset

    def sentence(self) -> str:
        return (
            f"the commit of offset {self.offset} of {self.name} for group {self.group} is on all in-sync replicas, and "
            f"waits for the end of the transaction of producer {self.producer_id}"
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
            f"producer {self.producer_id} was aborted"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRemoved(GroupEvent):
    """A group was removed, with its committed offsets."""

    node: column.Node
    group: Group
    generation: Generation
    cause: Annotated[RemovalCause, "why it is gone"]

    def sentence(self) -> str:
        return f"group {self.group} was removed: {self.cause.meaning}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffsetRemoved(OnPartition, GroupEvent):
    """A group's committed offset for a partition was removed."""

    group: Group
    cause: Annotated[RemovalCause, "why it has none"]

    def sentence(self) -> str:
        return f"group {self.group} no longer has a committed offset for {self.name}: {self.cause.meaning}"
