"""What no release of Kafka promises (scenarios/check/promises.py) can be seen on a real one: the installed version."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cluster.kafka.home import find_home
from replica.trace.events import FaultEnded, LeaderElected, RecordRead, TraceRow
from scenarios.language.parse.loading import load_text
from scenarios.run.kafka_limits import played_on
from scenarios.run.on_kafka import on_kafka
from scenarios.run.runner import run_scenario

CLUSTER = """\
profile: kafka-4.1
cluster:
  brokers: {b1: {}, b2: {}, b3: {}}
  controllers: [k1]
  config:
    broker.session.timeout.ms: 3000
    broker.heartbeat.interval.ms: 500
    transaction.state.log.num.partitions: 1
    transaction.state.log.replication.factor: 1
    transaction.state.log.min.isr: 1
"""
FORGOTTEN_MARKER = f"""\
schema: 1
id: forgotten-marker
title: A leader that starts again takes a marker for replicated
duration: 52s
{CLUSTER}
topics: {{t: {{partitions: {{0: [b2, b1]}}, config: {{min.insync.replicas: 2}}}}}}
workloads:
  p1:
    kind: producer
    topic: t
    config: {{acks: all, enable.idempotence: true, transactional.id: x, linger.ms: 0}}
    rate: 1/s
    start: 1s
    stop: 5s
    transaction: {{records: 4}}
  r1: {{kind: consumer, topic: t, config: {{isolation.level: read_committed, auto.offset.reset: earliest}}}}
timeline:
  - {{at: 2s, hold: {{from: clients, to: brokers, api: EndTxn}}, as: end}}
  - {{at: 7s, cut: {{between: [b1, b2]}}, as: cut}}  # b1 has the records, and not the marker
  - {{at: 9s, release: "@end"}}
  - {{at: 12s, kill: b1}}
  - {{at: 22s, stop: b2, for: 6s}}
  - {{at: 45s, heal: all}}
  - {{at: 45s, start: b1}}
"""
FORGOTTEN_TRANSACTION = f"""\
schema: 1
id: forgotten-transaction
title: A leader that starts again does not know an open transaction whose records are deleted
duration: 75s
{CLUSTER.rstrip()}
    log.retention.check.interval.ms: 1000
topics: {{t: {{partitions: {{0: [b1]}}, config: {{retention.ms: 20000}}}}}}
workloads:
  p1:
    kind: producer
    topic: t
    config: {{acks: all, enable.idempotence: true, transactional.id: x, transaction.timeout.ms: 120000, linger.ms: 0}}
    transaction: {{records: 4}}
  p2: {{kind: producer, topic: t, config: {{acks: all, enable.idempotence: false, linger.ms: 0}}}}
  r1: {{kind: consumer, topic: t, config: {{isolation.level: read_committed, auto.offset.reset: earliest}}}}
timeline:
  - {{at: 2s, produce: {{from: p1, count: 2}}}}
  - {{at: 40s, STEP}}  # a broker begins to delete 30 s after its start (log.initial.task.delay.ms)
  - {{at: WRITTEN, produce: {{from: p2, count: 1}}}}
  - {{at: 62s, produce: {{from: p1, count: 2}}}}
"""
CLEARED_ELR = f"""\
schema: 1
id: elr-cleared-offline
title: The ELR is void while no replica is in sync
duration: 35s
{CLUSTER}
topics: {{t: {{partitions: {{0: [b1, b2]}}, config: {{min.insync.replicas: 2}}}}}}
workloads: {{p1: {{kind: producer, topic: t, config: {{acks: all}}, rate: 2/s, start: 1s, stop: 3s}}}}
timeline:
  - {{at: 6s, stop: b1}}
  - {{at: 10s, stop: b2}}
  - {{at: 15s, set_config: {{topic: t, config: {{min.insync.replicas: TO}}}}}}
  - {{at: 20s, start: [b1, b2]}}
"""


def played(text: str, folder: Path) -> list[TraceRow]:
    """With Highwater's clients: Java's are given no transactions."""
    home = find_home(None, None, os.environ)
    scenario, real = played_on(load_text(text, "unpromised.yaml").scenario, home.version, 0)
    return run_scenario(scenario, runs_dir=folder, world=on_kafka(home), real=real, keep_rows=True).rows


@pytest.mark.kafka
@pytest.mark.parametrize("restarts", [True, False])
def test_a_transaction_is_read_before_its_marker_is_replicated(restarts: bool, tmp_path: Path) -> None:
    """S32 forgotten-marker: but for the stop of the leader the records wait for the marker to be replicated."""
    text = FORGOTTEN_MARKER
    if not restarts:
        text = "".join(line for line in text.splitlines(keepends=True) if "stop: b2" not in line)
    rows = played(text, tmp_path)
    healed_us = next(row.at_us for row in rows if isinstance(row.event, FaultEnded) and row.event.fault == "cut")
    read_us = [row.at_us for row in rows if isinstance(row.event, RecordRead)]
    print(f"read at {[at_us / 1e6 for at_us in read_us]} s, healed at {healed_us / 1e6} s")
    assert len(read_us) == 4
    assert all(at_us < healed_us for at_us in read_us) is restarts


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("step", "written", "is_forgotten"),
    [
        ("stop: b1, for: 6s", "54s", True),
        ("heal: all", "54s", False),
        ("kill: b1, for: 6s", "36s", False),
    ],
    ids=["restarts", "runs-on", "killed-with-a-record"],
)
def test_a_transaction_without_records_is_forgotten_by_a_leader_that_starts_again(
    step: str, written: str, is_forgotten: bool, tmp_path: Path
) -> None:
    """S32 allows it: the record of another producer is read at once, and otherwise only after the transaction's end.

    If the log had a record at the crash, the snapshot of the producers that the recovery writes has the transaction.
    """
    text = FORGOTTEN_TRANSACTION.replace("STEP", step).replace("WRITTEN", written)
    rows = played(text, tmp_path)
    read_us = [row.at_us for row in rows if isinstance(row.event, RecordRead) and row.event.record == "s0"]
    print(f"read at {[at_us / 1e6 for at_us in read_us]} s")
    assert any(at_us < 61_000_000 for at_us in read_us) is is_forgotten


@pytest.mark.kafka
@pytest.mark.parametrize(("to", "is_cleared"), [(1, True), (2, False)])
def test_no_replica_leads_once_the_elr_is_cleared(to: int, is_cleared: bool, tmp_path: Path) -> None:
    """L2 cleared-elr: the value that the topic has is no change, and clears nothing."""
    rows = played(CLEARED_ELR.replace("TO", str(to)), tmp_path)
    elected = [row for row in rows if isinstance(row.event, LeaderElected) and row.at_us > 20_000_000]
    assert (not elected) is is_cleared
