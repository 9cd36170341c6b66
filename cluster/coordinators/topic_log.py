"""Appends to a coordinator's internal topic, and the reading of its log after an election.

Appends wait for every in-sync replica, as with acks=all. Since 4.0, appends of the group and share coordinators succeed
even with fewer than min.insync.replicas (see ReplicaManager.append_records). The log is read from its start.

Source: GroupMetadataManager.scala, TransactionStateManager.scala
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from cluster.broker.replicas.delayed import ProduceParams, ProduceResults
from cluster.broker.replicas.manager import ReplicaManager
from cluster.coordinators.core import WriteId
from cluster.node import Outbox
from cluster.protocol.versions import PRODUCE, VERSIONS
from replica.errors import ErrorCode, KafkaError
from replica.ids import ACKS_ALL, Offset, TopicPartition
from replica.log.batches.records import BatchHeader, Record, check_crc, read_records
from replica.log.log import Log
from replica.log.producers.transaction_index import NOT_ASKED_FOR

LOAD_BYTES_PER_STEP = 64 << 10
"""Maximum number of bytes of a log that are read in one step; the broker does other work between steps."""
Take = Callable[[BatchHeader, bytes], None]


class TopicLog:
    """The log of an internal topic. `written` has (write, error, offset) of each write that finished in this step."""

    def __init__(self, topic: str, *, node: str, outbox: Outbox, replicas: ReplicaManager) -> None:
        self.written: deque[tuple[WriteId, ErrorCode, Offset]] = deque()
        self._topic = topic
        self._node = node
        self._outbox = outbox
        self._replicas = replicas

    def append(
        self,
        partition: int,
        batch: bytearray,
        write: WriteId | None,
        timeout_us: int,
        now_us: int,
        guard: int = NOT_ASKED_FOR,
    ) -> None:
        """Append a batch to a partition of the topic.

        Simplified: these appends occupy no request handler while a slow disk writes.

        Args:
            write: number to add to `written` when every in-sync replica has the batch, or after an error; None for
                acks=0, without a report.
            guard: guard of the transaction's verification, see VerificationStates.
        """
        name = TopicPartition(self._topic, partition)

        def appended(results: ProduceResults, cause: int | None) -> None:
            if write is not None:
                result = results[name]
                self.written.append((write, result.error, result.base_offset))

        produce = ProduceParams(
            acks=0 if write is None else ACKS_ALL,
            timeout_us=timeout_us,
            entries=[(name, memoryview(batch))],
            peer=self._node,
            api_version=VERSIONS[PRODUCE][1],
            respond=appended,
            from_broker=True,
            guard=guard,
        )
        self._replicas.append_records(produce, now_us)

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
