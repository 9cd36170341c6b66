"""Creates trace events of brokers and controllers from the offsets and metadata that brokers return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from replica.ids import UNKNOWN_OFFSET, BrokerId, Offset
from replica.trace import events as trace
from replica.trace.events import TraceEvent
from scenarios.watch.questions import PartitionAnswer
from scenarios.watch.watched import WatchedPartition, WatchedReplica, broker_name, names_of

UNKNOWN_PRODUCER = -1


def began(known: WatchedPartition, broker_id: BrokerId, replica: WatchedReplica) -> TraceEvent:
    """Return the event that a replica has become leader or follower in the current leader epoch."""
    index, leader = _place(known, broker_id), known.answer.leader
    state = {**_ends(replica), "leader_epoch": known.leader_epoch, "partition_epoch": known.partition_epoch}
    if broker_id == leader:
        return trace.LeadershipBegan(*index, isr=names_of(known.answer.isr), **state)
    followed = broker_name(leader) if leader >= 0 else None
    return trace.FollowingBegan(*index, broker=followed, **state)


def truncated(
    known: WatchedPartition, broker_id: BrokerId, replica: WatchedReplica, end: Offset, high_watermark: Offset | None
) -> TraceEvent:
    """Return the event for a truncation.

    Args:
        replica: the replica after the truncation.
        end, high_watermark: the replica's offsets before the truncation.
    """
    return trace.LogTruncated(
        *_place(known, broker_id),
        leader_epoch=known.leader_epoch,
        previous_log_end_offset=end,
        previous_high_watermark=UNKNOWN_OFFSET if high_watermark is None else high_watermark,
        **_ends(replica),
    )


def appended(known: WatchedPartition, broker_id: BrokerId, before: Offset, end: Offset) -> TraceEvent:
    """Return the event for records that were appended between two samples, as one batch of unknown content.

    Args:
        before, end: the replica's log end offsets in the two samples.
    """
    return trace.BatchAppended(
        *_place(known, broker_id),
        role=_role(known, broker_id),
        leader_epoch=known.leader_epoch,
        base_offset=before,
        last_offset=end - 1,
        log_end_offset=end,
        size_bytes=0,
        crc=0,
        producer_id=UNKNOWN_PRODUCER,
        producer_epoch=UNKNOWN_PRODUCER,
        base_sequence=UNKNOWN_PRODUCER,
    )


def high_watermark_moved(
    known: WatchedPartition, broker_id: BrokerId, replica: WatchedReplica, before: Offset
) -> TraceEvent:
    role = _role(known, broker_id)
    kind = trace.HighWatermarkAdvanced if role == "leader" else trace.HighWatermarkLearned
    return kind(
        *_place(known, broker_id),
        role=role,
        leader_epoch=known.leader_epoch,
        previous_high_watermark=before,
        **_ends(replica),
    )


def fetched(known: WatchedPartition, broker_id: BrokerId, end: Offset, leaders_end: Offset, hw: Offset) -> TraceEvent:
    """Return the event for a fetch at `end`, which a follower must have sent because its log ends there."""
    return trace.FollowerFetched(
        *_place(known, known.answer.leader),
        peer=broker_name(broker_id),
        leader_epoch=known.leader_epoch,
        fetch_offset=end,
        log_end_offset=leaders_end,
        high_watermark=hw,
        in_isr=broker_id in known.answer.isr,
    )


def found(known: WatchedPartition, broker_id: BrokerId, replica: WatchedReplica, *, running: bool) -> TraceEvent:
    """Return the event with a replica's state at the end of the watch."""
    return trace.ReplicaFound(
        *_place(known, broker_id),
        log_start_offset=0,
        is_leader=broker_id == known.answer.leader,
        in_isr=broker_id in known.answer.isr,
        running=running,
        **_ends(replica),
    )


def _place(known: WatchedPartition, broker_id: BrokerId) -> tuple[str, str, int]:
    return (broker_name(broker_id), *known.name)


def _ends(replica: WatchedReplica) -> dict[str, Any]:
    assert replica.log_end_offset is not None and replica.high_watermark is not None
    return {"log_end_offset": replica.log_end_offset, "high_watermark": replica.high_watermark}


def _role(known: WatchedPartition, broker_id: BrokerId) -> str:
    return "leader" if broker_id == known.answer.leader else "follower"


# ------------------------------------------------------------------------------------------ decisions of the controller
#
# Events of a controller, derived from the partition metadata of brokers.

CONTROLLER = "c1"
"""The controller's name in the trace. The watch sends no requests to the controller itself."""


def created(known: WatchedPartition) -> Iterator[TraceEvent]:
    item = known.answer
    yield trace.PartitionCreated(
        node=CONTROLLER,
        broker=broker_name(item.leader) if item.leader >= 0 else None,
        replicas=names_of(item.replicas),
        isr=names_of(item.isr),
        min_isr=known.configured_min_isr or 1,
        **_place_and_epochs(known),
    )
    if item.elr:
        yield elr_changed(known, ())


def reassigned(known: WatchedPartition, before: PartitionAnswer) -> TraceEvent:
    replicas = names_of(known.answer.replicas)
    adding = _difference(known.answer.replicas, before.replicas)
    if not adding:
        return trace.ReassignmentCompleted(node=CONTROLLER, replicas=replicas, **_place_and_epochs(known))
    return trace.ReassignmentBegan(
        node=CONTROLLER,
        replicas=replicas,
        adding=names_of(adding),
        removing=names_of(_difference(before.replicas, known.answer.replicas)),
        **_place_and_epochs(known),
    )


def elected(known: WatchedPartition, before: PartitionAnswer) -> TraceEvent:
    """Return the event for a new leader or leader epoch, or for the loss of the leader.

    Args:
        before: the partition before the change.
    """
    item = known.answer
    previous = broker_name(before.leader) if before.leader >= 0 else None
    seen = {
        "previous_leader": previous,
        "isr": names_of(item.isr),
        "previous_isr": names_of(before.isr),
        **_place_and_epochs(known),
    }
    if item.leader < 0:
        return trace.PartitionWentOffline(node=CONTROLLER, **seen)
    clean = item.leader in before.isr or item.leader in (before.elr or ())
    return trace.LeaderElected(
        node=CONTROLLER,
        broker=broker_name(item.leader),
        clean=clean,
        electable=() if item.leader in before.isr else names_of(before.elr or ()),
        **seen,
    )


def isr_changed(known: WatchedPartition, before: PartitionAnswer) -> TraceEvent:
    item = known.answer
    return trace.IsrCommitted(
        node=CONTROLLER,
        isr=names_of(item.isr),
        previous_isr=names_of(before.isr),
        proposed_by=None,
        **_place_and_epochs(known),
    )


def elr_changed(known: WatchedPartition, before: Sequence[BrokerId]) -> TraceEvent:
    return trace.ElrCommitted(
        node=CONTROLLER,
        isr=names_of(known.answer.isr),
        elr=names_of(known.answer.elr or ()),
        previous_elr=names_of(before),
        last_known_leader=None,
        **_place_and_epochs(known),
    )


def _place_and_epochs(known: WatchedPartition) -> dict[str, Any]:
    topic, partition = known.name
    return {
        "topic": topic,
        "partition": partition,
        "leader_epoch": known.leader_epoch,
        "partition_epoch": known.partition_epoch,
    }


def _difference(some: Sequence[BrokerId], others: Sequence[BrokerId]) -> list[BrokerId]:
    return [broker_id for broker_id in some if broker_id not in others]
