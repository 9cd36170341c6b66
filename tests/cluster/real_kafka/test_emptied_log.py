"""A broker that is started again with an empty log knows no producer (S26, ProducerStateManager.truncateAndReload)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cluster.kafka.home import find_home
from replica.trace.events import BatchAppended, RecordAcked
from scenarios.language.parse.loading import load_text
from scenarios.run.kafka_limits import played_on
from scenarios.run.on_kafka import on_kafka
from scenarios.run.runner import run_scenario

RETRIED = """\
schema: 1
id: retried
title: A producer tries again after retention
duration: 70s
profile: kafka-4.1
cluster:
  brokers: {b1: {}, b2: {}}
  controllers: [k1]
  config: {log.retention.check.interval.ms: 1000, broker.session.timeout.ms: 3000, broker.heartbeat.interval.ms: 500}
topics: {t: {partitions: {0: [b1]}, config: {retention.ms: 2000}}}
workloads: {p1: {kind: producer, topic: t, config: {request.timeout.ms: 9000, delivery.timeout.ms: 60000}}}
timeline:  # Brokers look for old segments from 30 s after their start on (log.initial.task.delay.ms).
  - {at: 35s, produce: {from: p1, count: 1}}
  - {at: 36s, hold: {from: b1, to: p1, api: Produce}, for: 12s}
  - {at: 36.5s, produce: {from: p1, count: 1}}
"""


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("how", "acked_at"),
    [pytest.param(None, 1, id="known"), *[pytest.param(how, 2, id=how) for how in ("kill", "stop")]],
)
def test_a_retry_is_appended_again_once_retention_has_emptied_the_log(
    how: str | None, acked_at: int, tmp_path: Path
) -> None:
    home = find_home(None, None, os.environ)
    text = RETRIED if how is None else f"{RETRIED}  - {{at: 41s, {how}: b1, for: 1s}}\n"
    scenario, real = played_on(load_text(text, "retried.yaml").scenario, home.version, 0)
    result = run_scenario(scenario, runs_dir=tmp_path, world=on_kafka(home), real=real, keep_rows=True)
    events = [row.event for row in result.rows]
    batches = [event for event in events if isinstance(event, BatchAppended) and event.topic == "t"]
    assert [batch.base_sequence for batch in batches] == [0, *[1] * acked_at]
    assert [event.offset for event in events if isinstance(event, RecordAcked)] == [0, acked_at]
    assert result.broken == ()
