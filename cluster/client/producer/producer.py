"""The producer, without I/O; it behaves like the Java client 3.9.

The application calls `send`. Records wait in the accumulator until the sender drains them into requests. Nothing
blocks: where Java's `send` would block its thread (no metadata yet, no memory), the record waits in a queue and fails
after max.block.ms.

Source: KafkaProducer.java, RecordAccumulator.java, Sender.java
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from cluster.client.connection_states import Failure
from cluster.client.connections import ClientConnections
from cluster.client.events import ClientEvents
from cluster.client.interceptors import NO_TIME
from cluster.client.metadata_cache import ClientMetadata
from cluster.client.node import ClientBase, ClientNode, ExponentialBackoff
from cluster.client.producer.accumulator import BufferPool, RecordAccumulator, StickyPartitioner, partition_for_key
from cluster.client.producer.batch import PendingRecord, ProducerRecord, record_bytes_upper_bound
from cluster.client.producer.config import producer_config_from
from cluster.client.producer.idempotence import NO_GROUP, GroupMetadata, IdempotenceState, ProducerState
from cluster.client.producer.sender import Sender
from cluster.clocks import Timer, WallClock
from cluster.config import ProducerConfig
from cluster.node import Action
from replica.causes import FailureCause
from replica.config import NEVER
from replica.errors import SERIALIZATION, ErrorCode, NotConvertible
from replica.ids import TopicPartition
from replica.rules import Rules
from replica.trace.columns import ClientFailure
from replica.trace.events import RecordSent

if TYPE_CHECKING:
    from cluster.client.producer.pipeline import ProducerPipeline
    from cluster.client.producer.transactions import TransactionManager

__all__ = ["ProducerCore", "ProducerRecord", "producer_config_from"]

UNKNOWN_PARTITION = -1
"""The partition in the event of a send call if the producer does not know the topic's partitions yet."""


@dataclass(slots=True)
class WaitingSend:
    """A call of `send` or `send_batch` that is not done yet; in Java it would block its thread.

    Attributes:
        partition: None until it is chosen.
        own_batch: True if no other record may be in the batch.
        whole: True for `send_batch`, whose records form one batch.
    """

    records: list[PendingRecord]
    partition: int | None
    own_batch: bool
    whole: bool
    deadline_us: int
    waits_for_memory: bool = False
    is_intercepted: bool = False
    is_serialized: bool = False
    busy_until_us: int = 0
    """The time until which the application's thread is busy with interceptors or serializers."""


class TransactionCall(Enum):
    """The calls of an application to a transactional producer; in Java each blocks its thread until it is done."""

    BEGIN = auto()
    SEND_OFFSETS = auto()
    COMMIT = auto()
    ABORT = auto()


@dataclass(slots=True)
class WaitingCall:
    """A transactional call that waits for earlier calls or is in progress.

    Attributes:
        begun: True if the call is in progress.
        offsets, group: arguments of SEND_OFFSETS.
    """

    call: TransactionCall
    begun: bool = False
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    group: GroupMetadata = NO_GROUP


