"""Leader election: the preferred, the online and the unclean election, each as a pure function.
A replica is *acceptable* if its broker is active, which the caller decides. It is *valid* if it is also in the target
ISR, or in the target ELR while the ISR is empty; a valid replica has every committed record.
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
    """The kinds of election.

    PREFERRED elects the first replica if it is valid, to balance leaders over brokers. ONLINE elects any valid replica.
    UNCLEAN elects any valid replica, else any active one, even if committed records are lost.
    """

    PREFERRED = "preferred"
    ONLINE = "online"
    UNCLEAN = "unclean"


class Occasion(NamedTuple):
    """The reason for a change of a partition.

    `amount` is either microseconds without a heartbeat or a number of failed directories.
    """

    kind: OccasionKind
    brokers: tuple[BrokerId, ...] = ()
    fencing: FencingCause | None = None
    amount: int | None = None


class Choice(NamedTuple):
    """The result of an election.

    Attributes:
        clean: True if the leader comes from the ISR or the ELR.
        cause: reason for the choice; None if unknown.
        electable: the ELR if the ISR is empty, otherwise empty.
    """

    leader: BrokerId
    clean: bool
    cause: ElectionCause | None
    electable: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The inputs of an election: the current partition, and the replicas, ISR and ELR after the change.

    Attributes:
        last_known: the last leader, empty if the cluster may not elect it.
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
        """The last leader if it is live and no member of the ISR or the ELR is left. Source: canElectLastKnownLeader"""
        # Kafka 4.0 also elected a fenced one (KAFKA-19522, fixed in 4.1).
        # Differs from Kafka: a reassignment may have removed the last leader, and a controller of Kafka then fails at
        # the question for its directory (PartitionRegistration.directory: IllegalArgumentException).
        known = self.last_known
        if self.in_sync_replicas or self.elr or not known or known[0] not in self.replicas:
            return None
        if not self.is_acceptable(known[0]):
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
    """Elect the first replica if it is valid, else the current leader if it is valid, else the first valid replica."""
    preferred = candidates.replicas[0]
    if candidates.is_valid(preferred):
        return candidates.choice(preferred, ElectionCause.PREFERRED)
    return _elect_known(candidates) or candidates.choice(NO_BROKER, ElectionCause.NO_LIVE_MEMBER)


def elect_online(candidates: Candidates) -> Choice:
    """Elect the current leader if it is valid, else the first valid replica."""
    return _elect_known(candidates) or candidates.choice(NO_BROKER, ElectionCause.UNCLEAN_DISABLED)


def elect_unclean(candidates: Candidates) -> Choice:
    """Elect the same replica as `elect_online`, else the first active one, which may lack committed records."""
    choice = _elect_known(candidates)
    if choice is not None:
        return choice
    for broker_id in candidates.replicas:
        if candidates.is_acceptable(broker_id):
            return candidates.choice(broker_id, ElectionCause.UNCLEAN, clean=False)
    return candidates.choice(NO_BROKER, ElectionCause.NO_LIVE_REPLICA)


def _elect_known(candidates: Candidates) -> Choice | None:
    """Elect a valid replica; if none can become valid any more, elect the last known leader, uncleanly (KIP-966)."""
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
# Eligible leader replicas: replicas outside the ISR that may lead cleanly (switch `elr`).
#
# While the ISR is smaller than min.insync.replicas, the high watermark does not advance. So a replica that leaves the
# ISR then has every committed record. It may lead if the ISR becomes empty, unless it has shut down uncleanly since:
# a broker that cannot name its last broker epoch (from the clean-shutdown file) when it registers may have lost
# records. Committed records thus survive min.insync.replicas - 1 such shutdowns.
#
# The level of a feature says whether the cluster has an ELR. A change of the level changes no partition at once; it
# affects the next change of each partition.
# Source: KIP-966 part 1, PartitionChangeBuilder.maybePopulateTargetElr, .maybeUpdateLastKnownLeader (4.1)


def eligible_leaders(
    partition: PartitionRegistration, target_isr: tuple[BrokerId, ...], min_isr: int, struck_out: BrokerId | None
) -> tuple[BrokerId, ...]:
    """Return the ELR for a target ISR, in ascending order; it is empty if the ISR has `min_isr` or more members.

    Args:
        min_isr: effective min.insync.replicas.
        struck_out: a broker that is no longer eligible, because it may have lost records.
    """
    if len(target_isr) >= min_isr:
        return ()
    candidates = sorted({*partition.elr, *partition.in_sync_replicas})
    return tuple(broker_id for broker_id in candidates if broker_id not in target_isr and broker_id != struck_out)


def last_known_leader(partition: PartitionRegistration, leader: BrokerId) -> tuple[BrokerId, ...]:
    """Return the new `last_known_elr`: the last leader while `leader` is NO_BROKER, else an empty tuple.

    The last leader is the best candidate if ISR and ELR are empty, but its election is unclean. Kafka 4.1.0 took the
    last member of the ISR instead, even if there was no leader before (fixed in 4.1.1).
    """
    if leader != NO_BROKER:
        return ()
    return partition.last_known_elr or ((partition.leader,) if partition.has_leader else ())
