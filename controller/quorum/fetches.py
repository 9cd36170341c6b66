"""The answer of the leader's log to a fetch, and the effect of the answer on the fetcher's log (KIP-595, KIP-630).

Source: ReplicatedLog.validateOffsetAndEpoch, truncateToEndOffset
"""

from __future__ import annotations

from controller.quorum.messages import FetchLog, FetchSnapshot, OffsetAndEpoch, ReplicatedLog
from replica.errors import ErrorCode
from replica.ids import Offset


def is_cut_off(log: ReplicatedLog, request: FetchLog) -> bool:
    """The log does not say any more what comes next, or whether the fetcher's log is ours."""
    earliest, start = log.earliest_snapshot, log.start_offset
    offset, epoch = request.fetch_offset, request.last_fetched_epoch
    if earliest is None or (start == 0 and (offset, epoch) == (0, 0)):
        return False
    return offset < start or (offset == start and epoch != earliest.epoch) or epoch < earliest.epoch


def diverging_end(log: ReplicatedLog, request: FetchLog) -> OffsetAndEpoch | None:
    """Where the fetcher's log parts from ours at the latest; None: it does not."""
    if (request.fetch_offset, request.last_fetched_epoch) == (0, 0):
        return None
    end = log.end_of_epoch(request.last_fetched_epoch)
    return end if end.epoch != request.last_fetched_epoch or end.offset < request.fetch_offset else None


def snapshot_piece(log: ReplicatedLog, request: FetchSnapshot) -> tuple[ErrorCode, int, bytes]:
    """An error, or how many bytes the snapshot has and those that are asked for, one at least."""
    data = log.read_snapshot(request.snapshot)
    if data is None:
        return ErrorCode.SNAPSHOT_NOT_FOUND, 0, b""
    if not 0 <= request.position < len(data):
        return ErrorCode.POSITION_OUT_OF_RANGE, 0, b""
    piece = data[request.position : request.position + max(request.max_bytes, 1)]
    return ErrorCode.NONE, len(data), piece


def truncation_offset(log: ReplicatedLog, diverging: OffsetAndEpoch) -> Offset:
    """Where the fetcher cuts its log, told that."""
    own = log.end_of_epoch(diverging.epoch)
    return min(own.offset, diverging.offset) if own.epoch == diverging.epoch else own.offset
