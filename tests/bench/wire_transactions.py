"""Transactions of one librdkafka producer: how many a second are committed, and how long their markers take.

A coordinator answers EndTxn as soon as its decision is kept; then it writes the markers, and until they are there the
next transaction has to wait. The trace has both moments.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from replica.trace.names import TRANSACTION_STATE_CHANGED
from scenarios.bench.wire_clusters import PATIENCE_S, SIZES, MeasuredCluster, highwater, topic_of

TRANSACTIONS, RECORDS = 200, 100
DECIDED, DONE = "PrepareCommit", "CompleteCommit"


def measure_transactions(*, in_processes: bool) -> dict[str, float]:
    """On a cluster of their own. raises: ClusterFailed"""
    found: dict[str, float] = {}
    with highwater(in_processes=in_processes, at_end=lambda record: found.update(_of_trace(record))) as cluster:
        found.update(_commits(cluster))
    whole_s = TRANSACTIONS / found["commits_per_s"]
    return {**found, "share_in_markers": found.pop("markers_s") / whole_s}


def _commits(cluster: MeasuredCluster) -> dict[str, float]:
    from confluent_kafka import Producer

    topic, value = topic_of(SIZES[0]), b"x" * SIZES[0]
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": "bench", "acks": "all", "linger.ms": 0}
    )
    producer.init_transactions(PATIENCE_S)
    began, ending_s, cpu_s = time.perf_counter(), 0.0, cluster.cpu_s()
    for _ in range(TRANSACTIONS):
        producer.begin_transaction()
        producer.produce_batch(topic, [{"value": value} for _ in range(RECORDS)])
        producer.flush(PATIENCE_S)
        asked = time.perf_counter()
        producer.commit_transaction(PATIENCE_S)
        ending_s += time.perf_counter() - asked
    whole_s = time.perf_counter() - began
    return {
        "commits_per_s": TRANSACTIONS / whole_s,
        "share_in_commit_calls": ending_s / whole_s,
        "broker_cpu_ms_per_commit": (cluster.cpu_s() - cpu_s) / TRANSACTIONS * 1e3,
    }


def _of_trace(record: Path) -> dict[str, float]:
    """Between each decision and the last of its markers."""
    import pyarrow.parquet as parquet

    run = record / (record / "last").read_text(encoding="utf-8").strip()
    rows: list[dict[str, Any]] = []
    for part in sorted((run / "trace" / "transaction").glob("*.parquet")):
        rows += parquet.read_table(part, columns=["event", "seq", "at_us", "state"]).to_pylist()
    rows.sort(key=lambda row: row["seq"])
    markers_us = decided_us = 0
    for row in rows:
        if row["event"] == TRANSACTION_STATE_CHANGED and row["state"] == DECIDED:
            decided_us = row["at_us"]
        elif row["event"] == TRANSACTION_STATE_CHANGED and row["state"] == DONE:
            markers_us += row["at_us"] - decided_us
    return {"markers_s": markers_us / 1e6, "markers_ms_per_commit": markers_us / 1e3 / TRANSACTIONS}
