"""Changes of partitions: the metadata record of each change, and its events. Source: PartitionChangeBuilder.build"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from controller.election import Candidates, Choice, Election, Occasion, elect, eligible_leaders, last_known_leader
from controller.image import MetadataImage, PartitionRegistration
from controller.inputs import Action, AppendRecord, EmitNumbered, Reply
from controller.metadata import MetadataRecord, PartitionChangeRecord
from controller.placement import Reassignment, maybe_complete
from replica.causes import ElrCause, IsrCommitCause, OccasionKind
from replica.config import KAFKAS_OWN, NodeSettings
from replica.ids import NO_BROKER, BrokerEpoch, BrokerId, Names, Offset, TopicPartition, without
from replica.trace import events as trace
from replica.trace.events import TraceEvent


class PartitionChange(NamedTuple):
    """The metadata record of one change of a partition, and the result of the election for it.

    Attributes:
        struck_out: a broker that is no longer an eligible leader, because it may have lost records.
        has_elr: True if the cluster had eligible leader replicas.
    """

    record: PartitionChangeRecord
    choice: Choice
    struck_out: BrokerId | None = None
    has_elr: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The state that a change should give to a partition. A field that is None does not change."""

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
    is_acceptable: Callable[[BrokerId], bool],
    election: Election,
    target: Target = UNCHANGED,
    elr_min_isr: int | None = None,
    struck_out: BrokerId | None = None,
    reassignment_done: str,
) -> PartitionChange | None:
    """Return the change that brings a partition to its target with the best leader, or None if it needs no change.

    A reassignment in progress is completed as soon as the ISR allows it, whatever the change is for. The record names a
    leader only if the leader changes, so the leader epoch rises only then; a mere change of the ISR keeps it
    (KAFKA-15021, metadata version 3.6).

    Args:
        is_acceptable: returns True for brokers that may lead.
        elr_min_isr: effective min.insync.replicas. Below it, brokers that leave the ISR stay eligible leaders. None
            if the cluster has no ELR; an ELR that was stored earlier can then still provide the leader of an empty ISR,
            and is removed by that change.
        struck_out: a broker that is no longer an eligible leader, because it may have lost records.
        reassignment_done: value of the switch `reassignment-done`.
    """
    isr = partition.in_sync_replicas if target.in_sync_replicas is None else target.in_sync_replicas
    replicas = partition.replicas if target.replicas is None else target.replicas
    recovering = partition.recovering if target.recovering is None else target.recovering
    adding = partition.adding_replicas if target.adding is None else target.adding
    removing = partition.removing_replicas if target.removing is None else target.removing
    completed = maybe_complete(Reassignment(replicas, adding, removing), isr, reassignment_done)
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
        last_known = last_known_leader(partition, choice.leader)
    record = PartitionChangeRecord(
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        in_sync_replicas=isr if isr != partition.in_sync_replicas else None,
        # If a replica is removed, the leader epoch rises, so that fetches of the removed replica are fenced.
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
    """A factory of the controller's trace events for changes of partitions."""

    node: str
    names: Names

    def events(
        self,
        topic_partition: TopicPartition,
        before: PartitionRegistration,
        after: PartitionRegistration,
        choice: Choice,
        occasion: Occasion | None,
        struck_out: BrokerId | None = None,
        *,
        has_elr: bool = True,
    ) -> Iterator[trace.TraceEvent]:
        """Yield the events of one change: its election first, then its ISR and ELR."""
        if after.leader_epoch != before.leader_epoch:
            yield self.elected(topic_partition, before, after, choice, occasion)
        if after.in_sync_replicas != before.in_sync_replicas:
            cause = IsrCommitCause.DECIDED if choice.clean else IsrCommitCause.UNCLEAN_ELECTION
            yield self.isr_committed(topic_partition, before, after, cause, occasion)
        yield from self.elr_committed(topic_partition, before, after, occasion, struck_out, has_elr=has_elr)
        if before.is_reassigning and not after.is_reassigning:
            yield self.reassigned(topic_partition, before, after)

    def reassigned(
        self, topic_partition: TopicPartition, before: PartitionRegistration, after: PartitionRegistration
    ) -> trace.TraceEvent:
        """Return the event for the end of the reassignment of `before`: completed or cancelled."""
        is_taken_back = bool(without(before.adding_replicas, after.replicas)) or any(
            broker_id in after.replicas for broker_id in before.removing_replicas
        )
        event = trace.ReassignmentCancelled if is_taken_back else trace.ReassignmentCompleted
        return event(
            self.node,
            *topic_partition,
            leader_epoch=after.leader_epoch,
            partition_epoch=after.partition_epoch,
            replicas=self.named(after.replicas),
            previous_replicas=self.named(before.replicas),
        )

    def elected(
        self,
        topic_partition: TopicPartition,
        before: PartitionRegistration,
        after: PartitionRegistration,
        choice: Choice,
        occasion: Occasion | None,
    ) -> trace.TraceEvent:
        decided = {
            **self._decided(after, occasion),
            "previous_leader": self.names(before.leader) if before.has_leader else None,
            "isr": self.named(after.in_sync_replicas),
            "cause": choice.cause,
            "previous_isr": self.named(before.in_sync_replicas),
            "electable": self.named(choice.electable),
        }
        if after.leader == NO_BROKER:
            return trace.PartitionWentOffline(self.node, *topic_partition, **decided)
        return trace.LeaderElected(
            self.node,
            *topic_partition,
            broker=self.names(after.leader),
            clean=choice.clean,
            candidates=self.named(after.replicas),
            **decided,
        )

    def isr_committed(
        self,
        topic_partition: TopicPartition,
        before: PartitionRegistration,
        after: PartitionRegistration,
        cause: IsrCommitCause,
        occasion: Occasion | None = None,
        proposed_by: str | None = None,
    ) -> trace.IsrCommitted:
        return trace.IsrCommitted(
            self.node,
            *topic_partition,
            isr=self.named(after.in_sync_replicas),
            previous_isr=self.named(before.in_sync_replicas),
            proposed_by=proposed_by,
            cause=cause,
            recovered=proposed_by is not None and before.recovering and not after.recovering,
            **self._decided(after, occasion),
        )

    def elr_committed(
        self,
        topic_partition: TopicPartition,
        before: PartitionRegistration,
        after: PartitionRegistration,
        occasion: Occasion | None = None,
        struck_out: BrokerId | None = None,
        *,
        has_elr: bool = True,
        cause: ElrCause | None = None,
    ) -> Iterator[trace.ElrCommitted]:
        """Yield an event if the ELR or the last known leader changed.

        Args:
            cause: why the whole ELR was removed, if it was.
        """
        came, gone = without(after.elr, before.elr), without(before.elr, after.elr)
        is_remembered = bool(after.last_known_elr) and after.last_known_elr != before.last_known_elr
        if not (came or gone or is_remembered or cause):
            return
        yield trace.ElrCommitted(
            self.node,
            *topic_partition,
            isr=self.named(after.in_sync_replicas),
            elr=self.named(after.elr),
            previous_elr=self.named(before.elr),
            last_known_leader=self.names(after.last_known_elr[0]) if after.last_known_elr else None,
            previous_last_known_leader=self.names(before.last_known_elr[0]) if before.last_known_elr else None,
            cause=cause,
            came_causes=tuple(
                ElrCause.BELOW_MIN_ISR if broker_id in after.replicas else ElrCause.NOT_ASSIGNED for broker_id in came
            ),
            gone_causes=tuple(
                cause or _why_gone(broker_id, after, struck_out, occasion, has_elr=has_elr) for broker_id in gone
            ),
            **self._decided(after, occasion),
        )

    def _decided(self, after: PartitionRegistration, occasion: Occasion | None) -> dict[str, Any]:
        """Return the fields of an `OnOccasion` event as keyword arguments."""
        epochs = {"leader_epoch": after.leader_epoch, "partition_epoch": after.partition_epoch}
        if occasion is None:
            return epochs
        return {
            **epochs,
            "occasion": occasion.kind,
            "occasion_brokers": self.named(occasion.brokers),
            "fencing_cause": occasion.fencing,
            "occasion_amount": occasion.amount,
        }

    def named(self, broker_ids: tuple[BrokerId, ...]) -> tuple[str, ...]:
        return tuple(self.names(broker_id) for broker_id in broker_ids)


def _why_gone(
    broker_id: BrokerId,
    after: PartitionRegistration,
    struck_out: BrokerId | None,
    occasion: Occasion | None,
    *,
    has_elr: bool,
) -> ElrCause:
    if broker_id == struck_out:
        return ElrCause.MAY_HAVE_LOST_RECORDS
    if broker_id in after.in_sync_replicas:
        return ElrCause.IN_ISR
    if not has_elr:
        is_report = occasion is not None and occasion.kind is OccasionKind.DIRECTORY_REPORTED
        return ElrCause.DIRECTORY_REPORTED if is_report else ElrCause.NO_ELR
    return ElrCause.HAS_TO_CATCH_UP if broker_id in after.replicas else ElrCause.NOT_ASSIGNED


# -------------------------------------------------------------------------------------------------------------- journal
#
# The effects of one input: records applied to the image as they are appended, and events, in causal order.
#
# Source: ControllerResult (records and a response), and the controller's replay of its own records.


class Journal:
    """The records, events and replies that result from the current input. All parts of the controller add to it.

    `take` returns them as actions and begins a new list.
    """

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
        """Add an event. Return its number, which later events of the same input can refer to as their `cause`."""
        number = self._events
        self._events += 1
        self._actions.append(EmitNumbered(event=event, number=number, cause=cause))
        return number

    def stale_epoch(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> str | None:
        """Return why a request with this broker epoch is stale; None if it is current. Source: checkBrokerEpoch"""
        broker, who = self.image.brokers.get(broker_id), self.names(broker_id)
        if broker is None:
            return f"{who} is not registered"
        if broker.broker_epoch != broker_epoch:
            return f"{who} is registered with broker epoch {broker.broker_epoch}, not {broker_epoch}"
        return None

    def reply(self, reply: Reply) -> None:
        self._actions.append(reply)

    def change_partition(
        self, topic_partition: TopicPartition, change: PartitionChange, occasion: Occasion, cause: int | None = None
    ) -> None:
        """Append the record of a change, then the events of its election and its ISR."""
        before, after = self.append_change(topic_partition, change)
        choice, gone = change.choice, change.struck_out
        for event in self.teller.events(topic_partition, before, after, choice, occasion, gone, has_elr=change.has_elr):
            self.tell(event, cause)

    def append_change(
        self, topic_partition: TopicPartition, change: PartitionChange
    ) -> tuple[PartitionRegistration, PartitionRegistration]:
        """Append the record of a change. Return the partition before and after it."""
        partitions = self.image.topics[topic_partition.topic].partitions
        before = partitions[topic_partition.partition]
        self.append(change.record)
        return before, partitions[topic_partition.partition]

    def take(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions
