"""The transaction coordinator of one broker, without I/O: it gets inputs and returns actions.

Each transactional.id is stored in one partition of the transactions topic, and the leader of that partition coordinates
it. The partition's leader epoch is the coordinator epoch. A new leader reads the log and sends the pending markers.

Source: TransactionCoordinator.scala, TransactionStateManager.scala
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from cluster.clocks import WallClock
from cluster.coordinators.core import CommonAction, CommonInput, Elected, LeadershipResigned, Load, Written
from cluster.protocol.versions import ADD_PARTITIONS_TO_TXN
from cluster.transactions.beginning import Beginnings
from cluster.transactions.desk import NewProducerIds, TransactionDesk, TransactionSettings
from cluster.transactions.ending import Endings
from cluster.transactions.inputs import (
    AddPartitions,
    AddResult,
    EndResult,
    EndTxn,
    InitProducerId,
    MarkersAnswered,
    PartitionLoaded,
    ProducerIdGiven,
    TransactionAction,
    TransactionInput,
    TransactionResult,
)
from cluster.transactions.transaction import AT_REST, PREPARED, TransactionMetadata
from cluster.transactions.transaction import TransactionState as State
from replica.causes import TransactionCause
from replica.errors import ErrorCode, KafkaError
from replica.ids import TRANSACTIONS_TOPIC, LeaderEpoch
from replica.trace.events import TransactionsLoaded, TransactionsUnloaded


class TransactionCoordinator:
    """The transaction coordinator. `step` and `tick` change its state; `describe` and `listed` only read it."""

    def __init__(
        self, *, node: str, settings: TransactionSettings, clock: WallClock, partition_of: Callable[[str], int]
    ) -> None:
        self._desk = TransactionDesk(node=node, settings=settings, clock=clock, partition_of=partition_of)
        self._new_ids = NewProducerIds(self._desk)
        self._endings = Endings(self._desk, self._new_ids)
        self._beginnings = Beginnings(self._desk, self._new_ids, self._endings)
        self._is_checking = False

    @property
    def version(self) -> int:
        """The transaction.version of the cluster."""
        return self._desk.settings.version

    def set_version(self, version: int) -> None:
        """Set the transaction.version of the cluster, for all that begins from now on."""
        self._desk.settings = replace(self._desk.settings, version=version)

    @property
    def next_deadline_us(self) -> int | None:
        return self._desk.timers.next_deadline_us

    def tick(self, now_us: int) -> list[CommonAction[TransactionResult] | TransactionAction]:
        """Handle the deadlines that are due, and return the actions."""
        self._desk.timers.run_due(now_us)
        return self._desk.take()

    def step(self, event: CommonInput | TransactionInput) -> list[CommonAction[TransactionResult] | TransactionAction]:
        match event:
            case InitProducerId():
                self._beginnings.asked(event)
            case AddPartitions():
                self._add(event)
            case EndTxn():
                self._endings.asked(event)
            case ProducerIdGiven():
                self._new_ids.given(event)
            case MarkersAnswered():
                self._endings.answered(event)
            case Elected():
                self._elected(event)
            case PartitionLoaded():
                self._loaded(event)
            case LeadershipResigned():
                self._resigned(event)
            case Written():
                self._desk.written(event)
        return self._desk.take()

    # ------------------------------------------------------------------------------------------------------ questions

    def describe(self, transactional_id: str) -> TransactionMetadata:
        """Return the state of a transactional id. Source: handleDescribeTransactions

        Raises:
            KafkaError: if the id is invalid or unknown.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        transaction = self._desk.find(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return transaction

    def listed(
        self, producer_ids: Collection[int], states: Sequence[State] | None, longer_than_ms: int, now_us: int
    ) -> list[TransactionMetadata]:
        """Return the matching transactions. Source: listTransactionStates

        Args:
            producer_ids: producer ids to match; empty for all.
            states: states to match; None for all.
            longer_than_ms: time for which transactions must have been open; negative for any.

        Raises:
            KafkaError: if a partition is still being loaded.
        """
        if self._desk.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        now_ms = self._desk.wall_ms(now_us)
        return [
            item
            for item in self._desk.kept.values()
            if (not producer_ids or item.producer_id in producer_ids)
            and (states is None or item.state in states)
            and (longer_than_ms < 0 or now_ms - item.started_ms > longer_than_ms)
        ]

    def is_loading(self, partition: int, leader_epoch: LeaderEpoch) -> bool:
        return self._desk.is_loading(partition, leader_epoch)

    # ------------------------------------------------------------------------------------------------------- requests

    def _add(self, event: AddPartitions) -> None:
        """Add partitions to a transaction, or verify them.

        Source: handleAddPartitionsToTransaction, handleVerifyPartitionsInTransaction
        """
        try:
            transaction = self._member(event)
            if event.verify_only:
                inside = transaction.partitions
                errors = {
                    name: ErrorCode.NONE if name in inside else ErrorCode.TRANSACTION_ABORTABLE
                    for name in event.partitions
                }
                self._desk.answer(event.request, AddResult(errors))
                return
            if transaction.pending is not None:
                raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        except KafkaError as error:
            self._add_refused(event, error.code)
            return
        if transaction.state is State.ONGOING and all(name in transaction.partitions for name in event.partitions):
            self._desk.answer(event.request, AddResult(dict.fromkeys(event.partitions, ErrorCode.NONE)))
            return

        def written(error: ErrorCode, written_us: int) -> None:
            if error is ErrorCode.NONE:
                self._desk.answer(event.request, AddResult(dict.fromkeys(event.partitions, error)))
            else:
                self._add_refused(event, error)

        transit = transaction.prepare_add(event.partitions, event.version, self._desk.wall_ms(event.now_us))
        self._desk.write(transaction, transit, TransactionCause.PARTITIONS_ADDED, written, event.now_us)

    def _member(self, event: AddPartitions) -> TransactionMetadata:
        """Return the state of the request's transactional id.

        Raises:
            KafkaError: if the request does not match the transaction, or has to be retried.
        """
        if not event.transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        transaction = self._desk.find(event.transactional_id)
        waits = transaction is not None and transaction.pending is not None and not event.verify_only
        if waits and self._desk.settings.knows_v2:
            # The request may have the epoch of the pending change, which is not valid until that is written
            # (KAFKA-18464).
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if transaction is None or transaction.producer_id != event.producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if transaction.producer_epoch != event.producer_epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if transaction.state in PREPARED:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return transaction

    def _add_refused(self, event: AddPartitions, error: ErrorCode) -> None:
        self._desk.tell_refused(
            event.transactional_id, ADD_PARTITIONS_TO_TXN, event.producer_id, event.producer_epoch, error
        )
        self._desk.answer(event.request, AddResult(dict.fromkeys(event.partitions, error)))

    # ------------------------------------------------------------------------------------------------------ leadership

    def _elected(self, event: Elected) -> None:
        """Begin to load the transactional ids of a partition that this broker now leads.

        Source: onElection, loadTransactionsForTxnTopicPartition
        """
        if not self._desk.is_news(event):
            return
        self._forget(event.partition)  # Changes of an earlier epoch are in the log.
        self._desk.loading[event.partition] = event.leader_epoch
        self._desk.want(Load(partition=event.partition, leader_epoch=event.leader_epoch))
        if not self._is_checking:
            # Kafka's schedulers start with the broker; here with the first partition that it leads.
            self._is_checking = True
            self._check_timeouts_later(event.now_us)
            self._check_expiry_later(event.now_us)

    def _loaded(self, event: PartitionLoaded) -> None:
        if not self._desk.loaded(event.partition, event.leader_epoch):
            return
        if event.transactions or event.unreadable:
            self._desk.tell(
                TransactionsLoaded(
                    self._desk.node,
                    TRANSACTIONS_TOPIC,
                    event.partition,
                    leader_epoch=event.leader_epoch,
                    transactions=len(event.transactions),
                    unreadable=event.unreadable,
                )
            )
        for transaction in event.transactions:
            self._desk.kept[transaction.transactional_id] = transaction
            if transaction.state in PREPARED:
                transit = transaction.prepare_complete(self._desk.wall_ms(event.now_us))
                self._endings.send_markers(transaction, transit, event.now_us)

    def _resigned(self, event: LeadershipResigned) -> None:
        """Drop the transactional ids of a partition that this broker no longer leads.

        Source: onResignation, removeTransactionsForTxnTopicPartition
        """
        if not self._desk.is_news(event):
            return
        lost = self._forget(event.partition)
        if lost:
            self._desk.tell(
                TransactionsUnloaded(self._desk.node, TRANSACTIONS_TOPIC, event.partition, transactions=lost)
            )

    def _forget(self, partition: int) -> int:
        """Drop the transactional ids of a partition and return their number."""
        self._desk.lost(partition)
        lost = [name for name in self._desk.kept if self._desk.partition_of(name) == partition]
        for name in lost:
            del self._desk.kept[name]
        return len(lost)

    # --------------------------------------------------------------------------------------------------------- checks

    def _check_timeouts_later(self, now_us: int) -> None:
        self._desk.timers.at(now_us + self._desk.settings.abort_check_interval_ms * 1000, self._abort_timed_out)

    def _abort_timed_out(self, now_us: int) -> None:
        """Abort transactions that have timed out. Source: abortTimedOutTransactions"""
        now_ms = self._desk.wall_ms(now_us)
        for transaction in list(self._desk.kept.values()):
            is_open = transaction.state is State.ONGOING and transaction.pending is None
            if is_open and transaction.started_ms + transaction.timeout_ms < now_ms:
                # Differs from Kafka: there the check ends with an exception at an id without epochs left.
                self._endings.fence(transaction, TransactionCause.TIMEOUT, _unanswered, now_us)
        self._check_timeouts_later(now_us)

    def _check_expiry_later(self, now_us: int) -> None:
        self._desk.timers.at(now_us + self._desk.settings.expiration_check_interval_ms * 1000, self._expire)

    def _expire(self, now_us: int) -> None:
        """Remove unused transactional ids. Source: removeExpiredTransactionalIds"""
        now_ms = self._desk.wall_ms(now_us)
        for transaction in list(self._desk.kept.values()):
            is_unused = now_ms - transaction.updated_ms >= self._desk.settings.expiration_ms
            if transaction.state in AT_REST and transaction.pending is None and is_unused:
                self._desk.bury(transaction, transaction.prepare_dead(now_ms), now_us)
        self._check_expiry_later(now_us)


def _unanswered(result: EndResult, now_us: int) -> None:
    """Do nothing: no request waits for this abort, and the next check repeats it if it failed."""
