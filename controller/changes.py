"""One change of one partition: the record it needs, and its events.

Source: PartitionChangeBuilder.build.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from controller.election import Candidates, Choice, Election, elect, eligible_leaders, last_known_leader
from controller.image import MetadataImage, PartitionRegistration
from controller.inputs import Action, AppendRecord, EmitNumbered, Reply
from controller.metadata import MetadataRecord, PartitionChangeRecord
from controller.placement import Reassignment, maybe_complete, without
from replica.config import KAFKAS_OWN, NodeSettings
from replica.ids import NO_BROKER, BrokerEpoch, BrokerId, Names, Offset, TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceEvent


class PartitionChange(NamedTuple):
    """struck_out: a broker that lost its place among the eligible leaders because it may have lost records
    has_elr: whether the cluster has eligible leader replicas"""

    record: PartitionChangeRecord
    choice: Choice
    struck_out: BrokerId | None = None
    has_elr: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a partition is to become; None: that stays as it is."""

    in_sync_replicas: tuple[BrokerId, ...] | None = None
    replicas: tuple[BrokerId, ...] | None = None
    recovering: bool | None = None
    adding: tuple[BrokerId, ...] | None = None
    removing: tuple[BrokerId, ...] | None = None


UNCHANGED = Target()


def build_change(
    topic_partition: TopicPartition,
    partition: PartitionRegistration,
    *,
    names: Names,
    is_acceptable: Callable[[BrokerId], bool],
    election: Election,
    target: Target = UNCHANGED,
    elr_min_isr: int | None = None,
    struck_out: BrokerId | None = None,
) -> PartitionChange | None:
    """The record that makes the partition what it is to become, with the best leader; None: no change is needed.

    A reassignment in progress is completed as soon as the ISR allows, on any occasion.

    elr_min_isr: effective min.insync.replicas, below which who leaves the ISR stays eligible; None: there is no ELR.
        One that is left from before still finds the next leader where the ISR is empty, and goes with that change.
    struck_out: a broker that may have lost records, and is no longer eligible

    The leader field is set iff the leader changes, so only then does the leader epoch rise: a mere ISR change keeps it
    (KAFKA-15021, metadata version 3.6).
    """
    isr = partition.in_sync_replicas if target.in_sync_replicas is None else target.in_sync_replicas
    replicas = partition.replicas if target.replicas is None else target.replicas
    recovering = partition.recovering if target.recovering is None else target.recovering
    adding = partition.adding_replicas if target.adding is None else target.adding
    removing = partition.removing_replicas if target.removing is None else target.removing
    completed = maybe_complete(Reassignment(replicas, adding, removing), isr)
    if completed is not None:
        replicas, isr, adding, removing = completed.replicas, completed.in_sync_replicas, (), ()
    elr = partition.elr if elr_min_isr is None else eligible_leaders(partition, isr, elr_min_isr, struck_out)
    choice = elect(
        election,
        Candidates(
            partition=partition,
            replicas=replicas,
            in_sync_replicas=isr,
            elr=elr,
            last_known=() if elr_min_isr is None else partition.last_known_elr,
            is_acceptable=is_acceptable,
            names=names,
        ),
    )
    if not choice.clean:
        # KIP-704: the ISR holds the new leader alone until it reports that it has recovered.
        isr, elr, recovering = (choice.leader,), (), True
    elif choice.leader in elr:
        isr, elr = (choice.leader,), tuple(broker_id for broker_id in elr if broker_id != choice.leader)
    elif elr_min_isr is None:
        # Without ELR the ISR is never empty: its last member stays in it, and the partition has no leader.
        isr = isr or partition.in_sync_replicas
    if elr_min_isr is None:
        elr, last_known = (), partition.last_known_elr
    else:
        last_known = last_known_leader(partition, isr, leader_is_known=choice.leader != NO_BROKER)
    record = PartitionChangeRecord(
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        in_sync_replicas=isr if isr != partition.in_sync_replicas else None,
        # A replica that goes for good takes the leader epoch with it: its fetches are then fenced.
        leader=choice.leader if choice.leader != partition.leader or without(partition.replicas, replicas) else None,
        replicas=replicas if replicas != partition.replicas else None,
        recovering=recovering if recovering != partition.recovering else None,
        elr=elr if elr != partition.elr else None,
        last_known_elr=last_known if last_known != partition.last_known_elr else None,
        adding_replicas=adding if adding != partition.adding_replicas else None,
        removing_replicas=removing if removing != partition.removing_replicas else None,
    )
    return None if record.is_no_op else PartitionChange(record, choice, struck_out, elr_min_isr is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEvents:
    """Puts a partition's change into events, in the controller's name."""

    node: str
    names: Names

    def events(
        self,
        topic_partition: TopicPartition,
        before: PartitionRegistration,
        after: PartitionRegistration,
        choice: Choice,
        occasion: str,
        struck_out: BrokerId | None = None,
        *,
        has_elr: bool = True,
    ) -> Iterator[trace.TraceEvent]:
        """The election, then ISR and ELR. `occasion` ends their reasons: " after ...", "; an operator asked ..."."""
        if after.leader_epoch != before.leader_epoch:
            yield self.elected(topic_partition, before, after, choice, choice.why + occasion)
        if after.in_sync_replicas != before.in_sync_replicas:
            reason = self.membership(before, after) + occasion if choice.clean else self._uncleanly(before, after)
            yield self.isr_committed(topic_partition, before, after, reason)
        eligibility = self.eligibility(before, after, struck_out, has_elr=has_elr)
        if eligibility:
            yield self.elr_committed(topic_partition, before, after, eligibility + occasion)
        if before.is_reassigning and not after.is_reassigning:
            yield self.reassigned(topic_partition, before, after)

    def _uncleanly(self, before: PartitionRegistration, after: PartitionRegistration) -> str:
        lost = self.names.set_of(before.in_sync_replicas) if before.in_sync_replicas else "others"
        return f"{self.names(after.leader)} was elected uncleanly and starts alone: what only {lost} held is lost"

    def reassigned(
        self, topic_partition: TopicPartition, before: PartitionRegistration, after: PartitionRegistration
    ) -> trace.TraceEvent:
        """How the reassignment of `before` ended: its replicas reached the target, or it was taken back."""
        removed = without(before.replicas, after.replicas)
        gone = f"; {self.names.set_of(removed)} {'loses' if len(removed) == 1 else 'lose'} it" if removed else ""
        is_taken_back = bool(without(before.adding_replicas, after.replicas)) or any(
            broker_id in after.replicas for broker_id in before.removing_replicas
        )
        if is_taken_back:
            reason = f"the reassignment is taken back: the replicas are {self.names.set_of(after.replicas)} again{gone}"
        else:
            reason = f"the reassignment is complete: all of {self.names.set_of(after.replicas)} are in the ISR{gone}"
        event = trace.ReassignmentCancelled if is_taken_back else trace.ReassignmentCompleted
        return event(
            node=self.node,
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            leader_epoch=after.leader_epoch,
            partition_epoch=after.partition_epoch,
            replicas=self.named(after.replicas),
            reason=reason,
        )

    def elected(
        self,
        topic_partition: TopicPartition,
        before: PartitionRegistration,
        after: PartitionRegistration,
        choice: Choice,
        reason: str,
    ) -> trace.TraceEvent:
        previous_leader = self.names(before.leader) if before.has_leader else None
        if after.leader == NO_BROKER:
            return trace.PartitionWentOffline(
                node=self.node,
                previous_leader=previous_leader,
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                leader_epoch=after.leader_epoch,
                partition_epoch=after.partition_epoch,
                isr=self.named(after.in_sync_replicas),
                reason=reason,
            )
        return trace.LeaderElected(
            node=self.node,
            broker=self.names(after.leader),
            previous_leader=previous_leader,
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            leader_epoch=after.leader_epoch,
            partition_epoch=after.partition_epoch,
            isr=self.named(after.in_sync_replicas),
            clean=choice.clean,
            reason=reason,
        )

    def isr_committed(
        self,
        topic_partition: TopicPartition,
        before: PartitionRegistration,
        after: PartitionRegistration,
        reason: str,
        proposed_by: str | None = None,
    ) -> trace.IsrCommitted:
        return trace.IsrCommitted(
            node=self.node,
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            leader_epoch=after.leader_epoch,
            partition_epoch=after.partition_epoch,
            isr=self.named(after.in_sync_replicas),
            previous_isr=self.named(before.in_sync_replicas),
            proposed_by=proposed_by,
            reason=reason,
        )

    def elr_committed(
        self, topic_partition: TopicPartition, before: PartitionRegistration, after: PartitionRegistration, reason: str
    ) -> trace.ElrCommitted:
        return trace.ElrCommitted(
            node=self.node,
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            leader_epoch=after.leader_epoch,
            partition_epoch=after.partition_epoch,
            elr=self.named(after.elr),
            previous_elr=self.named(before.elr),
            last_known_leader=self.names(after.last_known_elr[0]) if after.last_known_elr else None,
            reason=reason,
        )

    def eligibility(
        self,
        before: PartitionRegistration,
        after: PartitionRegistration,
        struck_out: BrokerId | None = None,
        *,
        has_elr: bool = True,
    ) -> str:
        """Why each came to the ELR or went from it, and whom the controller remembers; "" where that is as it was."""
        reasons = []
        came = tuple(broker_id for broker_id in after.elr if broker_id not in before.elr)
        may_lead = tuple(broker_id for broker_id in came if broker_id in after.replicas)
        if may_lead:
            below = "the ISR is below min.insync.replicas, so the high watermark cannot rise from here"
            reasons.append(f"{' and '.join(self.named(may_lead))} may still lead: {below}")
        reasons += [f"{name} stays though it is no replica any more" for name in self.named(without(came, may_lead))]
        for broker_id in before.elr:
            if broker_id not in after.elr:
                why = self._why_gone(broker_id, after, struck_out, has_elr=has_elr)
                reasons.append(f"{self.names(broker_id)} {why}")
        if after.last_known_elr and after.last_known_elr != before.last_known_elr:
            reasons.append(f"{self.names(after.last_known_elr[0])} is remembered as the last leader")
        return "; ".join(reasons)

    def _why_gone(
        self, broker_id: BrokerId, after: PartitionRegistration, struck_out: BrokerId | None, *, has_elr: bool
    ) -> str:
        if broker_id == struck_out:
            return "may have lost records and may not lead"
        if broker_id in after.in_sync_replicas:
            return "is in the ISR again"
        if not has_elr:
            return "may not lead: the cluster has no eligible leader replicas any more"
        if broker_id not in after.replicas:
            return "goes: it is no replica any more"
        return f"has to catch up first: the ISR is {self.names.set_of(after.in_sync_replicas)}"

    def membership(self, before: PartitionRegistration, after: PartitionRegistration) -> str:
        """`b3 left the ISR`, `b2 and b3 joined the ISR`."""
        old, new = before.in_sync_replicas, after.in_sync_replicas
        left = [self.names(broker_id) for broker_id in old if broker_id not in new]
        joined = [self.names(broker_id) for broker_id in new if broker_id not in old]
        parts = [f"{' and '.join(who)} {verb} the ISR" for who, verb in ((left, "left"), (joined, "joined")) if who]
        return " and ".join(parts)

    def named(self, broker_ids: tuple[BrokerId, ...]) -> tuple[str, ...]:
        return tuple(self.names(broker_id) for broker_id in broker_ids)


# -------------------------------------------------------------------------------------------------------------- journal
#
# The effects of one input: records applied to the image as they are appended, and events, in causal order.
#
# Source: ControllerResult (records and a response), and the controller's replay of its own records.


class Journal:
    """Shared by the parts of the controller; `take` hands out the actions of the input in progress."""

    __slots__ = ("_actions", "_events", "image", "names", "node", "teller")

    def __init__(self, names: Names, controller_id: BrokerId, settings: NodeSettings = KAFKAS_OWN) -> None:
        self.names = names
        self.node = names(controller_id)
        self.image = MetadataImage(settings, controller_id)
        self.teller = ChangeEvents(node=self.node, names=names)
        self._actions: list[Action] = []
        self._events = 0

    @property
    def next_offset(self) -> Offset:
        return self.image.offset + 1

    def append(self, record: MetadataRecord) -> None:
        offset = self.next_offset
        self.image.apply(record, offset)
        self._actions.append(AppendRecord(offset=offset, record=record))

    def tell(self, event: TraceEvent, cause: int | None = None) -> int:
        """returns: the event's number, a `cause` for later events of the same input"""
        number = self._events
        self._events += 1
        self._actions.append(EmitNumbered(event=event, number=number, cause=cause))
        return number

    def stale_epoch(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> str | None:
        """Why a request with this broker epoch is stale; None: it is not. Source: checkBrokerEpoch"""
        broker, who = self.image.brokers.get(broker_id), self.names(broker_id)
        if broker is None:
            return f"{who} is not registered"
        if broker.broker_epoch != broker_epoch:
            return f"{who} is registered with epoch {broker.broker_epoch}, not with epoch {broker_epoch}"
        return None

    def reply(self, reply: Reply) -> None:
        self._actions.append(reply)

    def change_partition(
        self, topic_partition: TopicPartition, change: PartitionChange, occasion: str, cause: int | None = None
    ) -> None:
        """Append the change, then the events of its election and ISR; `occasion` ends their reasons."""
        before, after = self.append_change(topic_partition, change)
        choice, gone = change.choice, change.struck_out
        for event in self.teller.events(topic_partition, before, after, choice, occasion, gone, has_elr=change.has_elr):
            self.tell(event, cause)

    def append_change(
        self, topic_partition: TopicPartition, change: PartitionChange
    ) -> tuple[PartitionRegistration, PartitionRegistration]:
        """returns: the partition before and after"""
        partitions = self.image.topics[topic_partition.topic].partitions
        before = partitions[topic_partition.partition]
        self.append(change.record)
        return before, partitions[topic_partition.partition]

    def take(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions
