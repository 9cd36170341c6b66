"""The batches of a producer: records on their way, gathered into batches that keep their identity over retries.

Source: ProducerBatch.java, MemoryRecordsBuilder.java.
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
"""DefaultRecord.MAX_RECORD_OVERHEAD: the most that length, timestamp, offset and attributes of a record can take."""
RECORD_FIXED_BYTES = 2
"""Attributes, and the count of its headers."""


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record that an application hands to `send`. `name` is its name in the trace: the first word of the value; a
    tombstone, which has no value, carries it in a header, and so does one whose value is no text (is_named_apart)."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    name: str
    is_named_apart: bool = False

    @property
    def headers(self) -> Headers:
        if self.value is None:
            return ((NAME_HEADER, self.name.encode()),)
        return ((NAMED_APART_HEADER, self.name.encode()),) if self.is_named_apart else ()


@dataclass(frozen=True, slots=True, eq=False)
class PendingRecord:
    """A record between the send call and its ack or failure; `sent_seq` is the trace's event of the send call.

    clock_offset_us: how far the wall clock is ahead of the time of the run
    """

    record: ProducerRecord
    sent_us: int
    sent_seq: int
    clock_offset_us: int = 0

    @property
    def timestamp_ms(self) -> int:
        """CreateTime, as it goes into the batch."""
        return (self.sent_us + self.clock_offset_us) // 1000


def varint_bytes(number: int) -> int:
    """Size of a zigzag varint: a byte for each 7 bits, and one for 0."""
    return ((number << 1 ^ number >> 63 | 1).bit_length() + 6) // 7


def _field_bytes(data: bytes | None) -> int:
    return 1 if data is None else len(data) + varint_bytes(len(data))


def _headers_bytes(record: ProducerRecord) -> int:
    if record.value is not None and not record.is_named_apart:
        return 0
    return sum(_field_bytes(name.encode()) + _field_bytes(content) for name, content in record.headers)


def record_bytes_upper_bound(record: ProducerRecord) -> int:
    """Upper bound of a batch of this one record. Source: AbstractRecords.estimateSizeInBytesUpperBound"""
    fields = _field_bytes(record.key) + _field_bytes(record.value) + 1 + _headers_bytes(record)
    return BATCH_HEADER_BYTES + MAX_RECORD_OVERHEAD_BYTES + fields


class ProducerBatch:
    """Records of one partition that travel together, with the producer state they were first drained with.

    `created_us` starts delivery.timeout.ms. `attempts` counts failures; `sends` counts how often it went on the wire.
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
        """Take a record, unless the batch is closed or would outgrow its limit; the first record always fits."""
        if self._closed:
            return False
        size_bytes = self._size_in_batch(pending)
        if self.records and self.size_bytes + size_bytes > self._limit_bytes:
            return False
        self.records.append(pending)
        self._has_headers |= pending.record.value is None or pending.record.is_named_apart
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
        """Start again under a new epoch; the next attempt carries other bytes than the last one."""
        self.set_producer_state(producer_id, producer_epoch, base_sequence)
        self.sequence_was_reset = True
        self.encoded = bytearray()

    def encode(self, compression: str) -> bytearray:
        """The batch as it goes on the wire, the same bytes at every attempt with the same producer state."""
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
        """An attempt failed and another one is due after `backoff_us`."""
        self.attempts += 1
        self.last_attempt_us = now_us
        self.not_before_us = now_us + backoff_us
        self.in_retry = True

    def saw_leader_epoch(self, epoch: LeaderEpoch) -> None:
        """Remember at which attempt the leader last changed (KAFKA-15415)."""
        if epoch > self._leader_epoch:
            self.attempts_at_leader_change = self.attempts
            self._leader_epoch = epoch

    def is_backing_off(self, now_us: int) -> bool:
        """A retry waits for its backoff, unless it would go to a new leader: that one is asked at once."""
        leader_changed = self.attempts > 0 and self.attempts == self.attempts_at_leader_change
        return self.attempts > 0 and now_us < self.not_before_us and not leader_changed

    def has_expired(self, delivery_timeout_us: int, now_us: int) -> bool:
        return now_us - self.created_us >= delivery_timeout_us

    def split(self, limit_bytes: int) -> list[ProducerBatch]:
        """Smaller batches of the same records, with the same producer state continued (MESSAGE_TOO_LARGE)."""
        parts: list[ProducerBatch] = []
        for pending in self.records:
            if not parts or not parts[-1].try_append(pending):
                # Kafka allocates the parts outside the buffer pool: they hold none of its memory.
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
