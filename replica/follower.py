"""A follower of one partition: its next fetch, the cut of its log, and the offset that the leader says is committed.

Where to cut is decided by the switch `truncation` (truncation.py); whether an answer of another leader epoch counts,
and what makes a follower look for its place again, by `fetch-fencing` (fetch_fencing.py).
source: AbstractFetcherThread.scala, ReplicaFetcherThread.scala
"""

from __future__ import annotations

from collections.abc import Callable

from replica.causes import HighWatermarkCause
from replica.errors import ErrorCode
from replica.fetch_fencing import answers, begins_anew, newest_epoch_taken
from replica.ids import NO_BROKER, UNDEFINED_EPOCH, BrokerId, LeaderEpoch, Names, Offset, TopicPartition
from replica.inputs import (
    AppendFailed,
    AppendRecords,
    AskLeaderOffsets,
    DelayFetch,
    EpochEndAnswered,
    FetchAnswered,
    FetchBroke,
    FetchState,
    FollowerAction,
    FollowerAssigned,
    FollowerInput,
    Halt,
    LeaderOffsetsKnown,
    MarkFailed,
    RecordsAppended,
    SetHighWatermark,
    SetLogStartOffset,
    Truncated,
    TruncateFullyAndStartAt,
    TruncateTo,
    Which,
    check_step,
)
from replica.rules import Rules
from replica.truncation import EndOffsetFor, FollowerLog, OffsetTruncationState, truncation_of

PASSING_APPEND_ERRORS = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD})
"""Bytes read from the leader's file in the middle of its own truncation look like this, once."""


