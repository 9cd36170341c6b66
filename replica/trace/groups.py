"""Events of consumer groups, stated by their coordinator: their members, and the offsets they have committed.

Names that clients choose (groups, members, clients) are cut to 100 printable characters (`wording.shown`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from replica.causes import JoinCause, LeaveCause, RebalanceCause, RemovalCause
from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import GroupEvent, OnPartition
from replica.wording import duration, member_name

Group = Annotated[str, "group id"]
Member = Annotated[str, "member id, given out by the coordinator"]
Instance = Annotated[str | None, "group.instance.id of a static member"]
ClientId = Annotated[str, "client.id of the member"]
ClientIdIfAny = Annotated[str | None, "client.id of the member"]
Generation = Annotated[int, "generation of the group"]
ProducerId = Annotated[int, "producer id of the transaction"]
Members = Annotated[tuple[str, ...], "member ids, in order of arrival"]
GroupType = Annotated[str, "Kafka's type of the group: `classic`, or `consumer` for one of KIP-848"]
Said = Annotated[str | None, "why, as the client itself says"]

CLASSIC, CONSUMER = "classic", "consumer"
_WHOSE = {"session.timeout.ms": "its ", "consumer.session.timeout.ms": "the group's own "}
PARTITIONS_LISTED_MAX = 8
"""In a sentence."""


def _called(member: str, instance: str | None, client_id: str) -> str:
    kind = "member" if instance is None else f"static member {instance},"
    return f"{kind} {member_name(member, client_id)}"


def _in_brackets(said: str | None) -> str:
    return f" ({said})" if said else ""


def _kind(group_type: str) -> str:
    return "consumer group" if group_type == CONSUMER else "group"


def _listed(partitions: Sequence[str]) -> str:
    more = len(partitions) - PARTITIONS_LISTED_MAX
    listed = ", ".join(partitions[:PARTITIONS_LISTED_MAX]) or "nothing"
    return f"{listed} and {more} more" if more > 0 else listed


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsLoaded(OnPartition, GroupEvent):
    """A broker has become the leader of a partition of the offsets topic, and has read what it says."""

    leader_epoch: column.Epoch
    groups: Annotated[int, "groups kept in the partition"]
    offsets: Annotated[int, "offsets committed in them"]
    held_back: Annotated[int, "offsets that wait for the end of their transaction"] = 0
    unreadable: Annotated[int, "records that cannot be read, and are passed over"] = 0

    def sentence(self) -> str:
        waiting = f"; {self.held_back} more wait for the end of their transaction" if self.held_back else ""
        passed_over = ""
        if self.unreadable:
            what = "record that cannot be read is" if self.unreadable == 1 else "records that cannot be read are"
            passed_over = f"; {self.unreadable} {what} passed over"
        return (
            f"{self.node} leads {self.name} and has read it: it coordinates the groups that are kept there, "
            f"{self.groups} with {self.offsets} committed offsets{waiting}{passed_over}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsUnloaded(OnPartition, GroupEvent):
    """A broker no longer coordinates the groups that are kept in a partition of the offsets topic."""

    groups: Annotated[int, "groups kept in the partition"]

    def sentence(self) -> str:
        return (
            f"{self.node} does not lead {self.name} any more: the members of the groups that are kept there have to "
            "find their coordinator anew"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberJoined(GroupEvent):
    """A member is taken in; it gets partitions with the next generation."""

    node: column.Node
    group: Group
    member: Member
    instance: Instance
    client_id: ClientId
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
        taken = f"{self.node} takes {who} into {_kind(self.group_type)} {self.group}: "
        before = "" if self.replaced is None else member_name(self.replaced, self.replaced_client_id or "")
        if self.group_type == CONSUMER:
            request = "JoinGroup" if self.api == "JoinGroup" else "first heartbeat"
            pattern = [f"all that is called {self.pattern}"] if self.pattern else []
            wishes = ", ".join([*self.topics, *pattern]) or "no topic"
            place = f", and it takes the place of {before}" if before else ""
            return f"{taken}its {request} subscribes to {wishes}{place}"
        if self.cause is JoinCause.STATIC_RETURNED:
            return f"{taken}it has come back, and takes the place of {before}"
        return f"{taken}it is new{_in_brackets(self.message)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberLeft(GroupEvent):
    """A member is no longer part of its group."""

    node: column.Node
    group: Group
    member: Member
    instance: Instance
    client_id: ClientId
    generation: Generation
    cause: Annotated[LeaveCause, "why it is out"]
    group_type: GroupType = CLASSIC
    timeout_ms: Annotated[int | None, "the time that has passed, or that it had"] = None
    config: Annotated[str | None, "the setting that says this time, of a session in a consumer group"] = None
    max_size: Annotated[int | None, "group.max.size"] = None
    message: Said = None

    def sentence(self) -> str:
        who = _called(self.member, self.instance, self.client_id)
        return f"{self.node} takes {who} out of {_kind(self.group_type)} {self.group}: {self._why()}"

    def _why(self) -> str:
        of_consumers, timeout_ms = self.group_type == CONSUMER, self.timeout_ms or 0
        limit = duration(timeout_ms * 1000)
        match self.cause:
            case LeaveCause.LEAVE_REQUEST:
                return "it says so itself" + _in_brackets(self.message)
            case LeaveCause.OPERATOR:
                what = "a LeaveGroup names it" if of_consumers else "an operator removes it"
                return what + _in_brackets(self.message)
            case LeaveCause.SESSION_TIMEOUT:
                if self.config is None:
                    return f"it has been silent for {limit}"
                return f"no heartbeat came for {_WHOSE.get(self.config, '')}{self.config}={timeout_ms}"
            case LeaveCause.JOIN_TIMEOUT:
                if of_consumers:
                    return f"it did not join again within its rebalance timeout of {timeout_ms} ms"
                return f"it has not joined again within the rebalance timeout of {limit}"
            case LeaveCause.SYNC_TIMEOUT:
                if of_consumers:
                    return f"it did not ask for its assignment within its rebalance timeout of {timeout_ms} ms"
                return f"it has not asked for its assignment within {limit}"
            case LeaveCause.REVOCATION_TIMEOUT:
                return f"it did not give up its partitions within {timeout_ms} ms"
            case LeaveCause.GROUP_FULL:
                return f"the group has group.max.size={self.max_size} members without it"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRebalanceBegan(GroupEvent):
    """All members are to join again; records they read until then may be read twice."""

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
        what = f"has the members of group {self.group} join again"
        if self.is_first:
            what = f"waits for the members of group {self.group}"
        return f"{self.node} {what}: {self._why()}"

    def _why(self) -> str:
        who = member_name(self.member or "", self.client_id or "")
        match self.cause:
            case RebalanceCause.MEMBER_JOINED:
                return f"{who} has joined"
            case RebalanceCause.MEMBER_LEFT:
                return f"{who} is gone"
            case RebalanceCause.MEMBER_REJOINED:
                return f"{self.member} has joined again"
            case RebalanceCause.LEADER_REJOINED:
                return f"its leader {self.member} has joined again"
            case RebalanceCause.OTHER_PROTOCOLS:
                return f"{self.member} has joined again with other protocols"
            case RebalanceCause.STATIC_RETURNED:
                return f"static member {self.instance} has come back"
            case RebalanceCause.PROTOCOL_CHANGED:
                return f"static member {self.instance} has come back and changes the protocol"
            case RebalanceCause.SYNC_TIMEOUT:
                return "members are missing that have never asked for their assignment"
            case RebalanceCause.NOT_WRITTEN:
                return f"its assignment could not be written (members hear {self.error})"
            case RebalanceCause.GROUP_TOO_LARGE:
                return f"it has more than group.max.size={self.max_size} members"
            case RebalanceCause.UPGRADE_FAILED | RebalanceCause.DOWNGRADED:
                return self.cause.meaning


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRebalanced(GroupEvent):
    """A new generation has begun; its leader now assigns the partitions."""

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
        members = "1 member, which assigns" if count == 1 else f"{count} members, of which one assigns"
        return f"{generation} has {members} the partitions ({self.protocol})"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssigned(GroupEvent):
    """Every in-sync replica has the assignment, and the members receive theirs."""

    node: column.Node
    group: Group
    generation: Generation
    members: Members
    assignor: Annotated[str | None, "how the coordinator has assigned (KIP-848); null: a member has assigned"] = None

    def sentence(self) -> str:
        if self.assignor is None:
            return (
                f"the assignment of generation {self.generation} of group {self.group} is on all in-sync replicas: its "
                "members get their partitions"
            )
        members = "its member" if len(self.members) == 1 else f"its {len(self.members)} members"
        return (
            f"epoch {self.generation} of consumer group {self.group} has a target for {members} ({self.assignor}): "
            "only what moves is given up first"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberAssigned(GroupEvent):
    """With GroupAssigned, for each member of a classic group: its part, as the member that assigns has written it."""

    node: column.Node
    group: Group
    member: Member
    instance: Instance = None
    client_id: ClientId
    generation: Generation
    partitions: Annotated[tuple[str, ...], "partitions that the member is to read, as topic-number"]

    def sentence(self) -> str:
        who = _called(self.member, self.instance, self.client_id)
        return f"{who} of group {self.group} is to read {_listed(self.partitions)} in generation {self.generation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberReconciled(GroupEvent):
    """A member of a consumer group of KIP-848 has come a step nearer to its target assignment."""

    node: column.Node
    group: Group
    member: Member
    instance: Instance = None
    client_id: ClientId
    generation: Annotated[int, "epoch of the member"]
    state: Annotated[str, "Kafka's name of the member's state"] = "STABLE"
    partitions: Annotated[tuple[str, ...], "partitions that the member is to read, as topic-number"]
    revoking: Annotated[tuple[str, ...], "partitions that the member has still to give up, as topic-number"]

    def sentence(self) -> str:
        match self.state:
            case "UNREVOKED_PARTITIONS":
                what = f"has to give up {', '.join(self.revoking)} first"
            case "UNRELEASED_PARTITIONS":
                what = "waits for partitions that other members have not given up yet"
            case _:
                what = "has its target"
        who, read = _called(self.member, self.instance, self.client_id), ", ".join(self.partitions) or "nothing"
        return f"{who} of consumer group {self.group} {what}; it is to read {read}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMigrated(GroupEvent):
    """A group that has members goes from one protocol to the other, and its members go on (KIP-848)."""

    node: column.Node
    group: Group
    generation: Annotated[int, "generation or epoch from which it goes on"]
    members: Members
    protocol: Annotated[str, "the kind of group that it is now: `consumer` or `classic`"]

    def sentence(self) -> str:
        if self.protocol == CONSUMER:
            before, after, why = "classic", "consumer", "a member of KIP-848 joins it"
        else:
            before, after, why = "consumer", "classic", "its last member of KIP-848 is gone"
        changed = f"group {self.group} was a {before} group and is a {after} group now"
        return f"{changed}, from epoch {self.generation} on: {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitted(OnPartition, GroupEvent):
    """The group goes on from here: every in-sync replica has the commit, and, of a commit in a transaction, the marker
    of the committed transaction."""

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
        moved = f"group {self.group} goes on from {self.name} at {self.offset}"
        if self.producer_id is not None:
            return f"{moved}: the transaction of producer {self.producer_id} is committed"
        who = "a client outside the group"
        if self.member is not None:
            who = member_name(self.member, self.client_id or "")
        return f"{moved}: the commit of {who} is on all in-sync replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetHeldBack(OnPartition, GroupEvent):
    """Every in-sync replica has a commit that is part of a transaction; it counts once the transaction is committed."""

    group: Group
    member: Annotated[str | None, "the member that committed; null: the producer did not say"]
    generation: Generation
    producer_id: ProducerId
    offset: column.Offset

    def sentence(self) -> str:
        return (
            f"the commit of {self.name} at {self.offset} for group {self.group} is on all in-sync replicas, and waits "
            f"for the end of the transaction of producer {self.producer_id}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBackOffsetDropped(OnPartition, GroupEvent):
    """The transaction of a commit is aborted: the group goes on from where it was before."""

    group: Group
    producer_id: ProducerId
    offset: column.Offset

    def sentence(self) -> str:
        return (
            f"the commit of {self.name} at {self.offset} for group {self.group} is dropped: the transaction of "
            f"producer {self.producer_id} is aborted"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRemoved(GroupEvent):
    """The group is gone, with the offsets it had."""

    node: column.Node
    group: Group
    generation: Generation
    cause: Annotated[RemovalCause, "why it is gone"]

    def sentence(self) -> str:
        return f"group {self.group} is gone: {self.cause.meaning}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffsetRemoved(OnPartition, GroupEvent):
    """A group has no committed offset for this partition any more."""

    group: Group
    cause: Annotated[RemovalCause, "why it has none"]

    def sentence(self) -> str:
        return f"group {self.group} has no committed offset for {self.name} any more: {self.cause.meaning}"
