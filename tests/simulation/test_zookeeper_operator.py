"""An operator's requests in the ZooKeeper era, and their results."""

from __future__ import annotations

from replica.trace import events as trace
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario

OFFLINE_THEN_ALLOWED = """\
schema: 1
id: unclean-allowed-late
title: Unclean elections are allowed while there is no leader
profile: kafka-2.0
duration: 40s
cluster: {brokers: {b1: {}, b2: {}, b3: {}}, config: {replica.lag.time.max.ms: 2000}}
topics: {t: {partitions: {0: [b2, b3]}}}
workloads: {p1: {kind: producer, topic: t, config: {acks: 1}, rate: 5/s, start: 1s, stop: 6s}}
timeline:
  - {at: 3s, kill: b3, as: k}
  - {at: 20s, kill: b2}
  - {at: 21s, start: "@k"}
"""
ALLOW = "  - {at: 32s, set_config: {topic: t, config: {unclean.leader.election.enable: true}}}\n"


def run(text: str) -> RunResult:
    return run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None, keep_rows=True)


def leaders_elected_since(result: RunResult, at_us: int) -> list[tuple[str | None, int]]:
    elected = [row for row in result.rows if isinstance(row.event, trace.LeaderElected) and row.at_us >= at_us]
    return [(row.event.broker, row.event.leader_epoch) for row in elected if isinstance(row.event, trace.LeaderElected)]


def test_allowing_unclean_elections_ends_the_wait_for_the_last_leader() -> None:
    """source: KafkaController.enableTopicUncleanLeaderElection"""
    assert leaders_elected_since(run(OFFLINE_THEN_ALLOWED), 21_000_000) == []
    assert leaders_elected_since(run(OFFLINE_THEN_ALLOWED + ALLOW), 21_000_000) == [("b3", 2)]
