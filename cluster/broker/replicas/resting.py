"""Resting partitions: unchanged partitions of a fetch session, which fetches skip until they change.

In Kafka, every fetch checks every partition of its session. This broker does so too in small sessions (`rests_above` of
BrokerCore). In a larger session, a partition rests if the consumer has read all records; or if the follower has all
records, knows the high watermark, and is in sync or cannot join the ISR yet. It rests until it or the follower's
registration changes. Then the session's latest fetch counts as the latest fetch of the partition, as in Kafka. While a
partition rests, the trace does not have the follower's fetches of it.

Source: IncrementalFetchContext.foreachPartition, Partition.updateFollowerFetchState
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from cluster.protocol.primitives import Topic
from replica.ids import BrokerId, Offset
from replica.rules import Rules

if TYPE_CHECKING:
    from cluster.broker.replicas.delayed import FetchParams
    from cluster.broker.replicas.fetch_sessions import CachedPartition, RequestedPartition
    from cluster.broker.replicas.partition import Partition
    from cluster.protocol.api_01_fetch import FetchPartition
    from controller.image import BrokerRegistration

MANY = 8
"""Partitions rest in sessions with more of them than this in simulated mode; small traces show every fetch."""

FEW = 1
"""The same limit in live mode, where checks of partitions would delay the next record."""


def may_rest(partition: Partition, params: FetchParams, entry: FetchPartition, known: Offset, rules: Rules) -> bool:
    """Return True if the same fetch again would change nothing but the time of the latest fetch.

    Args:
        known: high watermark in the response, which the fetch itself may have moved since.
    """
    leader, end = partition.leader, partition.log.log_end_offset
    if leader is None or params.rack:  # With a rack, the preferred replica may change when a broker does.
        return False
    if not params.from_follower:
        return entry.fetch_offset == known == partition.upper_offset(params) == end
    if leader.may_want(params.replica_id):
        return False
    replica = leader.replicas.get(params.replica_id)
    if replica is None or replica.log_start_offset != entry.log_start_offset:
        return False
    # In 0.8 a silent follower left the ISR even if it had every record; and 2.4 pushed high watermarks to followers.
    is_plain = rules.isr_lag == "time" and rules.hw_push != "immediate"
    return is_plain and replica.log_end_offset == entry.fetch_offset == known == leader.high_watermark == end


class RestingPartitions:
    """The resting partitions of one session.

    Args:
        awake: the session's partitions that do not rest.

    Attributes:
        fetched_us: wall-clock time of the session's latest fetch.
        listeners: called with each partition that ends its rest.
    """

    __slots__ = ("_awake", "_follower", "_rests", "fetched_us", "listeners")

    def __init__(self, awake: dict[tuple[Topic, int], CachedPartition]) -> None:
        self._awake = awake
        self._follower: BrokerRegistration | None = None
        self._rests: dict[tuple[Topic, int], Rest] = {}
        self.fetched_us = 0
        self.listeners: list[Callable[[RequestedPartition], None]] = []

    def __len__(self) -> int:
        return len(self._rests)

    def __iter__(self) -> Iterator[Rest]:
        return iter(list(self._rests.values()))

    def add(self, asked: RequestedPartition, partition: Partition, replica_id: BrokerId) -> None:
        key = asked.topic, asked.entry.partition
        rest = self._rests[key] = Rest(self, self._awake.pop(key), partition, replica_id)
        partition.rest(rest)

    def fetched(self, now_us: int, follower: BrokerRegistration | None) -> None:
        """Handle a fetch of the session that skips these partitions.

        If the follower's registration changed, end all rests, because ISR membership depends on it.

        Args:
            now_us: wall-clock time.
            follower: registration of the follower that fetches, None for a consumer.
        """
        if self._follower is not follower and self._follower != follower:
            self.end_all()
        self.fetched_us, self._follower = now_us, follower

    def end(self, key: tuple[Topic, int]) -> None:
        if self._rests and key in self._rests:
            self._rests[key].end()

    def end_all(self) -> None:
        for rest in self:
            rest.end()

    def ended(self, rest: Rest) -> None:
        if self._rests.get(rest.key) is rest:
            self._awake[rest.key] = self._rests.pop(rest.key).cached
            for listener in self.listeners:
                listener(rest.cached.asked)


class Rest:
    """The rest of one partition in one session; `replica_id` is negative for a consumer."""

    __slots__ = ("_of", "_partition", "_replica_id", "cached")

    def __init__(
        self, of: RestingPartitions, cached: CachedPartition, partition: Partition, replica_id: BrokerId
    ) -> None:
        self._of = of
        self._partition = partition
        self._replica_id = replica_id
        self.cached = cached

    @property
    def key(self) -> tuple[Topic, int]:
        return self.cached.asked.topic, self.cached.asked.entry.partition

    @property
    def fetcher(self) -> BrokerId | RestingPartitions:
        """The follower's broker id, or a consumer's session."""
        return self._of if self._replica_id < 0 else self._replica_id

    def end(self) -> None:
        """Let fetches check the partition again, because it or the request for it changes."""
        self._partition.rested(self, self._of.fetched_us)
        self._of.ended(self)
