"""What is known of a watched cluster: brokers, partitions, replicas, as they last answered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from replica.errors import ErrorCode
from replica.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicPartition
from scenarios.watch.answers import ListedBroker, PartitionAnswer
from scenarios.watch.ends import LeaderEnds


def broker_name(broker_id: BrokerId) -> str:
    return f"b{broker_id}"


def names_of(broker_ids: Iterable[BrokerId]) -> tuple[str, ...]:
    return tuple(map(broker_name, broker_ids))


@dataclass(slots=True)
class WatchedBroker:
    """address None: it is only known as a replica. silent_since_us: no answer since then, None while it answers"""

    broker_id: BrokerId
    address: ListedBroker | None = None
    listed: bool = False
    answered_us: int | None = None
    silent_since_us: int | None = None
    silence: str = ""


@dataclass(slots=True)
class WatchedReplica:
    """As its broker last stated it, at answered_us; None: it never has. leader_epoch: in which that was

    stated: of a follower, its log's end and its leader's, as they stand in the trace
    """

    log_end_offset: Offset | None = None
    high_watermark: Offset | None = None
    leader_epoch: LeaderEpoch = -1
    answered_us: int = 0
    error: ErrorCode = ErrorCode.NONE
    stated: tuple[Offset, Offset] | None = None


@dataclass(slots=True)
class WatchedPartition:
    """partition_epoch: how many changes were seen; brokers do not tell the real one
    configured_min_isr: of the topic; None: not known
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
        """The leader's replica, once it has stated itself in this epoch."""
        found = self.replicas.get(self.answer.leader)
        return found if found is not None and found.leader_epoch == self.leader_epoch else None

    @property
    def min_isr(self) -> int | None:
        """At most the number of replicas counts."""
        configured = self.configured_min_isr
        return None if configured is None else min(configured, len(self.answer.replicas))

    @property
    def under_min_isr(self) -> bool:
        return self.min_isr is not None and len(self.answer.isr) < self.min_isr

    def lag_records(self, broker_id: BrokerId) -> int | None:
        """Records of the leader that a follower lacks by its latest answer; None: unknown."""
        leading, replica = self.leading, self.replicas.get(broker_id)
        if leading is None or replica is None or leading.log_end_offset is None or replica.log_end_offset is None:
            return None
        return max(0, leading.log_end_offset - replica.log_end_offset)

    def lag_us(self, broker_id: BrokerId, now_us: int) -> int:
        """Since when the leader has had a record that the follower lacks."""
        replica = self.replicas.get(broker_id)
        if replica is None or replica.log_end_offset is None:
            return 0
        since_us = self.ends.first_beyond(replica.log_end_offset)
        return 0 if since_us is None else now_us - since_us

    def behind(self, high_watermark: Offset) -> list[BrokerId]:
        """Members of the ISR that hold the high watermark: those known to be no further, else those not known."""
        followers = [member for member in self.answer.isr if member != self.answer.leader]
        ends = {member: self.replica(member).log_end_offset for member in followers}
        known = [member for member, end in ends.items() if end is not None and end <= high_watermark]
        return known or [member for member, end in ends.items() if end is None]
