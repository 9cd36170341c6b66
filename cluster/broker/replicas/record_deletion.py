"""DeleteRecords: the leader raises its log start offset, and responds when its live followers have done so too.

Source: ReplicaManager.deleteRecords, DelayedDeleteRecords.scala, Partition.deleteRecordsOnLeader, .lowWatermarkIfLeader
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cluster.broker.metadata.follower import MetadataCache
from cluster.broker.replicas.manager import ReplicaManager
from cluster.clocks import Timer
from cluster.node import Outbox
from cluster.slices import paced
from controller.topics import is_internal
from replica.errors import ErrorCode, KafkaError
from replica.ids import UNKNOWN_OFFSET, Offset, TopicPartition
from replica.purgatory import Purgatory

MAX_TIMEOUT_US = 2**31 * 1000
"""Maximum timeout of a request."""


class Deleted(NamedTuple):
    """The result of one partition; `low_watermark` is the lowest log start offset of the live replicas."""

    error: ErrorCode
    low_watermark: Offset = UNKNOWN_OFFSET


Respond = Callable[[Mapping[TopicPartition, Deleted]], None]


@dataclass(slots=True, eq=False)
class _Delayed:
    """A waiting request; `required` has the low watermark that each pending partition has to reach."""

    required: dict[TopicPartition, Offset]
    results: dict[TopicPartition, Deleted]
    respond: Respond
    timer: Timer | None = None


class RecordDeletion:
    def __init__(self, outbox: Outbox, cache: MetadataCache, replicas: ReplicaManager) -> None:
        self._outbox = outbox
        self._cache = cache
        self._replicas = replicas
        self._waiting: Purgatory[_Delayed] = Purgatory()
        replicas.on_low_watermark = self._low_watermark_moved

    def delete(
        self, offsets: Mapping[TopicPartition, Offset], peer: str, timeout_us: int, respond: Respond, now_us: int
    ) -> None:
        """Delete the records below an offset of each partition, -1 for the high watermark, then call `respond`.

        Args:
            peer: name of the client.
        """
        delayed = _Delayed({}, {}, respond)
        for name, offset in paced(offsets.items()):
            try:
                delayed.required[name] = self._delete(name, offset, peer)
            except KafkaError as error:
                delayed.results[name] = Deleted(error.code)
        if self._try_complete(delayed):
            return
        self._waiting.watch(delayed, list(offsets))
        due_us = now_us + min(max(timeout_us, 0), MAX_TIMEOUT_US)
        delayed.timer = self._outbox.timers.at(due_us, lambda now_us: self._expire(delayed))

    def _delete(self, name: TopicPartition, offset: Offset, peer: str) -> Offset:
        """Raise the leader's log start offset and return it.

        Raises:
            KafkaError: if the records cannot be deleted.
        """
        topic = self._cache.image.topics.get(name.topic)
        if topic is None or name.partition not in topic.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if is_internal(name.topic):
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"records of the internal topic {name.topic} cannot be deleted"
            )
        partition = self._replicas.hosted(name)
        partition.check_leading(-1)
        if "delete" not in topic.config.get("cleanup.policy", "delete"):
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"records of {name.topic} cannot be deleted, because its cleanup.policy does not contain delete",
            )
        return partition.delete_records(offset, peer)

    def _low_watermark_moved(self, name: TopicPartition) -> None:
        for delayed in self._waiting.operations(name):
            if self._try_complete(delayed):
                self._waiting.remove(delayed)

    def _try_complete(self, delayed: _Delayed) -> bool:
        for name, required in list(delayed.required.items()):
            partition = self._replicas.partitions.get(name)
            if partition is None:
                delayed.results[name] = Deleted(self._replicas.missing_partition_error(name))
            elif partition.leader is None:
                delayed.results[name] = Deleted(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                low_watermark = self._low_watermark(name)
                if low_watermark < required:
                    continue
                delayed.results[name] = Deleted(ErrorCode.NONE, low_watermark)
            del delayed.required[name]
        if delayed.required:
            return False
        self._finish(delayed)
        return True

    def _low_watermark(self, name: TopicPartition) -> Offset:
        partition = self._replicas.partitions[name]
        assert partition.leader is not None, "this replica is not the leader"
        starts = [
            replica.log_start_offset
            for broker_id, replica in partition.leader.replicas.items()
            if self._cache.alive_broker_epoch(broker_id) is not None
        ]
        return min([partition.log.log_start_offset, *starts])

    def _expire(self, delayed: _Delayed) -> None:
        """Answer REQUEST_TIMED_OUT. The leader has already deleted the records; followers do so on their next fetch."""
        self._waiting.remove(delayed)
        for name in delayed.required:
            delayed.results[name] = Deleted(ErrorCode.REQUEST_TIMED_OUT, UNKNOWN_OFFSET)
        self._finish(delayed)

    def _finish(self, delayed: _Delayed) -> None:
        if delayed.timer is not None:
            delayed.timer.cancel()
        delayed.respond(delayed.results)
