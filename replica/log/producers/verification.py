"""Before a transaction's first batch the leader asks the coordinator whether the transaction is open (KIP-890).

Between question and append a marker may end that transaction. So each question has a guard, which the append shows
again: it is the right one only as long as nothing of the transaction, and no marker, was written since. With
transaction.version 2 the marker of the transaction before has the epoch of the next one, and takes no guard of it.

Source: VerificationGuard, VerificationStateEntry, UnifiedLog.maybeStartTransactionVerification, .updateProducers.
"""

from __future__ import annotations

from replica.errors import ErrorCode, KafkaError
from replica.log.batches.records import BatchHeader

NOT_VERIFIED = 0
"""VerificationGuard.SENTINEL: of an append before which the coordinator was not asked."""
NOT_ASKED_FOR = -1
"""Of an append under rules that verify nothing."""


class VerificationState:
    """One producer's. lowest_sequence: of the batches that wait for it; a higher one is not to overtake them

    supports_epoch_bump: each of its transactions has an epoch of its own
    """

    __slots__ = ("began_ms", "epoch", "guard", "lowest_sequence", "supports_epoch_bump")

    def __init__(
        self, guard: int, epoch: int, lowest_sequence: int, began_ms: int, *, supports_epoch_bump: bool
    ) -> None:
        self.guard = guard
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence
        self.began_ms = began_ms
        self.supports_epoch_bump = supports_epoch_bump


class VerificationStates:
    """Of one partition, by producer id."""

    __slots__ = ("_guards", "_states")

    def __init__(self) -> None:
        self._states: dict[int, VerificationState] = {}
        self._guards = NOT_VERIFIED

    def begin(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, supports_epoch_bump: bool
    ) -> int:
        """returns: the guard of the question that is open, or of a new one"""
        state = self._states.get(producer_id)
        if state is None:
            self._guards += 1
            state = self._states[producer_id] = VerificationState(
                self._guards, producer_epoch, sequence, now_ms, supports_epoch_bump=supports_epoch_bump
            )
        if producer_epoch == state.epoch:
            state.lowest_sequence = min(state.lowest_sequence, sequence)
        elif producer_epoch > state.epoch:
            state.epoch, state.lowest_sequence = producer_epoch, sequence
        return state.guard

    def written(self, producer_id: int) -> None:
        """A batch of its transaction is in the log."""
        if self._states:
            self._states.pop(producer_id, None)

    def ended(self, producer_id: int, producer_epoch: int) -> None:
        """A marker is in the log. producer_epoch: of the marker"""
        state = self._states.get(producer_id) if self._states else None
        if state is not None and not (state.supports_epoch_bump and state.epoch == producer_epoch):
            del self._states[producer_id]

    def check_guard(self, producer_id: int, guard: int) -> None:
        """raises: KafkaError INVALID_TXN_STATE, if it is not that of the question that is open"""
        state = self._states.get(producer_id)
        if state is None or guard == NOT_VERIFIED or state.guard != guard:
            message = "Record was not part of an ongoing transaction"
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, message, producer_id=producer_id)

    def check_sequence(self, batch: BatchHeader) -> None:
        """raises: KafkaError OUT_OF_ORDER_SEQUENCE_NUMBER, for a batch that overtakes another"""
        state = self._states.get(batch.producer_id) if self._states else None
        if state is not None and batch.base_sequence > state.lowest_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {batch.producer_id} sent sequence {batch.base_sequence}, while {state.lowest_sequence} has "
                "yet to be written",
                producer_id=batch.producer_id,
                base_sequence=batch.base_sequence,
            )

    def remove_expired(self, before_ms: int) -> None:
        for producer_id, state in list(self._states.items()):
            if state.began_ms <= before_ms:
                del self._states[producer_id]
