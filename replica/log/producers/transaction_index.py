"""The aborted transactions of one segment: what a read_committed consumer is to leave out (`.txnindex`).

An entry lies with the segment that holds the ABORT marker, while the transaction may begin segments before. The file
is there only if there is an entry. Source: Kafka TransactionIndex, AbortedTxn.
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
    """first_offset: of its first record     last_offset: of its marker
    last_stable_offset: at the time of the abort
    """

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class TransactionIndex:
    """Entries in the order of their markers."""

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
        """Drop the entries whose marker lies at `offset` or above."""
        while self.entries and self.entries[-1].last_offset >= offset:
            self.entries.pop()

    def collect(self, fetch_offset: Offset, upper_offset: Offset, found: list[AbortedTransaction]) -> bool:
        """Add to `found` those that overlap with [fetch_offset, upper_offset).

        returns: whether none in a later segment can     source: TransactionIndex.collectAbortedTxns
        """
        for aborted in self.entries:
            if aborted.last_offset >= fetch_offset and aborted.first_offset < upper_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_offset:
                return True
        return False

    def encode(self, first: int = 0) -> bytes:
        """Entries as in the file, from number `first` on."""
        return b"".join([_ENTRY.pack(_VERSION, *entry) for entry in self.entries[first:]])

    def decode(self, content: bytes) -> bool:
        """Take over the entries of a file; False when they are implausible. source: TransactionIndex.sanityCheck

        Differs from Kafka: it does not look at half an entry at the end; here such a file is made anew.
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
# The transactions of one partition that are open, or whose end is not replicated yet: what is unstable in a log.
#
# Source: ProducerStateManager (ongoingTxns, unreplicatedTxns), UnifiedLog.maybeIncrementFirstUnstableOffset.


class CompletedTransaction(NamedTuple):
    """first_offset: of its first record     last_offset: of the marker that ended it (inclusive)"""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    is_aborted: bool


class OpenTransactions:
    """By the offset of the first record, which rises from one transaction to the next.

    ongoing: first offset -> producer id     unreplicated: first offset -> offset of the marker
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
        """Its marker is in the log. It stays unstable until the marker is below the high watermark."""
        del self.ongoing[completed.first_offset]
        self.unreplicated[completed.first_offset] = completed.last_offset

    def forget(self, producer_id: int) -> None:
        """Its records are gone, and with them what was known of it."""
        self.ongoing = {first: other for first, other in self.ongoing.items() if other != producer_id}

    def replicated(self, offset: Offset) -> None:
        """Every record below `offset` is committed, or deleted."""
        for first_offset, last_offset in list(self.unreplicated.items()):
            if last_offset < offset:
                del self.unreplicated[first_offset]

    @property
    def first_undecided_offset(self) -> Offset | None:
        """Of the first record whose transaction has no marker yet."""
        return next(iter(self.ongoing), None)

    @property
    def first_unstable_offset(self) -> Offset | None:
        """Of the first record whose transaction is open, or whose marker may yet be lost; None: all is stable."""
        undecided = self.first_undecided_offset
        if not self.unreplicated:
            return undecided
        unreplicated = min(self.unreplicated)
        return unreplicated if undecided is None else min(undecided, unreplicated)

    def aborted(self, completed: CompletedTransaction) -> AbortedTransaction:
        """The entry of the transaction index; `completed` is still ongoing."""
        return AbortedTransaction(
            completed.producer_id,
            completed.first_offset,
            completed.last_offset,
            self._last_stable_offset_after(completed),
        )

    def _last_stable_offset_after(self, completed: CompletedTransaction) -> Offset:
        """The last stable offset once the marker of `completed`, which is still ongoing, is replicated."""
        for first_offset, producer_id in self.ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1


# --------------------------------------------------------------------------------------------------------- verification
#
# Before a transaction's first batch the leader asks the coordinator whether the transaction is open (KIP-890).
#
# Between question and append a marker may end that transaction. So each question has a guard, which the append shows
# again: it is the right one only as long as nothing of the transaction, and no marker, was written since. With
# transaction.version 2 the marker of the transaction before has the epoch of the next one, and takes no guard of it.
#
# Source: VerificationGuard, VerificationStateEntry, UnifiedLog.maybeStartTransactionVerification, .updateProducers.

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
