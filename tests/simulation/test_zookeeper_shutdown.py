"""A broker of the ZooKeeper era whose partitions no other broker can take over: it asks, waits each time, and goes."""

from __future__ import annotations

import pytest

from replica.trace import events as trace
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

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
