"""An open transaction whose records are all deleted, and a leader that starts again and does not know it any more."""

from __future__ import annotations

import pytest

from replica.trace import events as trace
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

SCENARIO = """\
schema: 1
id: forgotten-transaction
title: Retention takes the records of an open transaction, and its leader starts again
duration: 40s
profile: PROFILE
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {broker.session.timeout.ms: 3000, broker.heartbeat.interval.ms: 500, log.retention.check.interval.ms: 1000}
topics: {t: {partitions: {0: [b1]}, config: {retention.ms: 3000}}}
workloads:
  p1:
    kind: producer
    topic: t
    config: {acks: all, enable.idempotence: true, transactional.id: x, linger.ms: 0}
    transaction: {records: 4}
  p2: {kind: producer, topic: t, config: {acks: all, enable.idempotence: false, linger.ms: 0}}
  r1: {kind: consumer, topic: t, config: {auto.offset.reset: earliest, isolation.level: read_committed}}
timeline:
  - {at: 2s, produce: {from: p1, count: 2}}
  - STEP
  - {at: 18s, produce: {from: p2, count: 1}}
  - {at: 20s, produce: {from: p1, count: 2}}
"""
NOTHING = "{at: 9s, heal: all}"


@pytest.mark.parametrize("profile", ["kafka-3.5", "kafka-4.1"])
@pytest.mark.parametrize("step", [NOTHING, "{at: 9s, kill: b1, for: 1s}", "{at: 9s, stop: b1, for: 1s}"])
def test_a_leader_that_starts_again_forgets_a_transaction_without_records(profile: str, step: str) -> None:
    """Found by a search. As in Kafka, ProducerStateManager.truncateAndReload deletes the snapshot at the log start."""
    text = SCENARIO.replace("PROFILE", profile).replace("STEP", step)
    scenario = load_text(text, "test.yaml").scenario
    result = run_scenario(scenario, runs_dir=None, keep_rows=True)
    assert not result.broken
    events = [row.event for row in result.rows]
    (expired, *_) = (event for event in events if isinstance(event, trace.RecordsExpired))
    (read, *_) = (event for event in events if isinstance(event, trace.RecordRead))
    ends = [event for event in events if isinstance(event, trace.TransactionMarkerWritten)]
    # The record of p2 is stable at once if the transaction is forgotten, and otherwise with the marker.
    assert (expired.log_start_offset, read.offset) == (2, 2)
    before = not ends or events.index(read) < events.index(ends[0])
    assert before == (step != NOTHING)
    # With transaction.version 2 a producer that the leader has forgotten cannot go on (KAFKA-18202).
    refused = [event for event in events if isinstance(event, trace.BatchRefused)]
    assert bool(refused) == (step != NOTHING and scenario.rules.transactions == "v2")
