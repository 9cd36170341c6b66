"""A share partition on the leader of the topic's partition: which member of the share group gets which record.

1. A record in flight is AVAILABLE, ACQUIRED by one member, ACKNOWLEDGED or ARCHIVED. All records in flight have offsets
   in [start, end]. Records below `start` are settled; records above `end` have not been read yet.
2. Acquiring a record adds 1 to its delivery count and locks it for share.record.lock.duration.ms.
3. The member accepts the record (ACKNOWLEDGED), releases it (AVAILABLE) or rejects it (ARCHIVED). The end of the lock's
   time or of the session releases it too. A record released after `delivery_limit` deliveries is ARCHIVED.
   If the group has a dead letter queue (KIP-1191), rejected and undeliverable records are ARCHIVING first.
4. A member's change is tentative until the share coordinator has written it: `Transition`, then `complete`. If the
   write fails, the record is ACQUIRED again, or released if its lock has expired. Expired locks wait for no write.
5. `start` moves past settled records. Offsets above it that are in no batch were acquired under another leader, which
   wrote nothing about them. They are read again, and their delivery counts begin again.

Simplified: each record has its own state. Kafka has one state for a batch until its records differ; members see the
same.

Source: SharePartition.java, InFlightBatch.java, InFlightState.java
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from cluster.share.state import RecordState, ShareState, StateBatch, joined
from replica.causes import ShareCause
from replica.errors import ErrorCode, KafkaError
from replica.ids import Offset

NO_MEMBER = ""
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""Types of acknowledgements. Source: AcknowledgeType.java"""
OUTCOMES = {
    GAP: (RecordState.ARCHIVED, ShareCause.GAP),
    ACCEPT: (RecordState.ACKNOWLEDGED, ShareCause.ACCEPTED),
    RELEASE: (RecordState.AVAILABLE, ShareCause.RELEASED),
    REJECT: (RecordState.ARCHIVED, ShareCause.REJECTED),
}
LEAST_THROTTLED = 2
"""Lower bound of `ShareLimits.throttled_from`.

Source: MINIMUM_THROTTLE_RECORDS_DELIVERY_LIMIT
"""