class ProducerCore(ClientNode):
    """One producer.

    It implements cluster.node.NodeCore. The application calls `send`, `send_batch`, `transaction`, `send_offsets`,
    `flush` and `close`.
    """

    def __init__(
        self,
        base: ClientBase,
        config: ProducerConfig,
        topic: str,
        rules: Rules,
        *,
        clock: WallClock | None = None,
    ) -> None:
        """Create a producer.

        Args:
            config: configuration from `producer_config_from`.
            topic: topic whose metadata is requested from the start.
            rules: rules of the client's Kafka release.
            clock: wall clock of the machine, for the timestamps of records.
        """
        rng, cpu = base.rng, base.cpu
        self._clock = clock or WallClock()
        self._config = config
        self._rng = rng
        self._outbox = base.outbox
        self._wake: Timer | None = None
        self._metadata = ClientMetadata(
            base.bootstrap,
            max_age_ms=config.metadata_max_age_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            rng=rng,
        )
        self._metadata.add_topic(topic)
        self._connections = ClientConnections(
            base, config, self._metadata, max_in_flight=config.max_in_flight_requests_per_connection
        )
        is_transactional = bool(config.transactional_id)
        idempotence = IdempotenceState(transactional=is_transactional) if config.enable_idempotence else None
        backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
        self._pool = BufferPool(config.buffer_memory)
        self._events = ClientEvents(base.name, base.recorder)
        self._pipeline: ProducerPipeline | None = None
        if cpu != NO_TIME or not config.takes_records_as_they_are:
            from cluster.client.producer.pipeline import pipeline_of

            self._pipeline = pipeline_of(config, cpu, self._events)
        self._transactions: TransactionManager | None = None
        if is_transactional and idempotence is not None:
            from cluster.client.producer.transactions import TransactionManager

            self._transactions = TransactionManager(config, self._connections, self._events, idempotence)
        self._accumulator = RecordAccumulator(
            config, self._metadata, self._pool, backoff, idempotence, self._transactions
        )
        self._sender = Sender(
            config,
            self._accumulator,
            self._connections,
            self._events,
            idempotence,
            rules,
            self._transactions,
            self._pipeline,
        )
        self._sticky: dict[str, StickyPartitioner] = {}
        self._waiting: deque[WaitingSend | WaitingCall] = deque()
        self._closing = self._is_forced = False
        self._running = False

    # ------------------------------------------------------------------------------------------------- application

    def send(self, record: ProducerRecord, now_us: int, own_batch: bool = True) -> list[Action]:
        """Send one record.

        Args:
            own_batch: True for a batch with only this record, as with batch.size=0; False for batches by batch.size
                and linger.ms.
        """
        return self._submit([record], now_us, own_batch=own_batch, whole=False)

    def send_batch(self, records: Sequence[ProducerRecord], now_us: int) -> list[Action]:
        """Send records together in one batch, to the partition of the first record."""
        return self._submit(records, now_us, own_batch=True, whole=True)

    def transaction(self, call: TransactionCall, now_us: int) -> list[Action]:
        """Begin or end a transaction after all earlier calls are done.

        If a commit is no longer possible, the transaction is aborted, as applications do in this case.
        """
        assert self._transactions is not None, "transactional.id is not set"
        self._events.begin_step(from_outside=False)
        self._waiting.append(WaitingCall(call))
        return self._run(now_us)

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata, now_us: int) -> list[Action]:
        """Commit a group's offsets with the transaction (sendOffsetsToTransaction)."""
        self._events.begin_step(from_outside=False)
        self._waiting.append(WaitingCall(TransactionCall.SEND_OFFSETS, offsets=offsets, group=group))
        return self._run(now_us)

    @property
    def has_committed(self) -> bool:
        """True if the last ended transaction was committed."""
        return self._transactions is not None and self._transactions.has_committed

    @property
    def refused(self) -> str:
        """The reason why the producer can only be closed; empty if it can continue."""
        transactions = self._transactions
        if transactions is None or transactions.state is not ProducerState.FATAL_ERROR:
            return ""
        return ClientFailure(error=transactions.error.name, **transactions.failure._asdict()).sentence()

    @property
    def failed_records(self) -> int:
        """The number of records whose failure was reported to the application since the start."""
        return self._sender.failed_records

    def flush(self, now_us: int) -> list[Action]:
        """Send all queued batches without waiting for linger.ms, until none is left."""
        self._events.begin_step(from_outside=False)
        self._accumulator.flushing = True
        return self._run(now_us)

    def close(self, now_us: int, timeout_ms: int = NEVER) -> list[Action]:
        """Take no new records, send the queued ones, abort an open transaction and exit.

        After `timeout_ms`, fail the records that are left and exit.
        Source: KafkaProducer.close, Sender.run
        """
        self._events.begin_step(from_outside=False)
        self._accumulator.closed = True
        self._closing = True
        if timeout_ms != NEVER:
            self._outbox.timers.at(now_us + timeout_ms * 1000, self._close_now)
        return self._run(now_us)

    @property
    def has_unfinished(self) -> bool:
        """True if a call or a record has not ended: records end acknowledged or failed."""
        return bool(self._waiting) or self._accumulator.has_undrained or self._sender.has_in_flight

    # --------------------------------------------------------------------------------------------------- the loop

    def _run(self, now_us: int) -> list[Action]:
        """Do the work of Java's application and sender threads until both would wait; return the actions.

        As in Java, metadata and a producer id are requested before the first send call.
        """
        if not self._running:
            return self._outbox.take()
        busy = True
        while busy:
            busy = self._serve_waiting(now_us)
            busy |= self._sender.run_once(now_us)
            busy |= self._connections.poll(now_us)  # Last, because the sender may have requested new metadata.
            busy |= self._aborts_to_close()
        if not self._accumulator.has_undrained:
            self._accumulator.flushing = False
        if self._closing and not self._has_to_finish:
            self._running = False
            self._connections.close()
            self._outbox.exit()
            return self._outbox.take()
        self._arm(now_us)
        return self._outbox.take()

    @property
    def _has_to_finish(self) -> bool:
        """True if the producer cannot exit yet; after the timeout only unfinished records keep it."""
        if self.has_unfinished:
            return True
        is_open = self._transactions is not None and self._transactions.is_ongoing
        return not self._is_forced and (is_open or self._connections.has_in_flight)

    def _aborts_to_close(self) -> bool:
        """Abort an open transaction on close, and return True if there was one. Source: Sender.run"""
        transactions = self._transactions
        if not self._closing or self._is_forced or transactions is None or self.has_unfinished:
            return False
        if not transactions.is_ongoing or transactions.is_ending:
            return False
        transactions.end(commit=False)
        return True

    def _arm(self, now_us: int) -> None:
        wanted = [self._sender.next_deadline_us]
        metadata_us = self._connections.next_poll_us(now_us)
        if metadata_us is not None:
            wanted.append(metadata_us)
        if self._waiting and isinstance(self._waiting[0], WaitingSend):
            first = self._waiting[0]
            wanted.append(first.busy_until_us if now_us < first.busy_until_us else first.deadline_us)
        if self._wake is not None:
            self._wake.cancel()
        at_us = min(wanted)
        self._wake = None if at_us >= NEVER else self._outbox.timers.at(at_us, lambda _: None)

    def _close_now(self, now_us: int) -> None:
        closed = Failure(FailureCause.CLOSED)
        for waiting in self._waiting:
            if isinstance(waiting, WaitingSend):
                self._fail(waiting, ErrorCode.UNKNOWN_SERVER_ERROR, closed, now_us)
        self._waiting.clear()
        self._sender.abort(closed, now_us)
        self._is_forced = True

    # ------------------------------------------------------------------------------------------------------ sending

    def _submit(self, records: Sequence[ProducerRecord], now_us: int, *, own_batch: bool, whole: bool) -> list[Action]:
        assert not self._closing, "the producer is closed and accepts no records"
        self._events.begin_step(from_outside=False)
        first = records[0]
        partition = self._partition_of(first) if self._pipeline is None else first.partition
        tp = TopicPartition(first.topic, UNKNOWN_PARTITION if partition is None else partition)
        ahead_us = self._clock.offset_us
        pending = []
        for record in records:
            sent = RecordSent(self._events.client, *tp, record=record.name, acks=self._config.required_acks)
            pending.append(PendingRecord(record, now_us, self._events.emit(sent), ahead_us))
        self._metadata.add_topic(first.topic)
        deadline_us = now_us + self._config.max_block_ms * 1000
        self._waiting.append(WaitingSend(pending, partition, own_batch, whole, deadline_us))
        return self._run(now_us)

    def _serve_waiting(self, now_us: int) -> bool:
        """Finish waiting calls in their order, as with one application thread; return True if one is done."""
        served = False
        while self._waiting:
            first = self._waiting[0]
            is_served = self._serve(first, now_us) if isinstance(first, WaitingSend) else self._serve_call(first)
            if not is_served:
                break
            self._waiting.popleft()
            served = True
        self._pool.waiting = self._waiting_for_memory() if self._waiting else 0
        return served

    def _waiting_for_memory(self) -> int:
        return sum(1 for item in self._waiting if isinstance(item, WaitingSend) and item.waits_for_memory)

    def _serve_call(self, waiting: WaitingCall) -> bool:
        """Advance a transactional call, and return True if it is done."""
        transactions = self._transactions
        assert transactions is not None
        if transactions.state is ProducerState.FATAL_ERROR:
            return True  # Java throws; the application can only close the producer.
        if waiting.call is TransactionCall.BEGIN:
            if transactions.state is not ProducerState.READY:
                return False
            transactions.begin()
            return True
        if waiting.call is TransactionCall.SEND_OFFSETS:
            if not waiting.begun and not transactions.has_failed:
                transactions.send_offsets(waiting.offsets, waiting.group)
                waiting.begun = True
            return not transactions.sends_offsets
        if transactions.state is ProducerState.ABORTABLE_ERROR:
            transactions.end(commit=False)
            waiting.begun = True
        elif not waiting.begun:
            transactions.end(commit=waiting.call is TransactionCall.COMMIT)
            waiting.begun = True
        return transactions.state in (ProducerState.READY, ProducerState.INITIALIZING)

    def _serve(self, waiting: WaitingSend, now_us: int) -> bool:
        """Queue the records of a call in batches, or fail them; return False while the call has to wait."""
        if self._pipeline is not None:
            if not self._run_pipeline(self._pipeline, waiting, now_us):
                return False
            if not waiting.records:
                return True
        if self._transactions is not None and self._transactions.has_failed:
            self._fail(waiting, self._transactions.error, self._transactions.failure, now_us)
            return True
        first = waiting.records[0].record
        if waiting.partition is None:
            waiting.partition = self._partition_of(first)
        tp = TopicPartition(first.topic, UNKNOWN_PARTITION if waiting.partition is None else waiting.partition)
        if self._metadata.is_known(tp):
            sizes_bytes = [record_bytes_upper_bound(pending.record) for pending in waiting.records]
            if self._is_too_large(waiting, max(sizes_bytes), now_us) or self._append(
                tp, waiting, sum(sizes_bytes), now_us
            ):
                return True
            waiting.waits_for_memory = True
        if now_us < waiting.deadline_us:
            return False
        self._fail(waiting, ErrorCode.REQUEST_TIMED_OUT, self._why_blocked(waiting), now_us)
        return True

    def _run_pipeline(self, pipeline: ProducerPipeline, waiting: WaitingSend, now_us: int) -> bool:
        """Call the interceptors and, once metadata is known, the serializers for a call's records.

        Return False while the application's thread is busy with them; later calls wait too. A record that a serializer
        refuses is dropped from the call.
        """
        if not waiting.is_intercepted:
            waiting.is_intercepted = True
            waiting.records = [pipeline.on_send(pending) for pending in waiting.records]
            waiting.busy_until_us = now_us + pipeline.intercept_us * len(waiting.records)
            waiting.deadline_us = waiting.busy_until_us + self._config.max_block_ms * 1000
        if now_us >= waiting.busy_until_us and not waiting.is_serialized and self._has_metadata_for(waiting):
            waiting.is_serialized = True
            took_us = pipeline.serialize_us * len(waiting.records)
            waiting.busy_until_us = now_us + took_us
            waiting.deadline_us += took_us
            self._serialize(pipeline, waiting, now_us)
        return now_us >= waiting.busy_until_us

    def _has_metadata_for(self, waiting: WaitingSend) -> bool:
        """Return True if the metadata has the call's topic and, if it is set, its partition.

        Source: KafkaProducer.waitOnMetadata
        """
        topic = waiting.records[0].record.topic
        if waiting.partition is None:
            return bool(self._metadata.partitions(topic))
        return self._metadata.is_known(TopicPartition(topic, waiting.partition))

    def _serialize(self, pipeline: ProducerPipeline, waiting: WaitingSend, now_us: int) -> None:
        """Serialize a call's records, and fail those that a serializer refuses; an open transaction stays open."""
        kept: list[PendingRecord] = []
        for pending in waiting.records:
            try:
                kept.append(pipeline.serialize(pending))
            except NotConvertible as why:
                failure = Failure(FailureCause.NOT_SERIALIZED, message=str(why))
                self._report_failed(waiting, pending, SERIALIZATION, failure, now_us)
        waiting.records = kept

    def _append(self, tp: TopicPartition, waiting: WaitingSend, needed_bytes: int, now_us: int) -> bool:
        if waiting.whole:
            appended = self._accumulator.append_batch(tp, waiting.records, needed_bytes, now_us)
        else:
            (pending,) = waiting.records
            appended = self._accumulator.append(tp, pending, needed_bytes, now_us, own_batch=waiting.own_batch)
        if appended and self._transactions is not None:
            self._transactions.sends_to(tp)
        if appended:
            self._count_for_sticky(tp, waiting.records[0].record, needed_bytes)
        return appended

    def _is_too_large(self, waiting: WaitingSend, size_bytes: int, now_us: int) -> bool:
        """Fail all records of a call and return True if the largest one is too large.

        Args:
            size_bytes: upper bound of the size of the call's largest record.

        Source: KafkaProducer.ensureValidRecordSize
        """
        limit_bytes = min(self._config.max_request_size, self._config.buffer_memory)
        if size_bytes <= limit_bytes:
            return False
        failure = Failure(FailureCause.TOO_LARGE, size_bytes=size_bytes, limit_bytes=limit_bytes)
        self._fail(waiting, ErrorCode.MESSAGE_TOO_LARGE, failure, now_us)
        return True

    def _why_blocked(self, waiting: WaitingSend) -> Failure:
        block_ms = self._config.max_block_ms
        if waiting.waits_for_memory:
            return Failure(FailureCause.NO_MEMORY, timeout_ms=block_ms, limit_bytes=self._config.buffer_memory)
        return Failure(FailureCause.NO_METADATA, timeout_ms=block_ms)

    def _fail(self, waiting: WaitingSend, error: ErrorCode, failure: Failure, now_us: int) -> None:
        for pending in waiting.records:
            self._report_failed(waiting, pending, error.name, failure, now_us)

    def _report_failed(
        self, waiting: WaitingSend, pending: PendingRecord, error: str, failure: Failure, now_us: int
    ) -> None:
        """Report the failure of a record that was never sent. Source: ProducerInterceptors.onSendError"""
        partition = UNKNOWN_PARTITION if waiting.partition is None else waiting.partition
        tp = TopicPartition(pending.record.topic, partition)
        self._sender.record_failed(tp, pending, error, True, failure, now_us)

    # ------------------------------------------------------------------------------------------------- partitioning

    def _partition_of(self, record: ProducerRecord) -> int | None:
        """Return the partition of a record: the explicit one, else that of its key, else the sticky one.

        Return None while the topic is unknown and the record has no explicit partition.
        """
        if record.partition is not None:
            return record.partition
        count = len(self._metadata.partitions(record.topic))
        if count == 0:
            return None
        if record.key is not None:
            return partition_for_key(record.key, count)
        sticky = self._sticky_of(record.topic)
        sticky.queues(self._accumulator.queue_lengths(record.topic))
        return sticky.current(self._metadata.available(record.topic), count)

    def _sticky_of(self, topic: str) -> StickyPartitioner:
        known = self._sticky.get(topic)
        if known is None:
            known = self._sticky[topic] = StickyPartitioner(self._config.batch_size, self._rng)
        return known

    def _count_for_sticky(self, tp: TopicPartition, first: ProducerRecord, size_bytes: int) -> None:
        if first.partition is not None or first.key is not None:
            return
        self._sticky_of(tp.topic).produced(
            tp.partition,
            size_bytes,
            self._accumulator.all_batches_full(tp),
            self._metadata.available(tp.topic),
            len(self._metadata.partitions(tp.topic)),
        )
