"""What the trace says of transactions in a partition: the markers its leader appends, and its last stable offset.

The last stable offset is stated only where it differs from the high watermark, and when it no longer does.
"""

from __future__ import annotations

from cluster.broker.replicas.partition_events import PartitionEvents
from replica.ids import LeaderEpoch, Offset
from replica.log.batches.control_records import read_end_transaction_marker
from replica.log.batches.records import CONTROL, Bytes
from replica.log.log import AppendInfo, Log


class TransactionsInSight:
    """Of one partition, while its broker leads it."""

    __slots__ = ("_events", "_log", "_stands_at")

    def __init__(self, log: Log, events: PartitionEvents) -> None:
        self._log = log
        self._events = events
        self._stands_at: Offset | None = None
        """the last stable offset that was stated, while it is below the high watermark"""

    def leadership_began(self) -> None:
        self._stands_at = None

    def appended(self, batch: Bytes, info: AppendInfo) -> None:
        """A coordinator has had a batch appended."""
        header = info.batches[0]
        if not header.attributes & CONTROL:
            return
        marker = read_end_transaction_marker(batch)
        if marker is not None:
            ended = self._log.producers.transactions.unreplicated
            first = next((first for first, last in ended.items() if last == header.base_offset), None)
            self._events.marker_written(header, marker, first)

    def high_watermark_moved(self, leader_epoch: LeaderEpoch, high_watermark: Offset) -> None:
        """Also: the leader's log starts at another offset."""
        stable = self._log.last_stable_offset(high_watermark)
        before = self._stands_at
        if stable == before or (before is None and stable == high_watermark):
            return
        self._stands_at = stable if stable < high_watermark else None
        ongoing = self._log.producers.transactions.ongoing
        self._events.last_stable_offset_moved(leader_epoch, stable, high_watermark, ongoing.get(stable))
