"""Which batches of a log belong to aborted transactions, and which markers nothing needs any more.

A marker stays as long as a batch of its transaction does, and the entry of the transaction index as long as the marker.
Source: Kafka CleanedTransactionMetadata.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from replica.ids import Offset
from replica.log.batches.control_records import ControlRecordType, read_end_transaction_marker
from replica.log.batches.records import TRANSACTIONAL, BatchHeader, Bytes
from replica.log.producers.transaction_index import AbortedTransaction, TransactionIndex


class CleanedTransactions:
    """Walks over a log's batches in the order of their offsets.

    index: of the segment that is being written, None while the log is only read
    """

    __slots__ = ("_aborted", "_coming", "_committed", "_seen", "index")

    def __init__(self) -> None:
        self.index: TransactionIndex | None = None
        self._coming: list[tuple[Offset, AbortedTransaction]] = []
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen: dict[int, bool] = {}
        """of the aborted transactions, by producer id: whether a batch of it was met"""
        self._committed: dict[int, bool] = {}

    def expect(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Transactions of the part of the log that comes next. One that goes on there may be named once more."""
        for transaction in aborted:
            heapq.heappush(self._coming, (transaction.first_offset, transaction))

    def batch(self, header: BatchHeader) -> bool:
        """Whether a batch of records was aborted, so that it may go."""
        self._begin_up_to(header.last_offset)
        if not header.attributes & TRANSACTIONAL:
            return False
        if header.producer_id in self._aborted:
            self._seen[header.producer_id] = True
            return True
        self._committed[header.producer_id] = True
        return False

    def control_batch(self, header: BatchHeader, batch: Bytes) -> bool:
        """Whether the marker may go: no batch of its transaction was met. raises: KafkaError CORRUPT_MESSAGE"""
        self._begin_up_to(header.last_offset)
        if header.record_count == 0:
            return True
        marker = read_end_transaction_marker(batch)
        if marker is None:
            return False
        if marker.control_type is ControlRecordType.COMMIT:
            return not self._committed.pop(header.producer_id, False)
        transaction = self._aborted.pop(header.producer_id, None)
        was_seen = self._seen.pop(header.producer_id, False)
        if transaction is None or not was_seen:
            return True
        if self.index is not None:
            self.index.append(transaction)
        return False

    def _begin_up_to(self, offset: Offset) -> None:
        while self._coming and self._coming[0][0] <= offset:
            _, transaction = heapq.heappop(self._coming)
            self._aborted.setdefault(transaction.producer_id, transaction)
