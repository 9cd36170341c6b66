"""Serve metrics to Prometheus: Kafka's own under the names of the JMX exporter, others as `highwater_*`.

prometheus_client negotiates the format (OpenMetrics or the older text format) and serves it from its own thread. The
values are read in the thread of the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import trio
from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from scenarios.metrics.live import LiveMetrics

HOST = "127.0.0.1"
QUANTILES: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
MANAGER, CONTROLLER = "kafka_server_replicamanager_", "kafka_controller_kafkacontroller_"
GAUGES: Final = {
    "leaders": ("leadercount", "Partitions that the broker leads."),
    "under_replicated": ("underreplicatedpartitions", "Led partitions with fewer replicas in the ISR than assigned."),
    "under_min_isr": ("underminisrpartitioncount", "Led partitions whose ISR is below min.insync.replicas."),
    "at_min_isr": ("atminisrpartitioncount", "Led partitions whose ISR is as small as min.insync.replicas allows."),
}
"""(end of Kafka's name for the metric, description) of each field of BrokerGauges."""


class _LiveCollector(Collector):
    """A Prometheus collector that reads the metrics of a running cluster on each scrape."""

    def __init__(self, metrics: LiveMetrics, now_us: Callable[[], int]) -> None:
        self._metrics = metrics
        self._now_us = now_us
        self._token = trio.lowlevel.current_trio_token()

    def collect(self) -> Iterable[Metric]:
        try:
            return trio.from_thread.run_sync(self._read, trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled):
            return []

    def _read(self) -> list[Metric]:
        return list(families(self._metrics, self._now_us()))


class MetricsServer:
    """An HTTP server for Prometheus on the loopback interface. It has no metrics until `expose` is called.

    Args:
        port: 0 for any free port.

    Raises:
        OSError: if the port cannot be used.
    """

    def __init__(self, port: int) -> None:
        self._registry = CollectorRegistry()
        self._server, self._thread = start_http_server(port, HOST, self._registry)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self._server.server_port}/metrics"

    def expose(self, metrics: LiveMetrics, now_us: Callable[[], int]) -> None:
        """Serve the metrics of a cluster that runs, or is watched, in the current trio run."""
        self._registry.register(_LiveCollector(metrics, now_us))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def families(metrics: LiveMetrics, now_us: int) -> Iterator[Metric]:
    """Yield all metric families; for a cluster under `highwater watch`, only those that can be seen from outside."""
    yield from _of_brokers(metrics)
    yield from _of_partitions(metrics)
    yield _holds(metrics, now_us)
    if metrics.gauges.is_sampled:
        return
    yield from _counters(metrics)
    yield from _of_controllers(metrics)
    yield from _lags(metrics)
    yield from _requests(metrics)
    yield from _records(metrics)


def _of_brokers(metrics: LiveMetrics) -> Iterator[Metric]:
    brokers = list(metrics.gauges.scraped_brokers())
    for attribute, (name, doc) in GAUGES.items():
        gauge = GaugeMetricFamily(MANAGER + name, doc, labels=["broker"])
        for broker, gauges in brokers:
            gauge.add_metric([broker], getattr(gauges, attribute))
        yield gauge


def _counters(metrics: LiveMetrics) -> Iterator[Metric]:
    for name in ("isr_shrinks", "isr_expands"):
        doc = "ISR changes that the broker proposed as leader; changes by the controller do not count."
        counter = CounterMetricFamily(MANAGER + name.replace("_", ""), doc, labels=["broker"])
        for broker, gauges in metrics.gauges.scraped_brokers():
            counter.add_metric([broker], getattr(gauges, name))
        yield counter
    unclean = "kafka_controller_controllerstats_uncleanleaderelections"
    yield CounterMetricFamily(unclean, "Unclean leader elections.", value=metrics.gauges.unclean_elections)


def _of_controllers(metrics: LiveMetrics) -> Iterator[Metric]:
    active = GaugeMetricFamily(
        CONTROLLER + "activecontrollercount", "1 for the active controller, else 0.", labels=["broker"]
    )
    offline = GaugeMetricFamily(
        CONTROLLER + "offlinepartitionscount", "Partitions without a leader.", labels=["broker"]
    )
    for name, is_active in metrics.gauges.scraped_controllers():
        active.add_metric([name], is_active)
        offline.add_metric([name], len(metrics.gauges.offline))
    yield active
    yield offline


def _of_partitions(metrics: LiveMetrics) -> Iterator[Metric]:
    labels = ["broker", "topic", "partition"]
    ends = GaugeMetricFamily("kafka_log_log_logendoffset", "Log end offset of a replica.", labels=labels)
    view = metrics.view
    for (topic, number), state in view.partitions.items():
        for node, replica in state.replicas.items():
            if replica.open and metrics.gauges.is_scraped(node):
                ends.add_metric([node, topic, str(number)], replica.log_end_offset)
    yield ends


def _lags(metrics: LiveMetrics) -> Iterator[Metric]:
    """Yield the lag of consumer groups under the name that kafka_exporter uses, as brokers do not export it."""
    labels = ["consumergroup", "topic", "partition"]
    lag = GaugeMetricFamily(
        "kafka_consumergroup_lag", "Records between the committed offset and the high watermark.", labels=labels
    )
    for partition, groups in metrics.lags.committed.items():
        for group in groups:
            labelled = [group, partition.topic, str(partition.partition)]
            lag.add_metric(labelled, metrics.lags.lag(partition, group))
    yield lag


def _requests(metrics: LiveMetrics) -> Iterator[Metric]:
    counted = CounterMetricFamily(
        "kafka_network_requestmetrics_requests", "Completed requests.", labels=["broker", "request", "version"]
    )
    times = Metric("kafka_network_requestmetrics_totaltimems", "Milliseconds from request to response.", "summary")
    for (broker, name), requests in metrics.requests.items():
        for version, count in requests.by_version.items():
            counted.add_metric([broker, name, str(version)], count)
        labels = {"broker": broker, "request": name}
        in_order = sorted(requests.total_us)
        for quantile in QUANTILES:
            value = in_order[math.ceil(float(quantile) * len(in_order)) - 1] / 1_000
            times.add_sample(times.name, {**labels, "quantile": quantile}, value)
        times.add_sample(f"{times.name}_count", labels, sum(requests.by_version.values()))
    yield counted
    yield times


def _holds(metrics: LiveMetrics, now_us: int) -> Metric:
    labels = ["topic", "partition", "holder"]
    doc = "Seconds that records have waited above the high watermark, by follower that holds it back."
    held = GaugeMetricFamily("highwater_high_watermark_held_seconds", doc, labels=labels)
    for hold in metrics.holds():
        for holder in hold.holders or ("",):
            labelled = [hold.partition.topic, str(hold.partition.partition), holder]
            held.add_metric(labelled, (now_us - hold.since_us) / 1e6)
    return held


def _records(metrics: LiveMetrics) -> Iterator[Metric]:
    labels = ["topic", "partition"]
    doc = "Acked records that a member of the ISR lacks, or that fewer than two running replicas have."
    at_risk = GaugeMetricFamily("highwater_acked_records_at_risk", doc, labels=labels)
    lost = GaugeMetricFamily("highwater_acked_records_lost", "Acked records that are lost.", labels=labels)
    for partition, count in metrics.at_risk():
        at_risk.add_metric([partition.topic, str(partition.partition)], count)
        lost.add_metric([partition.topic, str(partition.partition)], len(metrics.gone.get(partition, ())))
    yield at_risk
    yield lost
