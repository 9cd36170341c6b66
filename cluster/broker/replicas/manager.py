"""All partitions of one broker: appends, fetches, waiting requests, and background tasks.

source: ReplicaManager.scala, DelayedProduce.scala, DelayedFetch.scala
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Protocol, cast

from cluster.broker.replicas.delayed import DelayedFetch, DelayedProduce, FetchParams, FetchResults, ProduceResults
from cluster.broker.replicas.fetch_sessions import RequestedPartition
from cluster.broker.replicas.partition import Partition, ProducedBatch
from cluster.broker.replicas.replication_quotas import ReplicationQuotas
from cluster.broker.replicas.resting import RestingPartitions
from cluster.config import BrokerConfig
from cluster.node import ConnectionId
from cluster.outbox import Outbox
from cluster.protocol.api_00_produce import ProducePartitionResponse
from cluster.protocol.api_01_fetch import FetchPartition, FetchPartitionResponse, size_of
from cluster.wall_clock import WallClock
from controller.image import BrokerRegistration
from replica.errors import ErrorCode, KafkaError
from replica.ids import ACKS_ALL, OFFSETS_TOPIC, BrokerId, TopicPartition
from replica.leader_inputs import ProposeIsr
from replica.log.broker_logs import BrokerLogs
from replica.log.file_slice import EMPTY_SLICE
from replica.log.records import read_header
from replica.log.validation import Inspected, is_transactional, single_batch
from replica.purgatory import Purgatory
from replica.rules import Rules
from replica.trace.events import FetchRefused, ProduceRefused, Recorder

PRODUCER_EXPIRATION_CHECK_US = 600_000_000
"""producer.id.expiration.check.interval.ms"""
CHECKPOINTS_BEGIN_US = 30_000_000
"""LogManager.InitialTaskDelayMs"""
EXPECTED_FETCH_ERRORS = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


def size_bytes(result: FetchPartitionResponse) -> int:
    """Bytes of records in one partition's answer."""
    return size_of(result.slice)


ProposeIsrTo = Callable[[Partition, ProposeIsr, int], None]
"""Where a leader's proposals go: (partition, proposal, now_us)"""


def _check_transaction(batch: memoryview) -> None:
    """There are no transactions here, so no coordinator that could say that a producer is in one.

    Simplified: in all eras, as in Kafka since 3.6 (KIP-890) where no transactional producer has ever asked for one.
    raises: KafkaError NOT_ENOUGH_REPLICAS, CORRUPT_MESSAGE       source: ReplicaManager.handleProduceAppend
    """
    if is_transactional(batch) and read_header(batch).has_producer_id:
        message = "Unable to verify the partition has been added to the transaction: there is no coordinator"
        raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, message)


def _refusal(name: TopicPartition, error: KafkaError) -> ProducePartitionResponse:
    """record_errors: which records are to blame, where that is known (KIP-467)"""
    record_errors = cast("Sequence[tuple[int, str]]", error.events.get("record_errors", ()))
    return ProducePartitionResponse(
        name.partition, error.code, error_message=error.message or None, record_errors=record_errors
    )


class Lookup(Protocol):
    """Why a partition is not here, and who a broker is: what the metadata says."""

    def missing_partition_error(self, topic_partition: TopicPartition) -> ErrorCode: ...

    def registration(self, broker_id: BrokerId) -> BrokerRegistration | None: ...


