"""Measures from samples which brokers hold back high watermarks, and for how long.

A high watermark is held back between two samples of the leader if records were above it in the first sample and it has
the same value in the second. Its holders are the members of the ISR whose logs end at or below it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from replica.ids import BrokerId, LeaderEpoch, Offset, TopicPartition

HELD_FROM_US = 500_000
"""Shortest hold that counts. The wait for followers' next fetches is normal (replica.fetch.wait.max.ms is 500 ms)."""
LONGEST_KEPT = 20


@dataclass(slots=True)
class HeldWatermark:
    """A high watermark that does not move although there are records above it.

    Attributes:
        waiting: largest number of records seen above the high watermark.
        held_us: time for which each holder was in the ISR without these records.
        under_min_isr_us: time for which the ISR was smaller than min.insync.replicas.
    """

    name: TopicPartition
    leader_epoch: LeaderEpoch
    high_watermark: Offset
    from_us: int
    until_us: int
    waiting: int
    held_us: dict[BrokerId, int] = field(default_factory=dict)
    under_min_isr_us: int = 0

    @property
    def length_us(self) -> int:
        return self.until_us - self.from_us

    @property
    def holders(self) -> tuple[BrokerId, ...]:
        """The brokers that held back the high watermark longest."""
        longest = max(self.held_us.values(), default=0)
        return tuple(sorted(holder for holder, us in self.held_us.items() if us == longest))


@dataclass(slots=True)
class Holder:
    """A broker that held back high watermarks.

    Attributes:
        us: total time in which it held back at least one.
        partitions: partitions of which it held back the high watermark.
        until_us: end of the time that is counted in `us`.
    """

    us: int = 0
    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    until_us: int = 0


class Holds:
    """The high watermarks that are or were held back. A hold ends when the high watermark moves.

    Attributes:
        now: current holds by partition.
        by_broker: brokers that held back high watermarks so far.
    """

    def __init__(self) -> None:
        self.now: dict[TopicPartition, HeldWatermark] = {}
        self.by_broker: dict[BrokerId, Holder] = {}
        self._ended: list[tuple[int, int, HeldWatermark]] = []
        self._count = 0

    def stands(
        self,
        now_us: int,
        name: TopicPartition,
        leader_epoch: LeaderEpoch,
        high_watermark: Offset,
        log_end_offset: Offset,
        holders: Sequence[BrokerId],
        *,
        under_min_isr: bool,
    ) -> None:
        """Begin, extend or end the hold of a partition according to a sample of its leader.

        Args:
            holders: members of the ISR whose logs end at or below the high watermark.
        """
        hold = self.now.get(name)
        if hold is not None and (hold.high_watermark, hold.leader_epoch) != (high_watermark, leader_epoch):
            self.ended(name)
            hold = None
        waiting = log_end_offset - high_watermark
        if waiting <= 0:
            self.ended(name)
            return
        if hold is None:
            self.now[name] = HeldWatermark(name, leader_epoch, high_watermark, now_us, now_us, waiting)
            return
        passed_us = now_us - hold.until_us
        for holder in holders:
            hold.held_us[holder] = hold.held_us.get(holder, 0) + passed_us
        if hold.length_us + passed_us >= HELD_FROM_US:
            self._count_holders(hold, now_us, holders)
        hold.under_min_isr_us += passed_us if under_min_isr else 0
        hold.until_us, hold.waiting = now_us, max(hold.waiting, waiting)

    def ended(self, name: TopicPartition) -> None:
        """End the hold of a partition, if any, since the high watermark moved or the leader changed."""
        hold = self.now.pop(name, None)
        if hold is not None and hold.length_us >= HELD_FROM_US:
            self._count += 1
            heapq.heappush(self._ended, (hold.length_us, self._count, hold))
            if len(self._ended) > LONGEST_KEPT:
                heapq.heappop(self._ended)

    def longest(self) -> list[HeldWatermark]:
        """Return at most LONGEST_KEPT past and current holds, the longest first."""
        all_of_them = [hold for _, _, hold in self._ended]
        all_of_them += (hold for hold in self.now.values() if hold.length_us >= HELD_FROM_US)
        return heapq.nsmallest(LONGEST_KEPT, all_of_them, key=lambda hold: (-hold.length_us, hold.from_us, hold.name))

    def _count_holders(self, hold: HeldWatermark, now_us: int, holders: Sequence[BrokerId]) -> None:
        """Add the time since the previous sample to each holder, only once if it holds back several high watermarks."""
        for broker_id in holders:
            holder = self.by_broker.setdefault(broker_id, Holder())
            begin = hold.from_us if hold.name not in holder.partitions else hold.until_us
            holder.us += max(0, now_us - max(begin, holder.until_us))
            holder.until_us = max(holder.until_us, now_us)
            holder.partitions[hold.name] = None
