"""A marker that no follower has fetched, and a leader that starts again and reads its producers from a snapshot."""

from __future__ import annotations

import pytest

from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

SCENARIO = """\
schema: 1
id: forgotten-marker
title: A leader that starts again takes a marker for replicated
duration: 30s
profile: kafka-4.1
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {broker.session.timeout.ms: 3000, broker.heartbeat.interval.ms: 500, transaction.state.log.num.partitions: 1}
topics: {t: {partitions: {0: [b2, b1]}, config: {min.insync.replicas: 2}}}
workloads:
  p1:
    kind: producer
    topic: t
    config: {acks: all, enable.idempotence: true, transactional.id: x, linger.ms: 0}
    rate: 2/s
    start: 1s
    stop: 15s
    transaction: {records: 1}
timeline:
  - {at: 3013ms, hold: {from: b1, to: b2, api: Fetch, part: request}, as: held}  # between a record and its marker
  - {at: 4s, kill: b1}
"""
RESTART = "  - {at: 9s, stop: b2, for: 1s}\n"


@pytest.mark.soak
@pytest.mark.parametrize(("timeline", "broken"), [("", []), (RESTART, [("S32 forgotten-marker", False)])])
def test_a_leader_that_starts_again_forgets_what_is_not_replicated(timeline: str, broken: list[object]) -> None:
    """Found by a search. As in Kafka: ProducerStateManager.truncateAndReload clears unreplicatedTxns."""
    result = run_scenario(load_text(SCENARIO + timeline, "test.yaml").scenario, runs_dir=None)
    assert [(event.invariant, event.promised) for event in result.broken] == broken
