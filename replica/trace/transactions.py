"""Events of transactions, emitted by their coordinators, by producers, and by leaders of partitions.

Names that clients choose (transactional ids) are cut to 100 printable characters (`wording.shown`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from replica.causes import TransactionCause
from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import ClientFailure, Frequent, OfPartitions, OnPartition, TransactionEvent, of_each, where
from replica.trace.ranges import counted

TransactionalId = Annotated[str, "transactional.id"]
ProducerId = Annotated[int, "producer id of the transactional.id"]
ProducerEpoch = Annotated[int, "producer epoch, that of the newest instance"]
Number = Annotated[int, "number of the transaction in this process of the producer, from 1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsLoaded(OfPartitions, OnPartition, TransactionEvent):
    """A broker became the leader of a partition of the transactions topic, and has loaded the states in it."""

    leader_epoch: column.Epoch
    transactions: Annotated[int, "number of transactional ids in the partition"]
    unreadable: Annotated[int, "number of records that could not be read and were skipped"] = 0

    MAY_DIFFER = ("leader_epoch", "transactions", "unreadable")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        found = f"{many[0].node} loaded the transactions of {where(many)}, which it leads"
        return found + of_each(many, cls._kept)

    def _kept(self) -> str:
        passed_over = f"; {counted(self.unreadable, 'record')} could not be read" if self.unreadable else ""
        return f"{counted(self.transactions, 'transactional.id')}{passed_over}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsUnloaded(OnPartition, TransactionEvent):
    """A broker no longer coordinates the transactions of a partition of the transactions topic."""

    transactions: Annotated[int, "number of transactional ids in the partition"]

    def sentence(self) -> str:
        return f"{self.node} no longer leads {self.name}: its producers have to find the new coordinator"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStateChanged(TransactionEvent):
    """The state of a transactional.id changed, and every in-sync replica of its partition has stored the new state."""

    node: column.Node
    transactional_id: TransactionalId
    previous_state: Annotated[str, "state before the event"]
    state: Annotated[str, "Kafka's name of the state"]
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: Annotated[tuple[str, ...], "partitions of the transaction, or those that still wait for a marker"]
    fences: Annotated[bool, "true: the coordinator itself ends the transaction and fences the producer"]
    cause: Annotated[TransactionCause, "why the state changed, see TransactionCause"]
    added: Annotated[tuple[str, ...], "partitions that joined the transaction"] = ()
    timeout_ms: Annotated[int | None, "transaction.timeout.ms of the producer"] = None

    def sentence(self) -> str:
        match self.cause:
            case TransactionCause.PARTITIONS_ADDED:
                why = f"{', '.join(self.added)} joined the transaction"
            case TransactionCause.TIMEOUT:
                why = f"it was open for longer than transaction.timeout.ms={self.timeout_ms}, so it is aborted"
            case _:
                why = self.cause.meaning
        producer = f"(producer id {self.producer_id}, epoch {self.producer_epoch})"
        return f"transactional.id {self.transactional_id} changed to {self.state} {producer}: {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRefused(TransactionEvent):
    """The coordinator refused a request of a producer."""

    node: column.Node
    transactional_id: TransactionalId
    api: column.Api
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    error: column.Error

    def sentence(self) -> str:
        producer = f"(producer id {self.producer_id}, epoch {self.producer_epoch})"
        what = f"{self.api} for transactional.id {self.transactional_id} {producer}"
        return f"{self.node} refused {what} with {self.error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarkerWritten(OfPartitions, OnPartition, TransactionEvent):
    """The leader of a partition has appended the marker that ends a transaction."""

    leader_epoch: column.Epoch
    offset: Annotated[int, "offset of the marker"]
    first_offset: Annotated[int | None, "offset of the transaction's first record in the partition; null: none"]
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: Annotated[int, "leader epoch of the coordinator's partition when it sent the marker"]
    committed: Annotated[bool, "true: committed; false: aborted"]

    MAY_DIFFER = ("leader_epoch", "offset", "first_offset", "coordinator_epoch")

    @classmethod
    def sentence_of(cls, many: Sequence[Self]) -> str:
        first = many[0]
        whose = f"a transaction of producer id {first.producer_id}, epoch {first.producer_epoch}"
        marker = f"{'a COMMIT' if first.committed else 'an ABORT'} marker"
        return f"{first.node} ended {whose}, in {where(many)} with {marker}{of_each(many, cls._found)}"

    def _found(self) -> str:
        if self.first_offset is None:
            return f"at offset {self.offset} (no record of the transaction)"
        return f"at offset {self.offset} (first record at {self.first_offset})"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastStableOffsetMoved(OnPartition, TransactionEvent):
    """The last stable offset (LSO) of a leader fell behind the high watermark, moved, or reached the high watermark.

    The LSO stays at this offset until the next event of this kind in the same leader epoch. Before the first event, and
    after it has reached the high watermark, the LSO is equal to the high watermark.
    """

    leader_epoch: column.Epoch
    last_stable_offset: Annotated[int, "readers of committed transactions read below it (exclusive)"]
    high_watermark: column.Hw
    producer_id: Annotated[
        int | None,
        "producer id of the open transaction that begins at this offset; null: only its marker is not yet replicated",
    ]

    def sentence(self) -> str:
        what = f"the last stable offset of {self.name}"
        if self.last_stable_offset == self.high_watermark:
            return f"{what} is at the high watermark {self.high_watermark} again"
        whose = "a transaction whose marker is not yet on all in-sync replicas"
        if self.producer_id is not None:
            whose = f"an open transaction of producer id {self.producer_id}"
        return f"{what} is {self.last_stable_offset}, where {whose} begins; the high watermark is {self.high_watermark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedBatchFound(OnPartition, TransactionEvent):
    """At the end of the run, a replica has a batch of an aborted transaction, which read_committed consumers skip."""

    producer_id: ProducerId
    base_offset: Annotated[int, "offset of the batch's first record"]
    last_offset: Annotated[int, "offset of the batch's last record"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBatchFound(OnPartition, TransactionEvent):
    """At the end of the run, a replica has a batch of an open transaction, hidden from read_committed consumers."""

    producer_id: ProducerId
    base_offset: Annotated[int, "offset of the batch's first record"]
    last_offset: Annotated[int, "offset of the batch's last record"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionBegan(Frequent, TransactionEvent):
    """An application began a transaction. All records that it sends until the end belong to the transaction."""

    client: column.Client
    transactional_id: TransactionalId
    number: Number
    producer_id: ProducerId
    producer_epoch: ProducerEpoch

    def sentence(self) -> str:
        producer = f"(producer id {self.producer_id}, epoch {self.producer_epoch})"
        return f"{self.client} began transaction {self.number} of {self.transactional_id} {producer}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEndAsked(Frequent, TransactionEvent):
    """An application called commit or abort for its transaction. The request may never reach the coordinator."""

    client: column.Client
    transactional_id: TransactionalId
    number: Number
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    committed: Annotated[bool, "true: committed; false: aborted"]

    def sentence(self) -> str:
        end = "commit" if self.committed else "abort"
        return f"{self.client} asked to {end} transaction {self.number} of {self.transactional_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded(Frequent, TransactionEvent):
    """The coordinator answered that the transaction is committed or aborted."""

    client: column.Client
    transactional_id: TransactionalId
    number: Number
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    committed: Annotated[bool, "true: committed; false: aborted"]

    def sentence(self) -> str:
        end = "committed" if self.committed else "aborted"
        return f"{self.client} learned that transaction {self.number} of {self.transactional_id} is {end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFailed(ClientFailure, TransactionEvent):
    """A producer failed. It can only abort its transaction, or, after a fatal error, only be closed."""

    client: column.Client
    transactional_id: TransactionalId
    number: Number
    error: column.Error
    fatal: Annotated[bool, "true: the application can only close the producer"]

    def sentence(self) -> str:
        failed = f"{self.client} failed with {self.error}"
        rest = "can only be closed now" if self.fatal else f"can only abort transaction {self.number} now"
        return self._with_why(f"{failed} and {rest}")
