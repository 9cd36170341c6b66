"""One member of a KIP-848 consumer group, and its steps towards its target assignment.

A member first revokes the partitions that another member will get. The other member gets them when the revocation has
been reported. Members whose partitions do not move continue to read.

Source: ConsumerGroupMember.java, CurrentAssignmentBuilder.java
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple, Self, TypeVar

from cluster.groups.state.assignors import Partitions, TopicIdPartition
from cluster.groups.state.group import Protocols

LEAVES = -1
"""The member epoch in the heartbeat of a member that leaves."""
LEAVES_FOR_A_WHILE = -2
"""The member epoch in the heartbeat of a static member that leaves and may return within its session timeout."""
JOINS = 0


class MemberState(Enum):
    """The state of a member's reconciliation. Source: MemberState.java"""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ClassicMetadata(NamedTuple):
    """What a member with the classic protocol has sent in JoinGroup.

    Source: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata
    """

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member of a consumer group.

    Attributes:
        topics: names of the subscribed topics, in ascending order.
        assigned: partitions that the member may read.
        pending_revocation: partitions that the member has yet to revoke.
        since: member epoch at which each partition was assigned; empty without KIP-1251.
        classic: None for a member that uses KIP-848's protocol.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] = ()
    topic_regex: str | None = ""
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Partitions = ()
    pending_revocation: Partitions = ()
    since: Mapping[TopicIdPartition, int] = field(default_factory=dict)
    classic: ClassicMetadata | None = None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def assignment_epoch(self, partition: Any) -> int | None:
        """Return the member epoch at which a partition (or task) was assigned, None if the member does not have it.

        Source: assignmentEpoch, pendingRevocationEpoch; Utils.assignmentFromTopicPartitions for a record without epochs
        """
        if partition in self.assigned or partition in self.pending_revocation:
            return self.since.get(partition, self.epoch)
        return None

    def with_epochs_of(self, before: Self) -> Self:
        """Return the member with assignment epochs: those of `before`, and its current epoch for new partitions."""
        known = ((item, before.assignment_epoch(item)) for item in (*self.pending_revocation, *self.assigned))
        kept = {item: epoch for item, epoch in known if epoch is not None}
        new = [item for item in self.assigned if item not in before.assigned]
        return replace(self, since={**kept, **dict.fromkeys(new, self.epoch)})


M = TypeVar("M", bound=ConsumerMember)


def reconciled(
    member: M,
    target_epoch: int,
    target: tuple[Any, ...],
    is_free: Callable[[Any], bool],
    owned: tuple[Any, ...] | None,
    *,
    revoking_raises_epoch: bool,
) -> M:
    """Return the member one step closer to its target, or unchanged if it has to revoke partitions first.

    In a streams group, tasks take the place of partitions.

    Args:
        target_epoch: group epoch for which the target was computed.
        is_free: returns True if a partition can be assigned to this member.
        owned: partitions that the member reports, None if it reports none.
        revoking_raises_epoch: True if a member's epoch grows when it has revoked its partitions (before 4.2, and in
            streams groups).

    Source: CurrentAssignmentBuilder.build
    """
    match member.state:
        case MemberState.STABLE:
            return (
                member
                if member.epoch == target_epoch
                else _next(member, member.epoch, target_epoch, target, is_free, owned)
            )
        case MemberState.UNREVOKED_PARTITIONS:
            if _owns(owned, member.pending_revocation):
                return member
            return _next(member, member.epoch + int(revoking_raises_epoch), target_epoch, target, is_free, owned)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(member, member.epoch, target_epoch, target, is_free, owned)
        case MemberState.UNKNOWN:
            return _next(member, target_epoch, target_epoch, target, is_free, owned)


def _owns(owned: tuple[Any, ...] | None, partitions: tuple[Any, ...]) -> bool:
    return owned is None or any(item in partitions for item in owned)


def _next(
    member: M,
    epoch: int,
    target_epoch: int,
    target: tuple[Any, ...],
    is_free: Callable[[Any], bool],
    owned: tuple[Any, ...] | None,
) -> M:
    """Return the member after one step; `epoch` is its epoch if it has to revoke partitions first.

    As in 4.1.2, a partition that the member was about to revoke counts as free for it.
    Source: computeNextAssignment
    """
    assigned = tuple(item for item in member.assigned if item in target)
    to_revoke = tuple(item for item in member.assigned if item not in target)
    wanted = tuple(item for item in target if item not in assigned)
    free = tuple(item for item in wanted if item in member.pending_revocation or is_free(item))
    if to_revoke and _owns(owned, to_revoke):
        return _moved(member, epoch, MemberState.UNREVOKED_PARTITIONS, assigned, to_revoke)
    state = MemberState.STABLE if len(free) == len(wanted) else MemberState.UNRELEASED_PARTITIONS
    return _moved(member, target_epoch, state, tuple(sorted(assigned + free)), ())


def _moved(member: M, epoch: int, state: MemberState, assigned: tuple[Any, ...], to_revoke: tuple[Any, ...]) -> M:
    return replace(
        member,
        epoch=epoch,
        # If the epoch has not changed, the previous epoch is no longer accepted. source: Builder.updateMemberEpoch
        previous_epoch=member.epoch,
        state=state,
        assigned=assigned,
        pending_revocation=to_revoke,
    )
