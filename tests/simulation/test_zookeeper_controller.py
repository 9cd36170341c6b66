"""Requests to a controller of the ZooKeeper era: while it takes over, and of a broker that shuts down in order."""

from __future__ import annotations

import pytest

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


LAST_OF_ITS_ISR = """\
schema: 1
id: last-of-its-isr
title: The last member of the ISR shuts down in order
profile: kafka-2.7
duration: 30s
cluster: {brokers: {b1: {}, b2: {}}, config: {controlled.shutdown.max.retries: RETRIES}}
topics: {t: {partitions: {0: [b1, b2]}}}
workloads: {r1: {kind: consumer, topic: t}}
timeline:
  - {at: 2s, stop: b2}
  - {at: 5s, stop: b1}
"""


@pytest.mark.parametrize(("retries", "gone_s"), [(1, 10), (3, 20)])
def test_it_waits_after_its_last_attempt_too(retries: int, gone_s: int) -> None:
    """As Kafka 2.8.2 did: three attempts took 15.2 s. source: KafkaServer.controlledShutdown"""
    text = LAST_OF_ITS_ISR.replace("RETRIES", str(retries))
    result = run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None, keep_rows=True)
    stopped = [row.at_us for row in result.rows if isinstance(row.event, trace.NodeStopped) and row.event.node == "b1"]
    assert [round(at_us / 1_000_000) for at_us in stopped] == [gone_s]


PAUSED_IN_AN_EVENT = """\
schema: 1
id: paused-in-an-event
title: A controller freezes as it hears that b4 is gone, and goes on after b4 is back and another was elected
profile: kafka-0.11
duration: 100s
cluster: {brokers: {b1: {}, b2: {}, b3: {}, b4: {}}, config: {broker.session.timeout.ms: 1500}}
topics: {t: {partitions: {0: [b2, b3]}}}
network: {links: [{between: [brokers, c1], latency: 20ms}]}
workloads: {r1: {kind: consumer, topic: t}}
timeline:
  - {at: 3s, stop: b4, for: 2500ms}
  - {at: 3190ms, pause: b1, for: 8s}
"""


def test_a_controller_that_was_replaced_fences_nothing() -> None:
    """Its session is over on this side too (ClientCnxn.SendThread.run, before it reads), so its event has no end: the
    answers that wait in its socket are never read."""
    result = run_scenario(load_text(PAUSED_IN_AN_EVENT, "test.yaml").scenario, runs_dir=None, keep_rows=True)
    kinds = (trace.ControllerActivated, trace.BrokerFenced, trace.ControllerResigned)
    told = [(type(row.event), row.event.node) for row in result.rows if isinstance(row.event, kinds)]
    assert told == [
        (trace.ControllerActivated, "b1"),
        (trace.ControllerActivated, "b2"),
        (trace.ControllerResigned, "b1"),
    ]
    assert [event.sentence() for event in result.broken] == []
