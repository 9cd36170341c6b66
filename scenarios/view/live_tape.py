"""The tape of a cluster that is running, in parts: each page reads on from where it is.

Bounded: of events that say little none are on the tape, and while much is happening no single record either; what they
change comes with the next event that is. A tape that is full gives way to a new one, which begins with the state of the
cluster, without the records that are in its logs. The trace has all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replica.trace.events import TraceEvent, TraceRow
from replica.trace.listening import Listener, on
from scenarios.observe.view import ClusterView
from scenarios.view.tape import FREQUENT, QUIET, TapeRecorder

EVENTS_MAX = 20_000
"""A page redraws its charts from the whole tape several times a second."""
CHANGES_MAX = 60_000
PART_EVENTS_MAX = 2_000
BUSY_EVENTS = 300
"""So many events in a second of the run, and single records are left out."""
AT_LEAST_EVERY_US = 100_000
"""However little the events say, one of them is on the tape."""


@dataclass(slots=True)
class PageProgress:
    """How much of which tape one page has. tape: number of the tape, 0 before the first part"""

    tape: int = 0
    events: int = 0
    partitions: int = 0
    records: int = 0
    texts: int = 0
    kinds: int = 0


class LiveTape(Listener):
    """Listener; `part` is what a page has not yet."""

    def __init__(self, events_max: int = EVENTS_MAX) -> None:
        self._events_max = events_max
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

    def part(self, progress: PageProgress) -> dict[str, Any]:
        """The next events for this page, at most PART_EVENTS_MAX, and every name they use; perhaps none."""
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
            "faults": [one.as_json() for one in tape.faults],
            "at": tape.at_us[first:last],
            "kind": tape.kind[first:last],
            "node": tape.node[first:last],
            "part": tape.partition[first:last],
            "text": tape.text[first:last],
            "sender": tape.sender[first:last],
            "key": tape.key[first:last],
            "changes": tape.changes[first:last],
            "left_out": tape.left_out,
            "end_us": self._now_us,
        }
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
