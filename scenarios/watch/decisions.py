"""Events that a controller would state, made of what brokers say about partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from replica.ids import BrokerId
from replica.trace import events as trace
from replica.trace.events import TraceEvent
from replica.wording import listed
from scenarios.watch.answers import PartitionAnswer
from scenarios.watch.watched import WatchedPartition, broker_name, names_of

CONTROLLER = "c1"
"""The controller's name in the trace; it is not asked."""


def created(known: WatchedPartition, asked: str) -> Iterator[TraceEvent]:
    """asked: the broker that describes it, here and below"""
    one = known.answer
    leader = broker_name(one.leader) if one.leader >= 0 else None
    yield trace.PartitionCreated(
        node=CONTROLLER,
        broker=leader,
        replicas=names_of(one.replicas),
        isr=names_of(one.isr),
        min_isr=known.configured_min_isr or 1,
        reason=f"leader {leader or 'none'}, ISR {listed(names_of(one.isr)) or 'empty'}, as {asked} describes it",
        **_of(known),
    )
    if one.elr:
        yield elr_changed(known, (), asked)


def reassigned(known: WatchedPartition, before: PartitionAnswer, asked: str) -> TraceEvent:
    replicas = names_of(known.answer.replicas)
    adding = _difference(known.answer.replicas, before.replicas)
    reason = f"its replicas are {listed(replicas)}, as {asked} describes it"
    if not adding:
        return trace.ReassignmentCompleted(node=CONTROLLER, replicas=replicas, reason=reason, **_of(known))
    return trace.ReassignmentBegan(
        node=CONTROLLER,
        replicas=replicas,
        adding=names_of(adding),
        removing=names_of(_difference(before.replicas, known.answer.replicas)),
        reason=reason,
        **_of(known),
    )


def elected(known: WatchedPartition, before: PartitionAnswer, asked: str) -> TraceEvent:
    """Another leader or another epoch, or no leader any more."""
    one = known.answer
    previous = broker_name(before.leader) if before.leader >= 0 else None
    isr = names_of(one.isr)
    if one.leader < 0:
        reason = f"no leader any more, as {asked} describes it (before: {previous or 'none'})"
        return trace.PartitionWentOffline(
            node=CONTROLLER, previous_leader=previous, isr=isr, reason=reason, **_of(known)
        )
    clean = one.leader in before.isr or one.leader in (before.elr or ())
    name = broker_name(one.leader)
    unseen = "" if clean else "; it was not in the ISR that was seen before"
    return trace.LeaderElected(
        node=CONTROLLER,
        broker=name,
        previous_leader=previous,
        isr=isr,
        clean=clean,
        reason=f"{name} leads, as {asked} describes it (before: {previous or 'none'}){unseen}",
        **_of(known),
    )


def isr_changed(known: WatchedPartition, before: PartitionAnswer, asked: str) -> TraceEvent:
    one = known.answer
    moves = ((_difference(before.isr, one.isr), "left"), (_difference(one.isr, before.isr), "joined"))
    what = " and ".join(f"{listed(names_of(who))} {verb}" for who, verb in moves if who)
    return trace.IsrCommitted(
        node=CONTROLLER,
        isr=names_of(one.isr),
        previous_isr=names_of(before.isr),
        proposed_by=None,
        reason=f"{what}, as {asked} describes it",
        **_of(known),
    )


def elr_changed(known: WatchedPartition, before: Sequence[BrokerId], asked: str) -> TraceEvent:
    elr = known.answer.elr or ()
    return trace.ElrCommitted(
        node=CONTROLLER,
        elr=names_of(elr),
        previous_elr=names_of(before),
        last_known_leader=None,
        reason=f"the ELR is {listed(names_of(elr)) or 'empty'}, as {asked} describes it",
        **_of(known),
    )


def _of(known: WatchedPartition) -> dict[str, Any]:
    return {
        "topic": known.name.topic,
        "partition": known.name.partition,
        "leader_epoch": known.leader_epoch,
        "partition_epoch": known.partition_epoch,
    }


def _difference(some: Sequence[BrokerId], others: Sequence[BrokerId]) -> list[BrokerId]:
    return [broker_id for broker_id in some if broker_id not in others]
