"""The replica manager of a broker: appends, delayed Produce requests, and background tasks.

Source: ReplicaManager.scala, DelayedProduce.scala
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import cast

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.delayed import DelayedProduce, ProduceParams, ProduceResults
from cluster.broker.replicas.fetches import Fetches
from cluster.broker.replicas.log_life import LogCleaner
from cluster.broker.replicas.partition import Partition, ProducedBatch
from cluster.broker.replicas.replication_quotas import ReplicationQuotas
from cluster.broker.replicas.transaction_checks import TransactionChecks
from cluster.config import BrokerConfig
from cluster.protocol.api_00_produce import ProducePartitionResponse
from replica.errors import ErrorCode, KafkaError
from replica.ids import ACKS_ALL, INTERNAL_TOPICS, OFFSETS_TOPIC, SHARE_STATE_TOPIC, UNKNOWN_OFFSET, TopicPartition
from replica.inputs import ProposeIsr
from replica.log.batches.validation import single_batch
from replica.log.broker_logs import BrokerLogs
from replica.log.producers.transaction_index import NOT_ASKED_FOR
from replica.log.segment import Segment
from replica.purgatory import Purgatory
from replica.rules import NEXT_COORDINATOR_SINCE
from replica.trace.events import ProduceRefused

LOG_TASKS_BEGIN_US = 30_000_000
"""Delay from the start to the first log tasks: LogManager.InitialTaskDelayMs."""


def _always(period_us: int) -> Callable[[], int]:
    return lambda: period_us


ProposeIsrTo = Callable[[Partition, ProposeIsr, int], None]
"""Sends a leader's ISR proposal: (partition, proposal, now_us)."""


NOT_LED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.KAFKA_STORAGE_ERROR)


def _refusal(name: TopicPartition, error: KafkaError, partition: Partition | None) -> ProducePartitionResponse:
    """Return the response's entry of a refused batch, with the invalid records if known (KIP-467).

    It has the log start offset if this broker leads the partition. Source: ReplicaManager.appendRecordsToLeader
    """
    start = UNKNOWN_OFFSET if partition is None or error.code in NOT_LED else partition.log.log_start_offset
    record_errors = cast("Sequence[tuple[int, str]]", error.details.get("record_errors", ()))
    return ProducePartitionResponse(
        name.partition,
        error.code,
        log_start_offset=start,
        error_message=error.message or None,
        record_errors=record_errors,
    )


