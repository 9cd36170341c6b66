"""The rare events of the model: its beginning, the failover of each round and the way back, its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replica.causes import ElectionCause, FencingCause, IsrCause, IsrCommitCause, OccasionKind, PlacementCause
from replica.trace import events as trace
from replica.trace.events import TraceEvent
from tests.bench.model.rounds import (
    BROKERS,
    FENCED_AFTER_US,
    HELD_TICKS,
    JOINED_AFTER_US,
    MIN_ISR,
    PARTITIONS,
    RECORDS_PER_BATCH,
    RESTARTED_AFTER_US,
    STORED_TICKS,
    TICK_US,
    TOPIC,
    begin_us,
    kill_us,
    leader_of,
)

Rare = list[tuple[int, TraceEvent]]


def beginning() -> Rare:
    events: list[TraceEvent] = [trace.NodeStarted(node="c1", role="controller", incarnation=1)]
    events += [trace.NodeStarted(node=name, role="broker", incarnation=1) for name in BROKERS]
    title = "A row of failovers that is known by arithmetic"
    events += [
        trace.RunStarted(scenario="model-failovers", variant=None, seed=1, profile="kafka-3.9", title=title),
        *(trace.NodeStarted(node=f"p{partition}", role="producer", incarnation=1) for partition in range(PARTITIONS)),
        trace.NodeStarted(node="c1r", role="consumer", incarnation=1),
    ]
    for partition in range(PARTITIONS):
        events.append(
            trace.PartitionCreated(
                node="c1", topic=TOPIC, partition=partition, broker=BROKERS[0], replicas=BROKERS, isr=BROKERS,
                leader_epoch=0, partition_epoch=0, min_isr=MIN_ISR, cause=PlacementCause.ASSIGNED,
            )
        )  # fmt: skip
    events += _roles(0, BROKERS, BROKERS, 0)
    return [(0, event) for event in events]


def _roles(number: int, isr: tuple[str, ...], nodes: Sequence[str], partition_epoch: int) -> list[TraceEvent]:
    """The roles that brokers learn at the beginning of a term."""
    leader = BROKERS[leader_of(number)]
    end = number * STORED_TICKS * RECORDS_PER_BATCH
    events: list[TraceEvent] = []
    for partition in range(PARTITIONS):
        for node in nodes:
            where: dict[str, Any] = {
                "node": node, "topic": TOPIC, "partition": partition, "leader_epoch": number,
                "partition_epoch": partition_epoch, "log_end_offset": end, "high_watermark": end,
            }  # fmt: skip
            if node == leader:
                events.append(trace.LeadershipBegan(**where, isr=isr))
            else:
                events.append(trace.FollowingBegan(**where, broker=leader))
    return events


def turning_points(number: int) -> Rare:
    """The kill that ends a round, the failover, and the way back."""
    old, new = BROKERS[leader_of(number)], BROKERS[leader_of(number + 1)]
    other = next(broker for broker in BROKERS if broker not in (old, new))
    held_us, killed_us = begin_us(number) + STORED_TICKS * TICK_US, kill_us(number)
    hold, kill = f"freeze-{number}", f"kill-{number}"
    held: dict[str, Any] = {"fault": hold, "verb": "hold", "targets": (old, new, other)}
    events: Rare = [
        (held_us, trace.FaultBegan(**held, effect=f"every Fetch response from {old} is held back")),
        (killed_us, trace.NodeStopped(node=old, how="kill")),
        (killed_us, trace.FaultBegan(fault=kill, verb="kill", targets=(old,), effect=f"{old} is killed")),
        (killed_us, trace.FaultEnded(**held, effect="released")),
    ]
    fenced_us = killed_us + FENCED_AFTER_US
    silent: dict[str, Any] = {"cause": FencingCause.NO_HEARTBEAT, "silent_us": FENCED_AFTER_US}
    events.append((fenced_us, trace.BrokerFenced(node="c1", broker=old, **silent)))
    events += [(fenced_us, event) for event in _elections(number + 1, old, new, other)]
    events += [(fenced_us + 1_000, event) for event in _roles(number + 1, (new, other), (new, other), 2 * number + 1)]
    events += _return(number, old, new, other, killed_us + RESTARTED_AFTER_US)
    return events


def _elections(epoch: int, old: str, new: str, other: str) -> list[TraceEvent]:
    events: list[TraceEvent] = []
    before = _isr_before(epoch)
    for partition in range(PARTITIONS):
        where: dict[str, Any] = {
            "node": "c1", "topic": TOPIC, "partition": partition, "leader_epoch": epoch,
            "partition_epoch": 2 * epoch - 1, "isr": (new, other), "previous_isr": before,
            "occasion": OccasionKind.FENCED, "occasion_brokers": (old,),
            "fencing_cause": FencingCause.NO_HEARTBEAT, "occasion_amount": FENCED_AFTER_US,
        }  # fmt: skip
        events += [
            trace.LeaderElected(**where, broker=new, previous_leader=old, clean=True, cause=ElectionCause.FIRST_LIVE),
            trace.IsrCommitted(**where, proposed_by=None, cause=IsrCommitCause.DECIDED),
        ]
    return events


def _isr_before(epoch: int) -> tuple[str, ...]:
    """As the round before left it: the broker that came back stands last."""
    if epoch == 1:
        return BROKERS
    leader = leader_of(epoch - 1)
    return BROKERS[leader], BROKERS[(leader + 1) % len(BROKERS)], BROKERS[(leader + 2) % len(BROKERS)]


def _return(number: int, old: str, new: str, other: str, started_us: int) -> Rare:
    kept = (number + 1) * STORED_TICKS * RECORDS_PER_BATCH
    had = kept + HELD_TICKS * RECORDS_PER_BATCH
    events: Rare = [(started_us, trace.NodeStarted(node=old, role="broker", incarnation=number + 2))]
    for partition in range(PARTITIONS):
        where: dict[str, Any] = {"topic": TOPIC, "partition": partition}
        term: dict[str, Any] = {**where, "leader_epoch": number + 1}
        isr: dict[str, Any] = {"isr": (new, other, old), "previous_isr": (new, other)}
        events += [
            (started_us, trace.LogRecovered(
                node=old, **where, clean=False, log_start_offset=0, log_end_offset=had, high_watermark=kept,
                size_bytes=0)),
            (started_us + 10_000, trace.FollowingBegan(
                node=old, broker=new, **term, partition_epoch=2 * number + 1, log_end_offset=had, high_watermark=kept)),
            (started_us + 20_000, trace.LogTruncated(
                node=old, **term, log_end_offset=kept, previous_log_end_offset=had, high_watermark=kept,
                previous_high_watermark=kept)),
            (started_us + 25_000, trace.IsrProposed(
                node=new, **term, partition_epoch=2 * number + 1, **isr,
                cause=IsrCause.CAUGHT_UP, caught_up_to=kept, high_watermark=kept)),
            (started_us + JOINED_AFTER_US - RESTARTED_AFTER_US, trace.IsrCommitted(
                node="c1", **term, partition_epoch=2 * number + 2, **isr, proposed_by=new,
                cause=IsrCommitCause.PROPOSED)),
        ]  # fmt: skip
    return events


def ending(end_us: int) -> Rare:
    return [(end_us, trace.RunFinished(lasted_us=end_us))]
