"""One transactional.id: its producer id and epoch, the state of its transaction, and the allowed transitions.

A transition is prepared (`Transit`), written to the log, and applied (`complete`) once every in-sync replica has it.
Until then it is `pending`, and no other transition may begin.

Source: TransactionMetadata.scala
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from replica.errors import ErrorCode, KafkaError
from replica.ids import TopicPartition
from replica.log.batches.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

MAX_EPOCH = 32_767
NO_TIMESTAMP = -1
BUMPS_EPOCH = 2
"""The first transaction.version in which each end of a transaction raises the epoch (KIP-890)."""


class TransactionState(Enum):
    """The state of a transaction, with the names of DescribeTransactions, in the order of the ids in the log."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
AT_REST = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
_COMES_FROM: dict[TransactionState, tuple[TransactionState, ...]] = {
    TransactionState.EMPTY: AT_REST,
    TransactionState.ONGOING: (TransactionState.ONGOING, *AT_REST),
    TransactionState.PREPARE_COMMIT: (TransactionState.ONGOING,),
    # Since transaction.version 2 a transaction without any partition can be aborted.
    TransactionState.PREPARE_ABORT: (TransactionState.ONGOING, *AT_REST),
    TransactionState.COMPLETE_COMMIT: (TransactionState.PREPARE_COMMIT,),
    TransactionState.COMPLETE_ABORT: (TransactionState.PREPARE_ABORT,),
    TransactionState.DEAD: AT_REST,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transit:
    """A transition of a transactional.id. Source: TxnTransitMetadata"""

    state: TransactionState
    producer_id: int
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int
    last_producer_epoch: int
    timeout_ms: int
    partitions: tuple[TopicPartition, ...] = ()
    started_ms: int = NO_TIMESTAMP
    updated_ms: int
    version: int = 0


class TransactionMetadata:
    """The state of one transactional.id.

    Attributes:
        partitions: partitions of the open transaction; while it ends, those that still need a marker.
        previous_producer_id: producer id before the last transition; a client that missed a response still has it.
        last_producer_epoch: previous epoch; a client that missed a response still has it (KIP-360).
        next_producer_id: producer id after the transaction if the current one has no epochs left.
        version: transaction.version that the client uses.
        is_fenced: True if the epoch was raised for an end that is not in the log yet; a retry does not raise it again.
        pending: state after the transition that is being written, None if there is none.
        completing: transition to apply after all markers are written, None if there is none.
    """

    def __init__(self, transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.previous_producer_id = NO_PRODUCER_ID
        self.next_producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.last_producer_epoch = NO_PRODUCER_EPOCH
        self.timeout_ms = timeout_ms
        self.state = TransactionState.EMPTY
        self.partitions: dict[TopicPartition, None] = {}
        self.started_ms = NO_TIMESTAMP
        self.updated_ms = now_ms
        self.version = 0
        self.pending: TransactionState | None = None
        self.completing: Transit | None = None
        self.is_fenced = False

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_exhausted(self.producer_epoch)

    # ----------------------------------------------------------------------------------------------------- preparing

    def _transit(
        self,
        state: TransactionState,
        producer_epoch: int,
        last_producer_epoch: int,
        now_ms: int,
        *,
        producer_id: int | None = None,
        next_producer_id: int = NO_PRODUCER_ID,
        timeout_ms: int | None = None,
        partitions: Sequence[TopicPartition] = (),
        started_ms: int = NO_TIMESTAMP,
        version: int | None = None,
    ) -> Transit:
        """Return a transition to `state`, and make it pending.

        Raises:
            KafkaError: UNKNOWN_SERVER_ERROR, as in Kafka, if the epoch is too large.
        """
        if producer_epoch > MAX_EPOCH:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        assert self.pending is None, f"{self.transactional_id} already has a pending change to {self.pending}"
        assert self.state in _COMES_FROM[state], (
            f"{self.transactional_id} cannot change from {self.state.value} to {state.value}"
        )
        self.pending = state
        return Transit(
            state=state,
            producer_id=self.producer_id if producer_id is None else producer_id,
            next_producer_id=next_producer_id,
            producer_epoch=producer_epoch,
            last_producer_epoch=last_producer_epoch,
            timeout_ms=self.timeout_ms if timeout_ms is None else timeout_ms,
            partitions=tuple(partitions),
            started_ms=started_ms,
            updated_ms=now_ms,
            version=self.version if version is None else version,
        )

    def prepare_increment_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transit:
        """Prepare the initialization of a producer, which raises the epoch unless the request is a retry.

        Args:
            expected_epoch: epoch that the producer has, None if it has none.

        Raises:
            KafkaError: PRODUCER_FENCED if the producer's epoch is neither the current nor the previous one;
                UNKNOWN_SERVER_ERROR if no epoch is left.
        """
        if self.is_epoch_exhausted:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        bumped = self.producer_epoch + 1
        if expected_epoch is None:
            epochs = bumped, NO_PRODUCER_EPOCH
        elif self.producer_epoch in (NO_PRODUCER_EPOCH, expected_epoch):
            epochs = bumped, self.producer_epoch
        elif expected_epoch == self.last_producer_epoch:
            epochs = self.producer_epoch, self.last_producer_epoch  # A retry: the response was lost.
        else:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return self._transit(TransactionState.EMPTY, *epochs, now_ms, timeout_ms=timeout_ms)

    def prepare_rotation(self, producer_id: int, timeout_ms: int, *, keep_last_epoch: bool, now_ms: int) -> Transit:
        """Prepare the initialization of a producer with a new producer id, because the old one has no epochs left."""
        last = self.producer_epoch if keep_last_epoch else NO_PRODUCER_EPOCH
        return self._transit(TransactionState.EMPTY, 0, last, now_ms, producer_id=producer_id, timeout_ms=timeout_ms)

    def fence(self, *, bumps: bool) -> None:
        """Fence the producer, before the coordinator itself ends the transaction.

        Args:
            bumps: True if the end itself raises the epoch, as with transaction.version 2 (KAFKA-19367). If False, the
                epoch is raised now, before anything is written, but only once until the transaction has ended.

        Raises:
            KafkaError: UNKNOWN_SERVER_ERROR if no epoch is left.

        Source: prepareFenceProducerEpoch, endTransactionWithTV1
        """
        if self.producer_epoch == MAX_EPOCH:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if not bumps:
            self.producer_epoch += 0 if self.is_fenced else 1
            self.is_fenced = True
            self.last_producer_epoch = NO_PRODUCER_EPOCH

    def prepare_add(self, added: Sequence[TopicPartition], version: int, now_ms: int) -> Transit:
        return self._transit(
            TransactionState.ONGOING,
            self.producer_epoch,
            self.last_producer_epoch,
            now_ms,
            partitions=list({**self.partitions, **dict.fromkeys(added)}),
            started_ms=now_ms if self.state in AT_REST else self.started_ms,
            version=version,
        )

    def prepare_end(self, state: TransactionState, version: int, next_producer_id: int, now_ms: int) -> Transit:
        """Prepare the end of the transaction.

        Args:
            state: PREPARE_COMMIT or PREPARE_ABORT.
            version: transaction.version of the request. From 2 on the end raises the epoch, which fences late requests
                of this transaction (KIP-890).
            next_producer_id: new producer id if the current one has no epochs left, otherwise NO_PRODUCER_ID.
        """
        epochs = self.producer_epoch, self.last_producer_epoch
        if version >= BUMPS_EPOCH:
            epochs = self.producer_epoch + 1, self.producer_epoch
        return self._transit(
            state,
            *epochs,
            now_ms,
            next_producer_id=next_producer_id,
            partitions=list(self.partitions),
            started_ms=now_ms if self.state in AT_REST else self.started_ms,  # An empty transaction begins now.
            version=version,
        )

    def prepare_complete(self, now_ms: int) -> Transit:
        state = (
            TransactionState.COMPLETE_COMMIT
            if self.state is TransactionState.PREPARE_COMMIT
            else TransactionState.COMPLETE_ABORT
        )
        self.is_fenced = False
        rotates = self.next_producer_id != NO_PRODUCER_ID
        return self._transit(
            state,
            0 if rotates else self.producer_epoch,
            self.last_producer_epoch,  # Also with a new producer id: it is the last epoch that the producer has seen.
            now_ms,
            producer_id=self.next_producer_id if rotates else None,
            started_ms=self.started_ms,
        )

    def prepare_dead(self, now_ms: int) -> Transit:
        """Prepare the deletion of a transactional id that was unused for transactional.id.expiration.ms."""
        return self._transit(TransactionState.DEAD, self.producer_epoch, self.last_producer_epoch, now_ms)

    # ---------------------------------------------------------------------------------------------------- completing

    def complete(self, transit: Transit) -> None:
        """Apply a transition that all in-sync replicas have."""
        assert self.pending is transit.state, f"{self.transactional_id} has no pending change to {transit.state}"
        self.state, self.pending = transit.state, None
        self.producer_epoch, self.last_producer_epoch = transit.producer_epoch, transit.last_producer_epoch
        self.previous_producer_id, self.producer_id = self.producer_id, transit.producer_id
        self.next_producer_id = transit.next_producer_id
        self.timeout_ms = transit.timeout_ms
        self.partitions = dict.fromkeys(transit.partitions)
        self.started_ms, self.updated_ms = transit.started_ms, transit.updated_ms
        self.version = transit.version


def is_exhausted(epoch: int) -> bool:
    """Return True if only the last epoch is left, which the coordinator needs to fence the producer."""
    return epoch >= MAX_EPOCH - 1
