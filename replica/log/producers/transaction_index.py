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