class ReplicaManager:
    """Manages the partitions of one broker: appends to them, checks ISRs, and writes checkpoints.

    Attributes:
        offline: partitions whose log directory has failed.
        on_low_watermark: called with a partition when a follower's log start offset has moved.
        on_transaction_ended: called with (partition, producer id, committed) when all in-sync replicas have a marker.
    """

    def __init__(
        self,
        base: BrokerBase,
        *,
        logs: BrokerLogs,
        quotas: ReplicationQuotas,
        propose_isr: ProposeIsrTo,
        phase_us: int = 0,
    ) -> None:
        """Create the manager; `phase_us` shifts the times of the periodic tasks."""
        self.partitions: dict[TopicPartition, Partition] = {}
        self.offline: dict[TopicPartition, None] = {}
        self.on_low_watermark: Callable[[TopicPartition], None] = _ignore
        self.on_transaction_ended: Callable[[TopicPartition, int, bool], None] = _ignore_end
        self._node = base.node
        self._running = base.running
        self._rules = base.rules
        self._with_any_isr = (OFFSETS_TOPIC, SHARE_STATE_TOPIC) if base.rules.release >= NEXT_COORDINATOR_SINCE else ()
        self._outbox = base.outbox
        self._logs = logs
        self._recorder = base.recorder
        self._clock = base.clock
        self._cache = base.cache
        self._propose_isr = propose_isr
        self._phase_us = phase_us
        self._checkpoints_high_watermarks = False
        self._produces: Purgatory[DelayedProduce] = Purgatory()
        self._cleaner = LogCleaner(base.rules, base.running, self.partitions, logs, base.clock, self._remove_later)
        self.transaction_checks = TransactionChecks(base.rules, base.running)
        self.fetches = Fetches(base, replicas=self, quotas=quotas)

    @property
    def _config(self) -> BrokerConfig:
        return self._running.current

    def start(self, now_us: int) -> None:
        """Start the periodic tasks. Source: ReplicaManager.startup, LogManager.startup"""
        config = self._config
        self._repeat(_always(config.replica_lag_time_max_ms * 1000 // 2), self._check_lag, now_us)
        recovery_us = _always(config.log_flush_offset_checkpoint_interval_ms * 1000)
        self._repeat(recovery_us, self._checkpoint_logs, now_us, delay_us=LOG_TASKS_BEGIN_US)
        retention_us = _always(config.log_retention_check_interval_ms * 1000)
        self._repeat(retention_us, self._expire_records, now_us, delay_us=LOG_TASKS_BEGIN_US)
        self._repeat(lambda: self._config.log_cleaner_backoff_ms * 1000, self._cleaner.run, now_us)
        expiration_check_us = _always(config.producer_id_expiration_check_interval_ms * 1000)
        self._repeat(expiration_check_us, self._expire_producers, now_us)

    def start_high_watermark_checkpoints(self, now_us: int) -> None:
        """Checkpoint high watermarks now and periodically, unless this was started before.

        Called when the broker gets partitions. Source: ReplicaManager.startHighWatermarkCheckPointThread
        """
        if self._checkpoints_high_watermarks:
            return
        self._checkpoints_high_watermarks = True
        period_us = self._config.replica_high_watermark_checkpoint_interval_ms * 1000
        self._outbox.timers.at(now_us, self._checkpoint_high_watermarks)
        self._repeat(_always(period_us), self._checkpoint_high_watermarks, now_us)

    def _repeat(
        self, period_us: Callable[[], int], task: Callable[[int], None], now_us: int, *, delay_us: int = 0
    ) -> None:
        """Run a task once per period, for the first time within one period.

        Args:
            delay_us: shifts the runs, together with `phase_us`, modulo the period.
        """

        def run(due_us: int) -> None:
            task(due_us)
            self._outbox.timers.at(due_us + period_us(), run)

        first_us = period_us()
        self._outbox.timers.at(now_us + ((delay_us + self._phase_us) % first_us or first_us), run)

    # ---------------------------------------------------------------------------------------------- partition hooks

    def high_watermark_moved(self, partition: Partition, now_us: int) -> None:
        """Complete the Produce requests and the consumers' fetches that waited for this high watermark."""
        self.complete_produces(partition.topic_partition)
        self.fetches.wake(partition.topic_partition, now_us, followers=self._rules.hw_push == "immediate")

    def isr_proposed(self, partition: Partition, proposal: ProposeIsr, now_us: int) -> None:
        self._propose_isr(partition, proposal, now_us)

    def leadership_ended(self, partition: Partition, now_us: int) -> None:
        self.complete_all(partition.topic_partition, now_us)

    def follower_start_moved(self, partition: Partition) -> None:
        self.on_low_watermark(partition.topic_partition)

    def take_offline(self, name: TopicPartition) -> None:
        """Take a partition of a failed log directory offline. Its waiting requests end by timeout, as in Kafka."""
        self.remove(name)
        self.offline[name] = None

    def remove(self, name: TopicPartition) -> None:
        if name in self.partitions:
            self.partitions[name].end_rests()
            del self.partitions[name]

    def hosted(self, name: TopicPartition) -> Partition:
        """Return the replica of a partition. Source: ReplicaManager.getPartitionOrException

        Raises:
            KafkaError: if this broker has no replica of the partition.
        """
        partition = self.partitions.get(name)
        if partition is None:
            raise KafkaError(self.missing_partition_error(name))
        return partition

    def missing_partition_error(self, name: TopicPartition) -> ErrorCode:
        """Return the error of a partition that this broker does not host. Source: ReplicaManager.getPartitionOrError"""
        return ErrorCode.KAFKA_STORAGE_ERROR if name in self.offline else self._cache.missing_partition_error(name)

    def complete_all(self, name: TopicPartition, now_us: int) -> None:
        """Complete all waiting requests of a partition that this broker no longer leads or hosts.

        Source: completeDelayedOperationsWhenNotPartitionLeader
        """
        self.complete_produces(name)
        self.fetches.wake(name, now_us, followers=True)

    # ------------------------------------------------------------------------------------------------------ produce

    def append_records(self, produce: ProduceParams, now_us: int) -> None:
        """Append each batch and respond. With acks=all, wait for the in-sync replicas or the timeout first.

        From 4.0 on, records of the group and share coordinators are appended even with fewer than min.insync.replicas.

        Source: KafkaApis.handleProduceRequest, ReplicaManager.handleProduceAppend, appendRecords;
        CoordinatorPartitionWriter.append (acks=1), CoordinatorRuntime.HighWatermarkListener
        """
        if produce.transactional_id is None:
            guards = {} if produce.guard == NOT_ASKED_FOR else {name: produce.guard for name, _ in produce.entries}
            self._append(produce, guards, {}, now_us)
        else:
            append = partial(self._append, produce)
            checks = self.transaction_checks
            checks.begin(produce.transactional_id, produce.entries, self._led, produce.api_version, append, now_us)

    def _led(self, name: TopicPartition) -> Partition:
        """Return the partition `name`, which this broker must lead.

        Raises:
            KafkaError: if it does not.

        Source: ReplicaManager.maybeStartTransactionVerificationForPartition
        """
        partition = self.partitions.get(name)
        if partition is None:
            raise KafkaError(self.missing_partition_error(name))
        if partition.leader is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def _append(
        self,
        produce: ProduceParams,
        guards: Mapping[TopicPartition, int],
        errors: Mapping[TopicPartition, ErrorCode],
        now_us: int,
    ) -> None:
        """Append batches after the verification of their transactions.

        Args:
            guards: guard of each verified partition, see VerificationStates.
            errors: errors from the coordinator or an earlier check; NONE or missing if there is none.
        """
        required_acks, from_broker = produce.acks, produce.from_broker
        default_guard = NOT_ASKED_FOR if from_broker else self.transaction_checks.guard
        results: ProduceResults = {}
        appended: dict[TopicPartition, ProducedBatch] = {}
        cause: int | None = None
        for (name, records), inside in zip_longest(produce.entries, produce.inspected):
            try:
                partition, batch = self._admit(name, records, required_acks, produce.api_version)
                if name.topic in INTERNAL_TOPICS and not from_broker:
                    raise KafkaError(
                        ErrorCode.INVALID_TOPIC_EXCEPTION, f"clients cannot append to the internal topic {name.topic}"
                    )
                error_before = errors.get(name, ErrorCode.NONE)
                if error_before is not ErrorCode.NONE:
                    is_own = error_before in NOT_LED
                    said_it = "the transaction could not be verified"
                    message = f"{self._node} does not lead {name}" if is_own else said_it
                    raise KafkaError(error_before, message)
                produced = partition.append_as_leader(
                    batch,
                    1 if name.topic in self._with_any_isr else required_acks,
                    now_us,
                    inside,
                    from_client=not from_broker,
                    guard=guards.get(name, default_guard),
                    transaction_version=produce.transaction_version,
                )
            except KafkaError as error:
                cause = self._refuse_produce(name, produce.peer, error)
                results[name] = _refusal(name, error, self.partitions.get(name))
                continue
            appended[name] = produced
            cause = produced.cause
            results[name] = ProducePartitionResponse(
                name.partition,
                ErrorCode.NONE,
                produced.base_offset,
                produced.log_append_time_ms,
                partition.log.log_start_offset,
            )
        if required_acks == ACKS_ALL and appended:
            self._await_replicas(appended, results, produce, now_us)
        else:
            produce.respond(results, cause)
        # Like Kafka's ActionQueue, requests waiting for the new records are woken after this one is answered or waits.
        for name, produced in appended.items():
            if produced.high_watermark_advanced:
                self.complete_produces(name)
            self.fetches.wake(name, now_us, followers=True)

    def _admit(
        self, name: TopicPartition, records: memoryview | None, required_acks: int, api_version: int
    ) -> tuple[Partition, memoryview]:
        """Make the checks before an append in Kafka's order, and return (partition, batch).

        Raises:
            KafkaError: if the batch is refused.
        """
        partition = self.partitions.get(name)
        missing = self.missing_partition_error(name) if partition is None else ErrorCode.NONE
        if missing is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(missing)
        batch = single_batch(records, api_version)
        if required_acks not in (ACKS_ALL, 0, 1):
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be 0, 1 or -1, not {required_acks}")
        if partition is None:
            raise KafkaError(missing)
        return partition, batch

    def _await_replicas(
        self,
        appended: dict[TopicPartition, ProducedBatch],
        results: ProduceResults,
        produce: ProduceParams,
        now_us: int,
    ) -> None:
        """Wait for the replicas, then respond. A duplicate waits too, since the original may not be committed yet."""
        required = {name: produced.last_offset + 1 for name, produced in appended.items()}
        delayed = DelayedProduce(required, results, produce.respond)
        if not self._try_complete(delayed):
            self._produces.watch(delayed, list(required))
            delayed.timer = self._outbox.timers.at(now_us + produce.timeout_us, lambda now_us: self._expire(delayed))

    def _refuse_produce(self, topic_partition: TopicPartition, peer: str, error: KafkaError) -> int:
        return self._recorder.emit(
            ProduceRefused(self._node, *topic_partition, peer=peer, error=error.code.name, message=error.message)
        )

    def complete_produces(self, topic_partition: TopicPartition) -> None:
        for delayed in self._produces.operations(topic_partition):
            if self._try_complete(delayed):
                self._produces.remove(delayed)

    def _try_complete(self, delayed: DelayedProduce) -> bool:
        """Answer a Produce request if no partition has to wait, and return True. Source: DelayedProduce.tryComplete"""
        for name, required_offset in list(delayed.required_offsets.items()):
            partition = self.partitions.get(name)
            status: ErrorCode | None
            if partition is None:
                status = self.missing_partition_error(name)
            elif partition.leader is None:
                status = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                status = partition.leader.produce_status(required_offset)
                if status is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND and name.topic in self._with_any_isr:
                    status = ErrorCode.NONE
            if status is None:
                continue
            del delayed.required_offsets[name]
            if status is not ErrorCode.NONE:
                delayed.fail(name, status)
        if delayed.required_offsets:
            return False
        self._finish_produce(delayed)
        return True

    def _expire(self, delayed: DelayedProduce) -> None:
        """Answer REQUEST_TIMED_OUT. The records stay in the log and may be committed later.

        Source: DelayedProduce.onExpiration
        """
        self._produces.remove(delayed)
        for name in delayed.required_offsets:
            delayed.fail(name, ErrorCode.REQUEST_TIMED_OUT)
        self._finish_produce(delayed)

    def _finish_produce(self, delayed: DelayedProduce) -> None:
        if delayed.timer is not None:
            delayed.timer.cancel()
        delayed.respond(delayed.results, None)

    # -------------------------------------------------------------------------------------------------------- tasks

    def _check_lag(self, now_us: int) -> None:
        for partition in self.partitions.values():
            partition.check_lag(now_us)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Return the high watermarks of all logs; that of the checkpoint for a log without a partition."""
        loaded = {name: self._logs.high_watermark_checkpoint(name) for name in self._logs.logs}
        return loaded | {name: partition.high_watermark for name, partition in self.partitions.items()}

    def _checkpoint_high_watermarks(self, now_us: int) -> None:
        self._logs.checkpoint_high_watermarks(self.high_watermarks())

    def _expire_records(self, now_us: int) -> None:
        """Apply retention to all logs except compacted ones (see LogCleaner). Source: LogManager.cleanupLogs"""
        for partition in self.partitions.values():
            if not partition.log.config.is_compacted:
                self._remove_later(partition, partition.expire_records(now_us), now_us)

    def _remove_later(self, partition: Partition, segments: Sequence[Segment], now_us: int) -> None:
        """Remove the files of segments after file.delete.delay.ms. Source: LocalLog.deleteSegmentFiles"""
        for segment in segments:
            due_us = now_us + partition.log.config.file_delete_delay_ms * 1000
            self._outbox.timers.at(due_us, _remover(segment))

    def _expire_producers(self, now_us: int) -> None:
        self._logs.remove_expired_producers(self._clock.at(now_us))

    def _checkpoint_logs(self, now_us: int) -> None:
        self._logs.checkpoint_recovery_points()
        self._logs.checkpoint_log_start_offsets()


def _remover(segment: Segment) -> Callable[[int], None]:
    return lambda now_us: segment.remove()


def _ignore(name: TopicPartition) -> None:
    """Do nothing: the default of `on_low_watermark`, without DeleteRecords requests."""


def _ignore_end(name: TopicPartition, producer_id: int, committed: bool) -> None:
    """Do nothing: the default of `on_transaction_ended`, without a group coordinator."""
