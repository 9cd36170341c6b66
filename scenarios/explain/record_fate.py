"""What became of one record by the end of a run, by the class of the verdict that it falls into."""

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
"""(partition, offset) of each copy in the logs that count."""


def fate_of(record: str, ledger: RecordLedger) -> str | None:
    """The class that the verdict puts it into, the worst first; None: it is in no class."""
    records = judge(ledger).records
    for kind in ("lost", "unseen", "duplicated", "missing", "failed", "reordered", *HARMLESS_CLASSES):
        if record in records[kind]:
            return kind
    return None


def copies_of(record: str, ledger: RecordLedger) -> Copies:
    """Of a record that does not count, for its transaction was aborted: those that are there all the same."""
    return ledger.copies(record) or ledger.present.copies(record)


def offsets_of(copies: Copies) -> str:
    """`3 and 7`, or `3 of t-0 and 5 of t-1`"""
    is_one = len({partition for partition, _ in copies}) < 2
    return " and ".join(str(offset) if is_one else f"{offset} of {partition}" for partition, offset in copies)


def ending_of(fate: str, record: str, where: str, ledger: RecordLedger) -> str | None:
    """The last sentence about a record that did not simply stay; None: it did.

    where: offsets_of its copies
    """
    match fate:
        case "lost" if ledger.is_undone(record):
            owes = ledger.promised[record].client
            undone = "was aborted" if record in ledger.present else "is not in the log that counts"
            return f"{owes} is done with the input of {record}, which {undone}: no client writes it again."
        case "lost":
            return f"{record} was acked and is not in the log that counts."
        case "unseen" if ledger.is_stranded(ledger.records[record]):
            return f"{record} is at offset {where}, and the marker of its commit is gone: readers wait for it."
        case "unseen":
            return f"{record} was acked and is at offset {where}, but no consumer could read it in the end."
        case "duplicated":
            return f"{record} is in the log more than once: at offsets {where}."
        case "missing":
            return (
                f"{record} never arrived: the log that counts does not have it, and its producer was promised nothing."
            )
        case "failed":
            return f"{record} was refused for good, and is not in the log."
        case "deleted":
            return f"{record} was acked, and an operator has deleted it since: it is not lost."
        case "expired":
            return f"{record} was acked, and retention has taken it since: it is not lost."
        case "compacted":
            return f"{record} was acked, and compaction has taken it since: it is not lost."
        case "aborted" if not where:
            return f"{record} was acked and is gone, and its transaction was aborted: it is not lost."
        case "reordered":
            return f"{record} is at offset {where}, behind records that were sent after it."
    return None


# --------------------------------------------------------------------------------------------------------- poison pills
#
# Consumers that stand at a record which their deserializers cannot read (a poison pill).


class UnreadablePositions(Listener):
    """Listener: who stands where, and at which record."""

    def __init__(self) -> None:
        self._stands: dict[tuple[str, TopicPartition], trace.DeserializationFailed] = {}

    @on(trace.DeserializationFailed)
    def _failed(self, row: TraceRow, event: trace.DeserializationFailed) -> None:
        self._stands[event.client, TopicPartition(event.topic, event.partition)] = event

    @on(trace.PositionReset, trace.RecordRead)
    def _moved(self, row: TraceRow, event: trace.PositionReset | trace.RecordRead) -> None:
        self._stands.pop((event.client, TopicPartition(event.topic, event.partition)), None)

    def behind(self, partition: TopicPartition, offset: int, record: str) -> str:
        """Of a record at `offset`: which readers do not come to it, as a sentence; empty if all do."""
        sentences = []
        for (client, where), failed in self._stands.items():
            if where != partition or failed.offset > offset:
                continue
            what = "it" if failed.record == record else f"{failed.record} before it"
            sentences.append(f"{client} cannot deserialize {what}, and stands at offset {failed.offset}.")
        return " ".join(sentences)


# ------------------------------------------------------------------------------------------------------ its transaction
#
# What became of the transaction that a record was sent in, as far as the trace says.


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
