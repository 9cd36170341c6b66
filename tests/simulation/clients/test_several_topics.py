"""A consumer without a group reads all partitions of its topics."""

from __future__ import annotations

from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

FILE = """\
schema: 1
id: two
title: Two topics
duration: 20s
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
topics:
  t: {partitions: {0: [b1, b2, b3]}}
  u: {partitions: 2, replication_factor: 3}
workloads:
  p1: {kind: producer, topic: t}
  p2: {kind: producer, topic: u}
  c1r: {kind: consumer, topics: [t, u], config: {auto.offset.reset: earliest}}
timeline:
  - {at: 5s, produce: {from: p1, count: 1}}
  - {at: 5s, produce: {from: p2, count: 1, partition: 0}}
  - {at: 5s, produce: {from: p2, count: 1, partition: 1}}
expect:
  verdict: ok
  events:
    - {event: record_read, client: c1r, record: r0}
    - {event: record_read, client: c1r, record: s0}
    - {event: record_read, client: c1r, record: s1}
"""


def test_it_reads_what_was_written_to_each() -> None:
    run = run_scenario(load_text(FILE, "two.yaml").scenario, runs_dir=None)
    assert [(one.what, one.why) for one in run.expectations if not one.held] == []
