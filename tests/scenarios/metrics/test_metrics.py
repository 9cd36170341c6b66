"""Kafka's metrics from the events of a trace, what an alert would have done, and the text that Prometheus reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from replica.causes import RemovalCause
from replica.trace import events as trace
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file
from scenarios.metrics import dashboard
from scenarios.metrics.dashboard import ALERTS, FOR_US, Dashboard
from scenarios.metrics.exposition import families
from scenarios.metrics.live import LiveMetrics
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.view import ClusterView
from scenarios.run.runner import run_scenario
from tests.trace_builder import BROKERS, CONTROLLER, TraceBuilder

RULES = Path(dashboard.__file__).with_name("alerts.rules.yaml")


class _Fixed(Collector):
    def __init__(self, metrics: LiveMetrics, now_us: int) -> None:
        self._found = list(families(metrics, now_us))

    def collect(self) -> list[Metric]:
        return self._found


def scraped(metrics: LiveMetrics, now_us: int) -> dict[tuple[str, ...], float]:
    """Return what a scrape reads, by name and label values: written and read by prometheus_client."""
    registry = CollectorRegistry()
    registry.register(_Fixed(metrics, now_us))
    text = generate_latest(registry).decode()
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {(one.name, *(one.labels[label] for label in sorted(one.labels))): one.value for one in samples}


def script_of(*listeners: Callable[[trace.TraceRow], None]) -> TraceBuilder:
    """Return a script of t-0, led by b1, with min.insync.replicas of 2."""
    script = TraceBuilder(listeners)
    script.start(CONTROLLER, "controller")
    for node in BROKERS:
        script.start(node)
    script.create(2)
    script.leads("b1", 0, 0)
    return script


def isr(script: TraceBuilder, *members: str, by: str | None, before: tuple[str, ...] = ("b1", "b2", "b3")) -> None:
    script.state(trace.IsrCommitted, node=CONTROLLER, isr=members, previous_isr=before, proposed_by=by)


def test_a_leader_counts_what_it_leads_and_a_controller_does_not_shrink_for_it() -> None:
    metrics = LiveMetrics(ClusterView(("b1", "b2", "b3")), {})
    script = script_of(metrics.view, metrics)
    isr(script, "b1", "b2", by=None)
    isr(script, "b1", by="b1", before=("b1", "b2"))
    found = scraped(metrics, 0)
    assert found["kafka_server_replicamanager_underreplicatedpartitions", "b1"] == 1
    assert found["kafka_server_replicamanager_underminisrpartitioncount", "b1"] == 1
    assert found["kafka_server_replicamanager_underreplicatedpartitions", "b2"] == 0
    assert found["kafka_server_replicamanager_isrshrinks_total", "b1"] == 1
    assert found["kafka_controller_kafkacontroller_activecontrollercount", "c1"] == 0


def test_a_dead_leader_exports_nothing_and_its_partition_is_in_no_gauge() -> None:
    metrics = LiveMetrics(ClusterView(("b1", "b2", "b3")), {})
    script = script_of(metrics.view, metrics)
    isr(script, "b1", by="b1")
    script.state(trace.NodeStopped, node="b1", how="kill")
    found = scraped(metrics, 0)
    assert ("kafka_server_replicamanager_underreplicatedpartitions", "b1") not in found
    assert sum(value for name, value in found.items() if "underreplicated" in name[0]) == 0


def test_who_holds_the_high_watermark_and_since_when_and_what_is_at_risk() -> None:
    metrics = LiveMetrics(ClusterView(("b1", "b2", "b3")), {})
    script = script_of(metrics.view, metrics)
    script.at(2)
    script.state(trace.BatchAppended, node="b1", base_offset=0, last_offset=0, log_end_offset=1, crc=1)
    script.state(trace.FollowerFetched, node="b1", peer="b2", fetch_offset=1, log_end_offset=1, in_isr=True)
    script.ack("r0", 0)
    found = scraped(metrics, 5_000_000)
    assert found["highwater_high_watermark_held_seconds", "b3", "0", "t"] == 3
    assert ("highwater_high_watermark_held_seconds", "b2", "0", "t") not in found
    assert found["highwater_acked_records_at_risk", "0", "t"] == 1


def test_the_rules_file_has_the_alerts_and_their_times() -> None:
    usual, _ = yaml.safe_load(RULES.read_text())["groups"]
    assert [(rule["alert"], rule["expr"]) for rule in usual["rules"]] == [tuple(alert) for alert in ALERTS]
    assert {rule["for"] for rule in usual["rules"]} == {f"{FOR_US // 1_000_000}s"}


def test_an_alert_fires_when_one_series_was_true_for_long_enough() -> None:
    view = ClusterView(("b1", "b2", "b3"))
    board = Dashboard(view)
    script = script_of(view, board)
    isr(script.at(10), "b1", "b2", by="b1")
    isr(script.at(19), "b1", "b2", "b3", by="b1", before=("b1", "b2"))
    isr(script.at(30), "b1", "b2", by="b1")
    found = board.outcome(41_000_000, RecordLedger(), [])
    alert = found["alerts"][0]
    assert alert["true"] == [["b1", 10_000_000, 19_000_000], ["b1", 30_000_000, 41_000_000]]
    assert (alert["fired_us"], alert["loss"], found["lost_us"]) == (40_000_000, None, None)
    moved = {one["metric"]: one for one in found["moved"]}
    assert moved["kafka_server_replicamanager_isrshrinks_total"]["worst"] == 2


def test_the_earliest_intervals_are_kept_and_all_are_counted() -> None:
    view = ClusterView(("b1", "b2", "b3"))
    board = Dashboard(view)
    script = script_of(view, board)
    times = 2 * dashboard.INTERVALS_KEPT
    for number in range(times):
        isr(script.at(10 + 20 * number), "b1", "b2", by="b1")
        isr(script.at(25 + 20 * number), "b1", "b2", "b3", by="b1", before=("b1", "b2"))
    alert = board.outcome(2_000_000_000, RecordLedger(), [])["alerts"][0]
    begins_s = [since_us // 1_000_000 for _, since_us, _ in alert["true"]]
    assert begins_s == [10 + 20 * number for number in range(dashboard.INTERVALS_KEPT)]
    assert (alert["intervals"], alert["fired_us"]) == (times, 20_000_000)


def test_a_lag_ends_with_its_group() -> None:
    view = ClusterView(("b1", "b2", "b3"))
    board = Dashboard(view)
    script = script_of(view, board)
    end = dashboard.LAG_MAX + 1
    script.at(1).state(trace.OffsetCommitted, node="b1", group="g", member=None, generation=1, offset=0)
    script.at(2).state(trace.BatchAppended, node="b1", base_offset=0, last_offset=end - 1, log_end_offset=end, crc=1)
    script.at(3).advance(end)
    script.at(20).emit(trace.GroupRemoved(node="b1", group="g", generation=1, cause=RemovalCause.OPERATOR))
    lag = board.outcome(60_000_000, RecordLedger(), [])["alerts"][ALERTS.index(dashboard.LAG)]
    assert lag["true"] == [["g, t-0", 3_000_000, 20_000_000]]


@pytest.mark.soak
def test_the_dashboard_was_green() -> None:
    scenario = load_file(find_scenario("dashboard-was-green")).scenario
    found = run_scenario(scenario, runs_dir=None).summary["dashboard"]
    assert found["lost_us"] == 15_001_000
    assert [(alert["true"], alert["loss"]) for alert in found["alerts"]] == [([], "never")] * len(ALERTS)
    assert found["moved"] == []
