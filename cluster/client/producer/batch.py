"""The records and batches of a producer; a batch stays the same object over all retries.

Source: ProducerBatch.java, MemoryRecordsBuilder.java
"""

from __future__ import annotations

from cluster.client.events import NAME_HEADER, NAMED_APART_HEADER
from replica.frozen import dataclass
from replica.ids import UNDEFINED_EPOCH, LeaderEpoch, TopicPartition
from replica.log.batches.records import (
    BATCH_HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Headers,
    build_batch,
)

MAX_RECORD_OVERHEAD_BYTES = 21
"""The maximum size of a record's length, timestamp, offset and attributes (DefaultRecord.MAX_RECORD_OVERHEAD)."""
RECORD_FIXED_BYTES = 2
"""Bytes of a record's attributes and header count."""


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record that an application passes to `send`.

    Attributes:
        name: the record's name in the trace, which is the first word of the value if that is text.
        is_named_apart: True if the value is not text. As with a tombstone, a header then has the name.
        timestamp_ms: CreateTime of the record; None for the producer's clock at the send call.
        own_headers: headers that the application sets.
    """

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    name: str
    is_named_apart: bool = False
    timestamp_ms: int | None = None
    own_headers: Headers = ()

    @property
    def has_headers(self) -> bool:
        return self.value is None or self.is_named_apart or bool(self.own_headers)

    @property
    def headers(self) -> Headers:
        if self.value is None:
            return (*self.own_headers, (NAME_HEADER, self.name.encode()))
        if self.is_named_apart:
            return (*self.own_headers, (NAMED_APART_HEADER, self.name.encode()))
        return self.own_headers


@dataclass(frozen=True, slots=True, eq=False)
class PendingRecord:
    """A record between the send call and its acknowledgement or failure.

    Attributes:
        sent_us: time of the send call.
        sent_seq: number of the send call's event in the trace.
        clock_offset_us: wall clock of the producer's machine minus the time in the trace.
    """

    record: ProducerRecord
    sent_us: int
    sent_seq: int
    clock_offset_us: int = 0

    @property
    def timestamp_ms(self) -> int:
        """The CreateTime of the record in its batch."""
        own_ms = self.record.timestamp_ms
        return own_ms if own_ms is not None else (self.sent_us + self.clock_offset_us) // 1000


def varint_bytes(number: int) -> int:
    """Return the size in bytes of a zigzag varint."""
    return ((number << 1 ^ number >> 63 | 1).bit_length() + 6) // 7


def _field_bytes(data: bytes | None) -> int:
    return 1 if data is None else len(data) + varint_bytes(len(data))


def _headers_bytes(record: ProducerRecord) -> int:
    if not record.has_headers:
        return 0
    return sum(_field_bytes(name.encode()) + _field_bytes(content) for name, content in record.headers)


def record_bytes_upper_bound(record: ProducerRecord) -> int:
    """Return an upper bound of the size in bytes of a batch with this record alone.

    Source: AbstractRecords.estimateSizeInBytesUpperBound
    """
    fields = _field_bytes(record.key) + _field_bytes(record.value) + 1 + _headers_bytes(record)
    return BATCH_HEADER_BYTES + MAX_RECORD_OVERHEAD_BYTES + fields


class ProducerBatch:
    """A batch of one partition's records; with idempotence it gets its sequence when it is first drained.

    Attributes:
        created_us: time from which delivery.timeout.ms counts.
        attempts: number of failed attempts.
        sends: number of times the batch was sent.
        in_request: True while a request with the batch has neither been answered nor given up.
    """

    __slots__ = (
        "_closed",
        "_has_headers",
        "_leader_epoch",
        "_limit_bytes",
        "attempts",
        "attempts_at_leader_change",
        "base_sequence",
        "created_us",
        "done",
        "encoded",
        "in_request",
        "in_retry",
        "last_attempt_us",
        "last_seq",
        "maybe_written",
        "memory_bytes",
        "not_before_us",
        "producer_epoch",
        "producer_id",
        "records",
        "sends",
        "sequence_was_reset",
        "size_bytes",
        "topic_partition",
        "transactional",
    )

    def __init__(self, topic_partition: TopicPartition, limit_bytes: int, memory_bytes: int, now_us: int) -> None:
        self.topic_partition = topic_partition
        self.records: list[PendingRecord] = []
        self._has_headers = False
        self.size_bytes = BATCH_HEADER_BYTES
        self.memory_bytes = memory_bytes
        self.created_us = now_us
        self.last_attempt_us = now_us
        self.not_before_us = now_us
        self.attempts = 0
        self.attempts_at_leader_change = 0
        self.sends = 0
        self.in_request = False
        self.in_retry = False
        self.done = False
        self.maybe_written = False
        self.last_seq = -1
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.sequence_was_reset = False
        self.transactional = False
        self.encoded = bytearray()
        self._limit_bytes = limit_bytes
        self._closed = False
        self._leader_epoch: LeaderEpoch = UNDEFINED_EPOCH

    # ------------------------------------------------------------------------------------------------------ filling

    def try_append(self, pending: PendingRecord) -> bool:
        """Add a record, unless the batch is closed or would exceed its limit; the first record always fits."""
        if self._closed:
            return False
        size_bytes = self._size_in_batch(pending)
        if self.records and self.size_bytes + size_bytes > self._limit_bytes:
            return False
        self.records.append(pending)
        self._has_headers |= pending.record.has_headers
        self.size_bytes += size_bytes
        return True

    def _size_in_batch(self, pending: PendingRecord) -> int:
        timestamp_delta = pending.timestamp_ms - self.records[0].timestamp_ms if self.records else 0
        deltas = varint_bytes(timestamp_delta) + varint_bytes(len(self.records))
        record = pending.record
        fields = _field_bytes(record.key) + _field_bytes(record.value) + _headers_bytes(record)
        body = RECORD_FIXED_BYTES + deltas + fields
        return varint_bytes(body) + body

    def close_for_appends(self) -> None:
        self._closed = True

    @property
    def is_full(self) -> bool:
        return self._closed or self.size_bytes >= self._limit_bytes

    @property
    def record_count(self) -> int:
        return len(self.records)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(pending.record.name for pending in self.records)

    # --------------------------------------------------------------------------------------------- producer state

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        return self.base_sequence + len(self.records) - 1

    def set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        self.producer_id, self.producer_epoch, self.base_sequence = producer_id, producer_epoch, base_sequence

    def reset_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Change the batch's producer id, epoch and sequence, and so the bytes of the next attempt."""
        self.set_producer_state(producer_id, producer_epoch, base_sequence)
        self.sequence_was_reset = True
        self.encoded = bytearray()

    def encode(self, compression: str) -> bytearray:
        """Close the batch and encode it; attempts with the same producer id, epoch and sequence have the same bytes."""
        self._closed = True
        self.sequence_was_reset = False
        if not self.encoded:
            self.encoded = build_batch(
                [(pending.record.key, pending.record.value) for pending in self.records],
                timestamp_ms=[pending.timestamp_ms for pending in self.records],
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=self.base_sequence,
                compression=compression,
                transactional=self.transactional,
                headers=[pending.record.headers for pending in self.records] if self._has_headers else (),
            )
        return self.encoded

    # ----------------------------------------------------------------------------------------------------- retries

    def reenqueued(self, backoff_us: int, now_us: int) -> None:
        """Count a failed attempt; the next attempt is due after `backoff_us`."""
        self.attempts += 1
        self.last_attempt_us = now_us
        self.not_before_us = now_us + backoff_us
        self.in_retry = True

    def saw_leader_epoch(self, epoch: LeaderEpoch) -> None:
        """Note the partition's leader epoch; a retry after a change of the leader need not back off (KAFKA-15415)."""
        if epoch > self._leader_epoch:
            self.attempts_at_leader_change = self.attempts
            self._leader_epoch = epoch

    def is_backing_off(self, now_us: int) -> bool:
        """Return True if the batch waits to be retried; after a change of the leader it does not wait."""
        leader_changed = self.attempts > 0 and self.attempts == self.attempts_at_leader_change
        return self.attempts > 0 and now_us < self.not_before_us and not leader_changed

    def has_expired(self, delivery_timeout_us: int, now_us: int) -> bool:
        return now_us - self.created_us >= delivery_timeout_us

    def split(self, limit_bytes: int) -> list[ProducerBatch]:
        """Return smaller batches with the same records and sequences, because this one was MESSAGE_TOO_LARGE."""
        parts: list[ProducerBatch] = []
        for pending in self.records:
            if not parts or not parts[-1].try_append(pending):
                # As in Kafka, the parts take no memory from the buffer pool.
                parts.append(ProducerBatch(self.topic_partition, limit_bytes, 0, self.created_us))
                parts[-1].try_append(pending)
        sequence = self.base_sequence
        for part in parts:
            part.close_for_appends()
            part.last_seq, part.maybe_written = self.last_seq, self.maybe_written
            part.transactional = self.transactional
            if self.has_sequence:
                part.set_producer_state(self.producer_id, self.producer_epoch, sequence)
                sequence += part.record_count
        return parts
