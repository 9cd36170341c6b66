"""Appends to a coordinator's internal topic, and the reading of its log after an election.

Appends wait for every in-sync replica, as with acks=all. Since 4.0, appends of the group and share coordinators succeed
even with fewer than min.insync.replicas (see ReplicaManager.append_records). The log is read from its start.

In 4.0 and 4.1 the group coordinator appends with a linger (`group.coordinator.append.linger.ms`, 5 ms):

1. The first append to a partition begins a batch, and later ones join it. It is written when the linger is over.
2. An append that has no room in it, or that belongs to a transaction, has it written first. A batch of a transaction is
   written at once.
3. If the broker stops leading the partition, the batch is not written, and its appends fail. If it dies, they are lost.

Source: GroupMetadataManager.scala, TransactionStateManager.scala; CoordinatorRuntime.append, maybeFlushCurrentBatch,
failCurrentBatch (4.1.2)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from cluster.broker.replicas.delayed import ProduceParams, ProduceResults
from cluster.broker.replicas.manager import ReplicaManager
from cluster.clocks import Timer
from cluster.coordinators.core import Append, InTransaction, WriteId
from cluster.node import Outbox
from cluster.protocol.versions import PRODUCE, VERSIONS
from replica.errors import ErrorCode, KafkaError
from replica.ids import ACKS_ALL, UNKNOWN_OFFSET, Offset, TopicPartition
from replica.log.batches.records import (
    BATCH_HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Record,
    build_batch,
    check_crc,
    read_records,
)
from replica.log.log import Log
from replica.log.producers.transaction_index import NOT_ASKED_FOR

LOAD_BYTES_PER_STEP = 64 << 10
"""Maximum number of bytes of a log that are read in one step; the broker does other work between steps."""
AT_ONCE: Final = -1
"""A linger for appends that do not wait for others."""
RECORD_OVERHEAD_BYTES: Final = 32
"""Upper bound of the bytes of a record beside its key and value."""
Take = Callable[[BatchHeader, bytes], None]


@dataclass(slots=True)
class _Lingering:
    """The appends that wait for the end of the linger to become one batch, and the time of the first one."""

    began_us: int
    timer: Timer
    appends: list[Append] = field(default_factory=list)
    size_bytes: int = BATCH_HEADER_BYTES


class TopicLog:
    """The log of an internal topic. `written` has (write, error, offset) of each write that finished in this step."""

    def __init__(
        self, topic: str, *, node: str, outbox: Outbox, replicas: ReplicaManager, linger_ms: int = AT_ONCE
    ) -> None:
        self._linger_us = max(0, linger_ms) * 1000
        self._lingering: dict[int, _Lingering] = {}
        self.written: deque[tuple[WriteId, ErrorCode, Offset]] = deque()
        self._topic = topic
        self._node = node
        self._outbox = outbox
        self._replicas = replicas

    def append(self, wanted: Append, now_us: int) -> None:
        """Append records to a partition of the topic, at once or after the linger.

        `written` gets the append's number when every in-sync replica has the records, or after an error.
        Simplified: these appends occupy no request handler while a slow disk writes.
        """
        if not self._linger_us or wanted.transaction is not None:
            self._write_lingering(wanted.partition, now_us)
            self._write([wanted], now_us, now_us)
            return
        size_bytes = sum(len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES for key, value in wanted.records)
        lingering = self._lingering.get(wanted.partition)
        if lingering is not None and lingering.size_bytes + size_bytes > self._batch_bytes_max(wanted.partition):
            self._write_lingering(wanted.partition, now_us)
            lingering = None
        if lingering is None:
            timer = self._outbox.timers.at(now_us + self._linger_us, partial(self._write_lingering, wanted.partition))
            lingering = self._lingering[wanted.partition] = _Lingering(now_us, timer)
        lingering.appends.append(wanted)
        lingering.size_bytes += size_bytes
        if now_us - lingering.began_us >= self._linger_us:
            self._write_lingering(wanted.partition, now_us)

    def not_led(self, partition: int) -> None:
        """Fail the appends that wait for the end of the linger, because the broker does not lead the partition."""
        lingering = self._lingering.pop(partition, None)
        if lingering is not None:
            lingering.timer.cancel()
            self._finish(lingering.appends, ErrorCode.NOT_LEADER_OR_FOLLOWER, UNKNOWN_OFFSET)

    def _batch_bytes_max(self, partition: int) -> int:
        led = self._replicas.partitions.get(TopicPartition(self._topic, partition))
        return 0 if led is None else led.log.config.max_message_bytes

    def _write_lingering(self, partition: int, now_us: int) -> None:
        lingering = self._lingering.pop(partition, None)
        if lingering is not None:
            lingering.timer.cancel()
            self._write(lingering.appends, lingering.began_us, now_us)

    def _write(self, appends: Sequence[Append], began_us: int, now_us: int) -> None:
        """Write appends as one batch; the timeout of the first one began at `began_us`."""
        first = appends[0]
        name = TopicPartition(self._topic, first.partition)
        part_of = first.transaction or InTransaction(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NOT_ASKED_FOR)
        batch = build_batch(
            [record for append in appends for record in append.records],
            timestamp_ms=[append.timestamp_ms for append in appends for _ in append.records],
            producer_id=part_of.producer_id,
            producer_epoch=part_of.producer_epoch,
            base_sequence=NO_SEQUENCE if first.transaction is None else 0,
            transactional=first.transaction is not None,
        )

        def appended(results: ProduceResults, cause: int | None) -> None:
            self._finish(appends, results[name].error, results[name].base_offset)

        produce = ProduceParams(
            acks=0 if all(append.write is None for append in appends) else ACKS_ALL,
            timeout_us=began_us + first.timeout_ms * 1000 - now_us,
            entries=[(name, memoryview(batch))],
            peer=self._node,
            api_version=VERSIONS[PRODUCE][1],
            respond=appended,
            from_broker=True,
            guard=part_of.guard,
        )
        self._replicas.append_records(produce, now_us)

    def _finish(self, appends: Sequence[Append], error: ErrorCode, offset: Offset) -> None:
        for append in appends:
            if append.write is not None:
                self.written.append((append.write, error, offset))
            offset += len(append.records)

    def load(
        self,
        partition: int,
        take: Take,
        is_wanted: Callable[[], bool],
        done: Callable[[int], None],
        now_us: int,
    ) -> None:
        """Read a partition's log from its start to its end, including uncommitted records.

        Args:
            take: called with each batch.
            is_wanted: returns False to stop, because the broker no longer leads.
            done: called at the end with now_us, unless the reading was stopped.
        """
        led = self._replicas.partitions.get(TopicPartition(self._topic, partition))
        if led is None:
            return
        log = led.log
        size_bytes = log.bytes_available(log.log_start_offset, log.log_end_offset)
        first = partial(self._read_on, log, log.log_start_offset, take, is_wanted, done)
        self._outbox.timers.at(log.disk.speed.read_ends_us(size_bytes, now_us), first)

    def _read_on(
        self,
        log: Log,
        offset: Offset,
        take: Take,
        is_wanted: Callable[[], bool],
        done: Callable[[int], None],
        now_us: int,
    ) -> None:
        if not is_wanted():
            return
        left = LOAD_BYTES_PER_STEP
        for header, batch in log.raw_batches(offset):
            take(header, batch)
            left -= len(batch)
            if left <= 0:
                # By offset rather than position, because the log may be compacted between two steps.
                rest = partial(self._read_on, log, header.last_offset + 1, take, is_wanted, done)
                self._outbox.timers.at(now_us + 1, rest)
                return
        done(now_us)


def readable_records(header: BatchHeader, batch: bytes) -> list[Record] | None:
    """Return the records of a batch, None if it is damaged.

    Differs from Kafka: there loading stops at a damaged batch, and all state of the partition is dropped.
    """
    try:
        return read_records(batch) if check_crc(batch, 0, header) else None
    except KafkaError:
        return None


class LogReplay(Protocol):
    """State that is rebuilt from the records of a log; `unreadable` counts the records in damaged batches."""

    unreadable: int

    def record(self, key: bytes | None, value: bytes | None) -> None: ...


def replay_batch(replay: LogReplay, header: BatchHeader, batch: bytes) -> None:
    """Pass the records of a batch to `replay`, or count them as unreadable if the batch is damaged."""
    records = readable_records(header, batch)
    if records is None:
        replay.unreadable += header.last_offset - header.base_offset + 1
        return
    for record in records:
        replay.record(record.key, record.value)
