"""The decisive part of a run: the time range that the page shows at first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from spark_reports.report.rows import Row, Rows
from spark_reports.report.words import Step
from spark_reports.transforms.availability import LEADER_DOWN, LEADERLESS, UNDER_MIN_ISR

Tables = Mapping[str, Rows]

_MARGIN = 0.12
"""Margin before and after the range, as a share of its length."""
_SHORTEST = 1 / 60
_WORTH_ZOOMING = 0.8
"""Largest share of the run that a range may have, since zooming in to a longer one is not worthwhile."""


class Span(NamedTuple):
    """A part of a run's virtual time, in microseconds."""

    from_us: int
    until_us: int

    @property
    def length_us(self) -> int:
        return self.until_us - self.from_us


def decisive_span(tables: Tables, why: Sequence[tuple[str, Sequence[Step]]], end_us: int) -> Span:
    """Return the decisive range with a margin, or the whole run if no shorter range is decisive.

    Args:
        tables: rows of one run's lost_records, unavailability, write_stalls, hw_stalls and elections.
        why: causes of losses from `words.why_lost`, each with its steps.
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
    """Return ranges from a step that led to the loss until the records were doomed, the longest first.

    Records are doomed when a leader is elected without them, or when they are truncated. The longest range begins with
    the first step. Shorter ranges begin with a later step, because a fault may have begun long before the loss.
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