class ReplicaManager:
    """Partitions by name, in order of arrival; purgatories; the ISR expiration and high watermark checkpoint tasks.

    offline: partitions whose log directory has failed
    on_low_watermark: called for partitions whose followers have deleted records
    """

    def __init__(
        self,
        *,
        node: str,
        config: BrokerConfig,
        rules: Rules,
        outbox: Outbox,
        logs: BrokerLogs,
        recorder: Recorder,
        clock: WallClock,
        lookup: Lookup,
        quotas: ReplicationQuotas,
        propose_isr: ProposeIsrTo,
        phase_us: int = 0,
    ) -> None:
        """phase_us: how much later than at its start its periodic checks began: where in their period they fall"""
        self.partitions: dict[TopicPartition, Partition] = {}
        self.offline: dict[TopicPartition, None] = {}
        self.on_low_watermark: Callable[[TopicPartition], None] = _ignore
        self._node = node
        self._config = config
        self._rules = rules
        self._outbox = outbox
        self._logs = logs
        self._recorder = recorder
        self._clock = clock
        self._lookup = lookup
        self._quotas = quotas
        self._propose_isr = propose_isr
        self._phase_us = phase_us
        self._checkpoints_high_watermarks = False
        self._produces: Purgatory[DelayedProduce] = Purgatory()
        self._fetches: Purgatory[DelayedFetch] = Purgatory()
        self._fetch_of: dict[ConnectionId, DelayedFetch] = {}
        """Consumers' fetches that wait: one per connection, for it has one request at a time."""

    def start(self, now_us: int) -> None:
        """source: ReplicaManager.startup, LogManager.startup: by the scheduler of this process, from its start"""
        self._repeat(self._config.replica_lag_time_max_ms * 1000 // 2, self._check_lag, now_us)
        recovery_us = self._config.log_flush_offset_checkpoint_interval_ms * 1000
        self._repeat(recovery_us, self._checkpoint_logs, now_us, delay_us=CHECKPOINTS_BEGIN_US)
        self._repeat(PRODUCER_EXPIRATION_CHECK_US, self._expire_producers, now_us)

    def start_high_watermark_checkpoints(self, now_us: int) -> None:
        """Called when the broker learns of partitions; the first call writes at once, and every interval from then on.

        source: ReplicaManager.startHighWatermarkCheckPointThread
        """
        if self._checkpoints_high_watermarks:
            return
        self._checkpoints_high_watermarks = True
        period_us = self._config.replica_high_watermark_checkpoint_interval_ms * 1000
        self._outbox.timers.at(now_us, self._checkpoint_high_watermarks)
        self._repeat(period_us, self._checkpoint_high_watermarks, now_us)

    def _repeat(self, period_us: int, task: Callable[[int], None], now_us: int, *, delay_us: int = 0) -> None:
        """Every period, for the first time at most one period from now.

        delay_us: after the process's start; a task that begins at once has nothing to do then and is left out
        """

        def run(due_us: int) -> None:
            task(due_us)
            self._outbox.timers.at(due_us + period_us, run)

        self._outbox.timers.at(now_us + ((delay_us + self._phase_us) % period_us or period_us), run)

    # ---------------------------------------------------------------------------------------------- partition hooks

    def high_watermark_moved(self, partition: Partition, now_us: int) -> None:
        """Acks=all produces may be complete, and consumers have more to read."""
        self.complete_produces(partition.topic_partition)
        self._wake_fetches(partition.topic_partition, now_us, followers=self._rules.hw_push == "immediate")

    def isr_proposed(self, partition: Partition, proposal: ProposeIsr, now_us: int) -> None:
        self._propose_isr(partition, proposal, now_us)

    def leadership_ended(self, partition: Partition, now_us: int) -> None:
        self.complete_all(partition.topic_partition, now_us)

    def follower_start_moved(self, partition: Partition) -> None:
        self.on_low_watermark(partition.topic_partition)

    def take_offline(self, name: TopicPartition) -> None:
        """Its log directory has failed. Waiting requests go on waiting, up to the request's timeout, as in Kafka."""
        self.remove(name)
        self.offline[name] = None

    def remove(self, name: TopicPartition) -> None:
        if name in self.partitions:
            self.partitions[name].end_rests()
            del self.partitions[name]

    def hosted(self, name: TopicPartition) -> Partition:
        """raises: KafkaError, where this broker has no replica. source: ReplicaManager.getPartitionOrException"""
        partition = self.partitions.get(name)
        if partition is None:
            raise KafkaError(self.missing_partition_error(name))
        return partition

    def missing_partition_error(self, name: TopicPartition) -> ErrorCode:
        """Why `name` is not among the partitions. source: ReplicaManager.getPartitionOrError"""
        return ErrorCode.KAFKA_STORAGE_ERROR if name in self.offline else self._lookup.missing_partition_error(name)

    def complete_all(self, name: TopicPartition, now_us: int) -> None:
        """The partition is no longer led here, or gone. source: completeDelayedOperationsWhenNotPartitionLeader"""
        self.complete_produces(name)
        self._wake_fetches(name, now_us, followers=True)

    # ------------------------------------------------------------------------------------------------------ produce

    def append_records(
        self,
        required_acks: int,
        timeout_us: int,
        entries: Sequence[tuple[TopicPartition, memoryview | None]],
        peer: str,
        api_version: int,
        respond: Callable[[ProduceResults, int | None], None],
        now_us: int,
        *,
        inspected: Sequence[Inspected | None] = (),
        internal_topics_allowed: bool = False,
    ) -> None:
        """Append each batch and answer, for acks=all once every in-sync replica has it or the time is over.

        inspected: what is in each, as far as that is known already
        internal_topics_allowed: the broker itself appends, no client
        source: KafkaApis.handleProduceRequest, ReplicaManager.appendRecords
        """
        results: ProduceResults = {}
        appended: dict[TopicPartition, ProducedBatch] = {}
        cause: int | None = None
        for (name, records), inside in zip_longest(entries, inspected):
            try:
                partition, batch = self._admit(name, records, required_acks, api_version)
                if name.topic == OFFSETS_TOPIC and not internal_topics_allowed:
                    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "clients cannot append to an internal topic")
                produced = partition.append_as_leader(batch, required_acks, now_us, inside)
            except KafkaError as error:
                cause = self._refuse_produce(name, peer, error)
                results[name] = _refusal(name, error)
                continue
            appended[name] = produced
            cause = produced.cause
            results[name] = ProducePartitionResponse(
                name.partition, ErrorCode.NONE, produced.base_offset, -1, partition.log.log_start_offset
            )
        if required_acks == ACKS_ALL and appended:
            self._await_replicas(appended, results, respond, timeout_us, now_us)
        else:
            respond(results, cause)
        # Kafka wakes the requests that wait for the new records once this one is answered or parked (its ActionQueue).
        for name, produced in appended.items():
            if produced.high_watermark_advanced:
                self.complete_produces(name)
            self._wake_fetches(name, now_us, followers=True)

    def _admit(
        self, name: TopicPartition, records: memoryview | None, required_acks: int, api_version: int
    ) -> tuple[Partition, memoryview]:
        """The checks before a partition is asked, in Kafka's order. raises: KafkaError"""
        partition = self.partitions.get(name)
        missing = self.missing_partition_error(name) if partition is None else ErrorCode.NONE
        if missing is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(missing)
        batch = single_batch(records, api_version)
        if required_acks not in (ACKS_ALL, 0, 1):
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={required_acks} is not 0, 1 or -1")
        if partition is None:
            raise KafkaError(missing)
        _check_transaction(batch)
        return partition, batch

    def _await_replicas(
        self,
        appended: dict[TopicPartition, ProducedBatch],
        results: ProduceResults,
        respond: Callable[[ProduceResults, int | None], None],
        timeout_us: int,
        now_us: int,
    ) -> None:
        """A duplicate waits, too: its original may not be committed yet."""
        required = {name: produced.last_offset + 1 for name, produced in appended.items()}
        delayed = DelayedProduce(required, results, respond)
        if not self._try_complete(delayed):
            self._produces.watch(delayed, list(required))
            delayed.timer = self._outbox.timers.at(now_us + timeout_us, lambda now_us: self._expire(delayed))

    def _refuse_produce(self, topic_partition: TopicPartition, peer: str, error: KafkaError) -> int:
        return self._recorder.emit(
            ProduceRefused(
                node=self._node,
                peer=peer,
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                error=error.code.name,
                reason=f"{self._node} refuses a batch of {peer} for {topic_partition}: "
                f"{error.message or error.code.name}",
            )
        )

    def complete_produces(self, topic_partition: TopicPartition) -> None:
        for delayed in list(self._produces.operations(topic_partition)):
            if self._try_complete(delayed):
                self._produces.remove(delayed)

    def _try_complete(self, delayed: DelayedProduce) -> bool:
        """source: DelayedProduce.tryComplete"""
        for name, required_offset in list(delayed.required_offsets.items()):
            partition = self.partitions.get(name)
            status: ErrorCode | None
            if partition is None:
                status = self.missing_partition_error(name)
            elif partition.leader is None:
                status = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                status = partition.leader.produce_status(required_offset)
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
        """The request's timeout: the records stay in the log, and may commit later (DelayedProduce.onExpiration)."""
        self._produces.remove(delayed)
        for name in delayed.required_offsets:
            delayed.fail(name, ErrorCode.REQUEST_TIMED_OUT)
        self._finish_produce(delayed)

    def _finish_produce(self, delayed: DelayedProduce) -> None:
        if delayed.timer is not None:
            delayed.timer.cancel()
        delayed.respond(delayed.results, None)

    # -------------------------------------------------------------------------------------------------------- fetch

    def fetch_records(
        self,
        params: FetchParams,
        wanted: list[tuple[TopicPartition, FetchPartition]],
        respond: Callable[[FetchResults, int], None],
        now_us: int,
    ) -> None:
        """Read what there is and answer, or wait for min.bytes up to max.wait. source: ReplicaManager.fetchMessages"""
        high_watermark_is_news = any(
            self.partitions[name].high_watermark_is_news(params) for name, _ in wanted if name in self.partitions
        )
        results = self._read(params, wanted, now_us, first_time=True)
        available = sum(size_bytes(result) for _, result in results)
        at_once = (
            params.max_wait_us <= 0
            or not (wanted or params.resting)
            or available >= params.min_bytes
            or high_watermark_is_news
            or any(result.error is not ErrorCode.NONE or result.diverging_epoch is not None for _, result in results)
        )
        if at_once:
            self._answer_fetch(params, results, respond, now_us)
            return
        bases = {
            topic_partition: self.partitions[topic_partition].log.segment_base_of(entry.fetch_offset)
            for topic_partition, entry in wanted
        }
        delayed = DelayedFetch(params, wanted, bases, respond)
        if self._is_ready(delayed, now_us):
            self._complete_fetch(delayed, now_us)
            return
        self._fetches.watch(delayed, [topic_partition for topic_partition, _ in wanted])
        if not params.from_follower:
            self._fetch_of[params.connection] = delayed
        if params.resting is not None:
            delayed.listener = partial(self._wants_too, delayed)
            params.resting.listeners.append(delayed.listener)
        delayed.timer = self._outbox.timers.at(
            now_us + params.max_wait_us, lambda now_us: self._complete_fetch(delayed, now_us)
        )

    def _read(
        self,
        params: FetchParams,
        wanted: list[tuple[TopicPartition, FetchPartition]],
        now_us: int,
        *,
        first_time: bool,
    ) -> FetchResults:
        """Partitions in request order within the byte budget; at least one whole batch in all (KIP-74).

        The first read of a follower's fetch is its acknowledgement and moves the leader's state; a later one is not.
        """
        budget = params.max_bytes
        found_some = False
        results: FetchResults = []
        for topic_partition, entry in wanted:
            try:
                partition = self.hosted(topic_partition)
                result = partition.fetch(
                    params, entry, min(entry.max_bytes, budget), not found_some, first_time, now_us
                )
                found = size_bytes(result)
                if found and self._is_throttled(partition, params, now_us):
                    result, found = result._replace(slice=EMPTY_SLICE), 0
            except KafkaError as error:
                self._refuse_fetch(topic_partition, params, entry, error)
                result, found = FetchPartitionResponse(topic_partition.partition, error.code), 0
            if found:
                found_some = True
                budget = max(0, budget - found)
            results.append((topic_partition, result))
        return results

    def _is_throttled(self, partition: Partition, params: FetchParams, now_us: int) -> bool:
        """A follower that is not in sync waits while the quota is exceeded. source: shouldLeaderThrottle"""
        if not params.from_follower:
            return False
        quota = self._quotas.leader
        if not quota.is_throttled(partition.topic_partition):
            return False
        leader = partition.leader
        in_sync = leader is not None and params.replica_id in leader.in_sync_replicas
        return not in_sync and quota.is_exceeded(now_us)

    def _answer_fetch(
        self, params: FetchParams, results: FetchResults, respond: Callable[[FetchResults, int], None], now_us: int
    ) -> None:
        """Bytes for throttled replicas count against the quota, in sync or not. source: KafkaApis.handleFetchRequest"""
        if params.from_follower and (quota := self._quotas.leader).throttled:
            # Simplified: records are counted; Kafka counts the partitions' headers in the response as well.
            sizes = [size_bytes(result) for name, result in results if quota.is_throttled(name)]
            if sizes:
                quota.record(sum(sizes), now_us)
        respond(results, now_us)

    def _refuse_fetch(
        self, topic_partition: TopicPartition, params: FetchParams, entry: FetchPartition, error: KafkaError
    ) -> None:
        if error.code in EXPECTED_FETCH_ERRORS:
            return
        self._recorder.emit(
            FetchRefused(
                node=self._node,
                peer=params.peer,
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                error=error.code.name,
                offset=entry.fetch_offset,
                leader_epoch=entry.current_leader_epoch,
                reason=f"{self._node} refuses a fetch of {params.peer}: {error.message or error.code.name}",
            )
        )

    def _wake_fetches(self, topic_partition: TopicPartition, now_us: int, *, followers: bool) -> None:
        """followers: also look at follower fetches (a mere high watermark advance does not wake them, KAFKA-9731)."""
        for delayed in list(self._fetches.operations(topic_partition)):
            if (followers or not delayed.params.from_follower) and not delayed.done and self._is_ready(delayed, now_us):
                self._complete_fetch(delayed, now_us)

    def _is_ready(self, delayed: DelayedFetch, now_us: int) -> bool:
        """source: DelayedFetch.tryComplete"""
        available = 0
        for topic_partition, entry in delayed.wanted:
            partition = self.partitions.get(topic_partition)
            if partition is None:
                return True
            try:
                is_throttled = self._is_throttled(partition, delayed.params, now_us)
                base = delayed.segment_bases[topic_partition]
                ready = partition.available_bytes(delayed.params, entry, base, is_throttled)
            except KafkaError:
                return True
            if ready is None:
                return True
            available += ready
            if available >= delayed.params.min_bytes:
                return True  # The other partitions cannot change that.
        return False

    def consumer_gone(self, connection: ConnectionId) -> None:
        """Differs from Kafka: there its fetch goes on waiting as long as it had said it would; clients that come
        and go could fill the memory with such fetches."""
        delayed = self._fetch_of.get(connection)
        if delayed is not None:
            self._end_wait(delayed)

    def _wants_too(self, delayed: DelayedFetch, asked: RequestedPartition) -> None:
        """A partition of its session no longer rests, and something is about to happen to it."""
        partition = None if asked.name is None else self.partitions.get(asked.name)
        if asked.name is not None and partition is not None:
            delayed.wanted.append((asked.name, asked.entry))
            delayed.segment_bases[asked.name] = partition.log.segment_base_of(asked.entry.fetch_offset)
            self._fetches.watch_too(delayed, asked.name)

    def fetched_again(self, resting: RestingPartitions, replica_id: BrokerId, now_us: int) -> None:
        """A follower has come with the next fetch of a session in which these rest."""
        resting.fetched(self._clock.at(now_us), self._lookup.registration(replica_id))

    def rest(self, params: FetchParams, unchanged: Sequence[RequestedPartition]) -> None:
        """A fetch has just been answered with nothing for these: those that may rest do so from now on."""
        for asked in unchanged:
            partition = None if asked.name is None else self.partitions.get(asked.name)
            if params.resting is None or partition is None:
                continue
            if partition.may_rest(params.replica_id, asked.entry):
                params.resting.add(asked, partition, params.replica_id)

    def _end_wait(self, delayed: DelayedFetch) -> None:
        delayed.done = True
        if delayed.params.resting is not None and delayed.listener in delayed.params.resting.listeners:
            delayed.params.resting.listeners.remove(delayed.listener)
        self._fetches.remove(delayed)
        self._fetch_of.pop(delayed.params.connection, None)
        if delayed.timer is not None:
            delayed.timer.cancel()

    def _complete_fetch(self, delayed: DelayedFetch, now_us: int) -> None:
        self._end_wait(delayed)
        results = self._read(delayed.params, delayed.wanted, now_us, first_time=False)
        self._answer_fetch(delayed.params, results, delayed.respond, now_us)

    # -------------------------------------------------------------------------------------------------------- tasks

    def _check_lag(self, now_us: int) -> None:
        for partition in self.partitions.values():
            partition.check_lag(now_us)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Of all logs: those that the metadata has not told of yet keep what the checkpoint says."""
        loaded = {name: self._logs.high_watermark_checkpoint(name) for name in self._logs.logs}
        return loaded | {name: partition.high_watermark for name, partition in self.partitions.items()}

    def _checkpoint_high_watermarks(self, now_us: int) -> None:
        self._logs.checkpoint_high_watermarks(self.high_watermarks())

    def _expire_producers(self, now_us: int) -> None:
        self._logs.remove_expired_producers(self._clock.at(now_us))

    def _checkpoint_logs(self, now_us: int) -> None:
        self._logs.checkpoint_recovery_points()
        self._logs.checkpoint_log_start_offsets()


def _ignore(name: TopicPartition) -> None:
    """No request waits for records to be deleted."""
