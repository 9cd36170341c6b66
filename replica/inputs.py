"""The inputs of a leader and its actions; it decides in `leader.py`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from replica.causes import HighWatermarkCause, LagCause
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
    """Every record below `high_watermark` is committed: complete what waits for it.

    holders: the members of the ISR, which hold all of them
    joining: outside the ISR, but close: the next step waits for it, too
    """

    previous: Offset
    high_watermark: Offset
    holders: tuple[BrokerId, ...]
    joining: BrokerId | None


@dataclass(frozen=True, slots=True)
class LagLimits:
    """max_messages: None unless `isr-lag: messages`"""

    time_max_us: int
    max_messages: int | None


class Lag(NamedTuple):
    """How a member is out of sync. amount: microseconds, or records where it is `behind`; None: there is no number"""

    cause: LagCause
    amount: int | None = None


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """epoch_start_offset: which the follower has reached, too; None: `isr-join` does not ask for that"""

    log_end_offset: Offset
    high_watermark: Offset
    epoch_start_offset: Offset | None


@dataclass(frozen=True, slots=True)
class OutOfSync:
    """The members that go, each with its lag, in the order of the ISR."""

    lags: tuple[tuple[BrokerId, Lag], ...]
    limits: LagLimits


@dataclass(frozen=True, slots=True)
class ProposalRefused:
    """error: how the controller answered the same proposal"""

    error: ErrorCode


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
    why: CaughtUp | OutOfSync | ProposalRefused


LeaderAction = AdvanceHighWatermark | ProposeIsr


# ------------------------------------------------------------------------------------------------------ follower inputs
#
# The inputs of a follower and its actions; it decides in `follower.py`.


class Which(Enum):
    """Which end of the leader's log is asked for (ListOffsets timestamps -1 and -2)."""

    LATEST = -1
    EARLIEST = -2


# ------------------------------------------------------------------------------------------------------------- inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerAssigned:
    """The controller named a leader to follow. latest_epoch: of the local log, None when no epoch is known there."""

    now_us: int
    leader_id: BrokerId
    leader_epoch: LeaderEpoch
    log_end_offset: Offset
    latest_epoch: LeaderEpoch | None
    high_watermark: Offset
    log_start_offset: Offset = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswered:
    """One partition of a fetch response. requested_*: as they stood in the request that is answered.

    diverging: (epoch, end offset) of the leader when the logs part, then nothing else in the answer counts
    """

    now_us: int
    requested_offset: Offset
    requested_leader_epoch: LeaderEpoch
    error: ErrorCode
    leader_high_watermark: Offset
    leader_log_start_offset: Offset
    diverging: tuple[LeaderEpoch, Offset] | None
    has_records: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsAppended:
    """AppendRecords was performed; log_end_offset is unchanged if nothing in the answer was fit to be appended.

    was_cut: not even its first batch was whole
    """

    now_us: int
    log_end_offset: Offset
    latest_epoch: LeaderEpoch | None
    was_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFailed:
    """AppendRecords could not be performed."""

    now_us: int
    error: ErrorCode
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """TruncateTo or TruncateFullyAndStartAt was performed."""

    now_us: int
    log_end_offset: Offset
    latest_epoch: LeaderEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchBroke:
    """No answer: the connection is gone, or was never there."""

    now_us: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderOffsetsKnown:
    """The answer to AskLeaderOffsets; offset counts only without an error."""

    now_us: int
    which: Which
    requested_leader_epoch: LeaderEpoch
    error: ErrorCode
    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndAnswered:
    """The leader's answer where the epoch of our last record ends in its log; without an error (-1, -1): it cannot say.

    requested_*: as they stood in the request that is answered
    """

    now_us: int
    requested_epoch: LeaderEpoch
    requested_leader_epoch: LeaderEpoch
    error: ErrorCode
    epoch: LeaderEpoch
    end_offset: Offset


FollowerInput = (
    FollowerAssigned
    | FetchAnswered
    | RecordsAppended
    | AppendFailed
    | Truncated
    | FetchBroke
    | LeaderOffsetsKnown
    | EpochEndAnswered
)


