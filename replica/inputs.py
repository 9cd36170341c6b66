"""Inputs and actions of the state machines of leaders and followers (leader.py, follower.py)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from replica.causes import FetchFailureCause, HighWatermarkCause, LagCause, TruncationCause
from replica.errors import ErrorCode
from replica.frozen import dataclass
from replica.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAssigned:
    """The controller made this broker the leader, in a new epoch. `was_leader` is True if it already was the leader."""

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
    """The controller changed the ISR or the assignment without beginning a new leader epoch."""

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
    """A follower has fetched, which shows that the follower has every record below `fetch_offset`.

    `leader_end_offset` is the leader's log end when the fetch was read.
    """

    now_us: int
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    fetch_offset: Offset
    leader_end_offset: Offset
    log_start_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LagCheckDue:
    """The check for out-of-sync members is due (Kafka's isr-expiration task, every half replica.lag.time.max.ms)."""

    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrAccepted:
    """AlterPartition succeeded.

    Attributes:
        proposal: the accepted proposal; None for the pending proposal.
        leader_epoch: the partition's new leader epoch, which is higher than the leader's if a reassignment was
            completed.
    """

    now_us: int
    leader_epoch: LeaderEpoch
    in_sync_replicas: tuple[BrokerId, ...]
    partition_epoch: PartitionEpoch
    recovering: bool
    proposal: ProposeIsr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrRefused:
    """AlterPartition failed for this partition. `proposal` is the refused proposal; None for the pending proposal."""

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
    """The action to complete requests that wait for the high watermark; records below `high_watermark` are committed.

    Attributes:
        holders: members of the ISR, which all have these records.
        joining: a caught-up replica outside the ISR for which the next advance has to wait, if any.
    """

    previous: Offset
    high_watermark: Offset
    holders: tuple[BrokerId, ...]
    joining: BrokerId | None


@dataclass(frozen=True, slots=True)
class LagLimits:
    """The limits beyond which a follower is out of sync. `max_messages` is None unless `isr-lag: messages` is set."""

    time_max_us: int
    max_messages: int | None


class Lag(NamedTuple):
    """The lag of an ISR member. `amount` is in records for the cause BEHIND, else in microseconds; None if unknown."""

    cause: LagCause
    amount: int | None = None


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The reason to add a replica to the ISR: its log end has reached the high watermark.

    `epoch_start_offset` is the start of the leader epoch, which the replica has also reached; None if the switch
    `isr-join` does not require that.
    """

    log_end_offset: Offset
    high_watermark: Offset
    epoch_start_offset: Offset | None


@dataclass(frozen=True, slots=True)
class OutOfSync:
    """The reason to remove members from the ISR: the lag of each, in the order of the ISR."""

    lags: tuple[tuple[BrokerId, Lag], ...]
    limits: LagLimits


@dataclass(frozen=True, slots=True)
class ProposalRefused:
    """The reason to repeat a proposal: the controller has refused it with this error."""

    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeIsr:
    """The action to send AlterPartition; IsrAccepted or IsrRefused follows.

    `broker_epochs` has one entry per member. The entry is -1, which the controller does not check, for a member that
    has not fetched from this leader yet. It is also -1 for the leader itself; the sender fills in the leader's epoch.
    """

    in_sync_replicas: tuple[BrokerId, ...]
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    broker_epochs: tuple[BrokerEpoch, ...]
    why: CaughtUp | OutOfSync | ProposalRefused


LeaderAction = AdvanceHighWatermark | ProposeIsr


# ------------------------------------------------------------------------------------------------------ follower inputs
#
# The inputs and actions of `FollowerState` (follower.py).


class Which(Enum):
    """Which end of the leader's log to request: the latest or earliest offset (ListOffsets timestamps -1 and -2)."""

    LATEST = -1
    EARLIEST = -2


# ------------------------------------------------------------------------------------------------------------- inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerAssigned:
    """The controller named a leader to follow. `latest_epoch` is the last epoch in this log, None without epochs."""

    now_us: int
    leader_id: BrokerId
    leader_epoch: LeaderEpoch
    log_end_offset: Offset
    latest_epoch: LeaderEpoch | None
    high_watermark: Offset
    log_start_offset: Offset = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswered:
    """The response to a fetch, for one partition. `requested_*` are the values in the request.

    Attributes:
        diverging: (epoch, end offset) at the leader if the logs diverge; the rest of the response is then ignored.
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
    """AppendRecords was performed.

    Attributes:
        log_end_offset: end of the log, unchanged if the response had no complete, valid batch.
        was_cut: True if not even the first batch was complete.
    """

    now_us: int
    log_end_offset: Offset
    latest_epoch: LeaderEpoch | None
    was_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFailed:
    """AppendRecords failed. `message` is the log's explanation, empty if the error code is sufficient."""

    now_us: int
    error: ErrorCode
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """TruncateTo or TruncateFullyAndStartAt was performed."""

    now_us: int
    log_end_offset: Offset
    latest_epoch: LeaderEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchBroke:
    """No response to a request came, because the connection failed."""

    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderOffsetsKnown:
    """The leader has answered AskLeaderOffsets; `offset` is valid only without an error."""

    now_us: int
    which: Which
    requested_leader_epoch: LeaderEpoch
    error: ErrorCode
    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndAnswered:
    """The leader has answered OffsetForLeaderEpoch; `requested_*` are the values in the request.

    An epoch and an end offset of -1 without an error mean that the leader does not know the epoch.
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
    """The action to append the batches of the response; RecordsAppended or AppendFailed follows.

    `max_leader_epoch` is the latest epoch whose batches may be appended (KAFKA-18723), None for no limit.
    """

    max_leader_epoch: LeaderEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTo:
    """The action to truncate the log; Truncated follows.

    An offset at or beyond the log end still truncates the epoch cache (RULES.md W6). The other fields are the reason,
    as in the event `LogTruncated`.
    """

    offset: Offset
    cause: TruncationCause
    diverging_epoch: LeaderEpoch | None = None
    leader_end_offset: Offset | None = None
    own_epoch: LeaderEpoch | None = None
    own_end_offset: Offset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateFullyAndStartAt:
    """The action to delete all records and start an empty log at `offset`; Truncated follows."""

    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class SetHighWatermark:
    """The action to set the follower's high watermark, which may decrease. The leader sent `leader_high_watermark`."""

    previous: Offset
    high_watermark: Offset
    cause: HighWatermarkCause
    leader_high_watermark: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLogStartOffset:
    """The action to delete the records below `offset`, which the leader has deleted."""

    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLeaderOffsets:
    """The action to send ListOffsets with the leader epoch; LeaderOffsetsKnown or FetchBroke follows."""

    which: Which
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayFetch:
    """The action to send no fetch before `until_us` (replica.fetch.backoff.ms)."""

    until_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkFailed:
    """The action to stop fetching until there is a new leader epoch."""

    error: ErrorCode
    cause: FetchFailureCause
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """The action to end the broker's process because of one partition (`follower-ahead: halt`)."""

    leader_end_offset: Offset


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
# The states of a replica that follows, and the table of their transitions, which FollowerState checks in every step.
#
#     FETCHING    requests records from the log end on
#     COMPARING   requests the leader's end offset of the last epoch in this log (`truncation` of 0.11 to 2.6)
#     APPENDING   waits until records are appended to the log
#     TRUNCATING  waits until the log is truncated
#     ASKING      was out of range: requests the end of the leader's log, then perhaps its start
#     FAILED      does nothing until there is a new leader, or a new leader epoch
#
# The delay of a fetch does not change the state FETCHING or COMPARING. An input without an entry in the table, such as
# a late response, changes no state.
#
# Source: AbstractFetcherThread.scala (ReplicaState, PartitionFetchState)


class FetchState(Enum):
    """The states of a follower's fetcher. The values are used in messages."""

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
"""The possible next states, by state and type of input."""

REPORTS = (RecordsAppended, AppendFailed, Truncated)
"""Inputs that report the result of an action. Unless the follower waits for this action, such an input is a bug."""


def check_step(before: FetchState, event: FollowerInput, after: FetchState) -> None:
    """Assert that the table of transitions allows this step."""
    next_states = NEXT_STATES[before].get(type(event), ())
    stays = after is before and not isinstance(event, REPORTS)
    assert stays or after in next_states, f"{type(event).__name__} leads from {before.name} to {after.name}"