class FollowerState:
    """fetch_offset: of the next fetch, the log end     last_fetched_epoch: of our last record, None if not known

    delayed_until_us: no fetch before this time, None when there is nothing to wait for
    end_offset_for: of our own log     fetch_backoff_us: replica.fetch.backoff.ms in microseconds
    unclean_elections_allowed: the topic's unclean.leader.election.enable as it is now
    """

    def __init__(
        self,
        *,
        topic_partition: TopicPartition,
        broker_id: BrokerId,
        fetch_backoff_us: int,
        names: Names,
        rules: Rules,
        end_offset_for: EndOffsetFor,
        unclean_elections_allowed: Callable[[], bool],
    ) -> None:
        self.topic_partition = topic_partition
        self.broker_id = broker_id
        self.state = FetchState.FAILED
        self.leader_id: BrokerId = NO_BROKER
        self.leader_epoch: LeaderEpoch = UNDEFINED_EPOCH
        self.fetch_offset: Offset = 0
        self.last_fetched_epoch: LeaderEpoch | None = None
        self.log_start_offset: Offset = 0
        self.log_end_offset: Offset = 0
        self.high_watermark: Offset = 0
        self.delayed_until_us: int | None = None
        self._leader_high_watermark: Offset = 0
        self._leader_log_start_offset: Offset = 0
        self._fetch_backoff_us = fetch_backoff_us
        self._names = names
        self._rules = rules
        self._truncation = truncation_of(rules)
        self._compares_again = False
        self._end_offset_for = end_offset_for
        self._unclean_elections_allowed = unclean_elections_allowed

    def may_fetch(self, now_us: int) -> bool:
        """source: PartitionFetchState.isReadyForFetch"""
        return self.state is FetchState.FETCHING and not self._is_delayed(now_us)

    def may_compare(self, now_us: int) -> bool:
        """Before it fetches, it has to learn where `last_fetched_epoch` ends. source: buildLeaderEpochRequest"""
        return self.state is FetchState.COMPARING and not self._is_delayed(now_us)

    @property
    def epoch_in_fetch(self) -> LeaderEpoch:
        """The last fetched epoch in a fetch; -1: none."""
        named = self.last_fetched_epoch if self._truncation.names_last_epoch else None
        return UNDEFINED_EPOCH if named is None else named

    def step(self, given: FollowerInput) -> list[FollowerAction]:
        before = self.state
        actions = self._decide(given)
        check_step(before, given, self.state)
        return actions

    def _decide(self, given: FollowerInput) -> list[FollowerAction]:
        match given:
            case FetchAnswered():
                return self._fetch_answered(given)
            case RecordsAppended():
                return self._records_appended(given)
            case FetchBroke():
                return self._delay(given.now_us, f"{self._leader} did not answer: {given.reason}")
            case Truncated():
                return self._truncated(given)
            case LeaderOffsetsKnown():
                return self._leader_offsets_known(given)
            case EpochEndAnswered():
                return self._epoch_end_answered(given)
            case AppendFailed():
                return self._append_failed(given)
            case FollowerAssigned():
                return self._follow(given)

    @property
    def _leader(self) -> str:
        return self._names(self.leader_id)

    @property
    def _me(self) -> str:
        return self._names(self.broker_id)

    def begins_at(self, log_start_offset: Offset) -> None:
        """Where the own log starts: retention moves that without asking. source: UnifiedLog.logStartOffset"""
        self.log_start_offset = max(self.log_start_offset, log_start_offset)

    # -------------------------------------------------------------------------------------------------- beginning

    def _follow(self, given: FollowerAssigned) -> list[FollowerAction]:
        """source: AbstractFetcherThread.partitionFetchState, addPartitions"""
        followed = None if self.leader_id == NO_BROKER else (self.leader_id, self.leader_epoch)
        self.leader_epoch = max(self.leader_epoch, given.leader_epoch)
        if not begins_anew(self._rules, followed, given.leader_id, given.leader_epoch):
            return []
        self.leader_id = given.leader_id
        self.log_start_offset = given.log_start_offset
        self.log_end_offset = given.log_end_offset
        self.high_watermark = given.high_watermark
        self.last_fetched_epoch = given.latest_epoch
        self.delayed_until_us = None
        return self._begin()

    def _begin(self) -> list[FollowerAction]:
        """Fetch at the own end, unless the switch `truncation` wants a cut or an answer of the leader first."""
        self.state = FetchState.FETCHING
        self.fetch_offset = self.log_end_offset
        cut = self._truncation.first_cut(self._log)
        if cut is not None:
            return self._cut(cut)
        if self._truncation.asks_first and self.last_fetched_epoch is not None:
            self.state = FetchState.COMPARING
            self.fetch_offset = self.high_watermark
        return []

    @property
    def _log(self) -> FollowerLog:
        return FollowerLog(
            fetch_offset=self.fetch_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=self.high_watermark,
            latest_epoch=self.last_fetched_epoch,
            end_offset_for=self._end_offset_for,
            leader=self._leader,
            follower=self._me,
        )

    # ------------------------------------------------------------------------------------------------------- fetching

    def _fetch_answered(self, given: FetchAnswered) -> list[FollowerAction]:
        """source: AbstractFetcherThread.processFetchRequest"""
        if (
            given.requested_offset != self.fetch_offset
            or not answers(self._rules, given.requested_leader_epoch, self.leader_epoch)
            or not self.may_fetch(given.now_us)
        ):
            return []  # Asked in another state: we were truncated, delayed or given a new leader since.
        if given.error is not ErrorCode.NONE:
            return self._fetch_refused(given)
        if given.diverging is not None:
            # Nothing else in this answer counts, so that HW and log start cannot run ahead of the cut.
            return self._diverged(given.diverging)
        if self.fetch_offset != self.log_end_offset:
            return self._fail(f"{self._me} asked for {self.fetch_offset} but its log ends at {self.log_end_offset}")
        self._leader_high_watermark = given.leader_high_watermark
        self._leader_log_start_offset = given.leader_log_start_offset
        if not given.has_records:
            return self._follow_the_leaders_offsets()
        self.state = FetchState.APPENDING
        return [AppendRecords(max_leader_epoch=newest_epoch_taken(self._rules, self.leader_epoch))]

    def _fetch_refused(self, given: FetchAnswered) -> list[FollowerAction]:
        if given.error is ErrorCode.FENCED_LEADER_EPOCH:
            return self._fenced()
        if given.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            why = f"it answered that {self.fetch_offset} is out of range"
            return self._ask(Which.LATEST, why)
        return self._delay(given.now_us, f"{self._leader} answered {given.error.name}")

    def _records_appended(self, given: RecordsAppended) -> list[FollowerAction]:
        self.state = FetchState.FETCHING
        self.fetch_offset = self.log_end_offset = given.log_end_offset
        if given.latest_epoch is not None:
            self.last_fetched_epoch = given.latest_epoch
        actions = self._follow_the_leaders_offsets()
        if given.was_cut:
            # Simplified: Kafka asks again at once, for ever.
            why = f"the batch at {self.fetch_offset} in the log of {self._leader} is larger than a fetch"
            actions += self._delay(given.now_us, why)
        return actions

    def _append_failed(self, given: AppendFailed) -> list[FollowerAction]:
        self.state = FetchState.FETCHING
        if given.error in PASSING_APPEND_ERRORS:
            return self._delay(given.now_us, f"the records from {self._leader} are damaged: {given.reason}")
        return self._fail(f"{self._me} cannot append what {self._leader} sent: {given.reason}")

    def _follow_the_leaders_offsets(self) -> list[FollowerAction]:
        """source: ReplicaFetcherThread.processPartitionData, UnifiedLog.maybeUpdateHighWatermark"""
        told = self._leader_high_watermark
        actions: list[FollowerAction] = []
        if told > self.log_end_offset:
            actions += self._set_high_watermark(self.log_end_offset, HighWatermarkCause.LOG_END)
        elif told < self.log_start_offset:
            actions += self._set_high_watermark(self.log_start_offset, HighWatermarkCause.LOG_START)
        elif told != self.high_watermark:
            actions += self._set_high_watermark(told, HighWatermarkCause.LEADER)
        start = self._leader_log_start_offset
        if self.log_start_offset < start <= self.high_watermark:
            self.log_start_offset = start
            actions.append(SetLogStartOffset(offset=start))
        return actions

    def _set_high_watermark(self, high_watermark: Offset, cause: HighWatermarkCause) -> list[FollowerAction]:
        previous = self.high_watermark
        if high_watermark == previous:
            return []
        self.high_watermark = high_watermark
        told = self._leader_high_watermark
        return [
            SetHighWatermark(previous=previous, high_watermark=high_watermark, cause=cause, leader_high_watermark=told)
        ]

    # ------------------------------------------------------------------------------------------------------ truncation

    def _diverged(self, diverging: tuple[LeaderEpoch, Offset]) -> list[FollowerAction]:
        """One round of the search for the common prefix; the next fetch is the next round."""
        return self._cut(self._truncation.cut(diverging, self._log))

    def _epoch_end_answered(self, given: EpochEndAnswered) -> list[FollowerAction]:
        """One round of the same search before any fetch. source: AbstractFetcherThread.maybeTruncate"""
        if (
            given.requested_epoch != self.last_fetched_epoch
            or not answers(self._rules, given.requested_leader_epoch, self.leader_epoch)
            or not self.may_compare(given.now_us)
        ):
            return []
        if given.error is ErrorCode.FENCED_LEADER_EPOCH:
            return self._fenced()
        if given.error is not ErrorCode.NONE:
            return self._delay(given.now_us, f"{self._leader} answered {given.error.name}")
        cut = self._truncation.cut((given.epoch, given.end_offset), self._log)
        self._compares_again = not cut.complete
        return self._cut(cut)

    def _cut(self, cut: OffsetTruncationState) -> list[FollowerAction]:
        offset = cut.offset
        self.state = FetchState.TRUNCATING
        self.fetch_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        if offset >= self.log_end_offset:
            what = f"{self._me} keeps its log up to {self.log_end_offset} and forgets epochs that begin there"
        else:
            what = f"{self._me} cuts its log back to {offset}"
        loss = f"; this removes records below its HW {self.high_watermark}" if offset < self.high_watermark else ""
        again = "" if cut.complete else "; then it asks again"
        return [TruncateTo(offset=offset, reason=f"{what}: {cut.reason}{again}{loss}")]

    def _truncated(self, given: Truncated) -> list[FollowerAction]:
        self.state = FetchState.FETCHING
        self.log_end_offset = given.log_end_offset
        self.last_fetched_epoch = given.latest_epoch
        if self._compares_again and given.latest_epoch is not None:
            self.state = FetchState.COMPARING
        self._compares_again = False
        if self.high_watermark > self.log_end_offset:
            return self._set_high_watermark(self.log_end_offset, HighWatermarkCause.CUT)
        if self.high_watermark < self.log_start_offset:
            return self._set_high_watermark(self.log_start_offset, HighWatermarkCause.STARTED_ANEW)
        return []

    # ---------------------------------------------------------------------------------------------------- out of range

    def _ask(self, which: Which, why: str) -> list[FollowerAction]:
        self.state = FetchState.ASKING
        end = "ends" if which is Which.LATEST else "starts"
        reason = f"{self._me} asks {self._leader} where its log {end}: {why}"
        return [AskLeaderOffsets(which=which, leader_epoch=self.leader_epoch, reason=reason)]

    def _leader_offsets_known(self, given: LeaderOffsetsKnown) -> list[FollowerAction]:
        """source: AbstractFetcherThread.fetchOffsetAndTruncate, handleOutOfRangeError"""
        if self.state is not FetchState.ASKING or given.requested_leader_epoch != self.leader_epoch:
            return []
        self.state = FetchState.FETCHING
        if given.error is ErrorCode.FENCED_LEADER_EPOCH:
            return self._fenced()
        if given.error is not ErrorCode.NONE:
            return self._delay(given.now_us, f"{self._leader} answered {given.error.name}")
        if given.which is Which.LATEST:
            return self._leader_end_known(given.offset)
        return self._leader_start_known(given.offset)

    def _leader_end_known(self, leader_end_offset: Offset) -> list[FollowerAction]:
        if leader_end_offset >= self.log_end_offset:
            own_end = f"{self._me}'s own log ends at {self.log_end_offset}"
            return self._ask(Which.EARLIEST, f"{own_end}, not after {self._leader}'s at {leader_end_offset}")
        if self._rules.follower_ahead == "halt" and not self._unclean_elections_allowed():
            return self._halt(leader_end_offset)
        # After an unclean election; loses records by design.
        return self._cut(
            OffsetTruncationState(leader_end_offset, True, f"the log of the leader {self._leader} ends there")
        )

    def _halt(self, leader_end_offset: Offset) -> list[FollowerAction]:
        """Kafka's words. source: ReplicaFetcherThread.handleOffsetOutOfRange (0.10 to 2.0.0), removed by KAFKA-7414"""
        self.state = FetchState.FAILED
        reason = (
            f"Exiting because log truncation is not allowed for partition {self.topic_partition}, current leader "
            f"{self._leader}'s latest offset {leader_end_offset} is less than replica {self._me}'s latest offset "
            f"{self.log_end_offset}"
        )
        return [Halt(reason=reason)]

    def _leader_start_known(self, leader_start_offset: Offset) -> list[FollowerAction]:
        if leader_start_offset <= self.log_end_offset:
            # The leader's log moved on meanwhile, and our end lies in it.
            self.fetch_offset = self.log_end_offset
            return []
        self.state = FetchState.TRUNCATING
        self.fetch_offset = self.log_start_offset = leader_start_offset
        reason = (
            f"{self._me} drops its whole log and starts at {leader_start_offset}: the log of the leader {self._leader} "
            f"starts there, after {self._me}'s end {self.log_end_offset}"
        )
        return [TruncateFullyAndStartAt(offset=leader_start_offset, reason=reason)]

    # -------------------------------------------------------------------------------------------------- not fetching

    def _is_delayed(self, now_us: int) -> bool:
        return self.delayed_until_us is not None and now_us < self.delayed_until_us

    def _delay(self, now_us: int, why: str) -> list[FollowerAction]:
        """source: AbstractFetcherThread.delayPartitions; a delay in progress is not prolonged"""
        if self.state is FetchState.ASKING:
            self.state = FetchState.FETCHING
        if self.state is FetchState.FAILED or self._is_delayed(now_us):
            return []
        self.delayed_until_us = now_us + self._fetch_backoff_us
        return [DelayFetch(until_us=self.delayed_until_us, reason=f"{self._me} waits before it fetches again: {why}")]

    def _fenced(self) -> list[FollowerAction]:
        """The leader lives in a later epoch than the controller has told us of. source: onPartitionFenced"""
        why = f"epoch {self.leader_epoch} is over at {self._leader}"
        return self._fail(f"{self._me} stops fetching until it learns of a new leader epoch: {why}")

    def _fail(self, reason: str) -> list[FollowerAction]:
        """source: AbstractFetcherThread.markPartitionFailed

        Simplified: before KIP-461 (2.4) the exception ended the fetcher thread, with all partitions it fetched.
        """
        self.state = FetchState.FAILED
        return [MarkFailed(reason=reason)]
