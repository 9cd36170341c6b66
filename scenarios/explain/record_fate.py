"""What became of one record by the end of a run, by the class of the verdict that it falls into."""

from __future__ import annotations

from collections.abc import Sequence

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from scenarios.check.verdict import HARMLESS_CLASSES, judge
from scenarios.observe.ledger import RecordLedger

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


class UnreadablePositions:
    """Listener: who stands where, and at which record."""

    def __init__(self) -> None:
        self._stands: dict[tuple[str, TopicPartition], trace.DeserializationFailed] = {}

    def __call__(self, row: TraceRow) -> None:
        match row.event:
            case trace.DeserializationFailed() as failed:
                self._stands[failed.client, TopicPartition(failed.topic, failed.partition)] = failed
            case trace.PositionReset() | trace.RecordRead() as moved:
                self._stands.pop((moved.client, TopicPartition(moved.topic, moved.partition)), None)

    def behind(self, partition: TopicPartition, offset: int, record: str) -> str:
        """Of a record at `offset`: which readers do not come to it, as a sentence; empty if all do."""
        sentences = []
        for (client, where), failed in self._stands.items():
            if where != partition or failed.offset > offset:
                continue
            what = "it" if failed.record == record else f"{failed.record} before it"
            sentences.append(f"{client} cannot deserialize {what}, and stands at offset {failed.offset}.")
        return " ".join(sentences)
