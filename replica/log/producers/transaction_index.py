"""The aborted transactions of one segment: what a read_committed consumer is to leave out (`.txnindex`).

An entry lies with the segment that holds the ABORT marker, while the transaction may begin segments before. The file
is there only if there is an entry. Source: Kafka TransactionIndex, AbortedTxn.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from replica.ids import Offset

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
