"""The run that `highwater bench sim` measures: a steady load on a class cluster, all invariants on."""

from __future__ import annotations

from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario

_TEXT = """\
schema: 1
id: bench-steady
title: Steady load on a class cluster, all invariants on
seed: 1
duration: {seconds}s
profile: kafka-3.9
cluster:
  controllers: [c1]
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
topics:
  t: {{partitions: {{0: [b1, b2, b3]}}, config: {{min.insync.replicas: 2}}}}
workloads:
{producer}  c1r: {{kind: consumer, topic: t, config: {{auto.offset.reset: earliest}}}}
timeline: []
expect: {{verdict: ok}}
"""
_PRODUCER = "  p1: {{kind: producer, topic: t, rate: {rate}/s, start: 1s, config: {{acks: all}}}}\n"


def steady(seconds: int, rate: int) -> Scenario:
    """Three brokers, RF 3; one producer with acks=all sends `rate` records a second (0: there is none), one consumer
    reads them."""
    producer = _PRODUCER.format(rate=rate) if rate else ""
    return load_text(_TEXT.format(seconds=seconds, producer=producer), "bench").scenario
