"""Requests to a controller of the ZooKeeper era while it takes over."""

from __future__ import annotations

from replica.trace import events as trace
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

ASKED_WHILE_TAKING_OVER = """\
schema: 1
id: asked-while-taking-over
title: A leader asks for a smaller ISR while the next controller reads the registry
profile: kafka-2.7
duration: 40s
cluster:
  brokers: {b4: {}, b1: {}, b2: {}, b3: {}}
  config: {replica.lag.time.max.ms: 2000, broker.session.timeout.ms: 3000}
topics: {t: {partitions: {0: [b1, b2, b3]}}}
network: {links: [{between: [brokers, c1], latency: 100ms}]}
workloads: {p1: {kind: producer, topic: t, rate: 5/s, start: 2s, stop: 15s}}
timeline:
  - {at: 5s, kill: b4}
  - {at: 5s, cut: {between: [b1, b2]}}
"""


def test_a_proposal_waits_until_the_controller_knows_its_topics() -> None:
    """source: KafkaController.processAlterPartition, an event behind that of the failover"""
    result = run_scenario(load_text(ASKED_WHILE_TAKING_OVER, "test.yaml").scenario, runs_dir=None, keep_rows=True)
    events = [row.event for row in result.rows]
    (activated,) = [event for event in events if isinstance(event, trace.ControllerActivated) and event.node != "b4"]
    after = events[events.index(activated) :]
    assert [event for event in after if isinstance(event, trace.IsrRejected)] == []
    assert [event.isr for event in after if isinstance(event, trace.IsrCommitted)] == [("b1", "b3")]
