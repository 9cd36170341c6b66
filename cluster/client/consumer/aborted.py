"""Which batches of a fetch belong to transactions that were aborted.

The broker names the aborted transactions of what it sends, each by producer and first offset; each ends at its ABORT
marker. Source: CompletedFetch.nextFetchedRecord, consumeAbortedTransactionsUpTo, isBatchAborted.
"""

from __future__ import annotations

from collections.abc import Sequence

from replica.ids import Offset
from replica.log.batches.control_records import ControlRecordType, read_end_transaction_marker
from replica.log.batches.records import BatchHeader, Bytes


class AbortedFilter:
    """Of one partition's answer; `drops` is asked about its batches in their order."""

    __slots__ = ("_coming", "_open")

    def __init__(self, aborted: Sequence[tuple[int, Offset]]) -> None:
        """aborted: (producer id, first offset)"""
        self._coming = sorted(((offset, producer_id) for producer_id, offset in aborted), reverse=True)
        self._open: dict[int, None] = {}

    def drops(self, header: BatchHeader, batch: Bytes) -> bool:
        """raises: KafkaError CORRUPT_MESSAGE, for a control batch that has no control record"""
        if not header.has_producer_id:
            return False
        while self._coming and self._coming[-1][0] <= header.last_offset:
            self._open[self._coming.pop()[1]] = None
        if header.is_control:
            marker = read_end_transaction_marker(batch)
            if marker is not None and marker.control_type is ControlRecordType.ABORT:
                self._open.pop(header.producer_id, None)
            return False
        return header.is_transactional and header.producer_id in self._open
