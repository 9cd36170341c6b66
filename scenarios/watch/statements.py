"""Events that brokers would state about their replicas, made of the ends and high watermarks that they answer."""

from __future__ import annotations

from typing import Any

from replica.ids import UNKNOWN_OFFSET, BrokerId, Offset
from replica.trace import events as trace
from replica.trace.events import TraceEvent
from scenarios.watch.watched import WatchedPartition, WatchedReplica, broker_name, names_of

UNKNOWN_PRODUCER = -1


def began(known: WatchedPartition, broker_id: BrokerId, replica: WatchedReplica) -> TraceEvent:
    """Its first answer in this leader epoch."""
    name, leader = broker_name(broker_id), known.answer.leader
    state = {**_place(known), **_ends(replica), "leader_epoch": known.leader_epoch}
    if broker_id == leader:
        isr = names_of(known.answer.isr)
        return trace.LeadershipBegan(node=name, isr=isr, partition_epoch=known.partition_epoch, **state)
    followed = broker_name(leader) if leader >= 0 else None
    return trace.FollowingBegan(node=name, broker=followed, partition_epoch=known.partition_epoch, **state)


def truncated(
    known: WatchedPartition, broker_id: BrokerId, replica: WatchedReplica, end: Offset, high_watermark: Offset | None
) -> TraceEvent:
    """end, high_watermark: as it stated them before"""
    name = broker_name(broker_id)
    return trace.LogTruncated(
        node=name,
        leader_epoch=known.leader_epoch,
        previous_log_end_offset=end,
        previous_high_watermark=UNKNOWN_OFFSET if high_watermark is None else high_watermark,
        reason=f"the log of {name} ended at {end} before, and now ends at {replica.log_end_offset}",
        **_place(known),
        **_ends(replica),
    )


def appended(known: WatchedPartition, broker_id: BrokerId, before: Offset, end: Offset) -> TraceEvent:
    """All that came between two samples, as one batch of no known bytes."""
    return trace.BatchAppended(
        node=broker_name(broker_id),
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
        **_place(known),
    )


def high_watermark_moved(
    known: WatchedPartition, broker_id: BrokerId, replica: WatchedReplica, before: Offset
) -> TraceEvent:
    role = _role(known, broker_id)
    kind = trace.HighWatermarkAdvanced if role == "leader" else trace.HighWatermarkLearned
    return kind(
        node=broker_name(broker_id),
        role=role,
        leader_epoch=known.leader_epoch,
        previous_high_watermark=before,
        **_place(known),
        **_ends(replica),
    )


def fetched(known: WatchedPartition, broker_id: BrokerId, end: Offset, leaders_end: Offset, hw: Offset) -> TraceEvent:
    """A follower whose log ends there has fetched up to there."""
    return trace.FollowerFetched(
        node=broker_name(known.answer.leader),
        peer=broker_name(broker_id),
        leader_epoch=known.leader_epoch,
        fetch_offset=end,
        log_end_offset=leaders_end,
        high_watermark=hw,
        in_isr=broker_id in known.answer.isr,
        **_place(known),
    )


def found(known: WatchedPartition, broker_id: BrokerId, replica: WatchedReplica, *, running: bool) -> TraceEvent:
    """The replica as the watch leaves it."""
    return trace.ReplicaFound(
        node=broker_name(broker_id),
        log_start_offset=0,
        is_leader=broker_id == known.answer.leader,
        in_isr=broker_id in known.answer.isr,
        running=running,
        **_place(known),
        **_ends(replica),
    )


def _place(known: WatchedPartition) -> dict[str, Any]:
    return {"topic": known.name.topic, "partition": known.name.partition}


def _ends(replica: WatchedReplica) -> dict[str, Any]:
    assert replica.log_end_offset is not None and replica.high_watermark is not None
    return {"log_end_offset": replica.log_end_offset, "high_watermark": replica.high_watermark}


def _role(known: WatchedPartition, broker_id: BrokerId) -> str:
    return "leader" if broker_id == known.answer.leader else "follower"
