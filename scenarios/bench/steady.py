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
  brokers: {{{brokers}}}
topics:
  t: {{{partitions}, config: {{min.insync.replicas: 2}}}}
workloads:
{producer}  c1r: {{kind: consumer, topic: t, config: {{auto.offset.reset: earliest}}}}
timeline: []
expect: {{verdict: ok}}
"""
_ONE_PARTITION = "partitions: {0: [b1, b2, b3]}"
_MORE = "partitions: {count}, replication_factor: 3"
_PRODUCER = "  p1: {{kind: producer, topic: t, rate: {rate}/s, start: 1s, config: {{acks: all}}}}\n"


def steady(seconds: int, rate: int, *, partitions: int = 1, brokers: int = 3) -> Scenario:
    """RF 3; one producer with acks=all sends `rate` records a second (0: there is none), one consumer reads them."""
    text = _TEXT.format(
        seconds=seconds,
        producer=_PRODUCER.format(rate=rate) if rate else "",
        brokers=", ".join(f"b{number}: {{}}" for number in range(1, brokers + 1)),
        partitions=_ONE_PARTITION if partitions == 1 else _MORE.format(count=partitions),
    )
    return load_text(text, "bench").scenario
