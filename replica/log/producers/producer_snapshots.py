"""The state of one producer in a partition, and the snapshot files with the state of all producers.

A snapshot contains the last batch of each producer, and the start of the open transaction.

Source: Kafka ProducerStateEntry, ProducerStateManager.readSnapshot, ProducerSnapshot.json
"""

from __future__ import annotations

import struct
from collections import deque
from pathlib import Path

from crc32c import crc32c

from replica.frozen import dataclass
from replica.ids import UNDEFINED_EPOCH, LeaderEpoch, Offset
from replica.log.batches.control_records import EndTransactionMarker
from replica.log.batches.records import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader
from replica.log.files.checkpoints import write_atomically

BATCHES_TO_RETAIN = 5
"""The number of batches kept per producer, and so the most requests that a producer may have in flight."""

SNAPSHOT_SUFFIX = ".snapshot"
SEQUENCE_MAX = 0x7FFF_FFFF

_SNAPSHOT_HEAD = struct.Struct(">hI")  # version 1, CRC-32C of the rest
_SNAPSHOT_COUNT = struct.Struct(">i")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_SNAPSHOT_VERSION = 1
_NO_TRANSACTION = -1


@dataclass(frozen=True, slots=True)
class CachedBatch:
    """A recent batch, kept to recognise retries. Offsets and sequence numbers are inclusive."""

    first_sequence: int
    last_sequence: int
    first_offset: Offset
    last_offset: Offset
    timestamp_ms: int


class ProducerEntry:
    """The state of one producer id: its epoch and its latest batches, oldest first.

    Attributes:
        coordinator_epoch: epoch of the coordinator that wrote the latest marker, -1 before the first marker.
        transaction_offset: first offset of the open transaction, None without a transaction.
    """

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp_ms", "producer_id", "transaction_offset")

    def __init__(self, producer_id: int, epoch: int = NO_PRODUCER_EPOCH, last_timestamp_ms: int = -1) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.last_timestamp_ms = last_timestamp_ms
        self.batches: deque[CachedBatch] = deque(maxlen=BATCHES_TO_RETAIN)
        self.coordinator_epoch: LeaderEpoch = UNDEFINED_EPOCH
        self.transaction_offset: Offset | None = None

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def add(self, batch: BatchHeader) -> None:
        if batch.producer_epoch != self.epoch:
            self.batches.clear()
            self.epoch = batch.producer_epoch
        self.batches.append(
            CachedBatch(
                batch.base_sequence, batch.last_sequence, batch.base_offset, batch.last_offset, batch.max_timestamp
            )
        )
        self.last_timestamp_ms = batch.max_timestamp

    def end_transaction(self, producer_epoch: int, marker: EndTransactionMarker) -> None:
        """Apply a marker, which may begin a new producer epoch with new sequence numbers (KIP-588, KIP-890)."""
        if producer_epoch != self.epoch:
            self.batches.clear()
            self.epoch = producer_epoch
        self.coordinator_epoch = marker.coordinator_epoch
        self.transaction_offset = None
        self.last_timestamp_ms = marker.timestamp_ms


def write_snapshot(path: Path, producers: dict[int, ProducerEntry], *, sync: bool) -> None:
    """Write a snapshot, Kafka's ProducerSnapshot version 1: an entry per producer, with the last batch only."""
    body = bytearray(_SNAPSHOT_COUNT.pack(len(producers)))
    for producer_id, entry in sorted(producers.items()):
        last = entry.batches[-1] if entry.batches else None
        body += _SNAPSHOT_ENTRY.pack(
            producer_id,
            entry.epoch,
            entry.last_sequence,
            last.last_offset if last else -1,
            last.last_offset - last.first_offset if last else 0,
            entry.last_timestamp_ms,
            entry.coordinator_epoch,
            _NO_TRANSACTION if entry.transaction_offset is None else entry.transaction_offset,
        )
    write_atomically(path, _SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, crc32c(body)) + body, sync=sync)


def read_snapshot(path: Path) -> list[ProducerEntry] | None:
    """Return the producers of a snapshot; None if the file is damaged, so that the log must be read instead."""
    content = path.read_bytes()
    body = content[_SNAPSHOT_HEAD.size :]
    if len(body) < _SNAPSHOT_COUNT.size:
        return None
    (count,) = _SNAPSHOT_COUNT.unpack_from(body)
    rows = body[_SNAPSHOT_COUNT.size :]
    if _SNAPSHOT_HEAD.unpack_from(content) != (_SNAPSHOT_VERSION, crc32c(body)):
        return None
    if len(rows) != count * _SNAPSHOT_ENTRY.size:
        return None
    entries = []
    for row in _SNAPSHOT_ENTRY.iter_unpack(rows):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, transaction_offset = row
        entry = ProducerEntry(producer_id, epoch, timestamp)
        entry.coordinator_epoch = coordinator_epoch
        entry.transaction_offset = transaction_offset if transaction_offset >= 0 else None
        if last_offset >= 0:
            first_sequence = (last_sequence - delta) & SEQUENCE_MAX
            entry.batches.append(
                CachedBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp)
            )
        entries.append(entry)
    return entries
