"""Consume-transform-produce in virtual time: two members share, one dies, and each input has its effect once."""

from __future__ import annotations

import pytest

from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

FILE = """\
schema: 1
id: shared
title: Shared work
seed: 3
duration: 45s
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {offsets.topic.num.partitions: 1, transaction.state.log.num.partitions: 1}
topics:
  orders: {partitions: 4, replication_factor: 3, config: {min.insync.replicas: 2}}
  bills: {partitions: 2, replication_factor: 3, config: {min.insync.replicas: 2}}
workloads:
  p1: {kind: producer, topic: orders, start: 8s, rate: 2/s, stop: 30s}
  t1: {kind: transform, topic: orders, to: bills, batch: 5, config: {group.id: g, transactional.id: x-1,
       auto.offset.reset: earliest, session.timeout.ms: 6000}}
  t2: {kind: transform, topic: orders, to: bills, batch: 5, config: {group.id: g, transactional.id: x-2,
       auto.offset.reset: earliest, session.timeout.ms: 6000}}
timeline:
  - {at: 16s, kill: t1}
  - {at: 26s, kill: "leader(__consumer_offsets-0)"}
expect: {verdict: ok}
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    "profile",
    ["kafka-4.1", pytest.param("kafka-3.5", marks=pytest.mark.soak), pytest.param("kafka-3.9", marks=pytest.mark.soak)],
)
def test_each_input_has_its_effect_once(profile: str) -> None:
    """Whatever way the era has of doing transactions, when a member dies, and then the coordinator of the group."""
    scenario = load_text(FILE.replace("seed: 3", f"seed: 3\nprofile: {profile}"), "shared.yaml").scenario
    run = run_scenario(scenario, runs_dir=None)
    assert run.verdict.kinds == ()
    sent = {name for name in run.verdict.records["acked"] if name.startswith("r")}
    assert sent and {f"t{name}" for name in sent} <= set(run.verdict.records["acked"])
