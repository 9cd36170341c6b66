"""The index of the aborted transactions of one segment (`.txnindex`); read_committed consumers skip these.

An entry belongs to the segment with the ABORT marker; the transaction may begin in an earlier segment. The file exists
only if it has an entry. Source: Kafka TransactionIndex, AbortedTxn
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from replica.errors import ErrorCode, KafkaError
from replica.ids import Offset
from replica.log.batches.records import BatchHeader

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0
ENTRY_BYTES = _ENTRY.size


class AbortedTransaction(NamedTuple):
    """An aborted transaction from its first record to its marker, with the last stable offset at the abort."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class TransactionIndex:
    """The aborted transactions of one segment, in the order of their markers."""

    __slots__ = ("_base_offset", "entries")

    def __init__(self, base_offset: Offset) -> None:
        self._base_offset = base_offset
        self.entries: list[AbortedTransaction] = []

    def __len__(self) -> int:
        return len(self.entries)

    def append(self, aborted: AbortedTransaction) -> None:
        assert not self.entries or aborted.last_offset > self.entries[-1].last_offset, "markers come in their order"
        self.entries.append(aborted)

    def truncate(self, offset: Offset) -> None:
        """Remove the entries whose marker is at `offset` or above."""
        while self.entries and self.entries[-1].last_offset >= offset:
            self.entries.pop()

    def collect(self, fetch_offset: Offset, upper_offset: Offset, found: list[AbortedTransaction]) -> bool:
        """Add the transactions that overlap with [fetch_offset, upper_offset) to `found`.

        Returns:
            True if no later segment can contain further overlapping transactions.

        Source: TransactionIndex.collectAbortedTxns
        """
        for aborted in self.entries:
            if aborted.last_offset >= fetch_offset and aborted.first_offset < upper_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_offset:
                return True
        return False

    def encode(self, first: int = 0) -> bytes:
        """Return the entries from number `first` on, encoded as in the file."""
        return b"".join([_ENTRY.pack(_VERSION, *entry) for entry in self.entries[first:]])

    def decode(self, content: bytes) -> bool:
        """Load the entries of a file. Return False if they are implausible. Source: TransactionIndex.sanityCheck

        Differs from Kafka: Kafka ignores an incomplete entry at the end; here such a file is rebuilt.
        """
        if len(content) % ENTRY_BYTES:
            return False
        last = self._base_offset - 1
        entries: list[AbortedTransaction] = []
        for version, *fields in _ENTRY.iter_unpack(content):
            entry = AbortedTransaction(*fields)
            if version != _VERSION or entry.last_offset <= last:
                return False
            last = entry.last_offset
            entries.append(entry)
        self.entries = entries
        return True


# ---------------------------------------------------------------------------------------------------- open transactions
#
# The transactions of one partition that are open, or whose marker is not replicated yet, so that records are unstable.
#
# Source: ProducerStateManager (ongoingTxns, unreplicatedTxns), UnifiedLog.maybeIncrementFirstUnstableOffset


