"""The end of a transaction: a Prepare* record, then a marker to each partition, then a Complete* record.

Source: TransactionCoordinator.endTransaction, TransactionMarkerChannelManager.scala,
TransactionMarkerRequestCompletionHandler.scala
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from cluster.protocol.versions import END_TXN
from cluster.transactions.desk import NewProducerIds, TransactionDesk
from cluster.transactions.inputs import EndResult, EndTxn, MarkersAnswered, SendMarkers
from cluster.transactions.transaction import (
    BUMPS_EPOCH,
    MAX_EPOCH,
    PREPARED,
    TransactionMetadata,
    Transit,
)
from cluster.transactions.transaction import (
    TransactionState as State,
)
from replica.causes import TransactionCause
from replica.errors import ErrorCode, KafkaError
from replica.ids import TopicPartition
from replica.log.batches.records import NO_PRODUCER_ID

APPEND_RETRY_MS = 100
FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
"""Errors after which no marker is sent again: another coordinator or a newer epoch has taken over."""
NO_MARKER_NEEDED = (ErrorCode.UNSUPPORTED_VERSION, None)
"""Results after which a partition needs no marker: None if it was deleted, or its log format has no markers."""
Done = Callable[[EndResult, int], None]


class Endings:
    def __init__(self, desk: TransactionDesk, new_ids: NewProducerIds) -> None:
        self._desk = desk
        self._new_ids = new_ids

    def asked(self, event: EndTxn) -> None:
        """Handle an EndTxn request of a producer."""

        def done(result: EndResult, now_us: int) -> None:
            if result.error is not ErrorCode.NONE:
                self._desk.tell_refused(
                    event.transactional_id, END_TXN, event.producer_id, event.producer_epoch, result.error
                )
            self._desk.answer(event.request, result)

        if event.transactional_id:
            self._decide(event, done, None, event.now_us)
        else:
            done(EndResult(ErrorCode.INVALID_REQUEST), event.now_us)

    def _decide(self, event: EndTxn, done: Done, new_id: int | None, now_us: int) -> None:
        """Begin to end the transaction of an EndTxn request, or call `done` with the result immediately.

        Args:
            new_id: producer id that replaces one without epochs left, None if not requested yet.
        """
        try:
            transaction = self._desk.find(event.transactional_id)
            if transaction is None:
                raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            state = _next_state(transaction, event)
        except KafkaError as error:
            done(EndResult(error.code), now_us)
            return
        rotates = event.version >= BUMPS_EPOCH and transaction.is_epoch_exhausted
        if state is None:  # The response to the first request did not reach the producer.
            done(EndResult(ErrorCode.NONE, transaction.producer_id, transaction.producer_epoch), now_us)
        elif rotates and new_id is None:
            self._new_ids.ask(partial(self._go_on, event, done), now_us)
        else:
            why = TransactionCause.COMMIT if event.commit else TransactionCause.ABORT
            next_id = NO_PRODUCER_ID if new_id is None else new_id
            self._end(transaction, state, event.version, next_id, why, done, now_us)

    def _go_on(self, event: EndTxn, done: Done, producer_id: int | None, now_us: int) -> None:
        if producer_id is None:
            done(EndResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), now_us)
        else:
            self._decide(event, done, producer_id, now_us)

    def fence(self, transaction: TransactionMetadata, why: TransactionCause, done: Done, now_us: int) -> None:
        """Fence the producer of a transaction, and abort the transaction; then call `done`."""
        bumps = self._desk.bumps_epochs
        try:
            transaction.fence(bumps=bumps)
        except KafkaError as error:
            done(EndResult(error.code), now_us)
            return
        version = BUMPS_EPOCH if bumps else 0
        self._end(transaction, State.PREPARE_ABORT, version, NO_PRODUCER_ID, why, done, now_us, fences=True)

    def _end(
        self,
        transaction: TransactionMetadata,
        state: State,
        version: int,
        next_producer_id: int,
        why: TransactionCause,
        done: Done,
        now_us: int,
        *,
        fences: bool = False,
    ) -> None:
        try:
            transit = transaction.prepare_end(state, version, next_producer_id, self._desk.wall_ms(now_us))
        except KafkaError as error:
            done(EndResult(error.code), now_us)
            return

        def written(error: ErrorCode, written_us: int) -> None:
            if error is not ErrorCode.NONE:
                done(EndResult(error), written_us)
                return
            transit = transaction.prepare_complete(self._desk.wall_ms(written_us))
            done(EndResult(ErrorCode.NONE, transit.producer_id, transit.producer_epoch), written_us)
            self.send_markers(transaction, transit, written_us)

        self._desk.write(transaction, transit, why, written, now_us, fences=fences)

    # -------------------------------------------------------------------------------------------------------- markers

    def send_markers(self, transaction: TransactionMetadata, transit: Transit, now_us: int) -> None:
        """Send markers to all partitions of a transaction, and then apply `transit`, which is pending until then.

        Source: addTxnMarkersToSend
        """
        transaction.completing = transit
        self._send(transaction, list(transaction.partitions), again=False)
        self._maybe_complete(transaction, now_us)

    def _send(self, transaction: TransactionMetadata, partitions: Sequence[TopicPartition], *, again: bool) -> None:
        if partitions:
            self._desk.want(
                SendMarkers(
                    transactional_id=transaction.transactional_id,
                    coordinator_epoch=self._desk.epoch_of(transaction.transactional_id),
                    producer_id=transaction.producer_id,
                    producer_epoch=transaction.producer_epoch,
                    commit=transaction.state is State.PREPARE_COMMIT,
                    partitions=tuple(partitions),
                    version=transaction.version,
                    again=again,
                )
            )

    def answered(self, event: MarkersAnswered) -> None:
        """Handle the leaders' results for markers: send refused markers again, and complete the transaction."""
        transaction = self._desk.kept.get(event.transactional_id)
        if transaction is None or self._desk.epoch_of(event.transactional_id) != event.coordinator_epoch:
            return  # Another broker coordinates the id now, and sends the markers again.
        again, is_fenced = [], False
        for name, error in event.errors.items():
            if error is ErrorCode.NONE or error in NO_MARKER_NEEDED:
                transaction.partitions.pop(name, None)
            elif error in FENCED:
                is_fenced = True
            else:
                again.append(name)
        if not is_fenced:
            self._send(transaction, again, again=True)
            self._maybe_complete(transaction, event.now_us)

    def _maybe_complete(self, transaction: TransactionMetadata, now_us: int) -> None:
        transit = transaction.completing
        if transit is not None and not transaction.partitions:
            transaction.completing = None
            self._complete(transaction, transit, now_us)

    def _complete(self, transaction: TransactionMetadata, transit: Transit, now_us: int) -> None:
        """Write the Complete* record of a transaction. Source: tryAppendToLog"""

        def written(error: ErrorCode, written_us: int) -> None:
            if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                # Kafka retries with its next request.
                again_us = written_us + APPEND_RETRY_MS * 1000
                self._desk.timers.at(again_us, partial(self._complete_again, transaction, transit))

        why = TransactionCause.MARKERS_WRITTEN
        retried = (ErrorCode.COORDINATOR_NOT_AVAILABLE,)
        self._desk.write(transaction, transit, why, written, now_us, keeps_pending=retried)

    def _complete_again(self, transaction: TransactionMetadata, transit: Transit, now_us: int) -> None:
        if self._desk.kept.get(transaction.transactional_id) is transaction:
            self._complete(transaction, transit, now_us)


