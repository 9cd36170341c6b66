"""Where two logs of one partition part: the leader's answer, and the follower's cut.

source: Partition.readRecords, AbstractFetcherThread.getOffsetTruncationState; KIP-101, KIP-279, KIP-595
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from replica.errors import ErrorCode, KafkaError
from replica.ids import UNDEFINED_EPOCH, UNKNOWN_OFFSET, LeaderEpoch, Offset

EndOffsetFor = Callable[[LeaderEpoch], tuple[LeaderEpoch, Offset]]
"""(epoch, end offset) of a log's largest epoch at or below the asked one; (-1, -1) when it cannot say."""


def find_divergence(
    last_fetched_epoch: LeaderEpoch,
    fetch_offset: Offset,
    end_offset_for: EndOffsetFor,
    log_start_offset: Offset,
) -> tuple[LeaderEpoch, Offset] | None:
    """Where the leader's log and that of a fetching follower part (KIP-595); None: the follower's is a prefix.

    last_fetched_epoch: epoch of the follower's last record, -1 when it has none or cannot say
    end_offset_for: of the leader's log
    raises: KafkaError OFFSET_OUT_OF_RANGE     source: Partition.readRecords
    """
    if last_fetched_epoch == UNDEFINED_EPOCH:  # as before KIP-595, and as consumers do
        return None
    epoch, end_offset = end_offset_for(last_fetched_epoch)
    if epoch == UNDEFINED_EPOCH or end_offset == UNKNOWN_OFFSET:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the leader cannot say where epoch {last_fetched_epoch} ends")
    if fetch_offset < log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{fetch_offset} is before the log start {log_start_offset}")
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return epoch, end_offset
    return None


class OffsetTruncationState(NamedTuple):
    """offset: where a follower cuts its log     complete: False when the leader must be asked again afterwards"""

    offset: Offset
    complete: bool
    reason: str


def find_cut(
    diverging: tuple[LeaderEpoch, Offset],
    fetch_offset: Offset,
    log_end_offset: Offset,
    end_offset_for: EndOffsetFor,
    leader: str,
    follower: str,
) -> OffsetTruncationState:
    """Where a follower cuts, told that the leader's largest epoch at or below its own last one is `diverging`.

    fetch_offset: as in the follower's request     log_end_offset, end_offset_for: of the follower's log
    source: AbstractFetcherThread.getOffsetTruncationState
    """
    leader_epoch, leader_end = diverging
    if leader_end == UNKNOWN_OFFSET:
        return OffsetTruncationState(fetch_offset, True, f"the leader {leader} cannot say where the logs part")
    if leader_epoch == UNDEFINED_EPOCH:
        return OffsetTruncationState(min(leader_end, log_end_offset), True, f"the leader {leader} ends at {leader_end}")
    epoch, end = end_offset_for(leader_epoch)
    in_leader = f"in epoch {leader_epoch} the leader {leader} ends at {leader_end}"
    if epoch == UNDEFINED_EPOCH:
        return OffsetTruncationState(
            min(leader_end, log_end_offset), True, f"{in_leader}, and {follower} knows of no epochs"
        )
    if epoch != leader_epoch:
        # KIP-279: the leader's answer is about an epoch we never saw; go back to one we may share, and ask about that.
        why = f"the leader {leader} has epoch {leader_epoch}, {follower} only epoch {epoch}, which ends at {end}"
        return OffsetTruncationState(min(end, log_end_offset), False, why)
    if end < leader_end:
        return OffsetTruncationState(
            min(end, log_end_offset), True, f"{in_leader}, but in {follower} that epoch ends at {end}"
        )
    return OffsetTruncationState(min(leader_end, log_end_offset), True, in_leader)
