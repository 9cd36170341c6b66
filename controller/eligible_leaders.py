"""Eligible leader replicas: who may lead cleanly although the ISR has lost them (switch `elr`).

While the ISR is below min.insync.replicas the high watermark stands still. So a replica that leaves it then holds
every committed record, and may lead once no other replica is left, unless it shut down uncleanly since: a broker that
cannot name its last broker epoch (from the clean-shutdown file) when it registers may have lost records. That outlasts
min.insync.replicas - 1 such shutdowns.

Whether there is an ELR is the level of a feature, which can change while the cluster runs. Nothing is computed anew
then: the next change of each partition takes it into account.
source: KIP-966 part 1, PartitionChangeBuilder.maybePopulateTargetElr, .maybeUpdateLastKnownLeader (4.1)
"""

from __future__ import annotations

from controller.image import PartitionRegistration
from replica.ids import BrokerId


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
