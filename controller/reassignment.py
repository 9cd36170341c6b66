"""The arithmetic of KIP-455: the replicas that a reassignment adds and removes, its completion, and its cancel.

Source: PartitionReassignmentReplicas.java, PartitionReassignmentRevert.java.
"""

from __future__ import annotations

from typing import NamedTuple

from controller.image import PartitionRegistration
from replica.ids import BrokerId

Replicas = tuple[BrokerId, ...]


class Reassignment(NamedTuple):
    """A partition on its way: `replicas` are the target, then what is being removed."""

    replicas: Replicas
    adding: Replicas
    removing: Replicas

    @property
    def is_in_progress(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> Replicas:
        return without(self.replicas, self.removing)


class ReassignmentOutcome(NamedTuple):
    """Replicas and ISR after a reassignment was completed or cancelled; `unclean`: no replica in sync would remain."""

    replicas: Replicas
    in_sync_replicas: Replicas
    unclean: bool = False


def without(replicas: Replicas, leaving: Replicas) -> Replicas:
    return tuple(broker_id for broker_id in replicas if broker_id not in leaving)


def begin(partition: PartitionRegistration, target: Replicas) -> Reassignment:
    """From what the partition has now, an earlier reassignment's half-way state included."""
    removing = tuple(sorted(without(partition.replicas, target)))
    adding = tuple(sorted(without(target, partition.replicas)))
    return Reassignment((*target, *removing), adding, removing)


def maybe_complete(reassignment: Reassignment, in_sync_replicas: Replicas) -> ReassignmentOutcome | None:
    """Complete as soon as every replica of the target is in the ISR; the removed ones leave both."""
    if not reassignment.is_in_progress:
        return None
    replicas, isr = reassignment.target, without(in_sync_replicas, reassignment.removing)
    if not replicas or not isr or without(replicas, isr):
        return None
    return ReassignmentOutcome(replicas, isr)


def revert(partition: PartitionRegistration) -> ReassignmentOutcome:
    """The replicas after a cancel: all but the added ones."""
    replicas = without(partition.replicas, partition.adding_replicas)
    isr = without(partition.in_sync_replicas, partition.adding_replicas)
    return ReassignmentOutcome(replicas, isr) if isr else ReassignmentOutcome(replicas, replicas[:1], unclean=True)