class CompletedTransaction(NamedTuple):
    """A transaction from its first record to the marker that ended it, both inclusive."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    is_aborted: bool


class OpenTransactions:
    """The open and the unreplicated transactions of one partition, by the offset of their first record.

    `ongoing` maps a first offset to the producer id, `unreplicated` a first offset to the offset of the marker.
    """

    __slots__ = ("ongoing", "unreplicated")

    def __init__(self) -> None:
        self.ongoing: dict[Offset, int] = {}
        self.unreplicated: dict[Offset, Offset] = {}

    def clear(self) -> None:
        self.ongoing.clear()
        self.unreplicated.clear()

    def begin(self, producer_id: int, first_offset: Offset) -> None:
        self.ongoing[first_offset] = producer_id

    def complete(self, completed: CompletedTransaction) -> None:
        """Record that the marker is in the log. The transaction is unstable until the marker is replicated."""
        del self.ongoing[completed.first_offset]
        self.unreplicated[completed.first_offset] = completed.last_offset

    def forget(self, producer_id: int) -> None:
        self.ongoing = {first: other for first, other in self.ongoing.items() if other != producer_id}

    def replicated(self, offset: Offset) -> None:
        """Record that every record below `offset` is committed or deleted."""
        for first_offset, last_offset in list(self.unreplicated.items()):
            if last_offset < offset:
                del self.unreplicated[first_offset]

    @property
    def first_undecided_offset(self) -> Offset | None:
        """The first offset of the oldest transaction without a marker, None without such a transaction."""
        return next(iter(self.ongoing), None)

    @property
    def first_unstable_offset(self) -> Offset | None:
        """The first offset of the oldest transaction that is open or unreplicated, None without transactions."""
        undecided = self.first_undecided_offset
        if not self.unreplicated:
            return undecided
        unreplicated = min(self.unreplicated)
        return unreplicated if undecided is None else min(undecided, unreplicated)

    def aborted(self, completed: CompletedTransaction) -> AbortedTransaction:
        """Return the entry of the transaction index for `completed`, which is still in `ongoing`."""
        return AbortedTransaction(
            completed.producer_id,
            completed.first_offset,
            completed.last_offset,
            self._last_stable_offset_after(completed),
        )

    def _last_stable_offset_after(self, completed: CompletedTransaction) -> Offset:
        """Return the last stable offset once the marker of `completed`, which is still in `ongoing`, is replicated."""
        for first_offset, producer_id in self.ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1


# --------------------------------------------------------------------------------------------------------- verification
#
# Before a transaction's first batch, the leader asks the coordinator whether the transaction is open (KIP-890).
#
# Between request and append, a marker may end the transaction. So each verification has a guard, a number that the
# append must have. The guard is valid until a batch of the transaction, or a marker, is written. With
# transaction.version 2, the marker of the previous transaction has the epoch of the next transaction, and does not
# invalidate the guard.
#
# Source: VerificationGuard, VerificationStateEntry, UnifiedLog.maybeStartTransactionVerification, .updateProducers

NOT_VERIFIED = 0
"""The guard of an append without a verification (VerificationGuard.SENTINEL)."""
NOT_ASKED_FOR = -1
"""The guard of an append that needs no verification."""


class VerificationState:
    """The pending verification of one producer's transaction.

    Attributes:
        lowest_sequence: lowest sequence number of the waiting batches; the batch with it must be appended first.
        supports_epoch_bump: True if each transaction of the producer has a new epoch.
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
    """The pending verifications of one partition, by producer id."""

    __slots__ = ("_guards", "_states")

    def __init__(self) -> None:
        self._states: dict[int, VerificationState] = {}
        self._guards = NOT_VERIFIED

    def begin(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, supports_epoch_bump: bool
    ) -> int:
        """Begin a verification, or join the pending verification of this producer, and return the guard."""
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
        """End the verification, since a batch of the transaction is in the log."""
        if self._states:
            self._states.pop(producer_id, None)

    def ended(self, producer_id: int, producer_epoch: int) -> None:
        """End the verification, since a marker is in the log, unless the marker is that of the previous transaction."""
        state = self._states.get(producer_id) if self._states else None
        if state is not None and not (state.supports_epoch_bump and state.epoch == producer_epoch):
            del self._states[producer_id]

    def check_guard(self, producer_id: int, guard: int) -> None:
        """Raise KafkaError INVALID_TXN_STATE if the guard is not that of the pending verification."""
        state = self._states.get(producer_id)
        if state is None or guard == NOT_VERIFIED or state.guard != guard:
            message = "Record was not part of an ongoing transaction"
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, message, producer_id=producer_id)

    def check_sequence(self, batch: BatchHeader, *, is_first: bool) -> None:
        """Check the sequence number of a transaction's batch while the transaction is being verified.

        Args:
            is_first: True if no batch of the producer is known.

        Raises:
            KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER if an earlier batch has yet to be appended or, with
                transaction.version 2, has been forgotten (KAFKA-18202: 4.1).

        Source: ProducerAppendInfo.checkSequence
        """
        state = self._states.get(batch.producer_id) if self._states else None
        if state is not None and state.supports_epoch_bump and is_first and batch.base_sequence != 0:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer id {batch.producer_id} sent sequence {batch.base_sequence}, but has no batch in the log",
                producer_id=batch.producer_id,
                base_sequence=batch.base_sequence,
            )
        if state is not None and batch.base_sequence > state.lowest_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer id {batch.producer_id} sent sequence {batch.base_sequence}, but sequence "
                f"{state.lowest_sequence} is not in the log yet",
                producer_id=batch.producer_id,
                base_sequence=batch.base_sequence,
            )

    def remove_expired(self, before_ms: int) -> None:
        for producer_id, state in list(self._states.items()):
            if state.began_ms <= before_ms:
                del self._states[producer_id]
