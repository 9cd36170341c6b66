"""Find out what a dashboard would have shown during a run: which of Kafka's metrics moved, and which alerts fired.

The alerts are the usual ones, as in `alerts.rules.yaml`. A condition counts from the event that makes it true.
Prometheus would notice it later, at the next scrape and evaluation, and would miss conditions that are shorter than its
scrape interval.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceEvent, TraceRow
from replica.trace.listening import Handler, Listener, on
from scenarios.metrics.gauges import ClusterGauges, GroupLags
from scenarios.observe.availability import IsGone, drop
from scenarios.observe.columns.record_table import RecordEntry
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.view import ClusterView

LAG_MAX = 1_000
"""Largest lag of a consumer group, in records, that raises no alert, as in the usual alert."""
FOR_US = 10_000_000
"""How long a condition must be true before its alert fires, as in the usual alerts (`for: 10s`)."""
RECORDS_LOOKED_AT = 10_000
"""Largest number of lost records whose time of loss is determined. Most records are lost at the same few times."""


class Alert(NamedTuple):
    """One of the usual alerts: its name and its condition in PromQL, as in `alerts.rules.yaml`."""

    name: str
    condition: str


UNDER_REPLICATED, UNDER_MIN_ISR, OFFLINE, CONTROLLER, LAG = ALERTS = (
    Alert("UnderReplicatedPartitions", "kafka_server_replicamanager_underreplicatedpartitions > 0"),
    Alert("UnderMinIsrPartitionCount", "kafka_server_replicamanager_underminisrpartitioncount > 0"),
    Alert("OfflinePartitions", "max(kafka_controller_kafkacontroller_offlinepartitionscount) > 0"),
    Alert("AbnormalControllerState", "sum(kafka_controller_kafkacontroller_activecontrollercount) != 1"),
    Alert("TooLargeConsumerGroupLag", f"kafka_consumergroup_lag > {LAG_MAX}"),
)

INTERVALS_KEPT = 20
"""Number of intervals of each alert that the summary keeps, the earliest ones."""

Series = tuple[str, str]
"""(name of an alert, broker or group of one time series or "")."""


class _Moved:
    """A metric that leaves its normal value.

    Attributes:
        from_us: time at which it first left the normal value, None if it never did.
        until_us: time at which it last became normal again, None if it did not.
        worst: value farthest from the normal one.
    """

    __slots__ = ("from_us", "normal", "until_us", "value", "worst")

    def __init__(self, normal: int) -> None:
        self.normal = self.value = self.worst = normal
        self.from_us: int | None = None
        self.until_us: int | None = None

    def look(self, at_us: int, value: int) -> None:
        if value == self.value:
            return
        self.value = value
        if value == self.normal:
            self.until_us = at_us
            return
        self.from_us, self.until_us = at_us if self.from_us is None else self.from_us, None
        if abs(value - self.normal) > abs(self.worst - self.normal):
            self.worst = value


class _Intervals:
    """The intervals in which the condition of one alert was true. They may be added in any order.

    Attributes:
        first: the earliest intervals, as (start, broker or group, end).
        fired_us: time at which the alert fired for the first time, None if it never did.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: list[tuple[int, str, int]] = []
        self.fired_us: int | None = None

    def add(self, where: str, since_us: int, until_us: int) -> None:
        self.count += 1
        insort(self.first, (since_us, where, until_us))
        del self.first[INTERVALS_KEPT:]
        fired_us = since_us + FOR_US
        if fired_us <= until_us and (self.fired_us is None or fired_us < self.fired_us):
            self.fired_us = fired_us


_NORMAL: Final = {
    "kafka_server_replicamanager_underreplicatedpartitions": 0,
    "kafka_server_replicamanager_underminisrpartitioncount": 0,
    "kafka_controller_kafkacontroller_offlinepartitionscount": 0,
    "kafka_controller_kafkacontroller_activecontrollercount": 1,
    "kafka_server_replicamanager_isrshrinks_total": 0,
    "kafka_server_replicamanager_isrexpands_total": 0,
    "kafka_controller_controllerstats_uncleanleaderelections_total": 0,
}