def _next_state(transaction: TransactionMetadata, event: EndTxn) -> State | None:
    """Return the state to which an EndTxn request leads; None if the transaction has already ended that way.

    The rules depend on the version of the request. Source: endTransactionWithTV1, endTransaction

    Raises:
        KafkaError: if the request is not valid now.
    """
    bumps = event.version >= BUMPS_EPOCH
    is_repeated = _check_bumping(transaction, event) if bumps else _check_strictly(transaction, event)
    if transaction.state is State.ONGOING:
        return State.PREPARE_COMMIT if event.commit else State.PREPARE_ABORT
    if transaction.state is (State.PREPARE_COMMIT if event.commit else State.PREPARE_ABORT):
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is (State.COMPLETE_COMMIT if event.commit else State.COMPLETE_ABORT) and is_repeated:
        return None
    if not event.commit and not is_repeated:
        return State.PREPARE_ABORT  # Nothing was added; the producer gets its next epoch.
    raise KafkaError(ErrorCode.INVALID_TXN_STATE)


def _check_strictly(transaction: TransactionMetadata, event: EndTxn) -> bool:
    """Check an EndTxn before version 5. Return True: after the end of the transaction it can only be a retry.

    Raises:
        KafkaError: INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED if the producer id or epoch is not current;
            CONCURRENT_TRANSACTIONS while a change is being written.
    """
    if transaction.producer_id != event.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != event.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.pending is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return True


def _check_bumping(transaction: TransactionMetadata, event: EndTxn) -> bool:
    """Check an EndTxn from version 5 on. Return True if it has the previous epoch, and so is a retry.

    Raises:
        KafkaError: if the producer id or epoch is not valid.
    """
    if transaction.pending is not None:  # After the write the request's id and epoch may be valid.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    after_bump = transaction.producer_epoch == event.producer_epoch + 1
    after_rotation = (
        transaction.previous_producer_id == event.producer_id
        and event.producer_epoch == MAX_EPOCH - 1
        and transaction.producer_epoch == 0
    )
    is_repeated = after_bump or after_rotation
    if transaction.producer_id != event.producer_id and not after_rotation:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_current = transaction.producer_epoch == event.producer_epoch
    if transaction.state in PREPARED:
        is_valid = after_bump
    elif transaction.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        is_valid = is_current or is_repeated
    else:
        is_valid = is_current
    if not is_valid:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    return is_repeated
