"""One transactional.id: its producer id and epoch, its transaction's state, and what may follow from what.

A change is prepared (`Transit`), written to the log, and made (`complete`) once every in-sync replica has it; until
then it is `pending`, and nothing else may begin. source: TransactionMetadata.scala
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
"""transaction.version from which each end of a transaction bumps the epoch (KIP-890)."""


class TransactionState(Enum):
    """Kafka's names, as DescribeTransactions and ListTransactions return them, in the order of their ids in the log."""

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
    """What a transactional.id is to become. source: TxnTransitMetadata"""

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
    """partitions: with records of the open transaction, then those whose marker is not written yet

    previous_producer_id: before the last change, whatever that changed; by it a client is known that did not get the
        answer by which it would have another id
    last_producer_epoch: the one before, for a client that did not get the answer to its last request (KIP-360)
    next_producer_id: takes over when the transaction is complete, as the epochs of this one are used up
    version: transaction.version by which the client acts
    is_fenced: its epoch was raised for an end that is not in the log yet: the next try uses up no further one
    pending: the state that is on its way into the log     completing: what it is to become when all have their marker
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
        """raises: KafkaError UNKNOWN_SERVER_ERROR where there is no such epoch; Kafka fails there, too"""
        if producer_epoch > MAX_EPOCH:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        assert self.pending is None, f"{self.transactional_id}: {self.pending} is pending"
        assert self.state in _COMES_FROM[state], f"{state.value} does not follow {self.state.value}"
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
        """A producer begins. expected_epoch: the one that it has, if any.

        raises: KafkaError PRODUCER_FENCED; UNKNOWN_SERVER_ERROR where all epochs are used up and the producer does not
            have the last one
        """
        if self.is_epoch_exhausted:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        bumped = self.producer_epoch + 1
        if expected_epoch is None:
            epochs = bumped, NO_PRODUCER_EPOCH
        elif self.producer_epoch in (NO_PRODUCER_EPOCH, expected_epoch):
            epochs = bumped, self.producer_epoch
        elif expected_epoch == self.last_producer_epoch:
            epochs = self.producer_epoch, self.last_producer_epoch  # It did not get the answer to this very request.
        else:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return self._transit(TransactionState.EMPTY, *epochs, now_ms, timeout_ms=timeout_ms)

    def prepare_rotation(self, producer_id: int, timeout_ms: int, *, keep_last_epoch: bool, now_ms: int) -> Transit:
        """A new producer id, as the epochs of the old one are used up."""
        last = self.producer_epoch if keep_last_epoch else NO_PRODUCER_EPOCH
        return self._transit(TransactionState.EMPTY, 0, last, now_ms, producer_id=producer_id, timeout_ms=timeout_ms)

    def fence(self, *, bumps: bool) -> None:
        """The coordinator is about to end the transaction by itself, with an epoch that the producer does not have.

        bumps: the end itself raises the epoch, as with transaction.version 2 (KAFKA-19367). Else it is raised here,
            before anything is written, and only once until an end is written.

        raises: KafkaError UNKNOWN_SERVER_ERROR where there is no further epoch

        source: prepareFenceProducerEpoch, endTransactionWithTV1
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
        """version: transaction.version of the request: from 2 on the end raises the epoch, by which a request of this
        transaction that comes late is fenced (KIP-890)"""
        epochs = self.producer_epoch, self.last_producer_epoch
        if version >= BUMPS_EPOCH:
            epochs = self.producer_epoch + 1, self.producer_epoch
        return self._transit(
            state,
            *epochs,
            now_ms,
            next_producer_id=next_producer_id,
            partitions=list(self.partitions),
            started_ms=now_ms if self.state in AT_REST else self.started_ms,  # Without a partition it begins now.
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
            self.last_producer_epoch,  # At a rotation, too: it is the last epoch that the producer has seen.
            now_ms,
            producer_id=self.next_producer_id if rotates else None,
            started_ms=self.started_ms,
        )

    def prepare_dead(self, now_ms: int) -> Transit:
        """It was not used for transactional.id.expiration.ms."""
        return self._transit(TransactionState.DEAD, self.producer_epoch, self.last_producer_epoch, now_ms)

    # ---------------------------------------------------------------------------------------------------- completing

    def complete(self, transit: Transit) -> None:
        """The change is on all in-sync replicas."""
        assert self.pending is transit.state, f"{self.transactional_id}: {transit.state} was not pending"
        self.state, self.pending = transit.state, None
        self.producer_epoch, self.last_producer_epoch = transit.producer_epoch, transit.last_producer_epoch
        self.previous_producer_id, self.producer_id = self.producer_id, transit.producer_id
        self.next_producer_id = transit.next_producer_id
        self.timeout_ms = transit.timeout_ms
        self.partitions = dict.fromkeys(transit.partitions)
        self.started_ms, self.updated_ms = transit.started_ms, transit.updated_ms
        self.version = transit.version


def is_exhausted(epoch: int) -> bool:
    """The last epoch is left for the coordinator, to fence the producer with."""
    return epoch >= MAX_EPOCH - 1
