"""The records that a producer has accepted and not yet sent: a queue of batches for each partition.

The sender asks which nodes are ready, and drains at most one batch of each partition that a node leads into a request.
Source: RecordAccumulator.java
"""

from __future__ import annotations

import bisect
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from cluster.client.metadata_cache import ClientMetadata
from cluster.client.node import ExponentialBackoff
from cluster.client.producer.batch import PendingRecord, ProducerBatch
from cluster.client.producer.idempotence import IdempotenceState
from cluster.config import ProducerConfig
from replica.config import NEVER
from replica.ids import NO_BROKER, TopicPartition

if TYPE_CHECKING:
    from cluster.client.producer.transactions import TransactionManager

# ---------------------------------------------------------------------------------------------------------- buffer pool
#
# The use of `buffer.memory` by one producer. Source: BufferPool.java.


class BufferPool:
    """The memory of a producer, counted in bytes; `waiting` is the number of send calls that wait for memory.

    Simplified: Kafka keeps a free list of buffers of exactly batch.size; here only sizes are counted.
    """

    __slots__ = ("available_bytes", "total_bytes", "waiting")

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.available_bytes = total_bytes
        self.waiting = 0

    @property
    def exhausted(self) -> bool:
        """True if a send call waits for memory; every batch is then ready to be sent, regardless of linger.ms."""
        return self.waiting > 0

    def allocate(self, size_bytes: int) -> bool:
        """Take `size_bytes` and return True, or return False if less is free."""
        if size_bytes > self.available_bytes:
            return False
        self.available_bytes -= size_bytes
        return True

    def deallocate(self, size_bytes: int) -> None:
        """Release memory that `allocate` took."""
        self.available_bytes += size_bytes
        assert self.available_bytes <= self.total_bytes, "more buffer memory was freed than was allocated"


@dataclass(slots=True)
class ReadyCheck:
    """The nodes to which batches can be sent, and the time of the next check for other batches."""

    nodes: list[int] = field(default_factory=list)
    next_check_us: int = NEVER
    unknown_leaders: bool = False


