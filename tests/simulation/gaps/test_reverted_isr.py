"""A reassignment that is cancelled while only its added replicas are in the ISR: an unclean election, as in Kafka."""

from __future__ import annotations

from replica.trace.events import LeaderElected
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

SCENARIO = """\
schema: 1
id: reverted-isr
title: A reassignment is cancelled while the replicas of before are away
duration: 30s
profile: kafka-4.1
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {broker.session.timeout.ms: 3000, broker.heartbeat.interval.ms: 1000}
topics: {t: {partitions: {0: [b1, b3]}, config: {min.insync.replicas: 2, unclean.leader.election.enable: true}}}
workloads: {p1: {kind: producer, topic: t, rate: 2/s, start: 1s, stop: 4s}}
timeline:
  - {at: 5s, unregister_broker: b3}
  - {at: 6s, cut: {between: [b1, [b2, b3, c1]]}, as: wall}
  - {at: 8s, reassign: {partition: t-0, to: [b2]}}
  - {at: 11s, cancel_reassign: t-0}
  - {at: 12s, heal: all}
"""


def test_the_broker_that_is_put_back_may_be_fenced() -> None:
    """Found by a search."""
    result = run_scenario(load_text(SCENARIO, "test.yaml").scenario, runs_dir=None)
    assert ("S19 reverted-isr", False) in {(event.invariant, event.promised) for event in result.broken}
    assert not [event for event in result.broken if event.promised]


WIPED = """\
  - {at: 5s, unregister_broker: b3}
  - {at: 6s, kill: b1}
  - {at: 7s, wipe: b1}
  - {at: 10s, reassign: {partition: t-0, to: [b1, b2]}}
  - {at: 10.7s, cancel_reassign: t-0}
  - {at: 15s, start: b1}
  - {at: 15.06s, restart: b3}
"""


def test_a_last_leader_that_was_only_added_is_not_elected_once_it_is_no_replica() -> None:
    """Found by a search: b2 leads uncleanly, and the reassignment that added it is cancelled."""
    text = SCENARIO[: SCENARIO.index("  - {at: 5s")] + WIPED
    result = run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None, keep_rows=True)
    elected = [
        row.event.broker for row in result.rows if isinstance(row.event, LeaderElected) and row.event.topic == "t"
    ]
    assert "b2" in elected and elected[-1] in ("b1", "b3")
    assert not [event for event in result.broken if event.promised]
