"""Events of transactions: stated by their coordinator, and by the producers that begin and end them.

Names that clients choose (transactional ids) are cut to 100 printable characters (`wording.shown`).
"""

from __future__ import annotations

from typing import Annotated

from replica.causes import TransactionCause
from replica.frozen import dataclass
from replica.trace import columns as column
from replica.trace.columns import ClientFailure, OnPartition, TransactionEvent

TransactionalId = Annotated[str, "transactional.id"]
ProducerId = Annotated[int, "producer id of the transactional.id"]
ProducerEpoch = Annotated[int, "epoch of the producer id: the newest instance's"]
Number = Annotated[int, "which transaction of this producer's process, from 1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsLoaded(OnPartition, TransactionEvent):
    """A broker has become the leader of a partition of the topic of transactions, and has read what it says."""

    leader_epoch: column.Epoch
    transactions: Annotated[int, "transactional ids kept in the partition"]
    unreadable: Annotated[int, "records that cannot be read, and are passed over"] = 0

    def sentence(self) -> str:
        passed_over = f"; {self.unreadable} records that cannot be read are passed over" if self.unreadable else ""
        return (
            f"{self.node} leads {self.name} and has read it: it coordinates the transactions that are kept there, "
            f"{self.transactions}{passed_over}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsUnloaded(OnPartition, TransactionEvent):
    """A broker no longer coordinates the transactions that are kept in a partition of their topic."""

    transactions: Annotated[int, "transactional ids kept in the partition"]

    def sentence(self) -> str:
        return (
            f"{self.node} does not lead {self.name} any more: the producers of the transactions that are kept there "
            "have to find their coordinator anew"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStateChanged(TransactionEvent):
    """A transactional.id has come to another state, and every in-sync replica of its partition has it."""

    node: column.Node
    transactional_id: TransactionalId
    previous_state: Annotated[str, "state before the event"]
    state: Annotated[str, "Kafka's name of the state"]
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: Annotated[tuple[str, ...], "partitions in the transaction, or that wait for their marker"]
    fences: Annotated[bool, "the coordinator ends the transaction by itself, and fences its producer"]
    cause: Annotated[TransactionCause, "why it has come to this state"]
    added: Annotated[tuple[str, ...], "partitions that joined the transaction"] = ()
    timeout_ms: Annotated[int | None, "transaction.timeout.ms of the producer"] = None

    def sentence(self) -> str:
        match self.cause:
            case TransactionCause.PARTITIONS_ADDED:
                why = f"{', '.join(self.added)} joined the transaction"
            case TransactionCause.TIMEOUT:
                why = f"it was open for longer than transaction.timeout.ms of {self.timeout_ms}, so it is aborted"
            case _:
                why = self.cause.meaning
        producer = f"(producer id {self.producer_id}, epoch {self.producer_epoch})"
        return f"transactional.id {self.transactional_id} is {self.state} {producer}: {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRefused(TransactionEvent):
    """The coordinator refuses what a producer asks."""

    node: column.Node
    transactional_id: TransactionalId
    api: column.Api
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    error: column.Error

    def sentence(self) -> str:
        producer = f"(producer id {self.producer_id}, epoch {self.producer_epoch})"
        return f"{self.node} refuses {self.api} of transactional.id {self.transactional_id} {producer}: {self.error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarkerWritten(OnPartition, TransactionEvent):
    """The leader of a partition has appended the marker that ends a transaction there."""

    leader_epoch: column.Epoch
    offset: Annotated[int, "offset of the marker"]
    first_offset: Annotated[int | None, "offset of the transaction's first record in the partition; null: it has none"]
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: Annotated[int, "leader epoch of the coordinator's partition when it sent the marker"]
    committed: Annotated[bool, "committed, not aborted"]

    def sentence(self) -> str:
        first = self.first_offset
        where = "none is open here" if first is None else f"its first record here is at {first}"
        return (
            f"{self.node} ends a transaction of producer id {self.producer_id}, epoch {self.producer_epoch}, in "
            f"{self.name} with the {'COMMIT' if self.committed else 'ABORT'} marker at {self.offset}: {where}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LastStableOffsetMoved(OnPartition, TransactionEvent):
    """At a partition's leader the last stable offset (LSO) stands below the high watermark, or has reached it again.

    Until the next such event of the same leadership it stands where this one says; once it has reached the high
    watermark, and before the first such event, it goes with it.
    """

    leader_epoch: column.Epoch
    last_stable_offset: Annotated[int, "readers of committed transactions read below it (exclusive)"]
    high_watermark: column.Hw
    producer_id: Annotated[int | None, "whose open transaction begins there; null: one whose marker is not replicated"]

    def sentence(self) -> str:
        what = f"the last stable offset of {self.name}"
        if self.last_stable_offset == self.high_watermark:
            return f"{what} is at the high watermark {self.high_watermark} again"
        whose = "a transaction whose marker is not on all in-sync replicas yet"
        if self.producer_id is not None:
            whose = f"an open transaction of producer id {self.producer_id}"
        return (
            f"{what} stands at {self.last_stable_offset}, where {whose} begins; the high watermark is "
            f"{self.high_watermark}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedBatchFound(TransactionEvent):
    """At the end of the run a replica has a batch of a transaction that was aborted: readers of committed records leave
    its records out."""

    node: column.Node
    topic: column.Topic
    partition: column.Partition
    producer_id: ProducerId
    base_offset: Annotated[int, "offset of the batch's first record"]
    last_offset: Annotated[int, "offset of the batch's last record"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBatchFound(TransactionEvent):
    """At the end of the run a replica has a batch of a transaction that has no marker there: neither committed nor
    aborted, and readers of committed records have not got its records."""

    node: column.Node
    topic: column.Topic
    partition: column.Partition
    producer_id: ProducerId
    base_offset: Annotated[int, "offset of the batch's first record"]
    last_offset: Annotated[int, "offset of the batch's last record"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionBegan(TransactionEvent):
    """An application begins a transaction. Its records are those that it sends until it ends it."""

    client: column.Client
    transactional_id: TransactionalId
    number: Number
    producer_id: ProducerId
    producer_epoch: ProducerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEndAsked(TransactionEvent):
    """An application asks to commit, or to abort, its transaction. The coordinator may never hear of it."""

    client: column.Client
    transactional_id: TransactionalId
    number: Number
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    committed: Annotated[bool, "committed, not aborted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded(TransactionEvent):
    """The coordinator has answered that the transaction is committed, or aborted."""

    client: column.Client
    transactional_id: TransactionalId
    number: Number
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    committed: Annotated[bool, "committed, not aborted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFailed(ClientFailure, TransactionEvent):
    """A producer can only abort its transaction, or can do no more at all."""

    client: column.Client
    transactional_id: TransactionalId
    number: Number
    error: column.Error
    fatal: Annotated[bool, "the producer can only be closed, as if it had been replaced by another one"]
