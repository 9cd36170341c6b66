"""What a follower would cut on its return to a given leader: Highwater's own follower decides, by the rules of an era.

Both start first, as after their last stop; then the leader is elected, in a new epoch. No record is sent.
"""

from __future__ import annotations

from dataclasses import dataclass

from replica.errors import ErrorCode, KafkaError
from replica.follower import FollowerState
from replica.ids import LeaderEpoch, Names, Offset
from replica.inputs import (
    AppendRecords,
    AskLeaderOffsets,
    EpochEndAnswered,
    FetchAnswered,
    FollowerAction,
    FollowerAssigned,
    FollowerInput,
    Halt,
    LeaderOffsetsKnown,
    MarkFailed,
    Truncated,
    TruncateFullyAndStartAt,
    TruncateTo,
    Which,
)
from replica.log.leader_epochs import LeaderEpochCache
from replica.rules import Rules
from replica.truncation import find_divergence, truncation_of
from scenarios.logdirs.replica_log import StoredReplica

ROUNDS_MAX = 10_000
"""Each round cuts to an earlier epoch, and no log has had so many leaders."""
LEADER, FOLLOWER = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """log_end_offset: before it fetches the first record     steps: what it does, in sentences

    gives_up: why it never fetches, None when it does
    """

    log_end_offset: Offset
    steps: tuple[str, ...]
    gives_up: str | None


def on_return(leader: StoredReplica, follower: StoredReplica, rules: Rules) -> Return:
    return _Returning(leader, follower, rules).run()


class _Returning:
    def __init__(self, leader: StoredReplica, follower: StoredReplica, rules: Rules) -> None:
        names = Names({LEADER: f"broker {leader.node}", FOLLOWER: f"broker {follower.node}"})
        self._epoch: LeaderEpoch = max(leader.latest_epoch, follower.latest_epoch) + 1
        self._rules = rules
        self._leader = _Epochs(leader)
        if truncation_of(rules).begins_epoch_at_once:
            self._leader.cache.assign(self._epoch, self._leader.end)
        self._own = _Epochs(follower)
        self._high_watermarks = leader.high_watermark_on_start, follower.high_watermark_on_start
        self._state = FollowerState(
            topic_partition=follower.place.topic_partition,
            broker_id=FOLLOWER,
            fetch_backoff_us=0,
            names=names,
            rules=rules,
            end_offset_for=self._own.end_offset_for,
            # Only kafka-2.0 and older ask; a follower that is ahead can have come from such an election alone.
            unclean_elections_allowed=lambda: True,
        )
        self._steps: list[str] = []
        self._gives_up: str | None = None
        self._is_fetching = False

    def run(self) -> Return:
        assigned = FollowerAssigned(
            now_us=0,
            leader_id=LEADER,
            leader_epoch=self._epoch,
            log_end_offset=self._own.end,
            latest_epoch=self._own.cache.latest_epoch,
            high_watermark=self._high_watermarks[1],
            log_start_offset=self._own.start,
        )
        self._step(assigned)
        for _ in range(ROUNDS_MAX):
            if self._is_fetching or self._gives_up is not None:
                break
            if self._state.may_compare(0):
                self._step(self._end_of_epoch())
            elif self._state.may_fetch(0):
                answer = self._answer()
                self._is_fetching = answer.error is ErrorCode.NONE and answer.diverging is None
                self._step(answer)
            else:
                self._gives_up = f"it neither fetches nor asks ({self._state.state.value})"
        return Return(log_end_offset=self._own.end, steps=tuple(self._steps), gives_up=self._gives_up)

    def _step(self, given: FollowerInput) -> None:
        for action in self._state.step(given):
            self._perform(action)

    def _perform(self, action: FollowerAction) -> None:
        match action:
            case TruncateTo() | TruncateFullyAndStartAt():
                before = self._own.end
                self._own.cut(action)
                if self._own.end != before or isinstance(action, TruncateFullyAndStartAt):
                    self._steps.append(action.reason)
                self._step(Truncated(now_us=0, log_end_offset=self._own.end, latest_epoch=self._own.cache.latest_epoch))
            case AskLeaderOffsets():
                self._steps.append(action.reason)
                offset = self._leader.end if action.which is Which.LATEST else self._leader.start
                self._step(
                    LeaderOffsetsKnown(
                        now_us=0,
                        which=action.which,
                        requested_leader_epoch=action.leader_epoch,
                        error=ErrorCode.NONE,
                        offset=offset,
                    )
                )
            case MarkFailed() | Halt():
                self._gives_up = action.reason
            case AppendRecords():
                self._is_fetching = True

    def _end_of_epoch(self) -> EpochEndAnswered:
        asked = self._state.last_fetched_epoch
        assert asked is not None, "a follower without an epoch does not ask"
        epoch, end_offset = self._leader.end_offset_for(asked)
        return EpochEndAnswered(
            now_us=0,
            requested_epoch=asked,
            requested_leader_epoch=self._epoch,
            error=ErrorCode.NONE,
            epoch=epoch,
            end_offset=end_offset,
        )

    def _answer(self) -> FetchAnswered:
        """source: Partition.readRecords"""
        offset, leader = self._state.fetch_offset, self._leader
        diverging: tuple[LeaderEpoch, Offset] | None = None
        error = ErrorCode.NONE
        try:
            diverging = find_divergence(self._state.epoch_in_fetch, offset, leader.end_offset_for, leader.start)
        except KafkaError as refusal:
            error = refusal.code
        if diverging is None and not leader.start <= offset <= leader.end:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        return FetchAnswered(
            now_us=0,
            requested_offset=offset,
            requested_leader_epoch=self._epoch,
            error=error,
            leader_high_watermark=self._high_watermarks[0],
            leader_log_start_offset=leader.start,
            diverging=diverging,
            has_records=error is ErrorCode.NONE and diverging is None and offset < leader.end,
        )


class _Epochs:
    """A log as the rules of truncation see it: where it starts and ends, and its leader epochs."""

    def __init__(self, log: StoredReplica) -> None:
        self.start = log.log_start_offset
        self.end = log.log_end_on_start
        self.cache = LeaderEpochCache()
        for epoch, start in log.epochs_on_start:
            self.cache.assign(epoch, start)

    def end_offset_for(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        return self.cache.end_offset_for(epoch, self.end)

    def cut(self, action: TruncateTo | TruncateFullyAndStartAt) -> None:
        if isinstance(action, TruncateFullyAndStartAt):
            self.start = self.end = action.offset
            self.cache.clear()
        else:
            self.end = min(self.end, action.offset)
            self.cache.truncate_from_end(self.end)
