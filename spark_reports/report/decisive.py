"""Choose the decisive time range of a run, which the page shows first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from spark_reports.report.rows import Row, Rows
from spark_reports.report.words import Step
from spark_reports.transforms.availability import LEADER_DOWN, LEADERLESS, UNDER_MIN_ISR

Tables = Mapping[str, Rows]

_MARGIN = 0.12
"""Margin before and after the decisive range, as a fraction of its length."""
_SHORTEST = 1 / 60
_WORTH_ZOOMING = 0.8
"""Upper bound of a range's length as a fraction of the run; otherwise the whole run is shown."""


class Span(NamedTuple):
    """A time range of a run, in microseconds of virtual time."""

    from_us: int
    until_us: int

    @property
    def length_us(self) -> int:
        return self.until_us - self.from_us


def decisive_span(tables: Tables, why: Sequence[tuple[str, Sequence[Step]]], end_us: int) -> Span:
    """Return the decisive time range with a margin, or the whole run if the range would be nearly as long.

    Args:
        tables: one run's rows of lost_records, unavailability, write_stalls, hw_stalls and elections.
        why: causes of losses from `words.why_lost`, as (sentence, steps).
    """
    outages = tables["unavailability"]
    moments = _of_a_loss(tables["lost_records"], why) or [
        _longest(row for row in outages if row["kind"] in (LEADERLESS, LEADER_DOWN))
        or _longest(row for row in outages if row["kind"] == UNDER_MIN_ISR)
        or _longest(tables["write_stalls"])
        or _longest(tables["hw_stalls"])
        or _longest(outages)
        or _around(tables["elections"])
        or Span(0, end_us)
    ]
    wide = (_with_margin(moment, end_us) for moment in moments)
    return next((span for span in wide if span.length_us < _WORTH_ZOOMING * end_us), Span(0, end_us))


def _with_margin(moment: Span, end_us: int) -> Span:
    margin = max(round(moment.length_us * _MARGIN), round((end_us * _SHORTEST - moment.length_us) / 2))
    return Span(max(0, moment.from_us - margin), min(end_us, moment.until_us + margin))


def _of_a_loss(lost: Rows, why: Sequence[tuple[str, Sequence[Step]]]) -> list[Span]:
    """Return time ranges from a step that led to the first loss until the loss was certain, longest first.

    A loss is certain when a leader without the record is elected, when the record is truncated, or when a disk is lost.
    The longest range begins with the first step. Shorter ranges begin with later steps, because a fault may have begun
    long before the loss.
    """
    if not why:
        return []
    first = min(lost, key=lambda row: row["acked_us"])
    dooms = (first["elected_us"], first["erased_us"], first["disk_lost_us"])
    doomed_us = min((at_us for at_us in dooms if at_us is not None), default=first["acked_us"])
    until_us = max(doomed_us, first["acked_us"])
    begins = sorted({first["acked_us"], *(at_us for at_us, _ in why[0][1])})
    return [Span(at_us, until_us) for at_us in begins if at_us <= first["acked_us"]]


def _longest(stretches: Iterable[Row]) -> Span | None:
    spans = (Span(row["from_us"], row["until_us"]) for row in stretches)
    return max(spans, key=lambda span: (span.length_us, -span.from_us), default=None)


def _around(elections: Iterable[Row]) -> Span | None:
    first_us = min((row["at_us"] for row in elections), default=None)
    return None if first_us is None else Span(first_us, first_us)


def together(spans: Sequence[Span]) -> Span:
    """Return the shortest range that contains all `spans`."""
    return Span(min(span.from_us for span in spans), max(span.until_us for span in spans))
