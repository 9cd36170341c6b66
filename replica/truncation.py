"""The switch `truncation`: how a follower decides where to truncate its log before it fetches from a new leader.

| value | eras | rule |
|---|---|---|
| high-watermark | to 0.10 | truncate to the follower's high watermark: only earlier records are surely committed |
| leader-epoch | 0.11 to 1.1 | truncate to the leader's end offset of the follower's last epoch (KIP-101) |
| leader-epoch-exact | 2.0 to 2.6 | the leader also returns an epoch; repeat until both logs have it (KIP-279) |
| on-fetch | from 2.7 | a fetch has the follower's last epoch; the response has the diverging epoch (KIP-595) |

Each value is a class, which `truncation_of` selects. If no epoch is known, all truncate to the high watermark.
Source: ReplicaFetcherThread.maybeTruncate (0.11), AbstractFetcherThread (2.0 and later)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from replica.causes import TruncationCause
from replica.errors import ErrorCode, KafkaError
from replica.ids import UNDEFINED_EPOCH, UNKNOWN_OFFSET, LeaderEpoch, Offset
from replica.inputs import TruncateTo
from replica.rules import Rules

# ----------------------------------------------------------------------------------------------------------- divergence
#
# The offset at which two logs of a partition diverge: the leader's answer, and the follower's truncation.
#
# Source: Partition.readRecords, AbstractFetcherThread.getOffsetTruncationState; KIP-101, KIP-279, KIP-595

EndOffsetFor = Callable[[LeaderEpoch], tuple[LeaderEpoch, Offset]]
"""A function that returns (epoch, end offset) of a log's largest epoch <= its argument; (-1, -1) if unknown."""


def find_divergence(
    last_fetched_epoch: LeaderEpoch,
    fetch_offset: Offset,
    end_offset_for: EndOffsetFor,
    log_start_offset: Offset,
) -> tuple[LeaderEpoch, Offset] | None:
    """Compare the logs of the leader and a fetching follower, and return where they diverge, if they do (KIP-595).

    Args:
        last_fetched_epoch: epoch of the follower's last record, -1 if the fetch has none.
        end_offset_for: returns the end offset of an epoch in the leader's log.

    Returns:
        (epoch, end offset) of the leader's largest epoch <= `last_fetched_epoch`, or None if the logs do not diverge.

    Raises:
        KafkaError: OFFSET_OUT_OF_RANGE if the leader does not know the epoch or no longer has the fetch offset.

    Source: Partition.readRecords
    """
    if last_fetched_epoch == UNDEFINED_EPOCH:  # as before KIP-595, and for consumers
        return None
    epoch, end_offset = end_offset_for(last_fetched_epoch)
    if epoch == UNDEFINED_EPOCH or end_offset == UNKNOWN_OFFSET:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"the leader does not know the end offset of epoch {last_fetched_epoch}"
        )
    if fetch_offset < log_start_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"fetch offset {fetch_offset} is below the log start offset {log_start_offset}",
        )
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return epoch, end_offset
    return None


def find_cut(
    diverging: tuple[LeaderEpoch, Offset], fetch_offset: Offset, log_end_offset: Offset, end_offset_for: EndOffsetFor
) -> TruncateTo:
    """Return the offset to which a follower truncates its log, and the reason.

    Args:
        diverging: (epoch, end offset) of the leader's largest epoch at or below the follower's last epoch.
        fetch_offset: offset in the follower's request.
        log_end_offset: end of the follower's log.
        end_offset_for: returns the end offset of an epoch in the follower's log.

    Source: AbstractFetcherThread.getOffsetTruncationState
    """
    leader_epoch, leader_end = diverging
    if leader_end == UNKNOWN_OFFSET:
        return TruncateTo(offset=fetch_offset, cause=TruncationCause.NO_ANSWER)
    to_leader_end = min(leader_end, log_end_offset)
    if leader_epoch == UNDEFINED_EPOCH:
        return TruncateTo(offset=to_leader_end, cause=TruncationCause.LEADER_END, leader_end_offset=leader_end)
    epoch, end = end_offset_for(leader_epoch)
    cut = partial(TruncateTo, diverging_epoch=leader_epoch, leader_end_offset=leader_end)
    if epoch == UNDEFINED_EPOCH:
        return cut(offset=to_leader_end, cause=TruncationCause.NO_OWN_EPOCH)
    cut = partial(cut, own_epoch=epoch, own_end_offset=end)
    if epoch != leader_epoch:
        # KIP-279: the follower does not have the epoch of the answer. It truncates to the end of an earlier epoch that
        # the leader may have, and compares again.
        return cut(offset=min(end, log_end_offset), cause=TruncationCause.EARLIER_EPOCH)
    if end < leader_end:
        return cut(offset=min(end, log_end_offset), cause=TruncationCause.OWN_EPOCH_END)
    return cut(offset=to_leader_end, cause=TruncationCause.EPOCH_END)


class FollowerLog(NamedTuple):
    """The state of a follower's log that decides where to truncate it.

    Attributes:
        fetch_offset: the next offset to fetch; before the first fetch, the high watermark or the last truncation.
        latest_epoch: epoch of the last record, None if unknown.
    """

    fetch_offset: Offset
    log_end_offset: Offset
    high_watermark: Offset
    latest_epoch: LeaderEpoch | None
    end_offset_for: EndOffsetFor


