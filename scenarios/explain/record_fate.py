"""Describe the outcome of one record at the end of a run, by its class in the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from scenarios.check.verdict import HARMLESS_CLASSES, judge
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.taken_records import PREPARED, LateBatches

Copies = Sequence[tuple[TopicPartition, int]]
"""(partition, offset) of each copy in the final logs."""


def fate_of(record: str, ledger: RecordLedger) -> str | None:
    """Return the most serious of the record's classes in the verdict, or None if it is in no such class."""
    records = judge(ledger).records
    for kind in ("lost", "unseen", "duplicated", "missing", "failed", "reordered", *HARMLESS_CLASSES):
        if record in records[kind]:
            return kind
    return None


def copies_of(record: str, ledger: RecordLedger) -> Copies:
    """Return the record's copies in the final logs. Aborted copies count only if there are no other copies."""
    return ledger.copies(record) or ledger.present.copies(record)


def offsets_of(copies: Copies) -> str:
    """Return the offsets of copies as text, such as `3 and 7` or `3 of t-0 and 5 of t-1`."""
    is_one = len({partition for partition, _ in copies}) < 2
    return " and ".join(str(offset) if is_one else f"{offset} of {partition}" for partition, offset in copies)


def ending_of(fate: str, record: str, where: str, ledger: RecordLedger) -> str | None:
    """Return the last sentence of a record's story, or None if the record simply stayed in the log.

    Args:
        fate: class of the record in the verdict.
        where: offsets of its copies, as `offsets_of` returns them.
    """
    match fate:
        case "lost" if ledger.is_undone(record):
            owes = ledger.promised[record].client
            undone = "was aborted" if record in ledger.present else "is not in the final log"
            return f"{owes} processed the input of {record}, but {record} {undone}, and no client writes it again."
        case "lost":
            return f"{record} was acked, but is not in the final log."
        case "unseen" if ledger.is_stranded(ledger.records[record]):
            return (
                f"{record} is at offset {where}, but its commit marker is gone: read_committed consumers wait for it."
            )
        case "unseen":
            return f"{record} was acked and is at offset {where}, but at the end no consumer can read it."
        case "duplicated":
            return f"{record} is in the log more than once, at offsets {where}."
        case "missing":
            return f"{record} is missing from the final log, but its producer got no ack."
        case "failed" if where:
            return f"{record} was refused with a final error, but is at offset {where}."
        case "failed":
            return f"{record} was refused with a final error, and is not in the log."
        case "deleted":
            return f"{record} was acked, and an operator deleted it later, so it is not lost."
        case "expired":
            return f"{record} was acked, and retention removed it later, so it is not lost."
        case "compacted":
            return f"{record} was acked, and compaction removed it later, so it is not lost."
        case "aborted" if not where:
            return f"{record} was acked and is gone, but its transaction was aborted, so it is not lost."
        case "reordered":
            return f"{record} is at offset {where}, after records that were sent later."
    return None


# --------------------------------------------------------------------------------------------------------- poison pills
#
# Consumers that are stuck at a record that their deserializers cannot read (a poison pill).


class UnreadablePositions(Listener):
    """Listener that keeps the consumers that are stuck at a record which they cannot deserialize."""

    def __init__(self) -> None:
        self._stands: dict[tuple[str, TopicPartition], trace.DeserializationFailed] = {}

    @on(trace.DeserializationFailed)
    def _failed(self, row: TraceRow, event: trace.DeserializationFailed) -> None:
        self._stands[event.client, TopicPartition(event.topic, event.partition)] = event

    @on(trace.PositionReset, trace.RecordRead)
    def _moved(self, row: TraceRow, event: trace.PositionReset | trace.RecordRead) -> None:
        self._stands.pop((event.client, TopicPartition(event.topic, event.partition)), None)

    def behind(self, partition: TopicPartition, offset: int, record: str) -> str:
        """Return sentences about the consumers that are stuck at or before a record at `offset`, "" for none."""
        sentences = []
        for (client, where), failed in self._stands.items():
            if where != partition or failed.offset > offset:
                continue
            what = record if failed.record == record else f"{failed.record}, which is before {record}"
            sentences.append(f"{client} is stuck at offset {failed.offset}, because it cannot deserialize {what}.")
        return " ".join(sentences)


# ------------------------------------------------------------------------------------------------------ its transaction
#
# The transaction in which a record was sent, as far as the trace shows it.


class TransactionOfRecord:
    """The state of a record's transaction.

    Attributes:
        producer_id: producer id of the batch with the record.
        ended: True if the transaction was committed, False if it was aborted, None if it has not ended.
    """

    def __init__(self) -> None:
        self.producer_id = -1
        self.is_transactional = False
        self.ended: bool | None = None
        self._producers: dict[int, None] = {}
        self._is_decided = False
        self._late = LateBatches()

    def sent(self, event: trace.BatchSent) -> None:
        """Handle the first attempt to send the record to a leader."""
        self.producer_id = event.producer_id
        self.is_transactional = event.producer_id in self._producers

    def appended(self, event: trace.BatchAppended) -> trace.TransactionMarkerWritten | None:
        """Handle a leader's append of the record.

        Return the transaction marker that already ended the record's transaction before the append, or None.
        """
        self.producer_id, self.ended = event.producer_id, None
        self.is_transactional = event.producer_id in self._producers
        _, marker = self._late.overtaken(event) or ("", None)
        if marker is not None:
            self._is_decided = False
        return marker

    def decided(self, event: trace.TransactionStateChanged) -> bool:
        """Handle a coordinator's event, and return True if it decides the record's transaction.

        The decisive event is the first decision after the record was sent, or after a late append.
        """
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
        """Handle a transaction marker, and return True if it ends the record's transaction in the marker's partition.

        Args:
            offset: offset of the record in that partition. None if the partition lacks the record: then return True if
                the transaction was decided.
        """
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
        """`open` or `aborted` for a record in the log; None if it was committed or sent without a transaction."""
        if not self.is_transactional or self.ended:
            return None
        return "open" if self.ended is None else "aborted"

    def ending(self, record: str, where: str) -> str | None:
        """Return the last sentence about a record in an open or aborted transaction, None for any other record."""
        if self.fate is None:
            return None
        if self.fate == "open":
            return (
                f"{record} is at offset {where}, in a transaction that is still open: it can be read with "
                "read_uncommitted, and read_committed consumers wait before it."
            )
        return f"{record} is at offset {where}, but its transaction was aborted, so read_committed consumers skip it."
