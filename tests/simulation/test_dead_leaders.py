"""A leader that a ZooKeeper-era controller found dead, and that comes back: all brokers have to hear of it anew."""

from __future__ import annotations

from typing import Any

from replica.trace import events as trace
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario

ALONE = """\
schema: 1
id: dead-leader-returns
title: The last of the ISR loses its session and gets a new one
profile: kafka-2.1
duration: 100s
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {replica.lag.time.max.ms: 2000, zookeeper.session.timeout.ms: 3000}
topics: {t: {partitions: {0: [b2, b1, b3]}}}
workloads: {p1: {kind: producer, topic: t, config: {acks: 1}, rate: 5/s, start: 1s, stop: 40s}}
timeline:
  - {at: 5s, hold: {from: [b1, b3], to: b2, api: Fetch}, as: silence}
"""
FOUND_DEAD = """\
  - {at: 12s, cut: {between: [b2, c1]}, as: b2-away}
  - {at: 12s, restart: b1}
  - {at: 20s, heal: b2-away}
  - {at: 21s, release: silence}
"""
TOLD_WHILE_DEAD = """\
  - {at: 12s, restart: b3}
  - {at: 12s, cut: {between: [[b1, b2], c1]}, as: b1-b2-away}
  - {at: 12.1s, release: silence}
  - {at: 20s, cut: {between: [b3, c1]}, as: b3-away}
  - {at: 20.1s, heal: b1-b2-away}
  - {at: 28s, heal: b3-away}
"""


def run(timeline: str) -> RunResult:
    return run_scenario(load_text(ALONE + timeline, "test.yaml").scenario, runs_dir=None, keep_rows=True)


def partition_events(result: RunResult, kind: type[trace.TraceEvent], **columns: Any) -> list[int]:
    """Leader epochs of the events of one kind since 12 s in which these columns have these values."""
    found: list[Any] = [row.event for row in result.rows if type(row.event) is kind and row.at_us > 12_000_000]
    return [event.leader_epoch for event in found if all(getattr(event, key) == columns[key] for key in columns)]


def test_it_is_elected_again_by_a_controller_that_had_found_it_dead() -> None:
    """b1 and b3 hear of a leader that is not there; only a new epoch makes them look for it anew.

    source: PartitionStateMachine.initializePartitionState, triggerOnlinePartitionStateChange
    """
    result = run(FOUND_DEAD)
    assert partition_events(result, trace.LeaderElected, broker="b2") == [1]
    assert partition_events(result, trace.IsrCommitted, isr=("b2", "b1", "b3")) == [1]
    assert not result.broke_an_invariant


def test_a_broker_that_was_told_of_it_while_it_was_dead_follows_it_once_it_lives() -> None:
    """b3 starts when it is alone in the registry. At 28 s it still has to learn that b2 leads in epoch 0.

    source: ReplicaManager.makeFollowers: only change partition state when the leader is available
    """
    result = run(TOLD_WHILE_DEAD)
    assert partition_events(result, trace.LeaderElected) == []
    assert partition_events(result, trace.FollowingBegan, node="b3") == [0]
    assert partition_events(result, trace.IsrCommitted, isr=("b2", "b1", "b3")) == [0]
