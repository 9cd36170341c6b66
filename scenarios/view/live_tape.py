"""The tape of a running cluster (view/tape.py), which each page receives in parts.

The tape is bounded. Unimportant events are left out, and in busy seconds also events of single records; their changes
are applied with the next event on the tape. When the tape is full, a new one begins with the present state of the
cluster, but without the records in its logs. The trace of the run remains complete.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replica.ids import TopicPartition
from replica.trace.events import TraceEvent, TraceRow
from replica.trace.listening import Listener, on
from scenarios.observe.view import ClusterView
from scenarios.view.tape import FREQUENT, QUIET, TapeRecorder

EVENTS_MAX = 20_000
"""Largest number of events on a tape, since a page redraws its charts from the whole tape several times a second."""
CHANGES_MAX = 60_000
PART_EVENTS_MAX = 2_000
BUSY_EVENTS = 300
"""Number of events in one second after which events of single records are left out."""
GONE_NAMED_MAX = 1_000
"""Largest number of lost records that a page marks per partition, the latest ones."""
AT_LEAST_EVERY_US = 100_000
"""Microseconds after the last event on the tape from which even an unimportant event is kept in a busy second."""


@dataclass(slots=True)
class PageProgress:
    """The number of items that one page has received from each list of the tape.

    Attributes:
        tape: number of the tape, 0 before the first part.
        gone: records that the page marks as lost, None before the first part.
    """

    tape: int = 0
    events: int = 0
    partitions: int = 0
    records: int = 0
    texts: int = 0
    kinds: int = 0
    gone: Sequence[str] | None = None


class LiveTape(Listener):
    """Listener that records events on a tape, which pages read in parts."""

    def __init__(self, gone: Mapping[TopicPartition, Collection[str]], events_max: int = EVENTS_MAX) -> None:
        """Begin an empty tape.

        Args:
            gone: lost acked records by partition. The caller updates it.
            events_max: number of events after which a new tape begins.
        """
        self._events_max = events_max
        self._gone = gone
        self._view = ClusterView((), ())
        self._recorder = TapeRecorder(self._view, QUIET)
        self._number = 1
        self._changes = 0
        self._second = 0
        self._in_second = 0
        self._now_us = 0
        self._put_us = 0

    @on(TraceEvent)
    def _take(self, row: TraceRow, event: TraceEvent) -> None:
        self._now_us = row.at_us
        if len(self._recorder.tape) >= self._events_max or self._changes >= CHANGES_MAX:
            self._begin_again()
        tape = self._recorder.tape
        self._recorder.dropped = self._dropped(row.at_us)
        count = len(tape)
        self._recorder(row)
        if len(tape) > count:
            self._put_us = row.at_us
            self._changes += 1 + len(tape.changes[-1])

    def begin(self) -> PageProgress:
        return PageProgress()

    def part(self, progress: PageProgress) -> dict[str, Any]:
        """Return the next events for a page with all names they use: at most PART_EVENTS_MAX events, perhaps none."""
        tape = self._recorder.tape
        begins = progress.tape != self._number
        if begins:
            progress.tape, progress.events = self._number, 0
            progress.partitions = progress.records = progress.texts = progress.kinds = 0
        first = progress.events
        last = min(len(tape), first + PART_EVENTS_MAX)
        found = {
            "begins": begins,
            **tape.nodes_as_json(),
            **tape.coordinators.as_json(),
            "partitions": tape.partitions.after(progress.partitions),
            "records": tape.records.after(progress.records),
            "texts": tape.texts.after(progress.texts),
            "kinds": tape.kinds.after(progress.kinds),
            "faults": [fault.as_json() for fault in tape.faults],
            "at": tape.at_us[first:last],
            "kind": tape.kind[first:last],
            "node": tape.node[first:last],
            "part": tape.partition[first:last],
            "text": tape.text[first:last],
            "sender": tape.sender[first:last],
            "key": tape.key[first:last],
            "short": tape.short[first:last],
            "changes": tape.changes[first:last],
            "left_out": tape.left_out,
            "end_us": self._now_us,
            "gone": sum(map(len, self._gone.values())),
        }
        gone = [record for records in self._gone.values() for record in list(records)[-GONE_NAMED_MAX:]]
        if gone != progress.gone:
            found["lost"] = progress.gone = gone
        progress.events = last
        progress.partitions, progress.records = len(tape.partitions), len(tape.records)
        progress.texts, progress.kinds = len(tape.texts), len(tape.kinds)
        return found

    def has_more(self, progress: PageProgress) -> bool:
        return progress.tape != self._number or progress.events < len(self._recorder.tape)

    def _dropped(self, now_us: int) -> tuple[type, ...]:
        second = now_us // 1_000_000
        if second != self._second:
            self._second, self._in_second = second, 0
        self._in_second += 1
        if now_us - self._put_us >= AT_LEAST_EVERY_US and self._in_second > BUSY_EVENTS:
            return ()
        return (*QUIET, *FREQUENT) if self._in_second > BUSY_EVENTS else QUIET

    def _begin_again(self) -> None:
        before, self._recorder = self._recorder, TapeRecorder(self._view, QUIET)
        self._recorder.take_over(before)
        self._number += 1
        self._changes = 0
