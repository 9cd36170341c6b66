"""The Fetch requests to one broker: they are answered immediately, or wait for min.bytes.

Source: ReplicaManager.fetchMessages, DelayedFetch.scala
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Protocol

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.delayed import DelayedFetch, FetchParams, FetchResults, pushes_high_watermark
from cluster.broker.replicas.fetch_sessions import RequestedPartition
from cluster.broker.replicas.partition import Partition
from cluster.broker.replicas.replication_quotas import ReplicationQuotas
from cluster.broker.replicas.resting import RestingPartitions, may_rest
from cluster.node import ConnectionId
from cluster.protocol.api_01_fetch import FetchPartition, FetchPartitionResponse, size_of
from cluster.slices import paced
from replica.causes import FetchFailureCause
from replica.errors import ErrorCode, KafkaError
from replica.ids import NO_BROKER, BrokerId, Offset, TopicPartition
from replica.log.files.open_files import EMPTY_SLICE
from replica.purgatory import Purgatory
from replica.trace.events import FetchRefused

EXPECTED_FETCH_ERRORS = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Replicas(Protocol):
    """The partitions of this broker."""

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]: ...

    def hosted(self, name: TopicPartition) -> Partition: ...


class Fetches:
    """Executes Fetch requests on the partitions of one broker. Source: ReplicaManager.fetchMessages, DelayedFetch

    Attributes:
        on_wake: called with (partition, now_us) when a partition may have more records for consumers.
    """

    def __init__(self, base: BrokerBase, *, replicas: Replicas, quotas: ReplicationQuotas) -> None:
        self.on_wake: Callable[[TopicPartition, int], None] = _ignore
        self._node = base.node
        self._outbox = base.outbox
        self._replicas = replicas
        self._recorder = base.recorder
        self._clock = base.clock
        self._registration = base.cache.registration
        self._quotas = quotas
        self._rules = base.rules
        self._pushes = pushes_high_watermark(base.rules)
        self._waiting: Purgatory[DelayedFetch] = Purgatory()
        self._of_consumer: dict[ConnectionId, DelayedFetch] = {}
        """Waiting fetches of consumers, at most one per connection."""

    def fetch_records(
        self,
        params: FetchParams,
        wanted: list[tuple[TopicPartition, FetchPartition]],
        respond: Callable[[FetchResults, int], None],
        now_us: int,
    ) -> None:
        """Read available records and respond, or wait up to max.wait until min.bytes are available.

        Source: ReplicaManager.fetchMessages
        """
        partitions = self._replicas.partitions
        is_news = self._pushes and any(
            partitions[name].high_watermark_is_news(params) for name, _ in wanted if name in partitions
        )
        results, available, is_final = self._read(params, wanted, now_us, first_time=True)
        at_once = params.max_wait_us <= 0 or not (wanted or params.resting) or available >= params.min_bytes
        if at_once or is_news or is_final:
            self._answer(params, results, respond, now_us)
            return
        bases = {
            topic_partition: partitions[topic_partition].log.segment_base_of(entry.fetch_offset)
            for topic_partition, entry in wanted
        }
        delayed = DelayedFetch(params, wanted, bases, respond)
        if self._is_ready(delayed, now_us):
            self._complete(delayed, now_us)
            return
        self._waiting.watch(delayed, bases)
        if not params.from_follower:
            self._of_consumer[params.connection] = delayed
        if params.resting:
            delayed.listener = partial(self._wants_too, delayed)
            params.resting.listeners.append(delayed.listener)
        delayed.timer = self._outbox.timers.at(
            now_us + params.max_wait_us, lambda now_us: self._complete(delayed, now_us)
        )

    def _read(
        self,
        params: FetchParams,
        wanted: list[tuple[TopicPartition, FetchPartition]],
        now_us: int,
        *,
        first_time: bool,
    ) -> tuple[FetchResults, int, bool]:
        """Read partitions in request order within the byte limit, but at least one whole batch (KIP-74).

        Args:
            first_time: True to update the leader's state too: a follower's fetch acknowledges earlier records.

        Returns:
            (results, size of their records in bytes, True if the fetch must not wait because a result is an error, a
            divergence or a preferred replica)
        """
        budget = params.max_bytes
        total = 0
        is_final = False
        results: FetchResults = []
        for topic_partition, entry in paced(wanted):
            try:
                partition = self._replicas.hosted(topic_partition)
                result = partition.fetch(params, entry, min(entry.max_bytes, budget), not total, first_time, now_us)
                found = size_of(result.slice)
                if found and self._is_throttled(partition, params, now_us):
                    result, found = replace(result, slice=EMPTY_SLICE), 0
            except KafkaError as error:
                self._refuse(topic_partition, params, entry, error)
                result, found = FetchPartitionResponse(topic_partition.partition, error.code), 0
                is_final = True
            if found:
                total += found
                budget = max(0, budget - found)
            elif result.diverging_epoch is not None or result.preferred_read_replica != NO_BROKER:
                # Simplified: before KAFKA-13767 (3.2) a preferred replica came only after fetch.max.wait.ms.
                is_final = True
            results.append((topic_partition, result))
        return results, total, is_final

    def _is_throttled(self, partition: Partition, params: FetchParams, now_us: int) -> bool:
        """Return True if a follower outside the ISR gets no records because the quota is exceeded.

        Source: shouldLeaderThrottle
        """
        leader = partition.leader
        if not params.from_follower or (leader is not None and params.replica_id in leader.in_sync_replicas):
            return False
        quota = self._quotas.leader
        return quota.is_throttled(partition.topic_partition) and quota.is_exceeded(now_us)

    def _answer(
        self, params: FetchParams, results: FetchResults, respond: Callable[[FetchResults, int], None], now_us: int
    ) -> None:
        """Respond, and charge the records of throttled replicas to the quota. Source: KafkaApis.handleFetchRequest"""
        if params.from_follower and (quota := self._quotas.leader).throttled:
            # Simplified: records are counted; Kafka counts the partitions' headers in the response as well.
            sizes = [size_of(result.slice) for name, result in results if quota.is_throttled(name)]
            if sizes:
                quota.record(sum(sizes), now_us)
        respond(results, now_us)

    def _refuse(
        self, topic_partition: TopicPartition, params: FetchParams, entry: FetchPartition, error: KafkaError
    ) -> None:
        if error.code in EXPECTED_FETCH_ERRORS:
            return
        self._recorder.emit(
            FetchRefused(
                self._node,
                *topic_partition,
                peer=params.peer,
                error=error.code.name,
                offset=entry.fetch_offset,
                leader_epoch=entry.current_leader_epoch,
                cause=FetchFailureCause.REFUSED,
                message=error.message or None,
            )
        )

    def wake(self, topic_partition: TopicPartition, now_us: int, *, followers: bool) -> None:
        """Answer the waiting fetches of a partition that are complete.

        Args:
            followers: True to check fetches of followers too; not after a new high watermark alone (KAFKA-9731).
        """
        for delayed in self._waiting.operations(topic_partition):
            if (followers or not delayed.params.from_follower) and not delayed.done and self._is_ready(delayed, now_us):
                self._complete(delayed, now_us)
        self.on_wake(topic_partition, now_us)

    def _is_ready(self, delayed: DelayedFetch, now_us: int) -> bool:
        """Return True if a waiting fetch can be answered. Source: DelayedFetch.tryComplete"""
        available = 0
        for topic_partition, entry in delayed.wanted:
            partition = self._replicas.partitions.get(topic_partition)
            if partition is None or (self._pushes and partition.high_watermark_is_news(delayed.params)):
                return True
            try:
                is_throttled = self._is_throttled(partition, delayed.params, now_us)
                base = delayed.segment_bases[topic_partition]
                ready = delayed.available_bytes(partition, entry, base, is_throttled)
            except KafkaError:
                return True
            if ready is None:
                return True
            available += ready
            if available >= delayed.params.min_bytes:
                return True  # The other partitions cannot change that.
        return False

    def consumer_gone(self, connection: ConnectionId) -> None:
        """End the waiting fetch of a closed connection.

        Differs from Kafka: there it waits until its timeout. Here, clients that connect often could fill the memory
        with such fetches.
        """
        delayed = self._of_consumer.get(connection)
        if delayed is not None:
            self._end_wait(delayed)

    def _wants_too(self, delayed: DelayedFetch, asked: RequestedPartition) -> None:
        """Add a partition that no longer rests to a waiting fetch of its session."""
        partition = None if asked.name is None else self._replicas.partitions.get(asked.name)
        if asked.name is not None and partition is not None:
            delayed.wanted.append((asked.name, asked.entry))
            delayed.segment_bases[asked.name] = partition.log.segment_base_of(asked.entry.fetch_offset)
            self._waiting.watch_too(delayed, asked.name)

    def fetched_again(self, resting: RestingPartitions, replica_id: BrokerId, now_us: int) -> None:
        """Handle a fetch of a session that skips its resting partitions."""
        resting.fetched(self._clock.at(now_us), self._registration(replica_id))

    def rest(self, params: FetchParams, unchanged: Sequence[tuple[RequestedPartition, Offset]]) -> None:
        """Let unchanged partitions of an answered fetch rest, if `may_rest` allows it. Later fetches skip them.

        Args:
            unchanged: (partition, high watermark in its result) of each.
        """
        for asked, known in unchanged:
            partition = None if asked.name is None else self._replicas.partitions.get(asked.name)
            if params.resting is None or partition is None:
                continue
            if may_rest(partition, params, asked.entry, known, self._rules):
                params.resting.add(asked, partition, params.replica_id)

    def _end_wait(self, delayed: DelayedFetch) -> None:
        delayed.done = True
        if delayed.listener is not None and delayed.params.resting is not None:
            with suppress(ValueError):  # A later fetch of the session may have replaced the listener.
                delayed.params.resting.listeners.remove(delayed.listener)
        delayed.listener = None  # It refers to the fetch; this cycle would delay the release of memory.
        self._waiting.remove(delayed)
        self._of_consumer.pop(delayed.params.connection, None)
        if delayed.timer is not None:
            delayed.timer.cancel()

    def _complete(self, delayed: DelayedFetch, now_us: int) -> None:
        self._end_wait(delayed)
        results, _, _ = self._read(delayed.params, delayed.wanted, now_us, first_time=False)
        self._answer(delayed.params, results, delayed.respond, now_us)


def _ignore(name: TopicPartition, now_us: int) -> None:
    """Do nothing, because no share group reads the partition."""
