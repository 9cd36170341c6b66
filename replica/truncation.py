"""The switch `truncation`: how a follower finds what its log must lose before it fetches from a new leader.

| value | eras | rule |
|---|---|---|
| high-watermark | to 0.10 | cut to the own high watermark: above it nothing is known to be committed |
| leader-epoch | 0.11 to 1.1 | ask the leader where the epoch of our last record ends, and cut there (KIP-101) |
| leader-epoch-exact | 2.0 to 2.6 | the leader also says which epoch that is; repeat until both know it (KIP-279) |
| on-fetch | from 2.7 | fetch at the own end, naming the epoch there; the leader answers where the logs part (KIP-595) |

Each value is one small class; `truncation_of` picks it. The high watermark remains the fallback of all of them, where
no epoch is known. source: ReplicaFetcherThread.maybeTruncate (0.11), AbstractFetcherThread (2.0 and later)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from replica.errors import ErrorCode, KafkaError
from replica.ids import UNDEFINED_EPOCH, UNKNOWN_OFFSET, LeaderEpoch, Offset
from replica.rules import Rules

# ----------------------------------------------------------------------------------------------------------- divergence
#
# Where two logs of one partition part: the leader's answer, and the follower's cut.
#
# source: Partition.readRecords, AbstractFetcherThread.getOffsetTruncationState; KIP-101, KIP-279, KIP-595

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


class FollowerLog(NamedTuple):
    """The inputs that decide a cut. latest_epoch: of the last record, None when it is not known

    fetch_offset: where the follower would fetch next; while it asks first that is its high watermark, or its last cut

    leader, follower: names of the two brokers
    """

    fetch_offset: Offset
    log_end_offset: Offset
    high_watermark: Offset
    latest_epoch: LeaderEpoch | None
    end_offset_for: EndOffsetFor
    leader: str
    follower: str


class Truncation(Protocol):
    """One value of the switch.

    asks_first: no fetch before the leader has said where the epoch of our last record ends (OffsetForLeaderEpoch)
    names_last_epoch: each fetch says in which epoch our last record was written
    begins_epoch_at_once: a leader notes the start of its epoch when it begins to lead, not with its first record
    """

    asks_first: bool
    names_last_epoch: bool
    begins_epoch_at_once: bool

    def first_cut(self, log: FollowerLog) -> OffsetTruncationState | None:
        """Where to cut before anything is asked; None: nowhere."""

    def cut(self, told: tuple[LeaderEpoch, Offset], log: FollowerLog) -> OffsetTruncationState:
        """Where to cut, told the leader's (epoch, end offset) for the epoch of our last record."""


class ToHighWatermark:
    """Until 0.11. Loses committed records, since a follower's high watermark trails the leader's (RULES.md W1), and
    keeps others that the leader does not have, where a log lost more than that (W2).
    source: ReplicaManager.makeFollowers (0.10.2)

    Simplified: batches carry their leader epoch all the same, for the checker; no broker asks for it.
    Differs from Kafka: they have format 2 in every era. The formats before 0.11 named a compressed batch by its last
    offset, so a follower whose log ended inside one took it, and its offsets went backwards; here it refuses the batch
    and stops (KAFKA-3919).
    """

    asks_first = False
    names_last_epoch = False
    begins_epoch_at_once = False

    def first_cut(self, log: FollowerLog) -> OffsetTruncationState | None:
        if log.high_watermark >= log.log_end_offset:
            return None
        why = f"until 0.11 a new follower of {log.leader} keeps only what is below its own HW {log.high_watermark}"
        return OffsetTruncationState(log.high_watermark, True, why)

    def cut(self, told: tuple[LeaderEpoch, Offset], log: FollowerLog) -> OffsetTruncationState:
        raise AssertionError("before KIP-101 no request asks for the end of an epoch")


def _cut_without_epochs(log: FollowerLog) -> OffsetTruncationState | None:
    """No epoch of our own: only what is known to be committed can be kept."""
    if log.latest_epoch is not None or log.high_watermark == log.log_end_offset:
        return None
    why = f"it knows no leader epochs to compare with the leader {log.leader}, so only its own HW can be trusted"
    return OffsetTruncationState(log.high_watermark, True, why)


def _exact_cut(told: tuple[LeaderEpoch, Offset], log: FollowerLog) -> OffsetTruncationState:
    return find_cut(told, log.fetch_offset, log.log_end_offset, log.end_offset_for, log.leader, log.follower)


class ByLeaderEpoch:
    """KIP-101: the end of our last epoch in the leader's log is where to cut, whichever epoch the leader means by it.
    Two changes of leadership in between, and both keep their own records (RULES.md W3, KAFKA-6361).

    Simplified: a leader whose first epoch is later than the asked one answers with the start of its log; before 2.3 it
    could not say, and the follower fell back to its high watermark. source: ReplicaFetcherThread.maybeTruncate (0.11)
    """

    asks_first = True
    names_last_epoch = False
    begins_epoch_at_once = False
    """KAFKA-7415 (2.0.1): until then a leader that had not written yet knew nothing of its own epoch."""

    def first_cut(self, log: FollowerLog) -> OffsetTruncationState | None:
        return _cut_without_epochs(log)

    def cut(self, told: tuple[LeaderEpoch, Offset], log: FollowerLog) -> OffsetTruncationState:
        end = told[1]  # OffsetForLeaderEpoch v0 answers with nothing else.
        if end == UNKNOWN_OFFSET:
            why = (
                f"the leader {log.leader} knows nothing of epoch {log.latest_epoch}, so only its own HW can be trusted"
            )
            return OffsetTruncationState(log.high_watermark, True, why)
        if end >= log.log_end_offset:
            why = f"the leader {log.leader} answers that epoch {log.latest_epoch} ends at {end}, not before our end"
            return OffsetTruncationState(log.log_end_offset, True, why)
        return OffsetTruncationState(
            end, True, f"epoch {log.latest_epoch} ends at {end} in the log of the leader {log.leader}"
        )


class ByExactLeaderEpoch:
    """KIP-279: the leader names the epoch it means; where we do not know that one, we cut to the end of the one below
    and repeat the request. source: AbstractFetcherThread.getOffsetTruncationState

    As 2.0.1 has it: a leader notes its epoch when it begins (KAFKA-7415), a follower minds missed epochs (KAFKA-7164).
    """

    asks_first = True
    names_last_epoch = False
    begins_epoch_at_once = True

    def first_cut(self, log: FollowerLog) -> OffsetTruncationState | None:
        return _cut_without_epochs(log)

    def cut(self, told: tuple[LeaderEpoch, Offset], log: FollowerLog) -> OffsetTruncationState:
        return _exact_cut(told, log)


class OnFetch:
    """KIP-595: no question before the first fetch; a fetch that diverges is one round of the search."""

    asks_first = False
    names_last_epoch = True
    begins_epoch_at_once = True

    def first_cut(self, log: FollowerLog) -> OffsetTruncationState | None:
        return _cut_without_epochs(log)

    def cut(self, told: tuple[LeaderEpoch, Offset], log: FollowerLog) -> OffsetTruncationState:
        return _exact_cut(told, log)


_TRUNCATIONS: dict[str, Truncation] = {
    "high-watermark": ToHighWatermark(),
    "leader-epoch": ByLeaderEpoch(),
    "leader-epoch-exact": ByExactLeaderEpoch(),
    "on-fetch": OnFetch(),
}


def truncation_of(rules: Rules) -> Truncation:
    return _TRUNCATIONS[rules.truncation]
