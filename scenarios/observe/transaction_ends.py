"""How the transactions ended that records were sent in: what readers of committed records were promised of them.

A transaction is decided once its coordinator has written so (PrepareCommit, PrepareAbort), and a decision stands,
whatever becomes of records and markers (KIP-98; TransactionCoordinator.endTransaction). The decision about a record is
the first one about its producer id after its batch was sent for the first time. Where the trace has no word of the
coordinator, that of the producer counts: what it was answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from scenarios.observe.availability import IsGone
from scenarios.observe.columns.record_table import RecordTable

PREPARED = {"PrepareCommit": True, "PrepareAbort": False}
COMPLETE = {"CompleteCommit": True, "CompleteAbort": False}


class TransactionEnds:
    """Notes in the table of the records what was decided about each of them."""

    def __init__(self, records: RecordTable) -> None:
        self._records = records
        self._undecided: dict[int, list[int]] = {}
        """By producer id, places of the records that were sent since its last decision."""
        self._coordinated: dict[int, None] = {}
        """Producer ids whose coordinator is in the trace."""
        self._prepared: dict[str, trace.TransactionStateChanged] = {}
        """By transactional.id, decisions whose markers are not all written."""
        self.handlers: Mapping[type, Callable[[TraceRow, Any], None]] = {
            trace.BatchSent: self._sent,
            trace.TransactionBegan: self._began,
            trace.TransactionEnded: self._ended,
            trace.TransactionStateChanged: self._changed,
        }

    def pending(self, partition: TopicPartition, producer_id: int) -> bool | None:
        """What the marker will say that the coordinator has still to write there: COMMIT, not ABORT. None: no marker
        is on its way."""
        for event in self._prepared.values():
            if event.producer_id == producer_id and str(partition) in event.partitions:
                return PREPARED[event.state]
        return None

    def _sent(self, row: TraceRow, event: trace.BatchSent) -> None:
        undecided = self._undecided.get(event.producer_id)
        if undecided is None or event.attempt > 1:
            return
        for record in event.records:
            place = self._records.index.place(record)
            if place >= 0:
                self._records.unaborted[place] = max(self._records.unaborted[place], 0) + 1
                undecided.append(place)

    def _began(self, row: TraceRow, event: trace.TransactionBegan) -> None:
        self._undecided.setdefault(event.producer_id, [])

    def _ended(self, row: TraceRow, event: trace.TransactionEnded) -> None:
        if event.producer_id not in self._coordinated:
            self._decide(event.producer_id, event.committed)

    def _changed(self, row: TraceRow, event: trace.TransactionStateChanged) -> None:
        self._undecided.setdefault(event.producer_id, [])
        self._coordinated[event.producer_id] = None
        was_stated = self._prepared.pop(event.transactional_id, None) is not None
        if event.state in PREPARED:
            self._prepared[event.transactional_id] = event
            self._decide(event.producer_id, PREPARED[event.state])
        elif event.state in COMPLETE and not was_stated:  # The coordinator that decided it died before it could say so.
            self._decide(event.producer_id, COMPLETE[event.state])

    def _decide(self, producer_id: int, committed: bool) -> None:
        for place in self._undecided.pop(producer_id, ()):
            if committed:
                self._records.committed[place] = 1
            else:
                self._records.unaborted[place] -= 1
        self._undecided[producer_id] = []


def after_its_end(marker: trace.TransactionMarkerWritten) -> str:
    """Of a batch that is appended behind the marker of the transaction it was sent in."""
    kind = "COMMIT" if marker.committed else "ABORT"
    ended = f"the {kind} marker at {marker.offset} has ended its transaction"
    return f"{ended}, so it begins one that no coordinator knows"


class LateBatches:
    """Which batches come behind the marker of the transaction they were sent in, and begin one that no coordinator
    knows: before KIP-890 no leader asks whether their transaction is still open (KAFKA-14402).

    What a coordinator has not said is not known, so without its events no batch is late.
    """

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}
        """By producer id, the transactional.id."""
        self._joined: dict[tuple[int, str], None] = {}
        """Producer ids and partitions that their coordinator has put into a transaction, and that wait for a marker."""
        self._markers: dict[tuple[int, str], trace.TransactionMarkerWritten] = {}

    def changed(self, event: trace.TransactionStateChanged) -> None:
        self._ids[event.producer_id] = event.transactional_id
        if event.state == "Ongoing":
            self._joined |= dict.fromkeys((event.producer_id, partition) for partition in event.partitions)

    def marked(self, event: trace.TransactionMarkerWritten) -> None:
        key = (event.producer_id, f"{event.topic}-{event.partition}")
        self._joined.pop(key, None)
        self._markers[key] = event

    def overtaken(self, event: trace.BatchAppended) -> tuple[str, trace.TransactionMarkerWritten] | None:
        """The transactional.id, and the marker that the batch came too late for. None: the batch is in time."""
        if event.producer_id not in self._ids or event.role != "leader" or event.base_sequence < 0:
            return None
        key = (event.producer_id, f"{event.topic}-{event.partition}")
        marker = None if key in self._joined else self._markers.get(key)
        return None if marker is None else (self._ids[event.producer_id], marker)

    def forget(self, is_gone: IsGone) -> None:
        """As Forgetful."""
        for key, marker in list(self._markers.items()):
            if is_gone(marker.topic):
                del self._markers[key]
