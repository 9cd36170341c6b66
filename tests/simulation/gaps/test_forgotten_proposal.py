"""A leader drops a proposal that the controller accepts: what it breaks, and what is lost by it, is Kafka's own."""

from __future__ import annotations

import pytest

from replica.trace.events import IsrCommitted, LeaderElected
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario
from tests.soak import one_in

SCENARIO = """\
schema: 1
id: forgotten-proposal
title: Late metadata ends a proposal that the controller accepts
duration: DURATION
profile: kafka-4.1
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {replica.lag.time.max.ms: 1000, broker.session.timeout.ms: 3000, broker.heartbeat.interval.ms: 500}
topics: {t: {partitions: {0: [b1, b2, b3]}, config: {min.insync.replicas: MINIMUM}}}
workloads:
  p1: {kind: producer, topic: t, config: {acks: all, linger.ms: 0}, rate: 20/s, start: 1s, stop: 7.9s}
  p2: {kind: producer, topic: t, config: {acks: 1, linger.ms: 0}, rate: 20/s, start: 1s, stop: 7.9s}
timeline:
  - {at: 2s, hold: {from: b2, to: b1, api: Fetch, part: request}, as: b2-lags}
  - {at: 2s, hold: {from: b3, to: b1, api: Fetch, part: request}, as: b3-lags}
  # b1 hears by the answer that b2 has joined, and not by the metadata.
  - {at: 6.09s, hold: {from: c1, to: b1, api: Fetch, part: response}, as: metadata}
  - {at: 6.1s, release: b2-lags}
  # Then it proposes b3, and the metadata of b2 comes before the answer.
  - {at: 6.3s, hold: {from: c1, to: b1, api: AlterPartition, part: response}, as: answer}
  - {at: 6.35s, release: b3-lags}
  - {at: 6.45s, hold: {from: b3, to: b1, api: Fetch, part: request}, as: b3-lags-again}
  - {at: 6.5s, release: metadata}
  - {at: 6.5005s, hold: {from: c1, to: b1, api: Fetch, part: response}, as: metadata-of-b3}
"""
ALL_WELL = "  - {at: 8.1s, release: all}\n"
B3_LEADS = "  - {at: 8s, kill: [b1, b2]}\n"


def play(end: str, minimum: int) -> RunResult:
    text = SCENARIO.replace("DURATION", "20s").replace("MINIMUM", str(minimum)) + end
    return run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None, keep_rows=True)


@pytest.mark.parametrize("minimum", one_in(2, [1, 2]))
def test_the_high_watermark_does_not_wait_for_a_member_that_the_leader_has_forgotten(minimum: int) -> None:
    result = play(ALL_WELL, minimum)
    isrs = [row.event.isr for row in result.rows if isinstance(row.event, IsrCommitted) and row.event.topic == "t"]
    broken = sorted((event.invariant, event.promised) for event in result.broken)
    assert isrs[-2:] == [("b1", "b2"), ("b1", "b2", "b3")]
    assert broken == [("S3 forgotten-proposal", False), ("S4 forgotten-proposal", False)]
    assert not result.verdict.of("lost")


def test_elected_meanwhile_it_lacks_acked_records_and_no_rule_of_ours_is_to_blame() -> None:
    result = play(B3_LEADS, 2)
    elected = [row.event for row in result.rows if isinstance(row.event, LeaderElected) and row.event.topic == "t"]
    assert (elected[-1].broker, elected[-1].clean) == ("b3", True)
    assert result.verdict.of("lost") and not result.broke_an_invariant
    assert "S5" not in [event.invariant for event in result.broken]
