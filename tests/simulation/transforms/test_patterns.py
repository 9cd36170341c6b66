"""Two members of a group subscribe by a pattern, and read all topics that it describes and no others."""

from __future__ import annotations

import pytest

from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

FILE = """\
schema: 1
id: by-pattern
title: A pattern
duration: 30s
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {offsets.topic.num.partitions: 1}
topics:
  orders-1: {partitions: 2, replication_factor: 3}
  orders-2: {partitions: 2, replication_factor: 3}
  payments: {partitions: 1, replication_factor: 3}
  out: {partitions: 1, replication_factor: 3}
workloads:
  p1: {kind: producer, topic: orders-1}
  p2: {kind: producer, topic: orders-2}
  p3: {kind: producer, topic: payments}
  t1: {kind: transform, topics: {pattern: "orders-.*"}, to: out, config: {group.id: g, auto.offset.reset: earliest}}
  t2: {kind: transform, topics: {pattern: "orders-.*"}, to: out, config: {group.id: g, auto.offset.reset: earliest}}
timeline:
  - {at: 12s, produce: {from: p1, count: 1, partition: 0}}
  - {at: 12s, produce: {from: p2, count: 1, partition: 1}}
  - {at: 12s, produce: {from: p3, count: 1}}
expect:
  verdict: ok
  records: {acked: "r0, s0, u0, tr0, ts0", lost: none, duplicated: none}
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("profile", "protocol"), [("kafka-0.10", "classic"), ("kafka-4.1", "classic"), ("kafka-4.1", "consumer")]
)
def test_they_read_what_it_describes(profile: str, protocol: str) -> None:
    text = FILE.replace("duration", f"profile: {profile}\nduration")
    text = text.replace("group.id: g", f"group.id: g, group.protocol: {protocol}")
    run = run_scenario(load_text(text, "by-pattern.yaml").scenario, runs_dir=None)
    assert [(one.what, one.why) for one in run.expectations if not one.held] == []
