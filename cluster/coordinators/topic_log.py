"""The log of the internal topic in which a coordinator keeps what it knows: written like any produce with acks=all,
that of groups from 4.0 on with any ISR, see ReplicaManager.append_records; read from its start when the broker is
elected. source: GroupMetadataManager.scala, TransactionStateManager.scala
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from cluster.broker.replicas.delayed import ProduceParams, ProduceResults
from cluster.broker.replicas.manager import ReplicaManager
from cluster.node import Outbox
from cluster.protocol.versions import PRODUCE, VERSIONS
from replica.errors import ErrorCode, KafkaError
from replica.ids import ACKS_ALL, Offset, TopicPartition
from replica.log.batches.records import BatchHeader, Record, check_crc, read_records
from replica.log.log import Log
from replica.log.producers.transaction_index import NOT_ASKED_FOR

LOAD_BYTES_PER_STEP = 64 << 10
"""A log is read in steps of this size, so that the broker does other things between them."""
WriteId = int
Take = Callable[[BatchHeader, bytes], None]


class TopicLog:
    """written: writes that came to their end since the last step of the broker, each with its error and offset"""

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
        """write: named in `written` once every in-sync replica has it; None: nothing waits (acks=0)
        guard: of a batch that is part of a transaction, see VerificationStates

        Simplified: these appends keep no handler waiting for a slow disk.
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
        """Read the log from its start to its end, as far as it goes, committed or not.

        take: is handed each batch     is_wanted: False once another broker leads
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
                # By its offset, not its place: between the steps the log may be compacted.
                rest = partial(self._read_on, log, header.last_offset + 1, take, is_wanted, done)
                self._outbox.timers.at(now_us + 1, rest)
                return
        done(now_us)


def readable_records(header: BatchHeader, batch: bytes) -> list[Record] | None:
    """None: damaged on the disk. Differs from Kafka: it gives up there, and then knows nothing of the partition."""
    try:
        return read_records(batch) if check_crc(batch, 0, header) else None
    except KafkaError:
        return None
