"""InitProducerId: the coordinator assigns a producer id and epoch, fences earlier instances, aborts their transaction.

Source: TransactionCoordinator.handleInitProducerId, prepareInitProducerIdTransit
"""

from __future__ import annotations

from functools import partial

from cluster.protocol.versions import INIT_PRODUCER_ID
from cluster.transactions.desk import NewProducerIds, TransactionDesk
from cluster.transactions.ending import Endings
from cluster.transactions.inputs import EndResult, InitProducerId, InitResult, ProducerIdAndEpoch
from cluster.transactions.transaction import (
    AT_REST,
    PREPARED,
    TransactionMetadata,
    Transit,
    is_exhausted,
)
from cluster.transactions.transaction import (
    TransactionState as State,
)
from replica.causes import TransactionCause
from replica.errors import ErrorCode, KafkaError
from replica.log.batches.records import NO_PRODUCER_EPOCH


class Beginnings:
    def __init__(self, desk: TransactionDesk, new_ids: NewProducerIds, endings: Endings) -> None:
        self._desk = desk
        self._new_ids = new_ids
        self._endings = endings

    def asked(self, given: InitProducerId) -> None:
        settings = self._desk.settings
        if not given.transactional_id:
            self._refuse(given, ErrorCode.INVALID_REQUEST)
        elif not 0 < given.timeout_ms <= settings.max_timeout_ms:
            self._refuse(given, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        else:
            self._begin(given, None, given.now_us)

    def _go_on(self, given: InitProducerId, producer_id: int | None, now_us: int) -> None:
        if producer_id is None:
            self._refuse(given, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            self._begin(given, producer_id, now_us)

    def _begin(self, given: InitProducerId, new_id: int | None, now_us: int) -> None:
        """Initialize a producer.

        Args:
            new_id: new producer id, None if not requested yet. It is needed for an unknown transactional id, or if the
                old producer id has no epochs left.
        """
        now_ms = self._desk.wall_ms(now_us)
        try:
            transaction = self._desk.find(given.transactional_id)
            if transaction is None or _rotates(transaction, given):
                if new_id is None:
                    self._new_ids.ask(partial(self._go_on, given), now_us)
                    return
                if transaction is None:
                    transaction = TransactionMetadata(given.transactional_id, new_id, given.timeout_ms, now_ms)
                    self._desk.kept[given.transactional_id] = transaction
                    transit = transaction.prepare_increment_epoch(given.timeout_ms, None, now_ms)
                else:
                    keeps = given.expected is not None
                    transit = transaction.prepare_rotation(
                        new_id, given.timeout_ms, keep_last_epoch=keeps, now_ms=now_ms
                    )
            elif transaction.state is State.ONGOING:
                self._fence(given, transaction, now_us)
                return
            else:
                expected_epoch = None if given.expected is None else given.expected.epoch
                transit = transaction.prepare_increment_epoch(given.timeout_ms, expected_epoch, now_ms)
        except KafkaError as error:
            self._refuse(given, error.code)
            return
        self._write(given, transaction, transit, now_us)

    def _fence(self, given: InitProducerId, transaction: TransactionMetadata, now_us: int) -> None:
        def fenced(result: EndResult, fenced_us: int) -> None:
            # The producer has to retry until its earlier transaction is aborted.
            failed = result.error is not ErrorCode.NONE
            self._refuse(given, result.error if failed else ErrorCode.CONCURRENT_TRANSACTIONS)

        self._endings.fence(transaction, TransactionCause.NEW_INSTANCE, fenced, now_us)

    def _write(self, given: InitProducerId, transaction: TransactionMetadata, transit: Transit, now_us: int) -> None:
        def written(error: ErrorCode, written_us: int) -> None:
            if error is ErrorCode.NONE:
                result = InitResult(ErrorCode.NONE, transit.producer_id, transit.producer_epoch)
                self._desk.answer(given.request, result)
            else:
                self._refuse(given, error)

        self._desk.write(transaction, transit, TransactionCause.INITIALIZED, written, now_us)

    def _refuse(self, given: InitProducerId, error: ErrorCode) -> None:
        producer_id, epoch = given.expected or (-1, NO_PRODUCER_EPOCH)
        self._desk.tell_refused(given.transactional_id, INIT_PRODUCER_ID, producer_id, epoch, error)
        self._desk.answer(given.request, InitResult(error))


def _rotates(transaction: TransactionMetadata, given: InitProducerId) -> bool:
    """Return True if the producer needs a new producer id, because the old one has no epochs left.

    Raises:
        KafkaError: if the producer cannot be initialized now.
    """
    if transaction.pending is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if given.expected is not None and not _knows(transaction, given.expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    has_last_epoch = given.expected is None or given.expected.epoch == transaction.producer_epoch
    return transaction.state in AT_REST and transaction.is_epoch_exhausted and has_last_epoch


def _knows(transaction: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Return True if the producer id that the producer states is current, or was replaced by a new one.

    Source: isValidProducerId
    """
    return (
        transaction.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == transaction.producer_id
        or (expected.producer_id == transaction.previous_producer_id and is_exhausted(expected.epoch))
    )
