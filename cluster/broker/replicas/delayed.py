"""Requests that wait: produces for the high watermark, fetches for bytes. Pure; the replica manager completes them."""

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
    """Batches to be appended: what a client's request, a coordinator or a marker wants, and who is answered.

    acks: -1 for all in-sync replicas, 0 or 1     timeout_us: how long they are waited for
    inspected: what is in each batch, as far as that is known already
    from_broker: the broker itself appends, no client: it is a coordinator's batch, or a marker
    transactional_id: of the producer; its coordinator may have to be asked first
    guard: of the question to it, where it was asked before
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


@dataclass(slots=True, eq=False)
class DelayedProduce:
    """acks=all waits until the high watermark passes `required_offsets` of every partition (DelayedProduce.scala)."""

    required_offsets: dict[TopicPartition, Offset]
    results: ProduceResults
    respond: Callable[[ProduceResults, int | None], None]
    timer: Timer | None = None

    def fail(self, name: TopicPartition, error: ErrorCode) -> None:
        """The records stay in the log, and the answer still says where (ProducePartitionStatus keeps its offsets)."""
        self.results[name] = replace(self.results[name], error=error)


@dataclass(frozen=True, slots=True)
class FetchParams:
    """The fetching client or follower, and how long and for how much it waits (FetchParams.java).

    resting: partitions it wants as well, each not looked at until it no longer rests
    read_committed: no further than the last stable offset, and with the aborted transactions (isolation.level)
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


@dataclass(slots=True, eq=False)
class DelayedFetch:
    """A fetch with too few bytes to answer waits for more, for news that make waiting pointless, or for max.wait.

    listener: is called for partitions of its session that no longer rest
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
        """Bytes of a partition that it could have now; None: waiting is pointless for any min.bytes.

        segment_base: of the segment that its offset lay in when it began to wait
        is_throttled: the available bytes do not count (KIP-73)
        raises: KafkaError, which also ends the waiting     source: DelayedFetch.tryComplete
        """
        partition.check_fetch(self.params, entry)
        log = partition.log
        upper_offset = log.log_end_offset if self.params.from_follower else partition.upper_offset(self.params)
        available = 0
        if entry.fetch_offset > upper_offset:
            return None  # Truncated below it; or a consumer is ahead of a new leader's high watermark.
        if entry.fetch_offset < upper_offset:
            upper_base = log.segment_base_of(upper_offset)
            if is_throttled:
                pass
            elif segment_base < upper_base:
                return None  # No answer crosses a segment, so this one will not grow any more.
            elif segment_base == upper_base:
                available = min(log.bytes_available(entry.fetch_offset, upper_offset), entry.max_bytes)
        if entry.last_fetched_epoch != UNDEFINED_EPOCH:
            epoch, end_offset = log.leader_epochs.end_offset_for(entry.last_fetched_epoch, log.log_end_offset)
            if epoch < entry.last_fetched_epoch or end_offset < entry.fetch_offset:
                return None
        return available


# -------------------------------------------------------------------------------------------------- high watermark push
#
# The switch `hw-push`: is a fetch answered for the sake of a new high watermark alone?
#
# `immediate` was Kafka 2.4 only, for consumers that read from followers (KIP-392): a fetch is answered as soon as the
# high watermark is above the one last sent to the follower. It raised the rate of fetches by half or more, and was
# taken out again (KAFKA-9731, KAFKA-9952); since then the news waits for the next answer, at most
# replica.fetch.wait.max.ms.
# Simplified: for every fetch of a follower, as in 2.4.0; from 2.4.2 on only where a replica selector was configured.
# source: 2.4 Replica.lastSentHighWatermark, DelayedFetch.tryComplete (case H), LogReadResult.followerNeedsHwUpdate


def pushes_high_watermark(rules: Rules) -> bool:
    """Whether the switch is on."""
    return rules.hw_push == "immediate"


class HighWatermarkPush:
    """The last high watermark sent to each follower of one partition, as its leader recorded it.

    Only the first read of a fetch is recorded. An answer that was parked and brings a newer one is not: the fetch that
    follows is then answered at once, with nothing new. That is where Kafka's additional fetches came from.
    """

    __slots__ = ("_sent",)

    def __init__(self) -> None:
        self._sent: dict[BrokerId, Offset] = {}

    def begin(self) -> None:
        """This broker becomes the leader."""
        self._sent.clear()

    def is_news(self, follower: BrokerId, high_watermark: Offset) -> bool:
        """Whether the follower's fetch should be answered although there are no records for it."""
        return high_watermark > self._sent.get(follower, 0)

    def sent(self, follower: BrokerId, high_watermark: Offset) -> None:
        self._sent[follower] = high_watermark
