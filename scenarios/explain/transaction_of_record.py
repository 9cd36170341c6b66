"""What became of the transaction that a record was sent in, as far as the trace says."""

from __future__ import annotations

from replica.trace import events as trace
from scenarios.observe.taken_records import PREPARED, LateBatches


class TransactionOfRecord:
    """producer_id: of the batch with the record     ended: committed or aborted, None: neither"""

    def __init__(self) -> None:
        self.producer_id = -1
        self.is_transactional = False
        self.ended: bool | None = None
        self._producers: dict[int, None] = {}
        self._is_decided = False
        self._late = LateBatches()

    def sent(self, event: trace.BatchSent) -> None:
        """The record is on its way to a leader for the first time."""
        self.producer_id = event.producer_id
        self.is_transactional = event.producer_id in self._producers

    def appended(self, event: trace.BatchAppended) -> trace.TransactionMarkerWritten | None:
        """A leader has appended the record. returns: the marker that it came too late for"""
        self.producer_id, self.ended = event.producer_id, None
        self.is_transactional = event.producer_id in self._producers
        _, marker = self._late.overtaken(event) or ("", None)
        if marker is not None:
            self._is_decided = False
        return marker

    def decided(self, event: trace.TransactionStateChanged) -> bool:
        """Whether the event is the decision about the record's transaction, the first that follows its sending, or
        its late append."""
        self._producers[event.producer_id] = None
        self._late.changed(event)
        is_it = (
            self.is_transactional
            and not self._is_decided
            and event.state in PREPARED
            and event.producer_id == self.producer_id
        )
        self._is_decided |= is_it
        return is_it

    def marked(self, event: trace.TransactionMarkerWritten, offset: int | None) -> bool:
        """Whether the event's marker ends the record's transaction, in its partition, or would have done so had the
        record been there. offset: of the record there"""
        self._late.marked(event)
        if self.ended is not None or event.producer_id != self.producer_id or not self.is_transactional:
            return False
        if offset is None:
            return self._is_decided
        if event.first_offset is None or not event.first_offset <= offset < event.offset:
            return False
        self.ended = event.committed
        return True

    @property
    def fate(self) -> str | None:
        """Of a record in the log that nothing else can be said of: open or aborted. None: its transaction is committed,
        or it was in none."""
        if not self.is_transactional or self.ended:
            return None
        return "open" if self.ended is None else "aborted"

    def ending(self, record: str, where: str) -> str | None:
        """What can be said at the end of a record that is in the log; None: what can be said of any."""
        if self.fate is None:
            return None
        if self.fate == "open":
            return (
                f"{record} is at offset {where}, in a transaction that is still open: a reader of everything "
                "gets it, readers of committed records wait before it."
            )
        return (
            f"{record} is at offset {where}, and its transaction was aborted: readers of committed records leave it "
            "out."
        )
