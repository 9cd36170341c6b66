"""The inputs of a follower and its actions; it decides in `follower.py`."""

from __future__ import annotations

from enum import Enum

from replica.errors import ErrorCode
from replica.frozen import dataclass
from replica.ids import BrokerId, LeaderEpoch, Offset


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
    """The follower's high watermark is an assignment: it can fall."""

    previous: Offset
    high_watermark: Offset
    reason: str


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
