"""A transform dies within a transaction that outlives the run, and another member of its group does the work again."""

from __future__ import annotations

import pytest

from replica.trace.events import OpenBatchFound
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario
from scenarios.run.worlds import NewWorld, live, processes, simulated

# A producer sends no batch while TxnOffsetCommit is under way (Sender.maybeSendAndPollTransactionalRequest).
# The application needs time for the second output, so that the first one is written before the offsets go, by the
# wall clock too.
FILE = """\
schema: 1
id: open-at-the-end
title: The transaction outlives the run
seed: 3
duration: 9s
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  config: {offsets.topic.num.partitions: 1, transaction.state.log.num.partitions: 1,
    group.initial.rebalance.delay.ms: 0, group.min.session.timeout.ms: 1000}
topics:
  orders: {partitions: 1, replication_factor: 3, config: {min.insync.replicas: 2}}
  bills: {partitions: 1, replication_factor: 3, config: {min.insync.replicas: 2}}
workloads:
  p1: {kind: producer, topic: orders, batch: 2}
  t1: {kind: transform, topic: orders, to: bills, batch: 5, cpu: {serializer: 300ms}, config: {group.id: g,
       transactional.id: x-1, auto.offset.reset: earliest, session.timeout.ms: 2000, heartbeat.interval.ms: 500,
       transaction.timeout.ms: 600000}}
  t2: {kind: transform, topic: orders, to: bills, batch: 5, config: {group.id: g, transactional.id: x-2,
       auto.offset.reset: earliest, session.timeout.ms: 2000, heartbeat.interval.ms: 500}}
timeline:
  - {at: 0s, hold: {from: t1, to: [b1, b2, b3], api: TxnOffsetCommit, part: request}}
  - {at: 0s, kill: t2}
  - {at: 2s, produce: {from: p1, count: 2}}
  - {when: {bills-0: {hw: 1}}, kill: t1}
  - {when: {bills-0: {hw: 1}}, start: t2}
expect: {verdict: ok}
"""


@pytest.mark.parametrize(
    "world",
    [simulated, pytest.param(live, marks=pytest.mark.soak), pytest.param(processes, marks=pytest.mark.soak)],
    ids=lambda world: world.__name__,
)
def test_work_that_is_done_again_is_not_done_twice(world: NewWorld) -> None:
    """No reader of committed records has got the first copy, and its transaction will be aborted."""
    run = run_scenario(load_text(FILE, "open.yaml").scenario, runs_dir=None, keep_rows=True, world=world)
    assert any(isinstance(row.event, OpenBatchFound) for row in run.rows)
    assert len(run.ledger.copies("tr0")) == 2
    assert run.verdict.ok
