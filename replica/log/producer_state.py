"""The state a partition keeps of each idempotent producer, so that it recognises a retry (KIP-98).

The leader validates with it, followers keep the same state from the batches they replicate, so it survives a failover.
Snapshots have Kafka's format; they hold only the last batch of each producer. Loading a log ends at a snapshot, so a
broker that starts again, in order or not, refuses the retry of an older batch as out of order instead of recognising
it, and the producer stores that batch and all after it anew in its next epoch (KIP-360).

Simplified: no transactions, so no coordinator epochs and no open transactions. In every era five batches are known
(KAFKA-5494, 1.0; before, one).
Source: Kafka ProducerStateManager, ProducerStateEntry, ProducerAppendInfo.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from replica.errors import ErrorCode, KafkaError
from replica.ids import Offset
from replica.log.checkpoints import write_atomically
from replica.log.records import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader

BATCHES_TO_RETAIN = 5
"""Also why a producer may have at most 5 requests in flight."""

PRODUCER_ID_EXPIRATION_MS = 86_400_000
SNAPSHOT_SUFFIX = ".snapshot"

_SEQUENCE_MAX = 0x7FFF_FFFF
_SNAPSHOT_HEAD = struct.Struct(">hI")  # version 1, CRC-32C of the rest
_SNAPSHOT_COUNT = struct.Struct(">i")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_SNAPSHOT_VERSION = 1


class CachedBatch(NamedTuple):
    """One of the batches a retry is compared with; offsets and sequences are inclusive."""

    first_sequence: int
    last_sequence: int
    first_offset: Offset
    last_offset: Offset
    timestamp_ms: int


class ProducerEntry:
    """State of one producer id: its epoch and its latest batches, oldest first."""

    __slots__ = ("batches", "epoch", "last_timestamp_ms", "producer_id")

    def __init__(self, producer_id: int, epoch: int = NO_PRODUCER_EPOCH, last_timestamp_ms: int = -1) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.last_timestamp_ms = last_timestamp_ms
        self.batches: deque[CachedBatch] = deque(maxlen=BATCHES_TO_RETAIN)

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


class ProducerStateManager:
    """All producers of one partition; snapshots lie in the partition's directory.

    map_end_offset: the state reflects every record below it
    """

    def __init__(self, directory: Path | None, *, sync: bool, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> None:
        self._directory = directory
        self._sync = sync
        self._expiration_ms = expiration_ms
        self._producers: dict[int, ProducerEntry] = {}
        self._snapshots: list[Offset] = sorted(_offset_of(path) for path in _snapshot_files(directory))
        self.map_end_offset: Offset = 0
        self._last_snapshot: Offset = self._snapshots[-1] if self._snapshots else 0

    @property
    def producers(self) -> dict[int, ProducerEntry]:
        """By producer id; to look at, not to change."""
        return self._producers

    @property
    def snapshot_offsets(self) -> tuple[Offset, ...]:
        return tuple(self._snapshots)

    def find_duplicate(self, batch: BatchHeader) -> CachedBatch | None:
        """The cached batch that `batch` repeats: same epoch, first and last sequence."""
        entry = self._producers.get(batch.producer_id)
        if entry is None or entry.epoch != batch.producer_epoch:
            return None
        last_sequence = batch.last_sequence
        for cached in entry.batches:
            if cached.first_sequence == batch.base_sequence and cached.last_sequence == last_sequence:
                return cached
        return None

    def validate(self, batch: BatchHeader) -> None:
        """Refuse a client's batch that does not continue its producer's sequence. Duplicates come before this test.

        raises: KafkaError INVALID_PRODUCER_EPOCH (an older incarnation), OUT_OF_ORDER_SEQUENCE_NUMBER (a gap)
        """
        entry = self._producers.get(batch.producer_id)
        if entry is None or entry.epoch == NO_PRODUCER_EPOCH:
            return  # Nothing is known of this producer (any more): it may continue where it wants.
        events = {
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
        }
        if batch.producer_epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {batch.producer_id} sent epoch {batch.producer_epoch}, epoch {entry.epoch} wrote already",
                **events,
            )
        if batch.producer_epoch > entry.epoch:
            expected = 0
        else:
            expected = 0 if entry.last_sequence == _SEQUENCE_MAX else entry.last_sequence + 1
        if batch.base_sequence != expected:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {batch.producer_id} sent sequence {batch.base_sequence}, expected was {expected}",
                **events,
                expected_sequence=expected,
            )

    def update(self, batch: BatchHeader) -> None:
        """Take note of a batch that is in the log now; followers and recovery come here without validating."""
        if not batch.has_producer_id or batch.is_control:
            return
        entry = self._producers.get(batch.producer_id)
        if entry is None:
            entry = self._producers[batch.producer_id] = ProducerEntry(batch.producer_id)
        entry.add(batch)

    def remove_expired(self, now_ms: int) -> list[int]:
        """Forget producers that were silent for producer.id.expiration.ms; returns their ids."""
        expired = [
            producer_id
            for producer_id, entry in self._producers.items()
            if now_ms - entry.last_timestamp_ms >= self._expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return expired

    # ------------------------------------------------------------------------------------------------- snapshots

    def take_snapshot(self) -> None:
        """Write the state as of `map_end_offset`, unless that was done already."""
        if self._directory is None or self.map_end_offset <= self._last_snapshot:
            return
        write_snapshot(self._path(self.map_end_offset), self._producers, sync=self._sync)
        self._last_snapshot = self.map_end_offset
        self._snapshots.append(self.map_end_offset)

    def rebuild(
        self,
        log_start_offset: Offset,
        log_end_offset: Offset,
        segment_bases: list[Offset],
        headers: Callable[[Offset], Iterable[BatchHeader]],
        now_ms: int,
    ) -> None:
        """Bring the state to the log end offset, from the latest snapshot below it and the batches after.

        It leaves snapshots there and at the start of the last two segments.    source: UnifiedLog.rebuildProducerState
        headers: of the batches from an offset on, to the end of the log
        Simplified: without a snapshot the whole log is read, also after a shutdown in order (Kafka: an upgrade).
        """
        nothing_known = not self._producers and self.map_end_offset >= log_end_offset
        start = self._reload(log_start_offset, log_end_offset, now_ms)
        if not nothing_known:
            for header in headers(start):
                if header.base_offset in segment_bases[-2:]:
                    self.map_end_offset = header.base_offset
                    self.take_snapshot()
                self.update(header)
        self.map_end_offset = log_end_offset
        self.take_snapshot()

    def _reload(self, log_start_offset: Offset, log_end_offset: Offset, now_ms: int) -> Offset:
        """Go back to the latest snapshot in (log start, log end]; the caller replays the batches from there.

        returns: the offset to replay from          source: ProducerStateManager.truncateAndReload
        """
        for offset in list(self._snapshots):
            if not log_start_offset < offset <= log_end_offset:
                self._delete_snapshot(offset)
        if log_end_offset == self.map_end_offset:
            self._last_snapshot = self._snapshots[-1] if self._snapshots else log_start_offset
            return self.map_end_offset
        self._producers.clear()
        while self._snapshots:
            offset = self._snapshots[-1]
            entries = read_snapshot(self._path(offset))
            if entries is None:
                self._delete_snapshot(offset)
                continue
            for entry in entries:
                if now_ms - entry.last_timestamp_ms < self._expiration_ms:
                    self._producers[entry.producer_id] = entry
            self.map_end_offset = self._last_snapshot = offset
            return offset
        self.map_end_offset = self._last_snapshot = log_start_offset
        return log_start_offset

    def keep_snapshots_of(self, segment_bases: list[Offset], *, and_newest: bool) -> None:
        """Delete all snapshots but those at the start of a segment and, if wanted, the newest behind all of these.

        source: ProducerStateManager.removeStraySnapshots; recovering a segment deletes the newest as well
        """
        newest = self._snapshots[-1] if self._snapshots and and_newest else 0
        for offset in list(self._snapshots):
            if offset not in segment_bases and not (offset == newest and offset > segment_bases[-1]):
                self._delete_snapshot(offset)

    def forget_snapshots_below(self, offset: Offset) -> None:
        """The segments that they belong to are gone. source: UnifiedLog.deleteProducerSnapshots

        Simplified: their files go at once, those of the segments after file.delete.delay.ms.
        """
        for snapshot in [snapshot for snapshot in self._snapshots if snapshot < offset]:
            self._delete_snapshot(snapshot)

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Nothing is left in the log: nothing is known."""
        self._producers.clear()
        for snapshot in list(self._snapshots):
            self._delete_snapshot(snapshot)
        self.map_end_offset = self._last_snapshot = offset

    def _delete_snapshot(self, offset: Offset) -> None:
        self._snapshots.remove(offset)
        self._path(offset).unlink(missing_ok=True)

    def _path(self, offset: Offset) -> Path:
        assert self._directory is not None, "a state without a directory has no snapshots"
        return self._directory / f"{offset:020d}{SNAPSHOT_SUFFIX}"


def write_snapshot(path: Path, producers: dict[int, ProducerEntry], *, sync: bool) -> None:
    """Kafka's ProducerSnapshot version 1: one fixed-size entry per producer, its last batch only."""
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
            -1,
            -1,
        )
    write_atomically(path, _SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, crc32c(body)) + body, sync=sync)


def read_snapshot(path: Path) -> list[ProducerEntry] | None:
    """The producers of a snapshot; None when it is damaged (it is rebuilt from the log then)."""
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
    for producer_id, epoch, last_sequence, last_offset, delta, timestamp, _, _ in _SNAPSHOT_ENTRY.iter_unpack(rows):
        entry = ProducerEntry(producer_id, epoch, timestamp)
        if last_offset >= 0:
            first_sequence = (last_sequence - delta) & _SEQUENCE_MAX
            entry.batches.append(
                CachedBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp)
            )
        entries.append(entry)
    return entries


def _snapshot_files(directory: Path | None) -> list[Path]:
    return sorted(directory.glob(f"*{SNAPSHOT_SUFFIX}")) if directory else []


def _offset_of(path: Path) -> Offset:
    return int(path.name.removesuffix(SNAPSHOT_SUFFIX))
