"""Leader election: the preferred, the online and the unclean choice, one pure function each, and why.

A replica is *acceptable* if it is active (the caller says so), and *valid* if it is in the target ISR as well, or in
the target ELR while the ISR is empty: then it holds every committed record.
Source: PartitionChangeBuilder.electLeader, .electPreferredLeader, .electAnyLeader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from controller.image import PartitionRegistration
from replica.causes import ElectionCause, FencingCause, OccasionKind
from replica.ids import NO_BROKER, BrokerId


class Election(Enum):
    """PREFERRED: the first replica if it is valid, to even out leaders. ONLINE: any valid replica, to stay online.
    UNCLEAN: likewise, and any active replica rather than none, even at the price of committed records."""

    PREFERRED = "preferred"
    ONLINE = "online"
    UNCLEAN = "unclean"


class Occasion(NamedTuple):
    """What a partition is changed for. amount: microseconds without a heartbeat, or of failed log directories"""

    kind: OccasionKind
    brokers: tuple[BrokerId, ...] = ()
    fencing: FencingCause | None = None
    amount: int | None = None


class Choice(NamedTuple):
    """Outcome of an election. clean: the leader comes from the ISR or the ELR     cause: None if it is not known

    electable: the ELR, where the ISR has no member left
    """

    leader: BrokerId
    clean: bool
    cause: ElectionCause | None
    electable: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The inputs of an election: the partition before it, and the replicas, ISR and ELR it is about to have.

    last_known: who led last, if the cluster may elect it
    """

    partition: PartitionRegistration
    replicas: tuple[BrokerId, ...]
    in_sync_replicas: tuple[BrokerId, ...]
    is_acceptable: Callable[[BrokerId], bool]
    elr: tuple[BrokerId, ...] = ()
    last_known: tuple[BrokerId, ...] = ()

    def is_valid(self, broker_id: BrokerId) -> bool:
        return broker_id in (self.in_sync_replicas or self.elr) and self.is_acceptable(broker_id)

    @property
    def last_known_leader(self) -> BrokerId | None:
        """The last leader, if no other replica is worth waiting for and it is live. Source: canElectLastKnownLeader"""
        # 4.0 elected it also while it was fenced (KAFKA-19522, fixed in 4.1).
        known = self.last_known
        if self.in_sync_replicas or self.elr or not known or not self.is_acceptable(known[0]):
            return None
        return known[0]

    def choice(self, leader: BrokerId, cause: ElectionCause, *, clean: bool = True) -> Choice:
        return Choice(leader, clean, cause, () if self.in_sync_replicas else self.elr)


def elect(election: Election, candidates: Candidates) -> Choice:
    match election:
        case Election.PREFERRED:
            return elect_preferred(candidates)
        case Election.ONLINE:
            return elect_online(candidates)
        case Election.UNCLEAN:
            return elect_unclean(candidates)


def elect_preferred(candidates: Candidates) -> Choice:
    """The first replica if valid, else the current leader if valid, else the first other valid replica."""
    preferred = candidates.replicas[0]
    if candidates.is_valid(preferred):
        return candidates.choice(preferred, ElectionCause.PREFERRED)
    return _elect_known(candidates) or candidates.choice(NO_BROKER, ElectionCause.NO_LIVE_MEMBER)


def elect_online(candidates: Candidates) -> Choice:
    """The current leader if valid, else the first valid replica."""
    return _elect_known(candidates) or candidates.choice(NO_BROKER, ElectionCause.UNCLEAN_DISABLED)


def elect_unclean(candidates: Candidates) -> Choice:
    """As online; failing that the first active replica, although it may lack committed records."""
    choice = _elect_known(candidates)
    if choice is not None:
        return choice
    for broker_id in candidates.replicas:
        if candidates.is_acceptable(broker_id):
            return candidates.choice(broker_id, ElectionCause.UNCLEAN, clean=False)
    return candidates.choice(NO_BROKER, ElectionCause.NO_LIVE_REPLICA)


def _elect_known(candidates: Candidates) -> Choice | None:
    """A valid replica; where none can become valid any more, the last known leader, uncleanly (KIP-966)."""
    choice = _elect_valid(candidates)
    last_known = candidates.last_known_leader
    if choice is not None or last_known is None:
        return choice
    return candidates.choice(last_known, ElectionCause.UNCLEAN_LAST_KNOWN, clean=False)


def _elect_valid(candidates: Candidates) -> Choice | None:
    if candidates.is_valid(candidates.partition.leader):
        return candidates.choice(candidates.partition.leader, ElectionCause.KEEPS_LEADERSHIP)
    for broker_id in candidates.replicas:
        if candidates.is_valid(broker_id):
            return candidates.choice(broker_id, ElectionCause.FIRST_LIVE)
    return None


# ----------------------------------------------------------------------------------------------------- eligible leaders
#
# Eligible leader replicas: who may lead cleanly although the ISR has lost them (switch `elr`).
#
# While the ISR is below min.insync.replicas the high watermark stands still. So a replica that leaves it then holds
# every committed record, and may lead once no other replica is left, unless it shut down uncleanly since: a broker
# that
# cannot name its last broker epoch (from the clean-shutdown file) when it registers may have lost records. That
# outlasts
# min.insync.replicas - 1 such shutdowns.
#
# Whether there is an ELR is the level of a feature, which can change while the cluster runs. Nothing is computed anew
# then: the next change of each partition takes it into account.
# source: KIP-966 part 1, PartitionChangeBuilder.maybePopulateTargetElr, .maybeUpdateLastKnownLeader (4.1)


def eligible_leaders(
    partition: PartitionRegistration, target_isr: tuple[BrokerId, ...], min_isr: int, struck_out: BrokerId | None
) -> tuple[BrokerId, ...]:
    """The ELR beside `target_isr`, ascending; empty while the ISR is large enough to answer for itself.

    min_isr: effective min.insync.replicas     struck_out: a broker that may have lost records
    """
    if len(target_isr) >= min_isr:
        return ()
    candidates = sorted({*partition.elr, *partition.in_sync_replicas})
    return tuple(broker_id for broker_id in candidates if broker_id not in target_isr and broker_id != struck_out)


def last_known_leader(
    partition: PartitionRegistration, isr: tuple[BrokerId, ...], leader_is_known: bool
) -> tuple[BrokerId, ...]:
    """`last_known_elr` once the ISR is `isr`: the leader that left the ISR empty, until there is one again.

    It is the best guess when the ELR is empty too; to elect it counts as unclean.
    """
    if leader_is_known:
        return ()
    if partition.has_leader and not isr:
        return (partition.leader,)
    return partition.last_known_elr
