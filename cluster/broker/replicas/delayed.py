"""Delayed requests: Produce requests that wait for the high watermark, Fetch requests that wait for bytes.

Here is only their state; ReplicaManager and Fetches complete them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from cluster.broker.replicas.resting import RestingPartitions
from cluster.clocks import Timer
from cluster.node import ConnectionId
from cluster.protocol.api_00_produce import ProducePartitionResponse
from cluster.protocol.api_01_fetch import FetchPartition, FetchPartitionResponse
from replica.errors import ErrorCode
from replica.frozen import dataclass
from replica.ids import UNDEFINED_EPOCH, BrokerEpoch, BrokerId, Offset, TopicPartition
from replica.log.batches.validation import Inspected
from replica.log.producers.transaction_index import NOT_ASKED_FOR
from replica.rules import Rules

if TYPE_CHECKING:
    from cluster.broker.replicas.fetch_sessions import RequestedPartition
    from cluster.broker.replicas.partition import Partition

ProduceResults = dict[TopicPartition, ProducePartitionResponse]
FetchResults = list[tuple[TopicPartition, FetchPartitionResponse]]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ProduceParams:
    """Batches or transaction markers to append, for a client or a coordinator.

    Attributes:
        acks: -1 for all in-sync replicas, 0 or 1.
        timeout_us: maximum wait for replicas.
        entries: (partition, batch or None) of each partition in the request.
        inspected: result of inspecting each batch, if that was done before.
        respond: called with the results and the sequence number of the event that caused the response.
        from_broker: True for a coordinator's batch or a marker.
        transactional_id: id of a transactional producer, whose transaction may have to be verified; else None.
        guard: guard of that verification, if it was done before; see VerificationStates.
        transaction_version: transaction.version of the transaction that a marker ends.
    """

    acks: int
    timeout_us: int
    entries: Sequence[tuple[TopicPartition, memoryview | None]]
    peer: str
    api_version: int
    respond: Callable[[ProduceResults, int | None], None]
    inspected: Sequence[Inspected | None] = ()
    from_broker: bool = False
    transactional_id: str | None = None
    guard: int = NOT_ASKED_FOR
    transaction_version: int = 0


@dataclass(slots=True, eq=False)
class DelayedProduce:
    """A Produce request with acks=all that waits for the high watermarks `required_offsets` (DelayedProduce.scala)."""

    required_offsets: dict[TopicPartition, Offset]
    results: ProduceResults
    respond: Callable[[ProduceResults, int | None], None]
    timer: Timer | None = None

    def fail(self, name: TopicPartition, error: ErrorCode) -> None:
        """Set a partition's error. Its offset stays in the response (ProducePartitionStatus)."""
        self.results[name] = replace(self.results[name], error=error)


@dataclass(frozen=True, slots=True)
class FetchParams:
    """The sender and the limits of a Fetch request (FetchParams.java).

    Attributes:
        leader_only: True if only the leader may respond.
        resting: the session's partitions that this fetch skips because nothing changed (resting.py).
        read_committed: True to read up to the last stable offset, with the list of aborted transactions
            (isolation.level).
        rack: rack of a consumer that may be redirected to another replica (KIP-392); else empty.
    """

    replica_id: BrokerId
    replica_epoch: BrokerEpoch
    peer: str
    connection: ConnectionId
    max_wait_us: int
    min_bytes: int
    max_bytes: int
    leader_only: bool
    from_follower: bool
    resting: RestingPartitions | None = None
    read_committed: bool = False
    rack: str = ""


@dataclass(slots=True, eq=False)
class DelayedFetch:
    """A fetch that waits for min.bytes, at most for max.wait.

    Attributes:
        segment_bases: base offset, by partition, of the segment with the fetch offset when the wait began.
        listener: called for partitions of the session that are no longer skipped (resting.py).
    """

    params: FetchParams
    wanted: list[tuple[TopicPartition, FetchPartition]]
    segment_bases: dict[TopicPartition, Offset]
    respond: Callable[[FetchResults, int], None]
    timer: Timer | None = None
    done: bool = field(default=False)
    listener: Callable[[RequestedPartition], None] | None = None

    def available_bytes(
        self, partition: Partition, entry: FetchPartition, segment_base: Offset, is_throttled: bool
    ) -> int | None:
        """Return the number of available bytes, or None to answer the fetch immediately, whatever its min.bytes.

        Args:
            segment_base: see `segment_bases`.
            is_throttled: True if the partition is throttled and its bytes do not count (KIP-73).

        Raises:
            KafkaError: if the partition cannot be fetched, which ends the wait.

        Source: DelayedFetch.tryComplete
        """
        partition.check_fetch(self.params, entry)
        log = partition.log
        upper_offset = log.log_end_offset if self.params.from_follower else partition.upper_offset(self.params)
        available = 0
        if entry.fetch_offset > upper_offset:
            return None  # The log was truncated; or a consumer is ahead of a new leader's high watermark.
        if entry.fetch_offset < upper_offset:
            upper_base = log.segment_base_of(upper_offset)
            if is_throttled:
                pass
            elif segment_base < upper_base:
                return None  # A response never crosses a segment, so this one cannot grow any more.
            elif segment_base == upper_base:
                available = min(log.bytes_available(entry.fetch_offset, upper_offset), entry.max_bytes)
        if entry.last_fetched_epoch != UNDEFINED_EPOCH:
            epoch, end_offset = log.leader_epochs.end_offset_for(entry.last_fetched_epoch, log.log_end_offset)
            if epoch < entry.last_fetched_epoch or end_offset < entry.fetch_offset:
                return None
        return available


# -------------------------------------------------------------------------------------------------- high watermark push
#
# The rule `hw-push` decides if a fetch is answered only to send a new high watermark.
#
# `immediate` existed only in Kafka 2.4, for consumers that read from followers (KIP-392): a fetch is answered as soon
# as the high watermark is above the one last sent to the follower. This raised the rate of fetches by half or more,
# and was removed (KAFKA-9731, KAFKA-9952). Since then a new high watermark waits for the next response, at most
# replica.fetch.wait.max.ms.
# Simplified: it applies to every follower, as in 2.4.0; from 2.4.2 on only if a replica selector is configured.
# source: 2.4 Replica.lastSentHighWatermark, DelayedFetch.tryComplete (case H), LogReadResult.followerNeedsHwUpdate


def pushes_high_watermark(rules: Rules) -> bool:
    """Return True if fetches are answered only to send a new high watermark, by the rule `hw-push`."""
    return rules.hw_push == "immediate"


class HighWatermarkPush:
    """The last high watermark that a leader recorded as sent to each follower of one partition.

    Only the high watermark at the first read of a fetch is recorded. If the fetch waits and is answered with a newer
    one, the next fetch is answered immediately, without anything new. This caused the additional fetches in Kafka.
    """

    __slots__ = ("_sent",)

    def __init__(self) -> None:
        self._sent: dict[BrokerId, Offset] = {}

    def begin(self) -> None:
        """Remove all entries, when this broker becomes the leader."""
        self._sent.clear()

    def is_news(self, follower: BrokerId, high_watermark: Offset) -> bool:
        """Return True if the high watermark is above the last one recorded for this follower."""
        return high_watermark > self._sent.get(follower, 0)

    def sent(self, follower: BrokerId, high_watermark: Offset) -> None:
        self._sent[follower] = high_watermark
