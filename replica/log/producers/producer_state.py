"""The state that a partition keeps of each idempotent producer to recognise retries (KIP-98).

The leader validates batches with this state. Followers derive the same state from the batches that they replicate, so
it survives a failover. Snapshots have Kafka's format, with only the last batch of each producer. A restarted broker
loads a snapshot, so it refuses the retry of an older batch as out of order; the producer then sends that batch and all
later ones again in its next epoch (KIP-360).

If a producer has an open transaction, records from the transaction's first record on are unstable (OpenTransactions).

Simplified: five batches are kept in every release (before KAFKA-5494, 1.0, one).
Source: Kafka ProducerStateManager, ProducerStateEntry, ProducerAppendInfo
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from replica.errors import ErrorCode, KafkaError
from replica.ids import Offset
from replica.log.batches.control_records import ControlRecordType, EndTransactionMarker
from replica.log.batches.records import CONTROL, NO_PRODUCER_EPOCH, TRANSACTIONAL, BatchHeader
from replica.log.producers.producer_snapshots import (
    SEQUENCE_MAX,
    SNAPSHOT_SUFFIX,
    CachedBatch,
    ProducerEntry,
    read_snapshot,
    write_snapshot,
)
from replica.log.producers.transaction_index import CompletedTransaction, OpenTransactions, VerificationStates

PRODUCER_ID_EXPIRATION_MS = 86_400_000

NEW_EPOCH_FOR_EACH_END = 2
"""The first transaction.version in which each end of a transaction begins a new producer epoch (KIP-890)."""
LAST_PRODUCER_EPOCH = 2**15 - 1


class ProducerStateManager:
    """All producers of one partition; snapshots are in the partition's directory.

    Attributes:
        map_end_offset: end of the records that the state includes.
        verifications: pending verifications of transactions with the coordinator, on the leader only.
        unknown_error: error for an unknown producer that does not begin at sequence 0, as before 2.5 (KIP-360); a
            producer is then also removed with its last record, as before 2.4 (KAFKA-7190). If None, a producer is
            known until it expires, and may begin at any sequence.
    """

    def __init__(self, directory: Path | None, *, sync: bool, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> None:
        self._directory = directory
        self._sync = sync
        self.expiration_ms = expiration_ms
        self._producers: dict[int, ProducerEntry] = {}
        self.unknown_error: ErrorCode | None = None
        self.transactions = OpenTransactions()
        self.verifications = VerificationStates()
        self._snapshots: list[Offset] = sorted(_offset_of(path) for path in _snapshot_files(directory))
        self.map_end_offset: Offset = 0
        self._last_snapshot: Offset = self._snapshots[-1] if self._snapshots else 0

    @property
    def producers(self) -> dict[int, ProducerEntry]:
        """The producers by id, which the caller must not change."""
        return self._producers

    @property
    def snapshot_offsets(self) -> tuple[Offset, ...]:
        return tuple(self._snapshots)

    def find_duplicate(self, batch: BatchHeader) -> CachedBatch | None:
        """Return the cached batch with the same epoch, first and last sequence number as `batch`; None without one."""
        entry = self._producers.get(batch.producer_id)
        if entry is None or entry.epoch != batch.producer_epoch:
            return None
        last_sequence = batch.last_sequence
        for cached in entry.batches:
            if cached.first_sequence == batch.base_sequence and cached.last_sequence == last_sequence:
                return cached
        return None

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self._producers.get(producer_id)
        return entry is not None and entry.transaction_offset is not None and entry.epoch == producer_epoch

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, supports_epoch_bump: bool = False
    ) -> int | None:
        """Return the guard for the append of a transaction's first batch, None if the transaction is open already.

        Args:
            supports_epoch_bump: True if the producer uses transaction.version 2.

        Source: UnifiedLog.maybeStartTransactionVerification
        """
        if self.has_ongoing_transaction(producer_id, producer_epoch):
            return None
        return self.verifications.begin(
            producer_id, producer_epoch, sequence, now_ms, supports_epoch_bump=supports_epoch_bump
        )

    def check_verified(self, batch: BatchHeader, guard: int) -> None:
        """Check that a batch belongs to an open transaction, or that its transaction was verified with this guard.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH for an earlier incarnation of the producer, else INVALID_TXN_STATE. The
                order matters, since only the first is not fatal to a producer (KAFKA-19690: 3.9.2, 4.1.1).

        Source: UnifiedLog.analyzeAndValidateProducerState, .batchMissingRequiredVerification
        """
        if not self.has_ongoing_transaction(batch.producer_id, batch.producer_epoch):
            self.check_epoch(batch.producer_id, batch.producer_epoch)
            self.verifications.check_guard(batch.producer_id, guard)

    def check_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Raise KafkaError INVALID_PRODUCER_EPOCH for an earlier incarnation of a producer."""
        entry = self._producers.get(producer_id)
        if entry is not None:
            _check_epoch(entry, producer_id=producer_id, producer_epoch=producer_epoch)

    def validate(self, batch: BatchHeader, *, from_client: bool = True) -> None:
        """Check that a batch continues its producer's sequence. The caller has excluded duplicates.

        Args:
            from_client: False for a coordinator's batches, which have no sequence numbers.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH (an earlier incarnation), OUT_OF_ORDER_SEQUENCE_NUMBER (a gap),
                UNKNOWN_PRODUCER_ID or INVALID_TXN_STATE (outside of the open transaction).
        """
        entry = self._producers.get(batch.producer_id)
        if from_client:
            self.verifications.check_sequence(batch, is_first=entry is None or not entry.batches)
        if entry is None or entry.epoch == NO_PRODUCER_EPOCH:
            if from_client:
                self._check_beginning(batch)
            return  # The producer is unknown (perhaps again), so it may continue at any sequence number.
        if from_client and not entry.batches and batch.producer_epoch == entry.epoch:
            self._check_beginning(batch)
        _check_epoch(entry, **_sender(batch))
        if from_client:
            _check_sequence(entry, batch)
        if entry.transaction_offset is not None and not batch.attributes & TRANSACTIONAL:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer id {batch.producer_id} sent a batch that is not part of its open transaction",
                producer_id=batch.producer_id,
            )

    def validate_marker(self, batch: BatchHeader, marker: EndTransactionMarker, transaction_version: int = 0) -> None:
        """Check the epochs of a marker.

        With transaction.version 2, each marker begins a new epoch. So a marker in the epoch of an open transaction
        belongs to an earlier transaction and is refused, except in the last possible epoch.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, or TRANSACTION_COORDINATOR_FENCED for an earlier coordinator.
        """
        entry = self._producers.get(batch.producer_id)
        if entry is None:
            return
        _check_epoch(entry, **_sender(batch))
        is_open = entry.transaction_offset is not None and entry.epoch < LAST_PRODUCER_EPOCH
        if transaction_version >= NEW_EPOCH_FOR_EACH_END and batch.producer_epoch == entry.epoch and is_open:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of producer id {batch.producer_id} has epoch {batch.producer_epoch}, which is still in use",
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker from coordinator epoch {marker.coordinator_epoch} ends a transaction of producer "
                f"id {batch.producer_id}, but a later coordinator has epoch {entry.coordinator_epoch}",
                producer_id=batch.producer_id,
                coordinator_epoch=marker.coordinator_epoch,
            )

    def update(self, batch: BatchHeader, marker: EndTransactionMarker | None = None) -> CompletedTransaction | None:
        """Apply a batch of the log without validation, also on followers and in recovery.

        Args:
            marker: the marker, if this is a control batch.

        Returns:
            The open transaction that the marker ends, if any; the caller must then call `transactions.complete`.
        """
        if not batch.has_producer_id:
            return None
        entry = self._producers.get(batch.producer_id)
        if batch.attributes & CONTROL and marker is None:
            return None
        if entry is None:
            entry = self._producers[batch.producer_id] = ProducerEntry(batch.producer_id)
        if marker is not None:
            return self._end_transaction(entry, batch, marker)
        entry.add(batch)
        if batch.attributes & TRANSACTIONAL:
            self.verifications.written(batch.producer_id)
            if entry.transaction_offset is None:
                entry.transaction_offset = batch.base_offset
                self.transactions.begin(batch.producer_id, batch.base_offset)
        return None

    def _end_transaction(
        self, entry: ProducerEntry, batch: BatchHeader, marker: EndTransactionMarker
    ) -> CompletedTransaction | None:
        """Apply a marker, and return the transaction that it ends. Source: ProducerAppendInfo.appendEndTxnMarker"""
        self.verifications.ended(batch.producer_id, batch.producer_epoch)
        first_offset = entry.transaction_offset
        entry.end_transaction(batch.producer_epoch, marker)
        if first_offset is None:
            return None
        is_aborted = marker.control_type is ControlRecordType.ABORT
        return CompletedTransaction(batch.producer_id, first_offset, batch.base_offset, is_aborted)

    def _check_beginning(self, batch: BatchHeader) -> None:
        """Check the first sequence number of an unknown producer.

        Source: ProducerAppendInfo.checkSequence (2.0), validateAppend (0.11)
        """
        if self.unknown_error is not None and batch.base_sequence != 0:
            raise KafkaError(
                self.unknown_error,
                f"producer id {batch.producer_id} sent sequence {batch.base_sequence}, but has no record in the log",
                **_sender(batch),
            )

    def log_begins_at(self, offset: Offset) -> None:
        """Apply a new log start: if `unknown_error` is set, remove producers without remaining records.

        Source: ProducerStateManager.onLogStartOffsetIncremented, truncateHead (2.0)
        """
        self.transactions.replicated(offset)
        if self.unknown_error is None:
            return
        for producer_id, entry in list(self._producers.items()):
            if not entry.batches or entry.batches[-1].last_offset < offset:
                del self._producers[producer_id]
                self.transactions.forget(producer_id)

    def remove_expired(self, now_ms: int) -> list[int]:
        """Remove producers that were inactive for producer.id.expiration.ms, and return their ids."""
        expired = [producer_id for producer_id, entry in self._producers.items() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._producers[producer_id]
        self.verifications.remove_expired(now_ms - self.expiration_ms)
        return expired

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        """Return True if the producer was inactive too long, and has no open transaction that needs the state."""
        return entry.transaction_offset is None and now_ms - entry.last_timestamp_ms >= self.expiration_ms

    # ------------------------------------------------------------------------------------------------- snapshots

    def take_snapshot(self) -> None:
        """Write a snapshot of the state at `map_end_offset`, unless there is one at this offset or later."""
        if self._directory is None or self.map_end_offset <= self._last_snapshot:
            return
        write_snapshot(self._path(self.map_end_offset), self._producers, sync=self._sync)
        self._last_snapshot = self.map_end_offset
        self._snapshots.append(self.map_end_offset)

    def truncate_and_reload(self, log_start_offset: Offset, log_end_offset: Offset, now_ms: int) -> Offset:
        """Load the latest snapshot in (log start, log end] and return the offset from which the caller replays batches.

        Source: ProducerStateManager.truncateAndReload
        """
        for offset in list(self._snapshots):
            if not log_start_offset < offset <= log_end_offset:
                self._delete_snapshot(offset)
        if log_end_offset == self.map_end_offset:
            self._last_snapshot = self._snapshots[-1] if self._snapshots else log_start_offset
            self.log_begins_at(log_start_offset)
            return self.map_end_offset
        self._producers.clear()
        self.transactions.clear()
        while self._snapshots:
            offset = self._snapshots[-1]
            entries = read_snapshot(self._path(offset))
            if entries is None:
                self._delete_snapshot(offset)
                continue
            for entry in entries:
                if not self._is_expired(entry, now_ms):
                    self._producers[entry.producer_id] = entry
            self._load_transactions()
            self.log_begins_at(log_start_offset)
            self.map_end_offset = self._last_snapshot = offset
            return offset
        self.map_end_offset = self._last_snapshot = log_start_offset
        return log_start_offset

    def _load_transactions(self) -> None:
        begun = [
            (entry.transaction_offset, producer_id)
            for producer_id, entry in self._producers.items()
            if entry.transaction_offset is not None
        ]
        for first_offset, producer_id in sorted(begun):
            self.transactions.begin(producer_id, first_offset)

    def state_before(self, offset: Offset) -> tuple[Offset, ProducerStateManager]:
        """Return the offset of the latest snapshot at or below `offset`, and a separate copy of its state."""
        state = ProducerStateManager(None, sync=False)
        for snapshot in reversed(self._snapshots):
            entries = read_snapshot(self._path(snapshot)) if snapshot <= offset else None
            if entries is not None:
                state._producers.update((entry.producer_id, entry) for entry in entries)
                state._load_transactions()
                return snapshot, state
        return 0, state

    def keep_snapshots_of(self, segment_bases: list[Offset], *, and_newest: bool) -> None:
        """Delete all snapshots except those at the start of a segment and, if `and_newest`, the latest one.

        Source: ProducerStateManager.removeStraySnapshots
        """
        newest = self._snapshots[-1] if self._snapshots and and_newest else 0
        for offset in list(self._snapshots):
            if offset not in segment_bases and not (offset == newest and offset > segment_bases[-1]):
                self._delete_snapshot(offset)

    def forget_snapshots_below(self, offset: Offset) -> None:
        """Delete the snapshots of deleted segments. Source: UnifiedLog.deleteProducerSnapshots

        Simplified: the snapshots are deleted immediately, the segments' files after file.delete.delay.ms.
        """
        for snapshot in [snapshot for snapshot in self._snapshots if snapshot < offset]:
            self._delete_snapshot(snapshot)

    def forget_snapshots_at(self, offsets: Iterable[Offset]) -> None:
        """Delete the snapshots at the start of segments that compaction has joined to others."""
        for offset in offsets:
            if offset in self._snapshots:
                self._delete_snapshot(offset)

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Remove all producers of a log whose records were all deleted."""
        self._producers.clear()
        self.transactions.clear()
        for snapshot in list(self._snapshots):
            self._delete_snapshot(snapshot)
        self.map_end_offset = self._last_snapshot = offset

    def _delete_snapshot(self, offset: Offset) -> None:
        self._snapshots.remove(offset)
        self._path(offset).unlink(missing_ok=True)

    def _path(self, offset: Offset) -> Path:
        assert self._directory is not None, "a state without a directory has no snapshots"
        return self._directory / f"{offset:020d}{SNAPSHOT_SUFFIX}"


def _snapshot_files(directory: Path | None) -> list[Path]:
    return sorted(directory.glob(f"*{SNAPSHOT_SUFFIX}")) if directory else []


def _offset_of(path: Path) -> Offset:
    return int(path.name.removesuffix(SNAPSHOT_SUFFIX))


def _check_epoch(entry: ProducerEntry, *, producer_id: int, producer_epoch: int, **details: int) -> None:
    if producer_epoch < entry.epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer id {producer_id} sent epoch {producer_epoch}, but the log already has epoch {entry.epoch}",
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            **details,
        )


def _check_sequence(entry: ProducerEntry, batch: BatchHeader) -> None:
    if batch.producer_epoch > entry.epoch:
        expected = 0
    else:
        expected = 0 if entry.last_sequence == SEQUENCE_MAX else entry.last_sequence + 1
    if batch.base_sequence != expected:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer id {batch.producer_id} sent sequence {batch.base_sequence} instead of {expected}",
            **_sender(batch),
            expected_sequence=expected,
        )


def _sender(batch: BatchHeader) -> dict[str, int]:
    return {
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
    }
