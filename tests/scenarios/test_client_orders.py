"""What a client that runs elsewhere is made from: its topic, its settings and the batches of its application."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.config import ConsumerConfig, ProducerConfig
from scenarios.language.parse.loading import load_file
from scenarios.run.workload import client_order

FILE = """
schema: 1
id: mini
title: Two clients
cluster: {{brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}}}
topics: {{t: {{partitions: 2}}}}
workloads:
  p1: {{kind: producer, topic: t, config: {{acks: 1, enable.idempotence: false}}, {more}}}
  c1r: {{kind: consumer, topic: t, config: {{auto.offset.reset: earliest}}}}
duration: 20s
timeline: [{steps}]
"""


@pytest.mark.parametrize(
    ("more", "steps", "batch"),
    [
        ("rate: 1/s, stop: 10s", "", [(None, 100)]),
        ("rate: 1/s, stop: 10s, batch: 4, size: 50", "", [(None, 50)] * 4),
        ("size: 10", "{at: 5s, produce: {from: p1, count: 9, batch: 3}}", [(None, 10)] * 3),
        ("size: 10", "{at: 5s, produce: {from: p1, count: 2, batch: 7, key: k}}", [(b"k", 10)] * 2),
        (
            "size: 10",
            "{at: 5s, produce: {from: p1, count: 1, size: 9kB}}, {at: 6s, produce: {from: p1, count: 2, batch: 2}}",
            [(None, 10)] * 2,
        ),
    ],
)
def test_the_largest_batch_of_an_application(more: str, steps: str, batch: list[object], tmp_path: Path) -> None:
    file = tmp_path / "mini.yaml"
    file.write_text(FILE.format(more=more, steps=steps))
    scenario = load_file(file).scenario
    order = client_order(scenario, scenario.workloads["p1"])
    assert [(key, len(value)) for key, value in order.largest_batch] == batch
    assert isinstance(order.config, ProducerConfig) and (order.config.acks, order.partitions) == ("1", 2)
    reading = client_order(scenario, scenario.workloads["c1r"])
    assert isinstance(reading.config, ConsumerConfig) and reading.config.auto_offset_reset == "earliest"
    assert (reading.topics, reading.largest_batch) == (("t",), ())
