"""The state a partition keeps of each idempotent producer, so that it recognises a retry (KIP-98).

The leader validates with it, followers keep the same state from the batches they replicate, so it survives a failover.
Snapshots have Kafka's format; they hold only the last batch of each producer. Loading a log ends at a snapshot, so a
broker that starts again, in order or not, refuses the retry of an older batch as out of order instead of recognising
it, and the producer stores that batch and all after it anew in its next epoch (KIP-360).

A producer may also be in a transaction, and what lies behind its first record is unstable then (OpenTransactions).

Simplified: in every era five batches are known (KAFKA-5494, 1.0; before, one).
Source: Kafka ProducerStateManager, ProducerStateEntry, ProducerAppendInfo.
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


class ProducerStateManager:
    """All producers of one partition; snapshots lie in the partition's directory.

    map_end_offset: the state reflects every record below it
    verifications: under way with the coordinator, on the leader only
    unknown_error: for an unknown producer that does not begin at sequence 0, as before 2.5 (KIP-360); a producer is
        then forgotten with its last record, too, as before 2.4 (KAFKA-7190). None: it is known until it expires, and
        begins anywhere
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

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self._producers.get(producer_id)
        return entry is not None and entry.transaction_offset is not None and entry.epoch == producer_epoch

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, supports_epoch_bump: bool = False
    ) -> int | None:
        """The guard with which a transaction's first batch is to come back; None: the transaction is open here.

        supports_epoch_bump: its producer's requests are of transaction.version 2
        source: UnifiedLog.maybeStartTransactionVerification
        """
        if self.has_ongoing_transaction(producer_id, producer_epoch):
            return None
        return self.verifications.begin(
            producer_id, producer_epoch, sequence, now_ms, supports_epoch_bump=supports_epoch_bump
        )

    def check_verified(self, batch: BatchHeader, guard: int) -> None:
        """raises: KafkaError INVALID_TXN_STATE        source: UnifiedLog.batchMissingRequiredVerification"""
        if not self.has_ongoing_transaction(batch.producer_id, batch.producer_epoch):
            self.verifications.check_guard(batch.producer_id, guard)

    def check_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """raises: KafkaError INVALID_PRODUCER_EPOCH, of an older incarnation"""
        entry = self._producers.get(producer_id)
        if entry is not None:
            _check_epoch(entry, producer_id=producer_id, producer_epoch=producer_epoch)

    def validate(self, batch: BatchHeader, *, from_client: bool = True) -> None:
        """Refuse a batch that does not continue its producer's sequence. Duplicates come before this test.

        from_client: a coordinator's batches have no sequence
        raises: KafkaError INVALID_PRODUCER_EPOCH (an older incarnation), OUT_OF_ORDER_SEQUENCE_NUMBER (a gap),
                UNKNOWN_PRODUCER_ID, INVALID_TXN_STATE (outside of the transaction that is open)
        """
        if from_client:
            self.verifications.check_sequence(batch)
        entry = self._producers.get(batch.producer_id)
        if entry is None or entry.epoch == NO_PRODUCER_EPOCH:
            if from_client:
                self._check_beginning(batch)
            return  # Nothing is known of this producer (any more): it may continue where it wants.
        if from_client and not entry.batches and batch.producer_epoch == entry.epoch:
            self._check_beginning(batch)
        _check_epoch(entry, **_sender(batch))
        if from_client:
            _check_sequence(entry, batch)
        if entry.transaction_offset is not None and not batch.attributes & TRANSACTIONAL:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {batch.producer_id} has a transaction open and sent a batch that is not part of it",
                producer_id=batch.producer_id,
            )

    def validate_marker(self, batch: BatchHeader, marker: EndTransactionMarker) -> None:
        """raises: KafkaError INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED (of an earlier coordinator)"""
        entry = self._producers.get(batch.producer_id)
        if entry is None:
            return
        _check_epoch(entry, **_sender(batch))
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a coordinator of epoch {marker.coordinator_epoch} ends a transaction of producer "
                f"{batch.producer_id}, whose coordinator has epoch {entry.coordinator_epoch}",
                producer_id=batch.producer_id,
                coordinator_epoch=marker.coordinator_epoch,
            )

    def update(self, batch: BatchHeader, marker: EndTransactionMarker | None = None) -> CompletedTransaction | None:
        """Take note of a batch that is in the log now; followers and recovery come here without validating.

        marker: of a control batch
        returns: the transaction that the marker ends, if there is one open; `complete` must follow
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
        """source: ProducerAppendInfo.appendEndTxnMarker"""
        self.verifications.ended(batch.producer_id, batch.producer_epoch)
        first_offset = entry.transaction_offset
        entry.end_transaction(batch.producer_epoch, marker)
        if first_offset is None:
            return None
        is_aborted = marker.control_type is ControlRecordType.ABORT
        return CompletedTransaction(batch.producer_id, first_offset, batch.base_offset, is_aborted)

    def _check_beginning(self, batch: BatchHeader) -> None:
        """source: ProducerAppendInfo.checkSequence (2.0), validateAppend (0.11)"""
        if self.unknown_error is not None and batch.base_sequence != 0:
            raise KafkaError(
                self.unknown_error,
                f"producer {batch.producer_id} sent sequence {batch.base_sequence}, and no record of it is left",
                **_sender(batch),
            )

    def log_begins_at(self, offset: Offset) -> None:
        """Records below it are gone. source: ProducerStateManager.onLogStartOffsetIncremented, truncateHead (2.0)"""
        self.transactions.replicated(offset)
        if self.unknown_error is None:
            return
        for producer_id, entry in list(self._producers.items()):
            if not entry.batches or entry.batches[-1].last_offset < offset:
                del self._producers[producer_id]
                self.transactions.forget(producer_id)

    def remove_expired(self, now_ms: int) -> list[int]:
        """Forget producers that were silent for producer.id.expiration.ms; returns their ids."""
        expired = [producer_id for producer_id, entry in self._producers.items() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._producers[producer_id]
        self.verifications.remove_expired(now_ms - self.expiration_ms)
        return expired

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        """Not while its transaction is open: the marker has to find it."""
        return entry.transaction_offset is None and now_ms - entry.last_timestamp_ms >= self.expiration_ms

    # ------------------------------------------------------------------------------------------------- snapshots

    def take_snapshot(self) -> None:
        """Write the state as of `map_end_offset`, unless that was done already."""
        if self._directory is None or self.map_end_offset <= self._last_snapshot:
            return
        write_snapshot(self._path(self.map_end_offset), self._producers, sync=self._sync)
        self._last_snapshot = self.map_end_offset
        self._snapshots.append(self.map_end_offset)

    def truncate_and_reload(self, log_start_offset: Offset, log_end_offset: Offset, now_ms: int) -> Offset:
        """Go back to the latest snapshot in (log start, log end]; the caller replays the batches from there.

        returns: the offset to replay from          source: ProducerStateManager.truncateAndReload
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
        """The newest snapshot at or below an offset: where it lies, and its state, apart from this one."""
        state = ProducerStateManager(None, sync=False)
        for found in reversed(self._snapshots):
            entries = read_snapshot(self._path(found)) if found <= offset else None
            if entries is not None:
                state._producers.update((entry.producer_id, entry) for entry in entries)
                state._load_transactions()
                return found, state
        return 0, state

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

    def forget_snapshots_at(self, offsets: Iterable[Offset]) -> None:
        """Compaction has joined the segments that began there to others."""
        for offset in offsets:
            if offset in self._snapshots:
                self._delete_snapshot(offset)

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Nothing is left in the log: nothing is known."""
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
            f"producer {producer_id} sent epoch {producer_epoch}, epoch {entry.epoch} wrote already",
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
            f"producer {batch.producer_id} sent sequence {batch.base_sequence}, expected was {expected}",
            **_sender(batch),
            expected_sequence=expected,
        )


def _sender(batch: BatchHeader) -> dict[str, int]:
    return {
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
    }