class ShareLimits(NamedTuple):
    """The settings of a share group that apply to its partitions. Source: ShareGroupConfigProvider"""

    delivery_limit: int = 5
    max_record_locks: int = 2000
    lock_us: int = 30_000_000
    may_renew: bool = True
    has_dead_letters: bool = False

    @property
    def throttled_from(self) -> int:
        """Delivery count from which a record is delivered with fewer others, since it may make members fail."""
        return max(LEAST_THROTTLED, -(-self.delivery_limit // 2))


class FetchedBatch(NamedTuple):
    """The first and last offset of a batch in the log."""

    base: Offset
    last: Offset


class Acquired(NamedTuple):
    """A range of records [first, last] that a member has acquired, with their delivery count."""

    first: Offset
    last: Offset
    delivery_count: int


class Acknowledgement(NamedTuple):
    """A member's acknowledgement of the records [first, last], with one type for all or a type for each."""

    first: Offset
    last: Offset
    types: tuple[int, ...]


class Settled(NamedTuple):
    """A range of records [first, last] that `member` had acquired, and their state afterwards."""

    first: Offset
    last: Offset
    state: RecordState
    delivery_count: int
    member: str
    cause: ShareCause


class AcquireParams(NamedTuple):
    """A member's request for records.

    Attributes:
        batch_size: minimum number of records in each part, if newly acquired records are split at batches of the log.
        is_record_limit: False if `max_records` may be exceeded to reach the end of a batch (KIP-1206).
    """

    member: str
    max_records: int
    batch_size: int
    is_record_limit: bool = False


@dataclass(slots=True, eq=False)
class _Record:
    """The state of one record. `before` is (state, member) to restore if the write in progress fails, else None."""

    state: RecordState
    delivery_count: int
    member: str = NO_MEMBER
    lock_us: int | None = None
    before: tuple[RecordState, str] | None = None

    @property
    def is_free(self) -> bool:
        return self.state is RecordState.AVAILABLE and self.before is None

    @property
    def is_done(self) -> bool:
        return self.state.is_terminal and self.before is None

    def acquire(self, member: str, lock_us: int) -> None:
        self.state, self.member, self.lock_us = RecordState.ACQUIRED, member, lock_us
        self.delivery_count += 1


@dataclass(slots=True, eq=False)
class _Batch:
    """Adjacent records that were acquired together for the first time."""

    first: Offset
    records: list[_Record]

    @property
    def last(self) -> Offset:
        return self.first + len(self.records) - 1

    def between(self, first: Offset, last: Offset) -> Iterator[tuple[Offset, _Record]]:
        low = max(first, self.first)
        for offset in range(low, min(last, self.last) + 1):
            yield offset, self.records[offset - self.first]


@dataclass(slots=True, eq=False)
class Transition:
    """A change of records to write to the share coordinator.

    `changed` has (offset, record, member that had acquired it, cause) of each record.
    """

    changed: list[tuple[Offset, _Record, str, ShareCause]] = field(default_factory=list)

    @property
    def dead_letters(self) -> tuple[Settled, ...]:
        """The changed records that go to the dead letter queue."""
        return tuple(item for item in self.settled() if item.state is RecordState.ARCHIVING)

    @property
    def batches(self) -> tuple[StateBatch, ...]:
        return joined(
            StateBatch(offset, offset, record.state, record.delivery_count) for offset, record, *_ in self.changed
        )

    def settled(self) -> tuple[Settled, ...]:
        """Return the changed records as ranges with equal outcomes."""
        return joined(
            Settled(offset, offset, record.state, record.delivery_count, member, cause)
            for offset, record, member, cause in self.changed
        )


class SharePartition:
    """A share partition on its leader.

    Args:
        state: state loaded from the share coordinator.
        start: start offset; given by the reset policy if the state has none yet.
        limits: returns the group's settings.
    """

    def __init__(self, state: ShareState, start: Offset, limits: Callable[[], ShareLimits]) -> None:
        self.start = self.end = start
        self.state_epoch = state.state_epoch
        self._limits = limits
        self._batches: list[_Batch] = [
            _Batch(
                batch.first, [_Record(batch.state, batch.delivery_count) for _ in range(batch.first, batch.last + 1)]
            )
            for batch in state.batches
        ]
        if self._batches:
            self.end = self._batches[-1].last
            self.move_start()

    # ------------------------------------------------------------------------------------------------------ questions

    @property
    def in_flight(self) -> int:
        """The number of offsets in [start, end]. Source: numInFlightRecords"""
        return self.end - self.start + 1 if self._batches else 0

    @property
    def delivery_complete(self) -> int:
        """The number of records in flight that are acknowledged or archived."""
        records = (record for batch in self._batches for _, record in batch.between(self.start, batch.last))
        return sum(record.state.is_terminal for record in records)

    @property
    def dead_letters(self) -> tuple[Settled, ...]:
        """The records whose dead letters an earlier leader may not have written. Source: maybeResumeDlqArchiving"""
        return joined(
            Settled(
                offset,
                offset,
                record.state,
                record.delivery_count,
                NO_MEMBER,
                ShareCause.LOCK_EXPIRED if self._is_spent(record) else ShareCause.REJECTED,
            )
            for batch in self._batches
            for offset, record in batch.between(batch.first, batch.last)
            if record.state is RecordState.ARCHIVING
        )

    @property
    def next_fetch_offset(self) -> Offset:
        """The first offset to acquire: of an available record, or one that has not been read yet."""
        position = self.start
        for batch in self._batches:
            if batch.first > position:
                return position
            for offset, record in batch.between(position, batch.last):
                if record.is_free:
                    return offset
            position = max(position, batch.last + 1)
        return max(position, self.end if not self._batches else self.end + 1)

    @property
    def can_acquire(self) -> bool:
        """True if there are records to deliver again, or if max_record_locks allows new ones."""
        return self.next_fetch_offset != self.end + 1 or self.in_flight < self._limits().max_record_locks

    @property
    def next_lock_us(self) -> int | None:
        """The time at which the next lock expires, None if no record is locked."""
        locks = (
            record.lock_us
            for batch in self._batches
            for record in batch.records
            if record.state is RecordState.ACQUIRED and record.lock_us is not None
        )
        return min(locks, default=None)

    def _overlapping(self, first: Offset, last: Offset) -> list[_Batch]:
        index = bisect_right(self._batches, first, key=lambda batch: batch.first)
        low = index - 1 if index and self._batches[index - 1].last >= first else index
        high = bisect_right(self._batches, last, key=lambda batch: batch.first)
        return self._batches[low:high]

    # ------------------------------------------------------------------------------------------------------ acquiring

    def acquire(
        self, wanted: AcquireParams, fetched: Sequence[FetchedBatch], fetch_offset: Offset, now_us: int
    ) -> list[Acquired]:
        """Acquire records for a member, and return their ranges. Source: SharePartition.acquire

        Args:
            fetched: batches of the log from `fetch_offset` on, in offset order.
        """
        last = fetched[-1].last if fetched else -1
        if last < self.start:
            return []
        room = min(wanted.max_records, self._limits().max_record_locks - self.in_flight)
        if room <= 0:
            if fetch_offset > self.end:
                return []
            room, last = min(wanted.max_records, self.end - fetch_offset + 1), min(last, self.end)
        self._skip_missing(fetch_offset, fetched[0].base)
        position = max(fetched[0].base, fetch_offset, self.start)
        found: list[Acquired] = []
        count = 0
        for batch in self._overlapping(position, last):
            if count < room and batch.first > position:
                count += self._acquire_new(wanted, fetched, (position, batch.first - 1), room - count, found, now_us)
            if count >= room:
                return found
            limit = room - count if wanted.is_record_limit else None
            is_throttled = self._is_throttled(batch, position, last)
            if is_throttled and count:
                return found
            acquired = self._acquire_again(batch, (position, last), limit, wanted.member, found, now_us)
            count += acquired
            if is_throttled and acquired:
                return found
            position = max(position, batch.last + 1)
        if count < room and position <= last:
            self._acquire_new(wanted, fetched, (position, last), room - count, found, now_us)
        return found

    def _is_throttled(self, batch: _Batch, first: Offset, last: Offset) -> bool:
        """Return True if a record in [first, last] was delivered so often that it may make members fail.

        Source: shouldThrottleRecordsDelivery
        """
        free = (record.delivery_count for _, record in batch.between(first, last) if record.is_free)
        return max(free, default=0) >= self._limits().throttled_from

    def _acquire_again(
        self,
        batch: _Batch,
        within: tuple[Offset, Offset],
        limit: int | None,
        member: str,
        found: list[Acquired],
        now_us: int,
    ) -> int:
        """Acquire the available records of a batch, add them to `found`, and return their number.

        If the batch was delivered several times, acquire only a part, halved each time. This isolates a bad record.

        Args:
            limit: maximum number of records, None for no limit.

        Source: acquireSubsetBatchRecords
        """
        limits = self._limits()
        count, throttled_to = 0, None
        for offset, record in batch.between(*within):
            if not record.is_free:
                continue
            if limits.delivery_limit > LEAST_THROTTLED and record.delivery_count == limits.delivery_limit - 1 and count:
                break  # The last delivery of a record has no other records.
            if record.delivery_count >= limits.throttled_from and throttled_to is None:
                halvings = record.delivery_count - limits.throttled_from + 1
                throttled_to = max(1, len(batch.records) >> halvings)
            record.acquire(member, now_us + limits.lock_us)
            _add(found, offset, record.delivery_count)
            count += 1
            is_last = limits.delivery_limit > LEAST_THROTTLED and record.delivery_count == limits.delivery_limit
            if is_last or count in (limit, throttled_to):
                break
        return count

    def _acquire_new(
        self,
        wanted: AcquireParams,
        fetched: Sequence[FetchedBatch],
        within: tuple[Offset, Offset],
        room: int,
        found: list[Acquired],
        now_us: int,
    ) -> int:
        """Acquire new records in `within`, add them to `found`, and return their number.

        They end with a batch of the log, even if these are more than `room`, unless `is_record_limit` is set.

        Source: acquireNewBatchRecords, createBatches
        """
        first, last = within
        if not self._batches:
            first = max(first, self.end)
            self.start = first
        if room < last - first + 1:
            wish = first + room - 1
            last = min(last, next((item.last for item in fetched if item.base <= wish <= item.last), wish))
        borders = [first]
        if not wanted.is_record_limit and last - first + 1 > wanted.batch_size:
            for item in fetched:
                if item.base <= last and item.base - borders[-1] >= wanted.batch_size:
                    borders.append(item.base)
        borders.append(last + 1)
        limit = room if wanted.is_record_limit else last - first + 1
        lock_us = now_us + self._limits().lock_us
        for low, high in pairwise(borders):
            records = [_Record(RecordState.AVAILABLE, 0) for _ in range(low, high)]
            for record in records[:limit]:
                record.acquire(wanted.member, lock_us)
            index = bisect_right(self._batches, low, key=lambda batch: batch.first)
            self._batches.insert(index, _Batch(low, records))
            found.append(Acquired(low, low + len(records[:limit]) - 1, 1))
        self.end = max(self.end, last)
        return min(limit, last - first + 1)

    def _skip_missing(self, first: Offset, end: Offset) -> None:
        """Archive offsets from `first` to below `end`, which the log no longer has, for example after compaction.

        Source: maybeArchiveStaleBatches
        """
        position = first
        for batch in self._overlapping(first, end - 1):
            self._fill(position, batch.first)
            for _, record in batch.between(first, end - 1):
                if record.is_free:
                    record.state = RecordState.ARCHIVED
            position = max(position, batch.last + 1)
        if self._batches and position <= self.end:
            self._fill(position, min(end, self.end + 1))

    def _fill(self, first: Offset, end: Offset) -> None:
        if first < end:
            index = bisect_right(self._batches, first, key=lambda batch: batch.first)
            records = [_Record(RecordState.ARCHIVED, 0) for _ in range(first, end)]
            self._batches.insert(index, _Batch(first, records))

    def archive_acquired(self, first: Offset, last: Offset) -> None:
        """Archive acquired records in [first, last], because their transaction was aborted. Source: archiveRecords"""
        for batch in self._overlapping(first, last):
            for _, record in batch.between(first, last):
                if record.state is RecordState.ACQUIRED:
                    record.state, record.member, record.lock_us = RecordState.ARCHIVED, NO_MEMBER, None

    # ------------------------------------------------------------------------------------------------------- settling

    def acknowledge(self, member: str, acknowledgements: Sequence[Acknowledgement], now_us: int) -> Transition:
        """Apply acknowledgements tentatively, and return the change to write. Source: SharePartition.acknowledge

        Renewed locks are not part of the change, because they need no write.

        Raises:
            KafkaError: if the member has not acquired one of the records; then none of the changes is applied.
        """
        transition = Transition()
        try:
            for acknowledgement in acknowledgements:
                if any(not GAP <= kind <= RENEW for kind in acknowledgement.types):
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: {list(acknowledgement.types)}"
                    )
                if acknowledgement.last >= self.start:
                    self._acknowledge(member, acknowledgement, transition, now_us)
        except KafkaError:
            self.complete(transition, now_us, is_written=False)
            raise
        return transition

    def _acknowledge(self, member: str, event: Acknowledgement, transition: Transition, now_us: int) -> None:
        batches = self._overlapping(max(event.first, self.start), event.last)
        if not batches:
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE,
                "Batch record not found. The request batch offsets are not found in the cache.",
            )
        if event.last > batches[-1].last:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Batch record not found. The last offset in request is past acquired records.",
            )
        for batch in batches:
            for offset, record in batch.between(max(event.first, self.start), event.last):
                if record.state is not RecordState.ACQUIRED:
                    raise KafkaError(
                        ErrorCode.INVALID_RECORD_STATE,
                        "The offset cannot be acknowledged. The offset is not acquired.",
                    )
                if record.member != member:
                    raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of offset")
                kind = event.types[offset - event.first] if len(event.types) > 1 else event.types[0]
                if kind == RENEW:
                    self._renew(record, now_us)
                else:
                    state, cause = OUTCOMES[kind]
                    self._begin(offset, record, self._given_up if kind == REJECT else state, cause, transition)

    def _renew(self, record: _Record, now_us: int) -> None:
        """Extend the lock of a record (KIP-1222)."""
        if not self._limits().may_renew:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group.")
        record.lock_us = now_us + self._limits().lock_us

    def _begin(
        self, offset: Offset, record: _Record, state: RecordState, cause: ShareCause, transition: Transition
    ) -> None:
        record.before = record.state, record.member
        transition.changed.append((offset, record, record.member, cause))
        record.state, record.member = self._after_release(record, state), NO_MEMBER

    @property
    def _given_up(self) -> RecordState:
        """The state of a record that is rejected or undeliverable. Source: recordStateWithDlq"""
        return RecordState.ARCHIVING if self._limits().has_dead_letters else RecordState.ARCHIVED

    def _is_spent(self, record: _Record) -> bool:
        return record.delivery_count >= self._limits().delivery_limit

    def _after_release(self, record: _Record, state: RecordState) -> RecordState:
        return self._given_up if state is RecordState.AVAILABLE and self._is_spent(record) else state

    def release(self, member: str) -> Transition:
        """Release a member's records tentatively, and return the change to write. Source: releaseAcquiredRecords"""
        transition = Transition()
        for batch in self._batches:
            for offset, record in batch.between(batch.first, batch.last):
                if record.state is RecordState.ACQUIRED and record.member == member:
                    is_gone = offset < self.start
                    state = RecordState.ARCHIVED if is_gone else RecordState.AVAILABLE
                    cause = ShareCause.GAP if is_gone else ShareCause.SESSION_ENDED
                    self._begin(offset, record, state, cause, transition)
        return transition

    def complete(self, transition: Transition, now_us: int, *, is_written: bool) -> None:
        """Keep a tentative change if it was written, else undo it. Source: InFlightState.completeStateTransition"""
        for _, record, _, _ in transition.changed:
            before, record.before = record.before, None
            if before is None or is_written:
                record.lock_us = None
            elif record.lock_us is not None and record.lock_us <= now_us:
                # No dead letter is written in this case. Source: completeStateTransition
                record.state = RecordState.ARCHIVED if self._is_spent(record) else RecordState.AVAILABLE
                record.lock_us = None
            else:
                record.state, record.member = before
        if is_written:
            self.move_start()

    def archive(self, first: Offset, last: Offset) -> None:
        """Archive records whose dead letters are written, or could not be written. Source: InFlightState.archive"""
        for batch in self._overlapping(first, last):
            for _, record in batch.between(first, last):
                if record.state is RecordState.ARCHIVING:
                    record.state = RecordState.ARCHIVED

    def expire(self, now_us: int) -> Transition:
        """Release the records whose locks have expired, at once, and return the change to write.

        Source: releaseAcquisitionLockOnTimeout
        """
        expired = Transition()
        for batch in self._batches:
            for offset, record in batch.between(batch.first, batch.last):
                if record.state is RecordState.ACQUIRED and record.lock_us is not None and record.lock_us <= now_us:
                    is_gone = offset < self.start
                    cause = ShareCause.GAP if is_gone else ShareCause.LOCK_EXPIRED
                    expired.changed.append((offset, record, record.member, cause))
                    state = RecordState.ARCHIVED if is_gone else RecordState.AVAILABLE
                    record.state = self._after_release(record, state)
                    record.member, record.lock_us = NO_MEMBER, None
        return expired

    def log_start_moved(self, log_start: Offset) -> None:
        """Move `start` to the new log start offset, below which records were deleted. Source: updateCacheAndOffsets"""
        if log_start <= self.start:
            return
        for batch in self._overlapping(self.start, log_start - 1):
            for _, record in batch.between(self.start, log_start - 1):
                if record.is_free:
                    record.state = RecordState.ARCHIVED
        self.start = log_start
        self._batches = [item for item in self._batches if item.last >= log_start or self._has_acquired(item)]
        if not self._batches or self.end < self.start:
            self.end = self.start

    @staticmethod
    def _has_acquired(batch: _Batch) -> bool:
        return any(record.state is RecordState.ACQUIRED or record.before is not None for record in batch.records)

    def move_start(self) -> None:
        """Move `start` past the settled records that follow it, except those whose change is not written yet.

        Source: maybeUpdateCachedStateAndOffsets
        """
        while self._batches:
            batch = self._batches[0]
            if batch.first > self.start:
                return
            for offset, record in batch.between(self.start, batch.last):
                if not record.is_done:
                    self.start = offset
                    return
            if any(record.before is not None for record in batch.records):
                return
            self.start = max(self.start, batch.last + 1)
            self._batches.pop(0)
        self.end = self.start


def _add(found: list[Acquired], offset: Offset, delivery_count: int) -> None:
    """Add a record to `found`, to the last range if it fits. Source: ShareFetchUtils.accumulateAcquiredRecords"""
    if found and found[-1].last + 1 == offset and found[-1].delivery_count == delivery_count:
        found[-1] = found[-1]._replace(last=offset)
    else:
        found.append(Acquired(offset, offset, delivery_count))