class RecordAccumulator:
    """The batches of a producer that are not sent yet: one queue per partition, oldest first."""

    def __init__(
        self,
        config: ProducerConfig,
        metadata: ClientMetadata,
        pool: BufferPool,
        backoff: ExponentialBackoff,
        idempotence: IdempotenceState | None,
        transactions: TransactionManager | None = None,
    ) -> None:
        self.pool = pool
        self.flushing = False
        self.closed = False
        self._config = config
        self._metadata = metadata
        self._backoff = backoff
        self._idempotence = idempotence
        self._transactions = transactions
        self._linger_us = config.linger_ms * 1000
        self._delivery_timeout_us = config.delivery_timeout_ms * 1000
        self._deques: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._muted: dict[TopicPartition, bool] = {}
        self._drain_index: dict[int, int] = {}

    # ------------------------------------------------------------------------------------------------------ filling

    def append(
        self, tp: TopicPartition, pending: PendingRecord, needed_bytes: int, now_us: int, *, own_batch: bool
    ) -> bool:
        """Put a record into the partition's last batch or a new one; return False if memory is short.

        Args:
            needed_bytes: upper bound of the size of a batch with this one record.
            own_batch: True to put the record into a batch of its own, as with batch.size=0.
        """
        queue = self._deques.setdefault(tp, deque())
        if queue and not own_batch:
            if queue[-1].try_append(pending):
                return True
            queue[-1].close_for_appends()
        limit_bytes = 0 if own_batch else self._config.batch_size
        return self.append_batch(tp, [pending], needed_bytes, now_us, limit_bytes=limit_bytes)

    def append_batch(
        self,
        tp: TopicPartition,
        records: Sequence[PendingRecord],
        needed_bytes: int,
        now_us: int,
        *,
        limit_bytes: int | None = None,
    ) -> bool:
        """Put records into a new batch; return False if memory is short.

        Args:
            needed_bytes: upper bound of the size of a batch with these records.
            limit_bytes: size up to which later records may join the batch; none may if it is None or 0.
        """
        queue = self._deques.setdefault(tp, deque())
        memory_bytes = max(limit_bytes or 0, needed_bytes)
        if not self.pool.allocate(memory_bytes):
            return False
        if queue:
            queue[-1].close_for_appends()
        batch = ProducerBatch(tp, NEVER if limit_bytes is None else limit_bytes, memory_bytes, now_us)
        for pending in records:
            batch.try_append(pending)
        if not limit_bytes:
            batch.close_for_appends()
        queue.append(batch)
        return True

    def all_batches_full(self, tp: TopicPartition) -> bool:
        queue = self._deques.get(tp)
        return not queue or queue[-1].is_full

    def queue_lengths(self, topic: str) -> list[tuple[int, int]] | None:
        """Return (partition, number of batches) of each partition with a leader.

        Return None until every partition of the topic has had a batch.
        """
        partitions = self._metadata.partitions(topic)
        if not all(map(self._deques.__contains__, partitions)):
            return None
        led = [tp for tp in partitions if self._metadata.leader(tp).leader != NO_BROKER]
        return [(tp.partition, len(self._deques[tp])) for tp in led]

    # ----------------------------------------------------------------------------------------------------- draining

    def ready(self, now_us: int) -> ReadyCheck:
        """Return the leaders to which batches can be sent. Source: RecordAccumulator.ready"""
        check = ReadyCheck()
        for tp, queue in self._deques.items():
            if not queue:
                continue
            first = queue[0]
            leader, epoch = self._metadata.leader(tp)
            first.saw_leader_epoch(epoch)
            if leader == NO_BROKER:
                check.unknown_leaders = True
                continue
            if leader in check.nodes or tp in self._muted:
                continue
            if first.is_backing_off(now_us):
                check.next_check_us = min(check.next_check_us, first.not_before_us)
            elif self._is_sendable(queue, now_us):
                check.nodes.append(leader)
            else:
                check.next_check_us = min(check.next_check_us, first.last_attempt_us + self._linger_us)
        return check

    def _is_sendable(self, queue: deque[ProducerBatch], now_us: int) -> bool:
        first = queue[0]
        lingered = now_us - first.last_attempt_us >= self._linger_us
        full = len(queue) > 1 or first.is_full
        return full or lingered or self.pool.exhausted or self.closed or self.flushing

    def drain(self, node_id: int, now_us: int) -> list[ProducerBatch]:
        """Remove and return batches for one request: at most one of each partition that the node leads.

        Their size is at most max.request.size, unless one batch alone is larger. Each call starts at another partition.
        """
        partitions = self._metadata.partitions_led_by(node_id)
        drained: list[ProducerBatch] = []
        size_bytes = 0
        start = self._drain_index.get(node_id, 0) % len(partitions) if partitions else 0
        looked_at = 0
        for tp in partitions[start:] + partitions[:start]:
            looked_at += 1
            queue = self._deques.get(tp)
            if not queue or tp in self._muted or queue[0].is_backing_off(now_us):
                continue
            if self._transactions is not None and not self._transactions.may_send_to(tp):
                break
            first = queue[0]
            if drained and size_bytes + first.size_bytes > self._config.max_request_size:
                break
            if self._idempotence is not None and self._idempotence.must_wait(first):
                break  # As in Kafka, the remaining partitions of the node are skipped too.
            queue.popleft()
            if self._idempotence is not None:
                self._idempotence.assign_sequence(first)
            size_bytes += first.size_bytes
            drained.append(first)
        if looked_at:
            self._drain_index[node_id] = (start + looked_at - 1) % len(partitions)
        return drained

    # ------------------------------------------------------------------------------------------------------ retries

    def reenqueue(self, batch: ProducerBatch, now_us: int) -> None:
        """Queue a batch for another attempt: at the front or, with idempotence, in the order of sequences."""
        batch.reenqueued(self._backoff.after_us(batch.attempts), now_us)
        self._insert(batch)

    def split_and_reenqueue(self, batch: ProducerBatch) -> None:
        """Queue the records of a batch that the broker refused as too large again, in smaller batches."""
        for part in reversed(batch.split(self._config.batch_size)):
            if self._idempotence is not None:
                self._idempotence.track(part)
            self._insert(part)

    def _insert(self, batch: ProducerBatch) -> None:
        queue = self._deques.setdefault(batch.topic_partition, deque())
        position = 0
        if self._idempotence is not None:
            # KAFKA-5494: batches at two brokers may fail out of order; the queue stays in sequence order.
            while (
                position < len(queue)
                and queue[position].has_sequence
                and queue[position].base_sequence < batch.base_sequence
            ):
                position += 1
        queue.insert(position, batch)

    def mute(self, tp: TopicPartition) -> None:
        """Drain no batch of a partition until `unmute`; with one batch in flight at a time, their order is kept."""
        self._muted[tp] = True

    def unmute(self, tp: TopicPartition) -> None:
        self._muted.pop(tp, None)

    # ------------------------------------------------------------------------------------------------------- expiry

    def expired(self, now_us: int) -> list[ProducerBatch]:
        """Remove and return all batches that have waited longer than delivery.timeout.ms."""
        expired: list[ProducerBatch] = []
        for queue in self._deques.values():
            while queue and queue[0].has_expired(self._delivery_timeout_us, now_us):
                expired.append(queue.popleft())
        return expired

    @property
    def next_expiry_us(self) -> int:
        created = [queue[0].created_us for queue in self._deques.values() if queue]
        return min(created) + self._delivery_timeout_us if created else NEVER

    @property
    def has_undrained(self) -> bool:
        return any(self._deques.values())

    def take_all(self) -> list[ProducerBatch]:
        """Remove and return all batches, because they can no longer be sent."""
        batches = [batch for queue in self._deques.values() for batch in queue]
        for queue in self._deques.values():
            queue.clear()
        return batches

    def take_unsent(self) -> list[ProducerBatch]:
        """Remove and return the batches that were never drained, because their transaction is aborted.

        Source: RecordAccumulator.abortUndrainedBatches
        """
        batches = [batch for queue in self._deques.values() for batch in queue if not batch.has_sequence]
        for queue in self._deques.values():
            kept = [batch for batch in queue if batch.has_sequence]
            queue.clear()
            queue.extend(kept)
        return batches


