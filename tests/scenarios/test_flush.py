"""The verb `flush`: what a power failure leaves of each log."""

from __future__ import annotations

import pytest

from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

FILE = """\
schema: 1
id: flushed
title: The power fails after a flush
seed: 2
duration: 20s
cluster: {brokers: {east: {}, west: {}}}
topics:
  shop.orders: {partitions: {0: [east], 1: [east]}}
  bills: {partitions: {0: [west]}}
workloads:
  p1: {kind: producer, topic: shop.orders, config: {acks: 1}}
  p2: {kind: producer, topic: bills, config: {acks: 1}}
timeline:
  - {at: 3s, produce: {from: p1, partition: 0, count: 2}}
  - {at: 3s, produce: {from: p1, partition: 1, count: 2}}
  - {at: 3s, produce: {from: p2, count: 2}}
  - {at: 5s, flush: FLUSHED}
  - {at: 6s, produce: {from: p1, partition: 0, count: 1}}
  - {at: 8s, power_off: [east, west]}
  - {at: 9s, start: [east, west]}
expect: {verdict: lost}
"""


@pytest.mark.parametrize(
    ("flushed", "lost"),
    [
        ("[east, west]", ("r4",)),
        ("east", ("r4", "s0", "s1")),
        ("brokers", ("r4",)),
        ("{brokers: east, partition: shop.orders-1}", ("r0", "r1", "r4", "s0", "s1")),
        ("{brokers: west, partition: bills-0}", ("r0", "r1", "r2", "r3", "r4")),
    ],
)
def test_what_was_flushed_outlasts_a_power_failure_and_nothing_else_does(flushed: str, lost: tuple[str, ...]) -> None:
    scenario = load_text(FILE.replace("FLUSHED", flushed), "flushed.yaml").scenario
    run = run_scenario(scenario, runs_dir=None)
    assert tuple(sorted(run.verdict.records["lost"])) == lost
    assert len(run.verdict.records["acked"]) == 7
