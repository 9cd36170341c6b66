"""A producer of transactions whose records expire while their leader stands still."""

from __future__ import annotations

from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

FILE = """\
schema: 1
id: expired
title: Expired
duration: 40s
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {replica.lag.time.max.ms: 2500, broker.session.timeout.ms: 1500, broker.heartbeat.interval.ms: 500,
    transaction.state.log.num.partitions: 1, transaction.state.log.min.isr: 2}
topics: {t: {partitions: {0: [b2, b3]}, config: {min.insync.replicas: 2}}}
workloads:
  p1: {kind: producer, topic: t, rate: 2/s, batch: 1, start: 5s, stop: 16s, transaction: {records: 8},
    config: {request.timeout.ms: 2500, delivery.timeout.ms: 7000, transactional.id: x}}
timeline:
  - {at: 10200ms, pause: b2, for: 8s}
expect: {verdict: ok}
"""


def test_the_transaction_is_aborted_once_its_last_record_has_expired() -> None:
    """While it commits, its records are sent again in vain, and the last one expires when it would be sent again."""
    run = run_scenario(load_text(FILE, "expired.yaml").scenario, runs_dir=None)
    assert not run.broken
    records = run.summary["records"]
    assert records["sent"] == 22
    assert records["unknown"] == [f"r{number}" for number in range(11, 16)]
    assert records["acked"][-6:] == [f"r{number}" for number in range(16, 22)], "those of the next transaction"
