"""The filter that decides which records of a batch remain after a round of compaction.

Source: Kafka Cleaner.cleanInto, shouldRetainRecord; MemoryRecords.filterTo.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from replica.ids import Offset
from replica.log.batches.records import (
    CONTROL,
    BatchHeader,
    Record,
    check_crc,
    corrupt,
    read_records,
    rebuild_batch,
)
from replica.log.cleaner.offset_map import OffsetMap
from replica.log.cleaner.transactions import CleanedTransactions


class LastRecord(NamedTuple):
    """The last record of a known idempotent producer; `data_offset` is None if only a marker is known."""

    data_offset: Offset | None
    producer_epoch: int


class Filtered(NamedTuple):
    """A filtered batch.

    Attributes:
        batch: the remaining batch, None if the batch is removed.
        removed: offsets of the removed records.
        was_aborted: True if the records are removed because their transaction was aborted.
    """

    batch: bytes | bytearray | None
    removed: tuple[Offset, ...]
    was_aborted: bool


def check_undamaged(header: BatchHeader, batch: bytes) -> None:
    """Check the CRC of a batch.

    Raises:
        KafkaError: CORRUPT_MESSAGE if the CRC is wrong.
    """
    if not check_crc(batch, 0, header):
        # Differs from Kafka: Kafka copies the records and computes a new CRC.
        raise corrupt(f"the batch at offset {header.base_offset} fails its CRC")


class BatchFilter:
    """The filter of one round of compaction.

    Args:
        last_records: last record of each known producer, by producer id.
        kept_end: a batch that ends at this offset is kept even without records, so that its offsets are not reused.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        transactions: CleanedTransactions,
        last_records: Mapping[int, LastRecord],
        *,
        kept_end: Offset,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._map = offset_map
        self._transactions = transactions
        self._last_records = last_records
        self._kept_end = kept_end
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms

    def filter(self, header: BatchHeader, batch: bytes) -> Filtered:
        """Return what remains of a batch.

        Raises:
            KafkaError: CORRUPT_MESSAGE or UNSUPPORTED_COMPRESSION_TYPE if the batch cannot be read.
        """
        check_undamaged(header, batch)
        is_control = bool(header.attributes & CONTROL)
        horizon_ms = header.delete_horizon_ms
        if is_control:
            may_go = self._transactions.control_batch(header, batch)
            goes = may_go and horizon_ms is not None and horizon_ms <= self._now_ms
        else:
            may_go = goes = self._transactions.batch(header)
        must_stay = header.last_offset + 1 == self._kept_end or self._is_last_of_producer(header)
        records = read_records(batch)
        was_aborted = goes and not is_control
        if goes:
            kept: list[Record] = []
        elif is_control:
            kept = records
        else:
            kept = [record for record in records if self._stays(header, record)]
        removed = () if is_control else tuple(sorted({r.offset for r in records} - {r.offset for r in kept}))
        if not kept:
            return Filtered(rebuild_batch(header, (), None) if must_stay else None, removed, was_aborted)
        begins_horizon = horizon_ms is None and (may_go if is_control else any(record.value is None for record in kept))
        if len(kept) == len(records) and not begins_horizon:
            return Filtered(batch, (), False)
        if begins_horizon:
            horizon_ms = self._now_ms + self._delete_retention_ms
        return Filtered(rebuild_batch(header, kept, horizon_ms), removed, was_aborted)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Return True if a producer's last sequence number, or the epoch that fences the producer, is in this batch."""
        last = self._last_records.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.data_offset is not None:
            return header.last_offset == last.data_offset
        return bool(header.attributes & CONTROL) and header.producer_epoch == last.producer_epoch

    def _stays(self, header: BatchHeader, record: Record) -> bool:
        if record.offset > self._map.latest_offset:
            return True
        if record.key is None or record.offset < self._map.get(record.key):
            return False
        horizon_ms = header.delete_horizon_ms
        return record.value is not None or horizon_ms is None or self._now_ms < horizon_ms