# ------------------------------------------------------------------------------------------------------------ actions


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRecords:
    """Append what the answer holds, then RecordsAppended or AppendFailed.

    max_leader_epoch: batches of a later epoch, and all after them, are not ours to take yet (KAFKA-18723); None: any is
    """

    max_leader_epoch: LeaderEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTo:
    """Cut the log, then Truncated. An offset at or past the log end still cuts the epoch cache (RULES.md W6)."""

    offset: Offset
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateFullyAndStartAt:
    """Delete everything and begin an empty log at `offset`, then Truncated."""

    offset: Offset
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetHighWatermark:
    """The follower's high watermark is an assignment: it can fall. leader_high_watermark: as it was answered last"""

    previous: Offset
    high_watermark: Offset
    cause: HighWatermarkCause
    leader_high_watermark: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLogStartOffset:
    """The leader has deleted the records below `offset`: so do we."""

    offset: Offset
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLeaderOffsets:
    """Send ListOffsets with our leader epoch; LeaderOffsetsKnown or FetchBroke follows."""

    which: Which
    leader_epoch: LeaderEpoch
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayFetch:
    """Do not fetch before `until_us` (replica.fetch.backoff.ms)."""

    until_us: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkFailed:
    """Stop fetching until a new leader epoch: the replica falls behind in silence."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """The process ends here and now, for the sake of one partition (`follower-ahead: halt`)."""

    reason: str


FollowerAction = (
    AppendRecords
    | TruncateTo
    | TruncateFullyAndStartAt
    | SetHighWatermark
    | SetLogStartOffset
    | AskLeaderOffsets
    | DelayFetch
    | MarkFailed
    | Halt
)


# --------------------------------------------------------------------------------------------------------- fetch states
#
# The states of a replica that follows, and which input leads from which state to which: a table that FollowerState
# obeys in every step.
#
#     FETCHING    asks for records, from its log end on
#     COMPARING   asks first where its latest epoch ends in the leader's log (`truncation` of 0.11 to 2.6)
#     APPENDING   has records to append      } ordered from its log, and reported
#     TRUNCATING  has its log to cut         } by it in the same moment
#     ASKING      was out of range: asks where the leader's log ends, and then perhaps where it starts
#     FAILED      does nothing until there is a new leader, or a new leader epoch
#
# FETCHING and COMPARING last also while a fetch is delayed. Where the table has no entry an input changes no state: an
# answer that comes too late, for instance. source: AbstractFetcherThread.scala (ReplicaState, PartitionFetchState)


class FetchState(Enum):
    """The values are read in sentences."""

    FETCHING = "fetching"
    COMPARING = "comparing epochs with the leader"
    APPENDING = "appending"
    TRUNCATING = "truncating"
    ASKING = "asking the leader"
    FAILED = "failed"


FETCHING, COMPARING, APPENDING, TRUNCATING, ASKING, FAILED = FetchState

NextStates = Mapping[type[FollowerInput], tuple[FetchState, ...]]

_BEGIN: NextStates = {FollowerAssigned: (FETCHING, COMPARING, TRUNCATING)}

NEXT_STATES: Mapping[FetchState, NextStates] = {
    FETCHING: {**_BEGIN, FetchAnswered: (APPENDING, TRUNCATING, ASKING, FAILED)},
    COMPARING: {**_BEGIN, EpochEndAnswered: (TRUNCATING, FAILED)},
    APPENDING: {**_BEGIN, RecordsAppended: (FETCHING,), AppendFailed: (FETCHING, FAILED)},
    TRUNCATING: {**_BEGIN, Truncated: (FETCHING, COMPARING)},
    ASKING: {**_BEGIN, LeaderOffsetsKnown: (FETCHING, TRUNCATING, FAILED), FetchBroke: (FETCHING,)},
    FAILED: {**_BEGIN},
}
"""State -> input -> the states it may lead to."""

REPORTS = (RecordsAppended, AppendFailed, Truncated)
"""They answer an order, so they come in its state and end it; anywhere else they are a bug."""


def check_step(before: FetchState, given: FollowerInput, after: FetchState) -> None:
    """A step that the table does not have is a bug."""
    next_states = NEXT_STATES[before].get(type(given), ())
    stays = after is before and not isinstance(given, REPORTS)
    assert stays or after in next_states, f"{type(given).__name__} leads from {before.name} to {after.name}"
