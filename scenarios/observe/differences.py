"""Find where two sequences of events or states diverge.

The commands `diff` and `compare` use this for the events of two runs, and `agree` for the states of each partition.
For `agree`, two runs that pass through states in a different order and then reach the same state have a tie, which is
not a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import Any

from replica.trace import events as trace
from replica.trace.events import TraceEvent, TraceRow
from scenarios.observe.story import is_internal

EndOfTie = Callable[[int, int], tuple[int, int] | None]
"""A function that finds the end of a tie, given the indexes of two unequal items.

It returns the indexes of the next equal items, or None if the items are a difference and not a tie.
"""


@dataclass(frozen=True, slots=True)
class Alignment:
    """The matching parts of two sequences.

    Attributes:
        stretches: equal ranges as (index in the first sequence, index in the second, number of items).
        ties: both indexes at which each tie begins.
        parts_at: both indexes at which the sequences diverge, None if they do not. A sequence that has ended has its
            length as index.
    """

    stretches: tuple[tuple[int, int, int], ...]
    ties: tuple[tuple[int, int], ...]
    parts_at: tuple[int, int] | None

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Return (index in the first sequence, index in the second) of every two equal items."""
        return tuple((left + step, right + step) for left, right, length in self.stretches for step in range(length))


def align(item: Sequence[Any], other: Sequence[Any], end_of_tie: EndOfTie = lambda left, right: None) -> Alignment:
    stretches: list[tuple[int, int, int]] = []
    ties: list[tuple[int, int]] = []
    left = right = 0
    while True:
        most = min(len(item) - left, len(other) - right)
        length = next((step for step in range(most) if item[left + step] != other[right + step]), most)
        if length:
            stretches.append((left, right, length))
        left, right = left + length, right + length
        end = end_of_tie(left, right) if length < most else None
        if end is None:
            break
        ties.append((left, right))
        left, right = end
    parts = left < len(item) or right < len(other)
    return Alignment(tuple(stretches), tuple(ties), (left, right) if parts else None)


# ---------------------------------------------------------------------------------------------------------- events

AT_THE_END = (
    trace.LogEntriesFound,
    trace.AbortedBatchFound,
    trace.OpenBatchFound,
    trace.ReplicaFound,
    trace.OutputPromised,
    trace.EventsLeftOut,
)
"""Events that are emitted after the end of the run and describe its final state."""

_NOT_COMPARED = (trace.RunStarted, trace.NodeStarted, *AT_THE_END)
"""Events that are not compared: they name the run, begin every run, or describe its final state."""

SETTINGS = frozenset({"acks", "producer_id", "producer_epoch", "base_sequence", "crc"})
"""Columns that depend on a producer's acks and idempotence; `first_difference` ignores them."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between two runs.

    Attributes:
        same: number of equal events before the difference.
        at_us: time of the first different event in each run, None for a run that has ended.
        sentences: sentence about this event in each run, "" for a run that has ended.
    """

    same: int
    at_us: tuple[int | None, int | None]
    sentences: tuple[str, str]


def first_difference(first: Sequence[TraceRow], other: Sequence[TraceRow]) -> Difference | None:
    """Return the first difference between two traces, or None if they are equal.

    Events are compared by time, kind, and all columns except SETTINGS.

    Args:
        first, other: complete traces, in order.
    """
    pairs = zip_longest(*([row for row in rows if _is_compared(row.event)] for rows in (first, other)))
    for same, (mine, theirs) in enumerate(pairs):
        if mine is None or theirs is None or mine.at_us != theirs.at_us or _differs(mine.event, theirs.event):
            at_us = (mine.at_us if mine else None, theirs.at_us if theirs else None)
            return Difference(same, at_us, _sentences(mine, theirs, first, other))
    return None


def _is_compared(event: TraceEvent) -> bool:
    return not isinstance(event, _NOT_COMPARED) and not is_internal(event)


def _differs(mine: TraceEvent, theirs: TraceEvent) -> bool:
    return mine != theirs and (type(mine) is not type(theirs) or bool(_columns_that_differ(mine, theirs)))


def _columns_that_differ(mine: TraceEvent, theirs: TraceEvent) -> list[str]:
    """Return the names of the columns that differ in two events of the same kind."""
    names = [field.name for field in fields(mine) if field.name not in SETTINGS]
    return [name for name in names if getattr(mine, name) != getattr(theirs, name)]


def _sentences(
    mine: TraceRow | None, theirs: TraceRow | None, item: Sequence[TraceRow], other: Sequence[TraceRow]
) -> tuple[str, str]:
    """Return a sentence about each event. If both are equal, append the first column that differs to each."""
    left, right = _sentence(mine, item), _sentence(theirs, other)
    if mine is None or theirs is None or left != right or mine.at_us != theirs.at_us:
        return left, right
    name = _columns_that_differ(mine.event, theirs.event)[0]
    return f"{left} ({name}: {getattr(mine.event, name)})", f"{right} ({name}: {getattr(theirs.event, name)})"


def _sentence(row: TraceRow | None, rows: Sequence[TraceRow]) -> str:
    if row is None:
        return ""
    event = row.event
    if not isinstance(event, trace.BatchAppended):
        return event.sentence()
    batch = (event.topic, event.partition, event.crc)
    sent = (item.event for item in rows if item.seq < row.seq and isinstance(item.event, trace.BatchSent))
    return event.sentence(next((item.records for item in sent if (item.topic, item.partition, item.crc) == batch), ()))
