"""Waiting requests: Produce requests wait for the high watermark, Fetch requests for bytes.

No I/O happens here; the replica manager completes the requests.
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
    """Batches to append for a client's request or for a coordinator, or transaction markers.

    Attributes:
        acks: -1 for all in-sync replicas, 0 or 1.
        timeout_us: how long to wait for replicas.
        inspected: contents of each batch, as far as already known.
        respond: gets the results and the number of the causing event.
        from_broker: True for a coordinator's batch or a marker, which the broker itself appends.
        transactional_id: id of the producer, None without transactions; its coordinator may have to verify the
            transaction first.
        guard: guard of that verification, if it was made before.
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
    """A Produce with acks=all, which waits until all high watermarks pass `required_offsets` (DelayedProduce.scala)."""

    required_offsets: dict[TopicPartition, Offset]
    results: ProduceResults
    respond: Callable[[ProduceResults, int | None], None]
    timer: Timer | None = None

    def fail(self, name: TopicPartition, error: ErrorCode) -> None:
        """Set a partition's error; records stay in the log, offsets in the response (ProducePartitionStatus)."""
        self.results[name] = replace(self.results[name], error=error)


@dataclass(frozen=True, slots=True)
class FetchParams:
    """The client or follower that fetches, and the limits of its request (FetchParams.java).

    Attributes:
        resting: further partitions of its session, which are unchanged and skipped (resting.py).
        read_committed: True to read up to the last stable offset, with the list of aborted transactions
            (isolation.level).
        rack: rack of a consumer that may be sent to another replica (KIP-392); empty for all others.
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
    """A fetch that waits for more bytes, for a change that makes waiting pointless, or for max.wait.

    Attributes:
        segment_bases: for each partition, base offset of the segment that had its fetch offset when the wait began.
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
        """Return a partition's available bytes, None if the fetch has to be answered at once, whatever its min.bytes.

        Args:
            segment_base: base offset of the segment that had the fetch offset when the wait began.
            is_throttled: True if available bytes do not count (KIP-73).

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
# The rule `hw-push`: whether a fetch is answered just to send a new high watermark.
#
# `immediate` existed only in Kafka 2.4, for consumers that read from followers (KIP-392): a fetch is answered as soon
# as the high watermark is above the one last sent to the follower. This raised the rate of fetches by half or more,
# and was removed (KAFKA-9731, KAFKA-9952). Since then a new high watermark waits for the next response, at most
# replica.fetch.wait.max.ms.
# Simplified: it applies to every follower, as in 2.4.0; from 2.4.2 on only if a replica selector is configured.
# source: 2.4 Replica.lastSentHighWatermark, DelayedFetch.tryComplete (case H), LogReadResult.followerNeedsHwUpdate


def pushes_high_watermark(rules: Rules) -> bool:
    """Return True if the rule `hw-push` has a fetch answered just to send a new high watermark."""
    return rules.hw_push == "immediate"


class HighWatermarkPush:
    """The last high watermark sent to each follower of one partition, as its leader recorded it.

    Only the high watermark at the first read of a fetch is recorded. If the fetch waits and is answered with a newer
    one, the next fetch is answered immediately with nothing new. These were Kafka's additional fetches.
    """

    __slots__ = ("_sent",)

    def __init__(self) -> None:
        self._sent: dict[BrokerId, Offset] = {}

    def begin(self) -> None:
        """Remove all entries, because this broker becomes the leader."""
        self._sent.clear()

    def is_news(self, follower: BrokerId, high_watermark: Offset) -> bool:
        """Return True if the high watermark is above the last one sent, so that the follower gets a response."""
        return high_watermark > self._sent.get(follower, 0)

    def sent(self, follower: BrokerId, high_watermark: Offset) -> None:
        self._sent[follower] = high_watermark