# ---------------------------------------------------------------------------------------------------------- partitioner
#
# The partition of a record: murmur2 of its key, or a sticky partition without a key. Source: BuiltInPartitioner.java.

_SEED = 0x9747B28C
_M = 0x5BD1E995
_R = 24
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit murmur2 hash as an unsigned number. Source: Utils.murmur2"""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ k >> _R) * _M & _MASK
        h = h * _M & _MASK ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition for a key; partitions without a leader count too."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """The partitioner of records without a key, which changes the partition after each `batch.size` bytes (KIP-794).

    The next partition is drawn at random. Once every partition has a queue, partitions with short queues are more
    likely (adaptive partitioning).
    """

    def __init__(self, sticky_bytes: int, rng: random.Random) -> None:
        self._sticky_bytes = max(1, sticky_bytes)
        self._rng = rng
        self._current: int | None = None
        self._produced_bytes = 0
        self._load: tuple[Sequence[int], Sequence[int]] | None = None

    def current(self, available: Sequence[int], partition_count: int) -> int:
        """Return the partition of the next record; `available` are the partitions with a leader, in order."""
        if self._current is None:
            self._current = self._draw(available, partition_count)
        return self._current

    def produced(
        self, partition: int, size_bytes: int, batches_full: bool, available: Sequence[int], partition_count: int
    ) -> None:
        """Count bytes for the sticky partition, and draw another partition after `batch.size` bytes.

        The partition changes when its batches are full (`batches_full`), or at the latest after twice the bytes.
        """
        if partition != self._current:
            return
        self._produced_bytes += size_bytes
        due = self._produced_bytes >= self._sticky_bytes and batches_full
        if due or self._produced_bytes >= 2 * self._sticky_bytes:
            self._current = self._draw(available, partition_count)
            self._produced_bytes = 0

    def queues(self, lengths: Sequence[tuple[int, int]] | None) -> None:
        """Set the queue lengths for adaptive partitioning: (partition, number of batches), or None if not known yet."""
        if lengths is None or len(lengths) < 2:
            self._load = None
            return
        longest = max(length for _, length in lengths)
        if all(length == longest for _, length in lengths):  # All are equally likely, as in Kafka.
            self._load = None
            return
        weights = accumulate(longest + 1 - length for _, length in lengths)
        self._load = ([partition for partition, _ in lengths], list(weights))

    def _draw(self, available: Sequence[int], partition_count: int) -> int:
        if self._load is not None:
            partitions, cumulative = self._load
            return partitions[bisect.bisect_right(cumulative, self._rng.randrange(cumulative[-1]))]
        if available:
            return available[self._rng.randrange(len(available))]
        return self._rng.randrange(partition_count)