class Dashboard(Listener):
    """Listener that keeps the history of alerts and metrics in a run, from the creation of the first topic on.

    `view` must get each event before this listener.
    """

    def __init__(self, view: ClusterView) -> None:
        self._gauges = ClusterGauges(view)
        self._lags = GroupLags(view)
        self.parts = (self._gauges, self._lags)
        self._began = False
        self._true: dict[Series, int] = {}
        """Time at which each condition that is true now became true."""
        self._intervals = {alert.name: _Intervals() for alert in ALERTS}
        self._lagging: dict[tuple[str, TopicPartition], None] = {}
        """(group, partition) whose lag was too large when it last changed."""
        self._moved = {name: _Moved(normal) for name, normal in _NORMAL.items()}
        self._terms: dict[TopicPartition, list[tuple[int, str, int]]] = {}
        """(time, leader, log end offset) of each start of a leadership, by partition."""

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        moves = self._gauges.handlers_of(kind) or issubclass(kind, (trace.FaultBegan, trace.FaultEnded))
        return (*super().handlers_of(kind), *((self._look,) if moves else ()))

    @on(trace.PartitionCreated)
    def _created(self, row: TraceRow, event: trace.PartitionCreated) -> None:
        self._began = True

    @on(trace.LeadershipBegan)
    def _leadership_began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        terms = self._terms.setdefault(TopicPartition(event.topic, event.partition), [])
        terms.append((row.at_us, event.node, event.log_end_offset))

    @on(trace.OffsetCommitted, trace.ShareRecordsSettled, trace.HighWatermarkAdvanced)
    def _lag_moved(
        self, row: TraceRow, event: trace.OffsetCommitted | trace.ShareRecordsSettled | trace.HighWatermarkAdvanced
    ) -> None:
        groups = self._lags.committed.get((event.topic, event.partition))  # type: ignore[call-overload]
        if not groups:
            return
        partition = TopicPartition(event.topic, event.partition)
        for group in groups:
            is_large = self._lags.lag(partition, group) > LAG_MAX
            if is_large != ((group, partition) in self._lagging):
                if is_large:
                    self._lagging[group, partition] = None
                else:
                    del self._lagging[group, partition]
                self._look(row, event)

    @on(trace.CommittedOffsetRemoved, trace.GroupRemoved, trace.TopicDeleted)
    def _offsets_removed(
        self, row: TraceRow, event: trace.CommittedOffsetRemoved | trace.GroupRemoved | trace.TopicDeleted
    ) -> None:
        gone = [(group, name) for group, name in self._lagging if group not in self._lags.committed.get(name, {})]
        for item in gone:
            del self._lagging[item]
        if gone:
            self._look(row, event)

    def forget(self, is_gone: IsGone) -> None:
        drop(is_gone, self._terms)

    def _look(self, row: TraceRow, event: TraceEvent) -> None:
        """Update the conditions and metrics that this event may have changed."""
        if not self._began:
            return
        now = dict.fromkeys(self._conditions())
        for series in [series for series in self._true if series not in now]:
            self._ended(series, row.at_us)
        for series in now:
            self._true.setdefault(series, row.at_us)
        for name, value in self._totals().items():
            self._moved[name].look(row.at_us, value)

    def _ended(self, series: Series, at_us: int) -> None:
        since_us = self._true.pop(series)
        if at_us > since_us:
            self._intervals[series[0]].add(series[1], since_us, at_us)

    def _conditions(self) -> Iterator[Series]:
        for name, gauges in self._gauges.scraped_brokers():
            if gauges.under_replicated:
                yield UNDER_REPLICATED.name, name
            if gauges.under_min_isr:
                yield UNDER_MIN_ISR.name, name
        controllers = [is_active for _, is_active in self._gauges.scraped_controllers()]
        if controllers and self._gauges.offline:
            yield OFFLINE.name, ""
        if controllers and sum(controllers) != 1:  # In PromQL no comparison with an empty sum is true.
            yield CONTROLLER.name, ""
        for group, partition in self._lagging:
            if self._lags.lag(partition, group) > LAG_MAX:  # It is absent while the partition has no leader.
                yield LAG.name, f"{group}, {partition}"

    def _totals(self) -> dict[str, int]:
        gauges = self._gauges
        brokers = [item for _, item in gauges.scraped_brokers()]
        controllers = [is_active for _, is_active in gauges.scraped_controllers()]
        values = (
            sum(broker.under_replicated for broker in brokers),
            sum(broker.under_min_isr for broker in brokers),
            len(gauges.offline) if controllers else 0,
            sum(controllers) if controllers else 1,
            gauges.isr_shrinks,
            gauges.isr_expands,
            gauges.unclean_elections,
        )
        return dict(zip(_NORMAL, values, strict=True))

    # ------------------------------------------------------------------------------------------------------- outcome

    def outcome(self, end_us: int, ledger: RecordLedger, lost: Sequence[str]) -> dict[str, Any]:
        """Return the value of `dashboard` in summary.json.

        Args:
            end_us: end of the run.
            lost: names of the acked records that are lost.
        """
        lost_us = self._lost_us(ledger, lost)
        for (name, where), since_us in self._true.items():
            self._intervals[name].add(where, since_us, end_us)
        self._true = {}
        return {
            "lost_us": lost_us,
            "alerts": [_alert(alert, self._intervals[alert.name], lost_us) for alert in ALERTS],
            "moved": [
                {"metric": name, "from_us": item.from_us, "until_us": item.until_us, "worst": item.worst}
                for name, item in self._moved.items()
                if item.from_us is not None
            ],
        }

    def _lost_us(self, ledger: RecordLedger, lost: Sequence[str]) -> int | None:
        """Return the time at which the first of the lost records was lost, or None if there are none.

        An output that a transform owes and never sent counts as lost without a time: no broker had it.
        """
        sent = (ledger.records.get(name) for name in islice(lost, RECORDS_LOOKED_AT))
        return min((self._record_lost_us(entry) for entry in sent if entry is not None), default=None)

    def _record_lost_us(self, entry: RecordEntry) -> int:
        """Return when a leader without the record took over, or when a deposed leader acked it.

        If there was no such leader, return the time of the ack.
        """
        terms = self._terms.get(entry.topic_partition, [])
        offset, acked_us = entry.acked_offset, entry.acked_us or 0
        before = [term for term in terms if term[0] <= acked_us]
        if before and before[-1][1] != entry.acked_by and before[-1][2] <= offset:
            return acked_us
        return next((at_us for at_us, _, end in terms if at_us > acked_us and end <= offset), acked_us)


def _alert(alert: Alert, intervals: _Intervals, lost_us: int | None) -> dict[str, Any]:
    fired_us, order = intervals.fired_us, None
    if lost_us is not None:
        order = "never" if fired_us is None else "before" if fired_us < lost_us else "after"
    return {
        "alert": alert.name,
        "condition": alert.condition,
        "for_us": FOR_US,
        "true": [[index, since_us, until_us] for since_us, index, until_us in intervals.first],
        "intervals": intervals.count,
        "fired_us": fired_us,
        "loss": order,
    }
