"""The checks of an AlterPartition request, in Kafka's order. The first check that fails determines the error.
Source: ReplicationControlManager.validateAlterPartitionData, .ineligibleReplicasForIsr; KIP-497, 704, 841, 903.
"""

from __future__ import annotations

from typing import NamedTuple

from controller.image import MetadataImage, PartitionRegistration
from controller.inputs import IsrProposal
from replica.errors import ErrorCode
from replica.ids import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, Names
from replica.rules import Rules


class Refusal(NamedTuple):
    error: ErrorCode
    reason: str


def check_proposal(
    image: MetadataImage, sender: BrokerId, proposal: IsrProposal, names: Names, rules: Rules
) -> Refusal | None:
    """Return why a proposed ISR is refused, or None if the controller may write it."""
    if proposal.topic not in image.topics:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "the topic does not exist")
    partition = image.partition(proposal.topic, proposal.partition)
    if partition is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist")
    return (
        _check_epochs(partition, sender, proposal, names)
        or _check_members(partition, proposal, names)
        or _check_eligible(image, proposal, names, rules)
    )


def _check_epochs(
    partition: PartitionRegistration, sender: BrokerId, proposal: IsrProposal, names: Names
) -> Refusal | None:
    who = names(sender)
    # A leader that knows a newer epoch than this controller talks to a replaced controller.
    if proposal.leader_epoch > partition.leader_epoch:
        reason = (
            f"{who} knows leader epoch {proposal.leader_epoch}, but this controller knows only {partition.leader_epoch}"
        )
        return Refusal(ErrorCode.NOT_CONTROLLER, reason)
    if proposal.partition_epoch > partition.partition_epoch:
        reason = (
            f"{who} knows partition epoch {proposal.partition_epoch}, but this controller knows only "
            f"{partition.partition_epoch}"
        )
        return Refusal(ErrorCode.NOT_CONTROLLER, reason)
    if proposal.leader_epoch < partition.leader_epoch:
        reason = (
            f"{who} leads in epoch {proposal.leader_epoch}, but the partition is in epoch {partition.leader_epoch} "
            f"with leader {names(partition.leader)}"
        )
        return Refusal(ErrorCode.FENCED_LEADER_EPOCH, reason)
    if sender != partition.leader:
        return Refusal(ErrorCode.INVALID_REQUEST, f"{who} is not the leader; the leader is {names(partition.leader)}")
    if proposal.partition_epoch < partition.partition_epoch:
        reason = (
            f"{who} proposed a change at partition epoch {proposal.partition_epoch}, but the controller has since "
            f"changed the partition (partition epoch {partition.partition_epoch})"
        )
        return Refusal(ErrorCode.INVALID_UPDATE_VERSION, reason)
    return None


def _check_members(partition: PartitionRegistration, proposal: IsrProposal, names: Names) -> Refusal | None:
    isr, shown = proposal.in_sync_replicas, names.set_of(proposal.in_sync_replicas)
    if len(dict.fromkeys(isr)) != len(isr):
        return Refusal(ErrorCode.INVALID_REQUEST, f"the ISR {shown} contains a replica twice")
    strangers = tuple(broker_id for broker_id in isr if broker_id not in partition.replicas)
    if strangers:
        verb = "is" if len(strangers) == 1 else "are"
        reason = f"{names.set_of(strangers)} {verb} not in the replicas {names.set_of(partition.replicas)}"
        return Refusal(ErrorCode.INVALID_REQUEST, reason)
    if partition.leader not in isr:
        return Refusal(ErrorCode.INVALID_REQUEST, f"the ISR {shown} lacks the leader {names(partition.leader)}")
    if proposal.recovering and len(isr) > 1:
        return Refusal(ErrorCode.INVALID_REQUEST, "the leader is still recovering from an unclean election")
    if proposal.recovering and not partition.recovering:
        return Refusal(ErrorCode.INVALID_REQUEST, "the partition has already recovered from its unclean election")
    return None


def _check_eligible(image: MetadataImage, proposal: IsrProposal, names: Names, rules: Rules) -> Refusal | None:
    """Return a refusal if a proposed ISR member is not eligible by the rule `isr-eligibility`.

    Leaders apply this rule, too, before they propose (replica/leader.py).
    """
    if rules.isr_eligibility == "any":
        return None
    ineligible = []
    for broker_id, broker_epoch in zip(proposal.in_sync_replicas, proposal.broker_epochs, strict=True):
        stated = broker_epoch if rules.isr_eligibility == "broker-epoch" else NO_BROKER_EPOCH
        why = _ineligible(image, broker_id, stated)
        if why:
            ineligible.append(f"{names(broker_id)} {why}")
    return Refusal(ErrorCode.INELIGIBLE_REPLICA, " and ".join(ineligible)) if ineligible else None


def _ineligible(image: MetadataImage, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> str | None:
    broker = image.brokers.get(broker_id)
    if broker is None:
        return "is not registered"
    if broker.in_controlled_shutdown:
        return "is shutting down"
    if broker.fenced:
        return "is fenced"
    if broker_epoch not in (NO_BROKER_EPOCH, broker.broker_epoch):
        # KIP-903: the new incarnation may have lost records that the earlier one had fetched.
        return f"has restarted (broker epoch {broker_epoch} in the proposal, now {broker.broker_epoch})"
    return None
