"""The last known state of a watched cluster: brokers, partitions, replicas."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from replica.errors import ErrorCode
from replica.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicPartition
from scenarios.watch.questions import ListedBroker, PartitionAnswer

SAMPLES_KEPT = 512


class LeaderEnds:
    """Samples of a leader's log end offset with their times, in ascending order.

    A sample is kept as long as a replica lacks its records. If there are more than SAMPLES_KEPT, every other sample is
    dropped.
    """

    __slots__ = ("_at_us", "_ends")

    def __init__(self) -> None:
        self._at_us: list[int] = []
        self._ends: list[Offset] = []

    def add(self, at_us: int, end: Offset, slowest: Offset) -> None:
        """Add a sample. `slowest` is the smallest log end offset of all replicas."""
        if self._ends and end < self._ends[-1]:
            self._at_us, self._ends = [], []
        if not self._ends or end > self._ends[-1]:
            self._at_us.append(at_us)
            self._ends.append(end)
        needless = max(0, min(bisect_right(self._ends, slowest), len(self._ends) - 1))
        if needless:
            del self._at_us[:needless], self._ends[:needless]
        if len(self._ends) > SAMPLES_KEPT:
            del self._at_us[1:-1:2], self._ends[1:-1:2]

    def first_beyond(self, end: Offset) -> int | None:
        """Return the time of the first sample with a record at offset `end`, None if there is no such sample."""
        index = bisect_right(self._ends, end)
        return self._at_us[index] if index < len(self._at_us) else None


def broker_name(broker_id: BrokerId) -> str:
    return f"b{broker_id}"


def names_of(broker_ids: Iterable[BrokerId]) -> tuple[str, ...]:
    return tuple(map(broker_name, broker_ids))


@dataclass(slots=True)
class WatchedBroker:
    """A broker of a watched cluster.

    Attributes:
        address: None if no broker has listed this one yet.
        listed: True if other brokers list it as live.
        silent_since_us: time since which it has not answered, None if it answers.
        silence: reason for the silence.
    """

    broker_id: BrokerId
    address: ListedBroker | None = None
    listed: bool = False
    answered_us: int | None = None
    silent_since_us: int | None = None
    silence: str = ""


@dataclass(slots=True)
class WatchedReplica:
    """A replica as its broker last described it. Offsets are None before the first description.

    Attributes:
        leader_epoch: the partition's leader epoch at the time of the description.
        answered_us: time of the description.
        stated: log end offsets of this follower and of its leader in the last FollowerFetched event.
    """

    log_end_offset: Offset | None = None
    high_watermark: Offset | None = None
    leader_epoch: LeaderEpoch = -1
    answered_us: int = 0
    error: ErrorCode = ErrorCode.NONE
    stated: tuple[Offset, Offset] | None = None


@dataclass(slots=True)
class WatchedPartition:
    """A partition of a watched cluster.

    Attributes:
        answer: the latest metadata.
        partition_epoch: number of changes seen, since brokers do not return the real partition epoch.
        configured_min_isr: min.insync.replicas of the topic, None if unknown.
        ends: samples of the leader's log end offset in this epoch.
    """

    name: TopicPartition
    answer: PartitionAnswer
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch = 0
    configured_min_isr: int | None = None
    replicas: dict[BrokerId, WatchedReplica] = field(default_factory=dict)
    ends: LeaderEnds = field(default_factory=LeaderEnds)

    def replica(self, broker_id: BrokerId) -> WatchedReplica:
        return self.replicas.setdefault(broker_id, WatchedReplica())

    @property
    def leading(self) -> WatchedReplica | None:
        """The leader's replica, None until the leader has answered in this epoch."""
        found = self.replicas.get(self.answer.leader)
        return found if found is not None and found.leader_epoch == self.leader_epoch else None

    @property
    def min_isr(self) -> int | None:
        """min.insync.replicas, at most the number of replicas; None if unknown."""
        configured = self.configured_min_isr
        return None if configured is None else min(configured, len(self.answer.replicas))

    @property
    def under_min_isr(self) -> bool:
        return self.min_isr is not None and len(self.answer.isr) < self.min_isr

    def lag_records(self, broker_id: BrokerId) -> int | None:
        """Return the number of the leader's records that a follower lacks according to the samples, None if unknown."""
        leading, replica = self.leading, self.replicas.get(broker_id)
        if leading is None or replica is None or leading.log_end_offset is None or replica.log_end_offset is None:
            return None
        return max(0, leading.log_end_offset - replica.log_end_offset)

    def lag_us(self, broker_id: BrokerId, now_us: int) -> int:
        """Return the microseconds since the leader was first seen with a record that the follower lacks."""
        replica = self.replicas.get(broker_id)
        if replica is None or replica.log_end_offset is None:
            return 0
        since_us = self.ends.first_beyond(replica.log_end_offset)
        return 0 if since_us is None else now_us - since_us

    def behind(self, high_watermark: Offset) -> list[BrokerId]:
        """Return the followers in the ISR that hold back the high watermark.

        These are the followers whose logs end at or below it or, if there are none, those with an unknown log end.
        """
        followers = [member for member in self.answer.isr if member != self.answer.leader]
        ends = {member: self.replica(member).log_end_offset for member in followers}
        known = [member for member, end in ends.items() if end is not None and end <= high_watermark]
        return known or [member for member, end in ends.items() if end is None]
