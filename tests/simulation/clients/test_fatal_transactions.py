"""A producer that can only be closed: what its application has handed over fails at once."""

from __future__ import annotations

import pytest

from replica.trace.events import RecordAcked, RecordFailed, RecordSent, TransactionFailed
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

FILE = """\
schema: 1
id: fatal
title: Fatal
duration: 60s
profile: kafka-0.11
cluster: {brokers: {b1: {}, b2: {}, b3: {}}, config: {transaction.state.log.num.partitions: 1}}
topics: {t: {partitions: {0: [b1, b2]}}}
workloads:
  p1:
    kind: producer
    topic: t
    config:
      {acks: all, transactional.id: x, request.timeout.ms: 1000, delivery.timeout.ms: 7000,
       max.in.flight.requests.per.connection: 1}
    transaction: {records: 3}
    rate: 10/s
    start: 10s
    stop: 17s
timeline:
  - {at: 15s, partition: [[b2, b3, c1], [b1, p1]], for: 6500ms}
"""


def test_calls_that_wait_behind_a_commit_fail_with_it_though_nothing_else_happens() -> None:
    """In 0.11 no epoch mends lost sequences (KIP-360), so the error is fatal; a broker's refusal is the last event."""
    run = run_scenario(load_text(FILE, "fatal.yaml").scenario, runs_dir=None, keep_rows=True)
    fatal = [row.at_us for row in run.rows if isinstance(row.event, TransactionFailed) and row.event.fatal]
    assert len(fatal) == 1
    fates = [row for row in run.rows if isinstance(row.event, RecordAcked | RecordFailed)]
    assert len(fates) == sum(isinstance(row.event, RecordSent) for row in run.rows)
    assert max(row.at_us for row in fates) == fatal[0]


@pytest.mark.parametrize("profile", ["kafka-0.8", "kafka-0.10"])
def test_where_there_are_no_transactions_the_producer_learns_it_once_and_all_its_records_fail(profile: str) -> None:
    """source: TransactionManager.FindCoordinatorHandler.handleResponse"""
    text = FILE.replace("kafka-0.11", profile)
    run = run_scenario(load_text(text, "fatal.yaml").scenario, runs_dir=None, keep_rows=True)
    failed = [row.event for row in run.rows if isinstance(row.event, TransactionFailed)]
    assert [(event.error, event.fatal) for event in failed] == [("INVALID_REQUEST", True)]
    sent = [row.event.record for row in run.rows if isinstance(row.event, RecordSent)]
    assert sent and [row.event.record for row in run.rows if isinstance(row.event, RecordFailed)] == sent
