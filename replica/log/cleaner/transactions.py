"""The removal of batches of aborted transactions, and of markers that are no longer needed.

A marker is kept as long as any batch of its transaction; the transaction's index entry is kept as long as the marker.

Source: Kafka CleanedTransactionMetadata
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from replica.ids import Offset
from replica.log.batches.control_records import ControlRecordType, read_end_transaction_marker
from replica.log.batches.records import TRANSACTIONAL, BatchHeader, Bytes
from replica.log.producers.transaction_index import AbortedTransaction, TransactionIndex


class CleanedTransactions:
    """The state of a log's transactions while the log's batches are visited in offset order.

    `index` is the transaction index of the new segment; None while the log is only read.
    """

    __slots__ = ("_aborted", "_coming", "_committed", "_seen", "index")

    def __init__(self) -> None:
        self.index: TransactionIndex | None = None
        self._coming: list[tuple[Offset, AbortedTransaction]] = []
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen: dict[int, bool] = {}
        """True for the producer id of each aborted transaction of which a batch was visited."""
        self._committed: dict[int, bool] = {}

    def expect(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add the aborted transactions of the next part of the log, possibly again if they began in an earlier part."""
        for transaction in aborted:
            heapq.heappush(self._coming, (transaction.first_offset, transaction))

    def batch(self, header: BatchHeader) -> bool:
        """Visit a batch, and return True if it may be removed because its transaction was aborted."""
        self._begin_up_to(header.last_offset)
        if not header.attributes & TRANSACTIONAL:
            return False
        if header.producer_id in self._aborted:
            self._seen[header.producer_id] = True
            return True
        self._committed[header.producer_id] = True
        return False

    def control_batch(self, header: BatchHeader, batch: Bytes) -> bool:
        """Visit a marker, and return True if it may be removed because none of its transaction's batches was visited.

        Raises:
            KafkaError: CORRUPT_MESSAGE if the marker is malformed.
        """
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
