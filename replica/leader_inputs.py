"""The inputs of a leader and its actions; it decides in `leader.py`."""

from __future__ import annotations

from replica.errors import ErrorCode
from replica.frozen import dataclass
from replica.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAssigned:
    """The controller made this broker the leader, in a new leader epoch. was_leader: it led just before as well."""

    now_us: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    in_sync_replicas: tuple[BrokerId, ...]
    assigned_replicas: tuple[BrokerId, ...]
    log_end_offset: Offset
    high_watermark: Offset
    was_leader: bool
    recovering: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionUpdated:
    """The controller changed the ISR or the assignment within the leader epoch."""

    now_us: int
    partition_epoch: PartitionEpoch
    in_sync_replicas: tuple[BrokerId, ...]
    assigned_replicas: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    now_us: int
    log_end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReceived:
    """The follower holds every record below fetch_offset. leader_end_offset: our log end when the fetch was read."""

    now_us: int
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    fetch_offset: Offset
    leader_end_offset: Offset
    log_start_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LagCheckDue:
    """Kafka's isr-expiration task, every half replica.lag.time.max.ms."""

    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrAccepted:
    """AlterPartition succeeded. proposal: the answered one; None: the one in flight.

    leader_epoch: the partition's from then on, newer than the leader's own if the change completed a reassignment
    """

    now_us: int
    leader_epoch: LeaderEpoch
    in_sync_replicas: tuple[BrokerId, ...]
    partition_epoch: PartitionEpoch
    recovering: bool
    proposal: ProposeIsr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrRefused:
    """AlterPartition failed for this partition. proposal: the answered one; None: the one in flight."""

    now_us: int
    error: ErrorCode
    proposal: ProposeIsr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MinIsrChanged:
    now_us: int
    min_insync_replicas: int


LeaderInput = (
    LeaderAssigned
    | PartitionUpdated
    | Appended
    | FetchReceived
    | LagCheckDue
    | IsrAccepted
    | IsrRefused
    | MinIsrChanged
)


# ------------------------------------------------------------------------------------------------------------ actions


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceHighWatermark:
    """Every record below `high_watermark` is committed: complete what waits for it."""

    previous: Offset
    high_watermark: Offset
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeIsr:
    """Send AlterPartition; the answer comes back as IsrAccepted or IsrRefused. Emitted again for a retry.

    broker_epochs: one per member, -1 for those that have not fetched from this leader yet, and for the leader itself
    (the sender knows its own). The controller does not check a -1.
    """

    in_sync_replicas: tuple[BrokerId, ...]
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    broker_epochs: tuple[BrokerEpoch, ...]
    reason: str


LeaderAction = AdvanceHighWatermark | ProposeIsr
