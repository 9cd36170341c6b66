"""Settings of brokers that change while they run (KIP-226): what the cluster does otherwise from then on."""

from __future__ import annotations

from typing import Any

import pytest

from replica.trace import events as trace
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario
from tests.soak import one_row_in

SCENARIO = """\
schema: 1
id: dynamic-settings
title: An operator changes what brokers do
duration: 40s
profile: {profile}
cluster:
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
  config:
    broker.session.timeout.ms: 3000
    broker.heartbeat.interval.ms: 500
    log.retention.check.interval.ms: 1000
    min.insync.replicas: 2
    producer.id.expiration.check.interval.ms: 1000
topics:
  t: {{partitions: {{0: [b1, b2, b3]}}}}
  own: {{partitions: {{0: [b1, b2, b3]}}, config: {{min.insync.replicas: 2, segment.bytes: 2048}}}}
workloads:
  p1: {{kind: producer, topic: t, rate: 5/s, start: 1s, stop: 35s, size: 100B}}
  p2: {{kind: producer, topic: own, rate: 5/s, start: 1s, stop: 35s, size: 100B}}
timeline:
{timeline}
"""


def rows_of(timeline: str, profile: str = "kafka-4.1") -> list[Any]:
    text = SCENARIO.format(timeline=timeline, profile=profile)
    result = run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None, keep_rows=True)
    assert not result.broken
    return result.rows


def committed_between(rows: list[Any], topic: str, begin_s: int, end_s: int) -> bool:
    """Whether the high watermark has moved."""
    return any(
        isinstance(row.event, trace.HighWatermarkAdvanced)
        and row.event.topic == topic
        and begin_s <= row.at_us / 1_000_000 < end_s
        for row in rows
    )


KILLS = "  - {at: 3s, kill: [b2, b3]}"


@pytest.mark.parametrize("is_lowered", [True, False])
def test_fewer_in_sync_replicas_are_enough_from_then_on(is_lowered: bool) -> None:
    lower = "  - {at: 20s, set_config: {entity_default: brokers, config: {min.insync.replicas: 1}}}"
    rows = rows_of("\n".join([KILLS, lower] if is_lowered else [KILLS]))
    assert not committed_between(rows, "t", 10, 20)
    assert committed_between(rows, "t", 30, 40) is is_lowered, "once the producer asks again"
    assert not committed_between(rows, "own", 10, 40), "a topic's own setting counts first"


@pytest.mark.soak
@pytest.mark.parametrize(
    ("brokers", "cuts"),
    one_row_in(3, [("entity_default: brokers", {"b1", "b2", "b3"}), ("brokers: b2", {"b2"}), (None, set())]),
)
def test_old_segments_go_where_they_may_be_less_old(brokers: str | None, cuts: set[str]) -> None:
    """Records of `own` are older than a second, and its segments small."""
    change = f"  - {{at: 20s, set_config: {{{brokers}, config: {{log.retention.ms: 1000}}}}}}"
    rows = rows_of(change if brokers else "  - {at: 20s, kill: c1}")
    found = {row.event.node for row in rows if isinstance(row.event, trace.RecordsExpired) and row.event.topic == "own"}
    assert found == cuts


@pytest.mark.soak
def test_with_elr_a_broker_has_none_of_its_own() -> None:
    step = "  - {at: 20s, set_config: {brokers: b1, config: {min.insync.replicas: 1}}}"
    rows = rows_of(step)
    assert not [row for row in rows if isinstance(row.event, trace.ConfigAltered)]
    altered = [row.event for row in rows_of(step, "kafka-3.9") if isinstance(row.event, trace.ConfigAltered)]
    assert [(event.broker, event.topic, event.min_isr) for event in altered] == [("b1", None, None), (None, "t", 1)]
