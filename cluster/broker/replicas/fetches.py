"""Fetches of one broker: what is read for them at once, and those that wait for bytes.

source: ReplicaManager.fetchMessages, DelayedFetch.scala
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
from replica.errors import ErrorCode, KafkaError
from replica.ids import BrokerId, Offset, TopicPartition
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
    """Fetches in progress: read, or waiting for records. source: ReplicaManager.fetchMessages, DelayedFetch"""

    def __init__(self, base: BrokerBase, *, replicas: Replicas, quotas: ReplicationQuotas) -> None:
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
        """Consumers' fetches that wait: one per connection, for it has one request at a time."""

    def fetch_records(
        self,
        params: FetchParams,
        wanted: list[tuple[TopicPartition, FetchPartition]],
        respond: Callable[[FetchResults, int], None],
        now_us: int,
    ) -> None:
        """Read what there is and answer, or wait for min.bytes up to max.wait. source: ReplicaManager.fetchMessages"""
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
        """Partitions in request order within the byte budget; at least one whole batch in all (KIP-74).

        returns: the results, the bytes of records in them, and whether one is an error or a divergence, for which no
            fetch waits
        The first read of a follower's fetch is its acknowledgement and moves the leader's state; a later one is not.
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
            elif result.diverging_epoch is not None:
                is_final = True
            results.append((topic_partition, result))
        return results, total, is_final

    def _is_throttled(self, partition: Partition, params: FetchParams, now_us: int) -> bool:
        """A follower that is not in sync waits while the quota is exceeded. source: shouldLeaderThrottle"""
        leader = partition.leader
        if not params.from_follower or (leader is not None and params.replica_id in leader.in_sync_replicas):
            return False
        quota = self._quotas.leader
        return quota.is_throttled(partition.topic_partition) and quota.is_exceeded(now_us)

    def _answer(
        self, params: FetchParams, results: FetchResults, respond: Callable[[FetchResults, int], None], now_us: int
    ) -> None:
        """Bytes for throttled replicas count against the quota, in sync or not. source: KafkaApis.handleFetchRequest"""
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

    def wake(self, topic_partition: TopicPartition, now_us: int, *, followers: bool) -> None:
        """followers: also look at follower fetches (a mere high watermark advance does not wake them, KAFKA-9731)."""
        for delayed in self._waiting.operations(topic_partition):
            if (followers or not delayed.params.from_follower) and not delayed.done and self._is_ready(delayed, now_us):
                self._complete(delayed, now_us)

    def _is_ready(self, delayed: DelayedFetch, now_us: int) -> bool:
        """source: DelayedFetch.tryComplete"""
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
        """Differs from Kafka: there its fetch goes on waiting as long as it had said it would; clients that come
        and go could fill the memory with such fetches."""
        delayed = self._of_consumer.get(connection)
        if delayed is not None:
            self._end_wait(delayed)

    def _wants_too(self, delayed: DelayedFetch, asked: RequestedPartition) -> None:
        """A partition of its session no longer rests, and something is about to happen to it."""
        partition = None if asked.name is None else self._replicas.partitions.get(asked.name)
        if asked.name is not None and partition is not None:
            delayed.wanted.append((asked.name, asked.entry))
            delayed.segment_bases[asked.name] = partition.log.segment_base_of(asked.entry.fetch_offset)
            self._waiting.watch_too(delayed, asked.name)

    def fetched_again(self, resting: RestingPartitions, replica_id: BrokerId, now_us: int) -> None:
        """A fetcher has come with the next fetch of a session in which these rest."""
        resting.fetched(self._clock.at(now_us), self._registration(replica_id))

    def rest(self, params: FetchParams, unchanged: Sequence[tuple[RequestedPartition, Offset]]) -> None:
        """A fetch has just been answered with nothing for these: those that may rest do so from now on.

        unchanged: with the high watermark that was read, which the follower knows
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
            with suppress(ValueError):  # A later fetch of the session has put its own there.
                delayed.params.resting.listeners.remove(delayed.listener)
        delayed.listener = None  # It holds the fetch, which would wait for a search for cycles, with all that it holds.
        self._waiting.remove(delayed)
        self._of_consumer.pop(delayed.params.connection, None)
        if delayed.timer is not None:
            delayed.timer.cancel()

    def _complete(self, delayed: DelayedFetch, now_us: int) -> None:
        self._end_wait(delayed)
        results, _, _ = self._read(delayed.params, delayed.wanted, now_us, first_time=False)
        self._answer(delayed.params, results, delayed.respond, now_us)
