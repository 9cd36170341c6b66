"""One member of a consumer group of KIP-848, and how it comes to its target. source: ConsumerGroupMember.java,
CurrentAssignmentBuilder.java

A member first gives up what another is to have; only when it reports that it has, does the other get it. Members whose
partitions do not move read on all the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from cluster.groups.assignors.specification import Partitions, TopicIdPartition
from cluster.groups.state.member import Protocols

LEAVES = -1
"""Member epoch of a member that leaves."""
LEAVES_FOR_A_WHILE = -2
"""Member epoch of a static member that leaves and is to come back within its session timeout."""
JOINS = 0


class MemberState(Enum):
    """source: MemberState.java"""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ClassicMetadata(NamedTuple):
    """Of a member that speaks the classic protocol. source: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata"""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """topics: sorted     assigned: what it may read     pending_revocation: what it has still to give up

    classic: None for a member of KIP-848
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
    classic: ClassicMetadata | None = None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch


def reconciled(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    is_free: Callable[[TopicIdPartition], bool],
    owned: Partitions | None,
) -> ConsumerMember:
    """The member one step nearer to its target, or as it was where it has to do something first.

    is_free: no member has the partition     owned: what the member says it reads; None: it does not say
    source: CurrentAssignmentBuilder.build
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
            return _next(member, member.epoch + 1, target_epoch, target, is_free, owned)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(member, member.epoch, target_epoch, target, is_free, owned)
        case MemberState.UNKNOWN:
            return _next(member, target_epoch, target_epoch, target, is_free, owned)


def _owns(owned: Partitions | None, partitions: Partitions) -> bool:
    return owned is None or any(one in partitions for one in owned)


def _next(
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Partitions,
    is_free: Callable[[TopicIdPartition], bool],
    owned: Partitions | None,
) -> ConsumerMember:
    """source: computeNextAssignment"""
    assigned = tuple(one for one in member.assigned if one in target)
    to_revoke = tuple(one for one in member.assigned if one not in target)
    wanted = tuple(one for one in target if one not in assigned)
    free = tuple(one for one in wanted if is_free(one))
    if to_revoke and _owns(owned, to_revoke):
        return _moved(member, epoch, MemberState.UNREVOKED_PARTITIONS, assigned, to_revoke)
    state = MemberState.STABLE if len(free) == len(wanted) else MemberState.UNRELEASED_PARTITIONS
    return _moved(member, target_epoch, state, tuple(sorted(assigned + free)), ())


def _moved(
    member: ConsumerMember, epoch: int, state: MemberState, assigned: Partitions, to_revoke: Partitions
) -> ConsumerMember:
    return replace(
        member,
        epoch=epoch,
        # A member whose epoch stays needs no way back to the one before. source: Builder.updateMemberEpoch
        previous_epoch=member.epoch,
        state=state,
        assigned=assigned,
        pending_revocation=to_revoke,
    )
