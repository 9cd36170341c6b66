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

    def asked(self, event: InitProducerId) -> None:
        settings = self._desk.settings
        if not event.transactional_id:
            self._refuse(event, ErrorCode.INVALID_REQUEST)
        elif not 0 < event.timeout_ms <= settings.max_timeout_ms:
            self._refuse(event, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        else:
            self._begin(event, None, event.now_us)

    def _go_on(self, event: InitProducerId, producer_id: int | None, now_us: int) -> None:
        if producer_id is None:
            self._refuse(event, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            self._begin(event, producer_id, now_us)

    def _begin(self, event: InitProducerId, new_id: int | None, now_us: int) -> None:
        """Initialize a producer.

        Args:
            new_id: new producer id, None if not requested yet. It is needed for an unknown transactional id, or if the
                old producer id has no epochs left.
        """
        now_ms = self._desk.wall_ms(now_us)
        try:
            transaction = self._desk.find(event.transactional_id)
            if transaction is None or _rotates(transaction, event):
                if new_id is None:
                    self._new_ids.ask(partial(self._go_on, event), now_us)
                    return
                if transaction is None:
                    transaction = TransactionMetadata(event.transactional_id, new_id, event.timeout_ms, now_ms)
                    self._desk.kept[event.transactional_id] = transaction
                    transit = transaction.prepare_increment_epoch(event.timeout_ms, None, now_ms)
                else:
                    keeps = event.expected is not None
                    transit = transaction.prepare_rotation(
                        new_id, event.timeout_ms, keep_last_epoch=keeps, now_ms=now_ms
                    )
            elif transaction.state is State.ONGOING:
                self._fence(event, transaction, now_us)
                return
            else:
                expected_epoch = None if event.expected is None else event.expected.epoch
                transit = transaction.prepare_increment_epoch(event.timeout_ms, expected_epoch, now_ms)
        except KafkaError as error:
            self._refuse(event, error.code)
            return
        self._write(event, transaction, transit, now_us)

    def _fence(self, event: InitProducerId, transaction: TransactionMetadata, now_us: int) -> None:
        def fenced(result: EndResult, fenced_us: int) -> None:
            # The producer has to retry until its earlier transaction is aborted.
            failed = result.error is not ErrorCode.NONE
            self._refuse(event, result.error if failed else ErrorCode.CONCURRENT_TRANSACTIONS)

        self._endings.fence(transaction, TransactionCause.NEW_INSTANCE, fenced, now_us)

    def _write(self, event: InitProducerId, transaction: TransactionMetadata, transit: Transit, now_us: int) -> None:
        def written(error: ErrorCode, written_us: int) -> None:
            if error is ErrorCode.NONE:
                result = InitResult(ErrorCode.NONE, transit.producer_id, transit.producer_epoch)
                self._desk.answer(event.request, result)
            else:
                self._refuse(event, error)

        self._desk.write(transaction, transit, TransactionCause.INITIALIZED, written, now_us)

    def _refuse(self, event: InitProducerId, error: ErrorCode) -> None:
        producer_id, epoch = event.expected or (-1, NO_PRODUCER_EPOCH)
        self._desk.tell_refused(event.transactional_id, INIT_PRODUCER_ID, producer_id, epoch, error)
        self._desk.answer(event.request, InitResult(error))


def _rotates(transaction: TransactionMetadata, event: InitProducerId) -> bool:
    """Return True if the producer needs a new producer id, because the old one has no epochs left.

    Raises:
        KafkaError: if the producer cannot be initialized now.
    """
    if transaction.pending is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if event.expected is not None and not _knows(transaction, event.expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    has_last_epoch = event.expected is None or event.expected.epoch == transaction.producer_epoch
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
