"""The transaction coordinator of one broker: inputs in, actions out. source: TransactionCoordinator.scala,
TransactionStateManager.scala

Each transactional.id is kept in one partition of the topic of transactions, and coordinated by the leader of that
partition, whose leader epoch is the coordinator epoch. A new leader reads its log and sends the markers that are due.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from cluster.clocks import WallClock
from cluster.protocol.versions import ADD_PARTITIONS_TO_TXN
from cluster.transactions.beginning import Beginnings
from cluster.transactions.desk import TransactionDesk, TransactionSettings
from cluster.transactions.ending import Endings
from cluster.transactions.inputs import (
    AddPartitions,
    AddResult,
    CoordinatorElected,
    CoordinatorResigned,
    EndResult,
    EndTxn,
    InitProducerId,
    LoadPartition,
    MarkersAnswered,
    PartitionLoaded,
    ProducerIdGiven,
    RecordWritten,
    TransactionAction,
    TransactionInput,
)
from cluster.transactions.producer_ids import NewProducerIds
from cluster.transactions.transaction import AT_REST, PREPARED, TransactionMetadata
from cluster.transactions.transaction import TransactionState as State
from replica.causes import TransactionCause
from replica.errors import ErrorCode, KafkaError
from replica.ids import TRANSACTIONS_TOPIC, LeaderEpoch
from replica.trace.events import TransactionsLoaded, TransactionsUnloaded


class TransactionCoordinator:
    """`step` changes it; `describe` and `listed` only look"""

    def __init__(
        self, *, node: str, settings: TransactionSettings, clock: WallClock, partition_of: Callable[[str], int]
    ) -> None:
        self._desk = TransactionDesk(node=node, settings=settings, clock=clock, partition_of=partition_of)
        self._new_ids = NewProducerIds(self._desk)
        self._endings = Endings(self._desk, self._new_ids)
        self._beginnings = Beginnings(self._desk, self._new_ids, self._endings)
        self._epochs: dict[int, LeaderEpoch] = {}
        self._is_checking = False

    @property
    def version(self) -> int:
        """transaction.version of the cluster."""
        return self._desk.settings.version

    def set_version(self, version: int) -> None:
        """For what begins from now on."""
        self._desk.settings = replace(self._desk.settings, version=version)

    @property
    def next_deadline_us(self) -> int | None:
        return self._desk.timers.next_deadline_us

    def tick(self, now_us: int) -> list[TransactionAction]:
        """Deadlines that have come."""
        self._desk.timers.run_due(now_us)
        return self._desk.take()

    def step(self, given: TransactionInput) -> list[TransactionAction]:
        match given:
            case InitProducerId():
                self._beginnings.asked(given)
            case AddPartitions():
                self._add(given)
            case EndTxn():
                self._endings.asked(given)
            case ProducerIdGiven():
                self._new_ids.given(given)
            case MarkersAnswered():
                self._endings.answered(given)
            case CoordinatorElected():
                self._elected(given)
            case PartitionLoaded():
                self._loaded(given)
            case CoordinatorResigned():
                self._resigned(given)
            case RecordWritten():
                self._desk.written(given.write, given.error, given.now_us)
        return self._desk.take()

    # ------------------------------------------------------------------------------------------------------ questions

    def describe(self, transactional_id: str) -> TransactionMetadata:
        """raises: KafkaError       source: handleDescribeTransactions"""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        transaction = self._desk.find(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return transaction

    def listed(
        self, producer_ids: Collection[int], states: Sequence[State] | None, longer_than_ms: int, now_us: int
    ) -> list[TransactionMetadata]:
        """producer_ids: empty for all     states: None for all     longer_than_ms: open for so long; -1: any time

        raises: KafkaError       source: listTransactionStates
        """
        if self._desk.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        now_ms = self._desk.wall_ms(now_us)
        return [
            one
            for one in self._desk.kept.values()
            if (not producer_ids or one.producer_id in producer_ids)
            and (states is None or one.state in states)
            and (longer_than_ms < 0 or now_ms - one.started_ms > longer_than_ms)
        ]

    def is_loading(self, partition: int, leader_epoch: LeaderEpoch) -> bool:
        return self._desk.loading.get(partition) == leader_epoch

    # ------------------------------------------------------------------------------------------------------- requests

    def _add(self, given: AddPartitions) -> None:
        """source: handleAddPartitionsToTransaction, handleVerifyPartitionsInTransaction"""
        try:
            transaction = self._member(given)
            if given.verify_only:
                inside = transaction.partitions
                errors = {
                    name: ErrorCode.NONE if name in inside else ErrorCode.TRANSACTION_ABORTABLE
                    for name in given.partitions
                }
                self._desk.answer(given.request, AddResult(errors))
                return
            if transaction.pending is not None:
                raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        except KafkaError as error:
            self._add_refused(given, error.code)
            return
        if transaction.state is State.ONGOING and all(name in transaction.partitions for name in given.partitions):
            self._desk.answer(given.request, AddResult(dict.fromkeys(given.partitions, ErrorCode.NONE)))
            return

        def written(error: ErrorCode, written_us: int) -> None:
            if error is ErrorCode.NONE:
                self._desk.answer(given.request, AddResult(dict.fromkeys(given.partitions, error)))
            else:
                self._add_refused(given, error)

        transit = transaction.prepare_add(given.partitions, given.version, self._desk.wall_ms(given.now_us))
        self._desk.write(transaction, transit, TransactionCause.PARTITIONS_ADDED, written, given.now_us)

    def _member(self, given: AddPartitions) -> TransactionMetadata:
        """raises: KafkaError, where the producer cannot have this transaction"""
        if not given.transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        transaction = self._desk.find(given.transactional_id)
        waits = transaction is not None and transaction.pending is not None and not given.verify_only
        if waits and self._desk.settings.knows_v2:
            # It may have the epoch of its next transaction, which until then looks like that of a zombie (KAFKA-18464).
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if transaction is None or transaction.producer_id != given.producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if transaction.producer_epoch != given.producer_epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if transaction.state in PREPARED:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return transaction

    def _add_refused(self, given: AddPartitions, error: ErrorCode) -> None:
        self._desk.tell_refused(
            given.transactional_id, ADD_PARTITIONS_TO_TXN, given.producer_id, given.producer_epoch, error
        )
        self._desk.answer(given.request, AddResult(dict.fromkeys(given.partitions, error)))

    # ------------------------------------------------------------------------------------------------------ leadership

    def _elected(self, given: CoordinatorElected) -> None:
        """source: onElection, loadTransactionsForTxnTopicPartition"""
        if given.leader_epoch <= self._epochs.get(given.partition, -1):
            return  # Known already: only the ISR has changed.
        self._epochs[given.partition] = given.leader_epoch
        self._forget(given.partition)  # What it wrote in an earlier epoch is in its log.
        self._desk.loading[given.partition] = given.leader_epoch
        self._desk.want(LoadPartition(partition=given.partition, leader_epoch=given.leader_epoch))
        if not self._is_checking:
            # Kafka's schedulers start with the broker; here with the first partition that it leads.
            self._is_checking = True
            self._check_timeouts_later(given.now_us)
            self._check_expiry_later(given.now_us)

    def _loaded(self, given: PartitionLoaded) -> None:
        if not self.is_loading(given.partition, given.leader_epoch):
            return  # Another broker leads by now.
        del self._desk.loading[given.partition]
        self._desk.owned[given.partition] = given.leader_epoch
        if given.transactions or given.unreadable:
            self._desk.tell(
                TransactionsLoaded(
                    self._desk.node,
                    TRANSACTIONS_TOPIC,
                    given.partition,
                    leader_epoch=given.leader_epoch,
                    transactions=len(given.transactions),
                    unreadable=given.unreadable,
                )
            )
        for transaction in given.transactions:
            self._desk.kept[transaction.transactional_id] = transaction
            if transaction.state in PREPARED:
                transit = transaction.prepare_complete(self._desk.wall_ms(given.now_us))
                self._endings.send_markers(transaction, transit, given.now_us)

    def _resigned(self, given: CoordinatorResigned) -> None:
        """source: onResignation, removeTransactionsForTxnTopicPartition"""
        if given.leader_epoch is not None:
            if given.leader_epoch <= self._epochs.get(given.partition, -1):
                return
            self._epochs[given.partition] = given.leader_epoch
        else:
            self._epochs.pop(given.partition, None)
        lost = self._forget(given.partition)
        if lost:
            self._desk.tell(
                TransactionsUnloaded(self._desk.node, TRANSACTIONS_TOPIC, given.partition, transactions=lost)
            )

    def _forget(self, partition: int) -> int:
        """Returns how many there were."""
        self._desk.owned.pop(partition, None)
        self._desk.loading.pop(partition, None)
        lost = [name for name in self._desk.kept if self._desk.partition_of(name) == partition]
        for name in lost:
            del self._desk.kept[name]
        return len(lost)

    # --------------------------------------------------------------------------------------------------------- checks

    def _check_timeouts_later(self, now_us: int) -> None:
        self._desk.timers.at(now_us + self._desk.settings.abort_check_interval_ms * 1000, self._abort_timed_out)

    def _abort_timed_out(self, now_us: int) -> None:
        """source: abortTimedOutTransactions"""
        now_ms = self._desk.wall_ms(now_us)
        for transaction in list(self._desk.kept.values()):
            is_open = transaction.state is State.ONGOING and transaction.pending is None
            if is_open and transaction.started_ms + transaction.timeout_ms < now_ms:
                # Differs from Kafka: where one has no further epoch, the check ends there in an exception.
                self._endings.fence(transaction, TransactionCause.TIMEOUT, _unanswered, now_us)
        self._check_timeouts_later(now_us)

    def _check_expiry_later(self, now_us: int) -> None:
        self._desk.timers.at(now_us + self._desk.settings.expiration_check_interval_ms * 1000, self._expire)

    def _expire(self, now_us: int) -> None:
        """source: removeExpiredTransactionalIds"""
        now_ms = self._desk.wall_ms(now_us)
        for transaction in list(self._desk.kept.values()):
            is_unused = now_ms - transaction.updated_ms >= self._desk.settings.expiration_ms
            if transaction.state in AT_REST and transaction.pending is None and is_unused:
                self._desk.bury(transaction, transaction.prepare_dead(now_ms), now_us)
        self._check_expiry_later(now_us)


def _unanswered(result: EndResult, now_us: int) -> None:
    """No request waits; a transaction that could not be aborted is tried again with the next check."""