class Truncation(Protocol):
    """The interface of the classes for the values of the switch `truncation`.

    Attributes:
        asks_first: True if a follower sends OffsetForLeaderEpoch before it fetches.
        names_last_epoch: True if each fetch has the epoch of the follower's last record.
        begins_epoch_at_once: True if a leader stores the start of its epoch when it becomes leader, False if it does
            so with its first record.
    """

    asks_first: bool
    names_last_epoch: bool
    begins_epoch_at_once: bool

    def first_cut(self, log: FollowerLog) -> TruncateTo | None:
        """Return the truncation before any request to the leader, None to keep the log."""

    def cut(self, answer: tuple[LeaderEpoch, Offset], log: FollowerLog) -> TruncateTo:
        """Return the truncation after the leader's answer.

        `answer` is the leader's (epoch, end offset) for the epoch of the follower's last record.
        """


class ToHighWatermark:
    """Truncation to the high watermark, as before 0.11.

    This rule loses committed records, since a follower's high watermark is lower than the leader's (RULES.md W1). It
    also keeps records that the leader does not have, if the leader has lost records (W2).
    Source: ReplicaManager.makeFollowers (0.10.2)

    Simplified: batches have a leader epoch nevertheless, for the checker; brokers do not use it.
    Differs from Kafka: batches have format 2 in every era. In formats before 0.11, a compressed batch has the offset of
    its last record, so a follower whose log ended inside a batch appended the batch, and offsets decreased. Here the
    follower refuses the batch and stops (KAFKA-3919).
    """

    asks_first = False
    names_last_epoch = False
    begins_epoch_at_once = False

    def first_cut(self, log: FollowerLog) -> TruncateTo | None:
        if log.high_watermark >= log.log_end_offset:
            return None
        return TruncateTo(offset=log.high_watermark, cause=TruncationCause.HIGH_WATERMARK)

    def cut(self, answer: tuple[LeaderEpoch, Offset], log: FollowerLog) -> TruncateTo:
        raise AssertionError("before KIP-101 no request asks for the end of an epoch")


class ByLeaderEpoch:
    """Truncation to the leader's end offset of the follower's last epoch, or of an earlier epoch (KIP-101).

    The leader's answer does not contain the epoch. After two changes of leader, the two logs may therefore keep
    different records (RULES.md W3, KAFKA-6361). Source: ReplicaFetcherThread.maybeTruncate (0.11)

    Simplified: a leader whose first epoch is later than the requested epoch answers with the start of its log. Before
    2.3 it could not answer, and the follower truncated to its high watermark.
    """

    asks_first = True
    names_last_epoch = False
    begins_epoch_at_once = False
    """Before KAFKA-7415 (2.0.1), a leader that had not appended yet did not store its epoch."""

    def first_cut(self, log: FollowerLog) -> TruncateTo | None:
        """Return a truncation to the high watermark if no epoch is known: only earlier records are surely committed."""
        if log.latest_epoch is not None or log.high_watermark == log.log_end_offset:
            return None
        return TruncateTo(offset=log.high_watermark, cause=TruncationCause.NO_EPOCHS)

    def cut(self, answer: tuple[LeaderEpoch, Offset], log: FollowerLog) -> TruncateTo:
        end = answer[1]  # OffsetForLeaderEpoch v0 returns no epoch.
        if end == UNKNOWN_OFFSET:
            cause, asked = TruncationCause.EPOCH_UNKNOWN, log.latest_epoch
            return TruncateTo(offset=log.high_watermark, cause=cause, diverging_epoch=asked)
        return TruncateTo(
            offset=min(end, log.log_end_offset),
            cause=TruncationCause.EPOCH_END,
            diverging_epoch=log.latest_epoch,
            leader_end_offset=end,
        )


class ByExactLeaderEpoch(ByLeaderEpoch):
    """Truncation to the end of the last epoch that both logs have (KIP-279).

    If the follower does not have the epoch in the leader's answer, it truncates to the end of its next lower epoch and
    asks again. These are the rules of 2.0.1: a leader stores its epoch when it becomes leader (KAFKA-7415), and a
    follower compares logs after a missed epoch (KAFKA-7164). Source: AbstractFetcherThread.getOffsetTruncationState
    """

    begins_epoch_at_once = True

    def cut(self, answer: tuple[LeaderEpoch, Offset], log: FollowerLog) -> TruncateTo:
        return find_cut(answer, log.fetch_offset, log.log_end_offset, log.end_offset_for)


class OnFetch(ByExactLeaderEpoch):
    """Truncation to the end of the last epoch that both logs have, found by fetches alone (KIP-595)."""

    asks_first = False
    names_last_epoch = True


_TRUNCATIONS: dict[str, Truncation] = {
    "high-watermark": ToHighWatermark(),
    "leader-epoch": ByLeaderEpoch(),
    "leader-epoch-exact": ByExactLeaderEpoch(),
    "on-fetch": OnFetch(),
}


def truncation_of(rules: Rules) -> Truncation:
    return _TRUNCATIONS[rules.truncation]
