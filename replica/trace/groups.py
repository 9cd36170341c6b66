"""Events of consumer groups, stated by their coordinator: their members, and the offsets they have committed.

Names that clients choose (groups, members, clients) are cut to 100 printable characters (`wording.shown`).
"""

from __future__ import annotations

from typing import Annotated

from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import GroupEvent

Group = Annotated[str, "group id"]
Member = Annotated[str, "member id, given out by the coordinator"]
Instance = Annotated[str | None, "group.instance.id of a static member"]
ClientId = Annotated[str, "client.id of the member"]
Generation = Annotated[int, "generation of the group"]
ProducerId = Annotated[int, "producer id of the transaction"]
Members = Annotated[tuple[str, ...], "member ids, in order of arrival"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsLoaded(GroupEvent):
    """A broker has become the leader of a partition of the offsets topic, and has read what it says."""

    node: column.Node
    topic: column.Topic
    partition: column.Partition
    leader_epoch: column.Epoch
    groups: Annotated[int, "groups kept in the partition"]
    offsets: Annotated[int, "offsets committed in them"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsUnloaded(GroupEvent):
    """A broker no longer coordinates the groups that are kept in a partition of the offsets topic."""

    node: column.Node
    topic: column.Topic
    partition: column.Partition
    groups: Annotated[int, "groups kept in the partition"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberJoined(GroupEvent):
    """A member is taken in; it gets partitions with the next generation."""

    node: column.Node
    group: Group
    member: Member
    instance: Instance
    client_id: ClientId
    generation: Generation
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberLeft(GroupEvent):
    """A member is no longer part of its group."""

    node: column.Node
    group: Group
    member: Member
    instance: Instance
    client_id: ClientId
    generation: Generation
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRebalanceBegan(GroupEvent):
    """All members are to join again; records they read until then may be read twice."""

    node: column.Node
    group: Group
    generation: Generation
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRebalanced(GroupEvent):
    """A new generation has begun; its leader now assigns the partitions."""

    node: column.Node
    group: Group
    generation: Generation
    members: Members
    member: Annotated[str | None, "the member that assigns; null in an empty group"]
    protocol: Annotated[str | None, "how partitions are assigned; null in an empty group"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssigned(GroupEvent):
    """Every in-sync replica has the assignment, and the members receive theirs."""

    node: column.Node
    group: Group
    generation: Generation
    members: Members
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberAssigned(GroupEvent):
    """With GroupAssigned, for each member of a classic group: its part, as the member that assigns has written it."""

    node: column.Node
    group: Group
    member: Member
    client_id: ClientId
    generation: Generation
    partitions: Annotated[tuple[str, ...], "partitions that the member is to read, as topic-number"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberReconciled(GroupEvent):
    """A member of a consumer group of KIP-848 has come a step nearer to its target assignment."""

    node: column.Node
    group: Group
    member: Member
    client_id: ClientId
    generation: Annotated[int, "epoch of the member"]
    partitions: Annotated[tuple[str, ...], "partitions that the member is to read, as topic-number"]
    revoking: Annotated[tuple[str, ...], "partitions that the member has still to give up, as topic-number"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMigrated(GroupEvent):
    """A group that has members goes from one protocol to the other, and its members go on (KIP-848)."""

    node: column.Node
    group: Group
    generation: Annotated[int, "generation or epoch from which it goes on"]
    members: Members
    protocol: Annotated[str, "the kind of group that it is now: `consumer` or `classic`"]
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitted(GroupEvent):
    """The group goes on from here: every in-sync replica has the commit, and, of a commit in a transaction, the marker
    of the committed transaction."""

    node: column.Node
    group: Group
    member: Annotated[
        str | None,
        "the member that committed; null: an operator, a consumer outside of the group, or a transaction",
    ]
    generation: Generation
    topic: column.Topic
    partition: column.Partition
    offset: column.Offset
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetHeldBack(GroupEvent):
    """Every in-sync replica has a commit that is part of a transaction; it counts once the transaction is committed."""

    node: column.Node
    group: Group
    member: Annotated[str | None, "the member that committed; null: the producer did not say"]
    generation: Generation
    producer_id: ProducerId
    topic: column.Topic
    partition: column.Partition
    offset: column.Offset
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBackOffsetDropped(GroupEvent):
    """The transaction of a commit is aborted: the group goes on from where it was before."""

    node: column.Node
    group: Group
    producer_id: ProducerId
    topic: column.Topic
    partition: column.Partition
    offset: column.Offset
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRemoved(GroupEvent):
    """The group is gone, with the offsets it had."""

    node: column.Node
    group: Group
    generation: Generation
    reason: column.Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffsetRemoved(GroupEvent):
    """A group has no committed offset for this partition any more."""

    node: column.Node
    group: Group
    topic: column.Topic
    partition: column.Partition
    reason: column.Reason
