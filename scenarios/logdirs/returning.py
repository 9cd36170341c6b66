"""Predicts what a returning follower truncates, by running Highwater's follower against the leader's log.

Both brokers first start from their files, under the rules of an era. Then the leader is elected in a new epoch. No
records are transferred.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cluster.broker.replicas.followed_partition import log_truncated
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
from replica.wording import listed
from scenarios.logdirs.replica_log import StoredReplica
from scenarios.observe.wording import count_of

ROUNDS_MAX = 10_000
"""Largest number of rounds of truncation. Each round goes back at least one epoch, and no log has so many epochs."""
LEADER, FOLLOWER = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """The predicted return of a follower.

    Attributes:
        log_end_offset: end of the follower's log before it fetches the first record.
        steps: sentences about the follower's actions.
        gives_up: reason why the follower never fetches a record, None if it does.
    """

    log_end_offset: Offset
    steps: tuple[str, ...]
    gives_up: str | None


def on_return(leader: StoredReplica, follower: StoredReplica, rules: Rules) -> Return:
    return _Returning(leader, follower, rules).run()


class _Returning:
    def __init__(self, leader: StoredReplica, follower: StoredReplica, rules: Rules) -> None:
        self._names = Names({LEADER: f"broker {leader.node}", FOLLOWER: f"broker {follower.node}"})
        self._place = (self._names(FOLLOWER), *follower.place.topic_partition)
        self._epoch: LeaderEpoch = max(leader.latest_epoch, follower.latest_epoch) + 1
        self._rules = rules
        self._leader = _Epochs(leader)
        if truncation_of(rules).begins_epoch_at_once:
            self._leader.cache.assign(self._epoch, self._leader.end)
        self._own = _Epochs(follower)
        self._high_watermarks = leader.high_watermark_on_start, follower.high_watermark_on_start
        self._state = FollowerState(
            fetch_backoff_us=0,
            rules=rules,
            end_offset_for=self._own.end_offset_for,
            # Only eras up to kafka-2.0 call this, for a follower ahead of its leader, as after an unclean election.
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
                self._gives_up = f"it neither fetches nor asks for offsets ({self._state.state.value})"
        return Return(log_end_offset=self._own.end, steps=tuple(self._steps), gives_up=self._gives_up)

    def _step(self, event: FollowerInput) -> None:
        for action in self._state.step(event):
            self._perform(action)

    def _perform(self, action: FollowerAction) -> None:
        match action:
            case TruncateTo() | TruncateFullyAndStartAt():
                before = self._own.end
                self._own.cut(action)
                if self._own.end != before or isinstance(action, TruncateFullyAndStartAt):
                    leader = self._names(LEADER)
                    self._steps.append(
                        log_truncated(self._place, leader, self._state, action, self._own.end).sentence()
                    )
                self._step(Truncated(now_us=0, log_end_offset=self._own.end, latest_epoch=self._own.cache.latest_epoch))
            case AskLeaderOffsets():
                self._steps.append(self._question(action.which))
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
            case MarkFailed():
                self._gives_up = action.cause.meaning
            case AppendRecords():
                self._is_fetching = True

    def _question(self, which: Which) -> str:
        leader, follower = self._names(LEADER), self._names(FOLLOWER)
        asks = f"{follower} asks {leader} for its log"
        if which is Which.LATEST:
            return f"{asks} end offset, because {leader} answered that {self._state.fetch_offset} is out of range"
        own_end = f"{follower}'s log ends at {self._own.end}"
        return f"{asks} start offset, because {own_end}, not after the end of {leader}'s log at {self._leader.end}"

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
        """Return the leader's answer to a fetch.

        Source: Partition.readRecords
        """
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
    """The parts of a log on which truncation depends: start, end and leader epochs."""

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


# ------------------------------------------------------------------------------------------------------------- starting
#
# Sentences about the predicted start of a broker: what it checks and truncates in a log, and which records are lost.


def starting(log: StoredReplica) -> Iterator[str]:
    start = log.start
    yield _checked(log)
    if start.fails is not None:
        yield f"the broker does not start: {start.fails}"
    elif start.unseen is not None:
        found = f"so the broker finds no record in segment {start.unseen}, and LEO is {start.end}"
        yield f"the index points at the torn batch, {found}"
        yield _lost(log)
    elif not start.cut_bytes:
        yield f"it cuts nothing, so LEO is {start.end}"
    else:
        later = f", including {count_of(start.deleted_segments, 'whole segment')}" if start.deleted_segments else ""
        yield f"it cuts {count_of(start.cut_bytes, 'byte')}{later}, so LEO is {start.end}"
        yield _lost(log)
    if start.staying:
        yield f"it does not check {count_of(start.staying, 'damaged place')}, and that damage stays"


def _checked(log: StoredReplica) -> str:
    start = log.start
    others = [base for base in start.without_index if start.checked_from is None or base < start.checked_from]
    missing = listed([str(base) for base in others])
    because = "which has no index" if len(others) == 1 else "which have no index"
    if start.checked_from is None:
        checks = f"checks only segment {missing}, {because}" if missing else "checks nothing"
        return f"it was stopped cleanly (.kafka_cleanshutdown), so a start {checks}"
    known = "no recovery point" if log.recovery_point is None else f"recovery point {log.recovery_point}"
    besides = f", and segment {missing}, {because}" if missing else ""
    return f"it was not stopped cleanly ({known}), so a start checks from segment {start.checked_from} on{besides}"


def _lost(log: StoredReplica) -> str:
    start, end = log.start, log.log_end_offset
    torn = next((cut for cut in start.cuts if cut.kind == "torn"), None)
    if start.lost_records or start.end < end:
        offsets = f"offset {start.end}" if end == start.end + 1 else f"offsets {start.end} to {end - 1}"
        words = f"{count_of(start.lost_records, 'record')} {'is' if start.lost_records == 1 else 'are'} lost: {offsets}"
        below = max(0, min(log.high_watermark or 0, end) - start.end)
        return f"{words}, {below:,} of them below HW" if below else words
    if all(cut.kind == "zeros" for cut in start.cuts):
        return "no record is lost, because the bytes are zeros"
    committed = log.high_watermark or 0
    though = f", although HW is {committed}" if committed > start.end else ""
    if torn is not None and torn.last_offset is not None:
        return f"the incomplete batch up to offset {torn.last_offset} is lost{though}"
    return f"the contents of these bytes are unknown{though}"


def old_formats(log: StoredReplica) -> str | None:
    """Return a sentence about a log's messages in formats from before 0.11, None if there are none."""
    found = [
        f"{count_of(count, 'message')} in format {name} {'is' if count == 1 else 'are'} not read"
        for name, count in log.old_formats.items()
    ]
    return "; ".join(found) or None
