"""Read from a run's summary.json what a dashboard of Kafka's own metrics would have shown during the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from spark_reports.report.words import joined, seconds


class AlertShown(NamedTuple):
    """One of the usual alerts on Kafka's metrics.

    Attributes:
        for_us: time for which the condition must be true until the alert fires.
        true: first intervals in which the condition was true, as (time series, from_us, until_us).
        intervals: number of all intervals in which the condition was true.
        fired_us: time at which the alert would have fired, None if never.
    """

    name: str
    condition: str
    for_us: int
    true: Sequence[tuple[str, int, int]]
    intervals: int
    fired_us: int | None

    @property
    def longest_us(self) -> int:
        return max((until_us - since_us for _, since_us, until_us in self.true), default=0)


class MovedMetric(NamedTuple):
    """A metric that left its normal value. `until_us` is None if the value never became normal again."""

    metric: str
    from_us: int
    until_us: int | None
    worst: int


class DashboardShown(NamedTuple):
    """The alerts and metrics of a dashboard. `lost_us` is the time of the first loss, None if no record was lost."""

    alerts: Sequence[AlertShown]
    moved: Sequence[MovedMetric]
    lost_us: int | None

    @property
    def sentence(self) -> str:
        """Text that says which alert would have fired first, and whether before or after the first loss."""
        fired = [(alert.fired_us, alert) for alert in self.alerts if alert.fired_us is not None]
        if not fired:
            nearly = [alert.name for alert in self.alerts if alert.true]
            held = f"{joined(nearly)} held for less time" if nearly else "none ever held"
            said = (
                "None of the usual alerts on Kafka's metrics would have fired: their conditions must hold for "
                f"{self._least_time()} or longer, and {held}"
            )
            none = f"Records were lost, but none of the {len(self.alerts)} alerts fired"
            return f"{said}." if self.lost_us is None else f"{said}. {none}."
        at_us, first = min(fired, key=lambda item: item[0])
        held = f"its condition had then held for {seconds(first.for_us)}"
        said = f"The first of the usual alerts, {first.name}, would have fired at {_clock(at_us)} ({held})"
        if self.lost_us is None:
            return f"{said}."
        apart = seconds(abs(at_us - self.lost_us))
        when = f"{apart} before" if at_us < self.lost_us else f"{apart} after"
        return f"{said}, {when} the first record was lost ({_clock(self.lost_us)})."

    def _least_time(self) -> str:
        return seconds(min((alert.for_us for alert in self.alerts), default=0))


def _clock(at_us: int) -> str:
    return f"{at_us / 1e6:.3f} s"


def dashboard_of(summary: Mapping[str, Any]) -> DashboardShown | None:
    """Return the dashboard from the content of summary.json, None if it is missing or not valid."""
    try:
        found = summary["dashboard"]
        return DashboardShown(
            [
                AlertShown(
                    str(item["alert"]), str(item["condition"]), int(item["for_us"]),
                    [(str(series), int(since), int(until)) for series, since, until in item["true"]],
                    int(item["intervals"]), _time(item["fired_us"]),
                )
                for item in found["alerts"]
            ],
            [
                MovedMetric(str(item["metric"]), int(item["from_us"]), _time(item["until_us"]), int(item["worst"]))
                for item in found["moved"]
            ],
            _time(found["lost_us"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _time(value: Any) -> int | None:
    return None if value is None else int(value)
