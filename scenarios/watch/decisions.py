"""Events that a controller would state, made of what brokers say about partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from replica.ids import BrokerId
from replica.trace import events as trace
from replica.trace.events import TraceEvent
from scenarios.watch.answers import PartitionAnswer
from scenarios.watch.watched import WatchedPartition, broker_name, names_of

CONTROLLER = "c1"
"""The controller's name in the trace; it is not asked."""


def created(known: WatchedPartition) -> Iterator[TraceEvent]:
    one = known.answer
    yield trace.PartitionCreated(
        node=CONTROLLER,
        broker=broker_name(one.leader) if one.leader >= 0 else None,
        replicas=names_of(one.replicas),
        isr=names_of(one.isr),
        min_isr=known.configured_min_isr or 1,
        **_of(known),
    )
    if one.elr:
        yield elr_changed(known, ())


def reassigned(known: WatchedPartition, before: PartitionAnswer) -> TraceEvent:
    replicas = names_of(known.answer.replicas)
    adding = _difference(known.answer.replicas, before.replicas)
    if not adding:
        return trace.ReassignmentCompleted(node=CONTROLLER, replicas=replicas, **_of(known))
    return trace.ReassignmentBegan(
        node=CONTROLLER,
        replicas=replicas,
        adding=names_of(adding),
        removing=names_of(_difference(before.replicas, known.answer.replicas)),
        **_of(known),
    )


def elected(known: WatchedPartition, before: PartitionAnswer) -> TraceEvent:
    """Another leader or another epoch, or no leader any more."""
    one = known.answer
    previous = broker_name(before.leader) if before.leader >= 0 else None
    seen = {"previous_leader": previous, "isr": names_of(one.isr), "previous_isr": names_of(before.isr), **_of(known)}
    if one.leader < 0:
        return trace.PartitionWentOffline(node=CONTROLLER, **seen)
    clean = one.leader in before.isr or one.leader in (before.elr or ())
    return trace.LeaderElected(
        node=CONTROLLER,
        broker=broker_name(one.leader),
        clean=clean,
        electable=() if one.leader in before.isr else names_of(before.elr or ()),
        **seen,
    )


def isr_changed(known: WatchedPartition, before: PartitionAnswer) -> TraceEvent:
    one = known.answer
    return trace.IsrCommitted(
        node=CONTROLLER,
        isr=names_of(one.isr),
        previous_isr=names_of(before.isr),
        proposed_by=None,
        **_of(known),
    )


def elr_changed(known: WatchedPartition, before: Sequence[BrokerId]) -> TraceEvent:
    return trace.ElrCommitted(
        node=CONTROLLER,
        isr=names_of(known.answer.isr),
        elr=names_of(known.answer.elr or ()),
        previous_elr=names_of(before),
        last_known_leader=None,
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
