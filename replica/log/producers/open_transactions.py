"""The transactions of one partition that are open, or whose end is not replicated yet: what is unstable in a log.

Source: ProducerStateManager (ongoingTxns, unreplicatedTxns), UnifiedLog.maybeIncrementFirstUnstableOffset.
"""

from __future__ import annotations

from typing import NamedTuple

from replica.ids import Offset
from replica.log.producers.transaction_index import AbortedTransaction


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
