"""`__transaction_state` is compacted: it stays small, and a coordinator that loads it knows what counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica.ids import TRANSACTIONS_TOPIC
from replica.trace.events import LogCompacted, TraceRow, TransactionEnded, TransactionsLoaded, TransactionStateChanged
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario

SCENARIO = """
schema: 1
id: state-ages
title: A coordinator of long standing dies
seed: 1
duration: 30s
cluster:
  brokers: {one: {}, two: {}, three: {}}
  config:
    transaction.state.log.num.partitions: 1
    transaction.state.log.segment.bytes: 1024
    log.cleaner.backoff.ms: 1000
topics: {t: {partitions: 2, replication_factor: 3, config: {min.insync.replicas: 2}}}
workloads:
  p1: {kind: producer, topic: t, rate: 20/s, config: {transactional.id: orders}, transaction: {records: 2}}
  reader: {kind: consumer, topic: t, config: {auto.offset.reset: earliest, isolation.level: read_committed}}
timeline:
  - {at: 15s, kill: leader(__transaction_state-0)}
expect: {verdict: ok, records: {lost: none}}
"""


@pytest.mark.soak
def test_it_no_longer_grows_and_a_successor_goes_on(tmp_path: Path) -> None:
    rows: list[TraceRow] = []
    result = run_scenario(
        load_text(SCENARIO, "state-ages.yaml").scenario, runs_dir=tmp_path, watchers=lambda view: [rows.append]
    )
    assert result.run_dir is not None and result.held
    compacted = [row for row in rows if isinstance(row.event, LogCompacted) and row.event.topic == TRANSACTIONS_TOPIC]
    assert len(compacted) > 10
    written = sum(isinstance(row.event, TransactionStateChanged) for row in rows)
    sizes = {
        log.parent.name: sum(segment.stat().st_size for segment in log.glob("*.log"))
        for log in result.run_dir.rglob(f"{TRANSACTIONS_TOPIC}-0")
    }
    assert written > 750 and set(sizes) == {"one", "two", "three"} and max(sizes.values()) < 8 * 1024
    loads = [row.event for row in rows if isinstance(row.event, TransactionsLoaded) and row.at_us > 15_000_000]
    assert [load.transactions for load in loads] == [1]
    ended = [row for row in rows if isinstance(row.event, TransactionEnded) and row.at_us > 22_500_000]
    assert len(ended) > 50 and all(row.event.committed for row in ended if isinstance(row.event, TransactionEnded))
