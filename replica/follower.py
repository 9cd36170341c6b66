"""A follower of one partition: its next fetch, the truncation of its log, and its high watermark.

The switch `truncation` (truncation.py) decides where the log is truncated. The switch `fetch-fencing`
(fetch_fencing.py) decides whether a response from another leader epoch is used, and when logs are compared again.

Source: AbstractFetcherThread.scala, ReplicaFetcherThread.scala
"""

from __future__ import annotations

from collections.abc import Callable

from replica.causes import FetchFailureCause, HighWatermarkCause, TruncationCause
from replica.errors import ErrorCode
from replica.fetch_fencing import answers, begins_anew, newest_epoch_taken
from replica.ids import NO_BROKER, UNDEFINED_EPOCH, BrokerId, LeaderEpoch, Offset
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
from replica.truncation import EndOffsetFor, FollowerLog, truncation_of

PASSING_APPEND_ERRORS = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD})
"""Errors of an append that may be transient: the leader may have truncated its file while the file was read."""


class FollowerState:
    """The state of a replica that follows a leader.

    Attributes:
        fetch_offset: offset of the next fetch, usually the log end.
        last_fetched_epoch: leader epoch of the last record in this log, None if unknown.
        delayed_until_us: time before which no fetch is sent, None for no delay.

    Args:
        fetch_backoff_us: replica.fetch.backoff.ms, in microseconds.
        end_offset_for: returns the end offset of an epoch in this log.
        unclean_elections_allowed: returns the topic's current unclean.leader.election.enable.
    """

    def __init__(
        self,
        *,
        fetch_backoff_us: int,
        rules: Rules,
        end_offset_for: EndOffsetFor,
        unclean_elections_allowed: Callable[[], bool],
    ) -> None:
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
        self._rules = rules
        self._truncation = truncation_of(rules)
        self._compares_again = False
        self._end_offset_for = end_offset_for
        self._unclean_elections_allowed = unclean_elections_allowed

    def may_fetch(self, now_us: int) -> bool:
        """Return True if a fetch may be sent now. Source: PartitionFetchState.isReadyForFetch"""
        return self.state is FetchState.FETCHING and not self._is_delayed(now_us)

    def may_compare(self, now_us: int) -> bool:
        """Return True if the follower may now request the leader's end offset of `last_fetched_epoch`.

        Source: buildLeaderEpochRequest
        """
        return self.state is FetchState.COMPARING and not self._is_delayed(now_us)

    @property
    def epoch_in_fetch(self) -> LeaderEpoch:
        """The value of the field "last fetched epoch" in the next fetch; -1 for no epoch."""
        named = self.last_fetched_epoch if self._truncation.names_last_epoch else None
        return UNDEFINED_EPOCH if named is None else named

    def step(self, event: FollowerInput) -> list[FollowerAction]:
        before = self.state
        actions = self._decide(event)
        check_step(before, event, self.state)
        return actions

    def _decide(self, event: FollowerInput) -> list[FollowerAction]:
        match event:
            case FetchAnswered():
                return self._fetch_answered(event)
            case RecordsAppended():
                return self._records_appended(event)
            case FetchBroke():
                return self._delay(event.now_us)
            case Truncated():
                return self._truncated(event)
            case LeaderOffsetsKnown():
                return self._leader_offsets_known(event)
            case EpochEndAnswered():
                return self._epoch_end_answered(event)
            case AppendFailed():
                return self._append_failed(event)
            case FollowerAssigned():
                return self._follow(event)

    def begins_at(self, log_start_offset: Offset) -> None:
        """Record the start of this log after retention has advanced it. Source: UnifiedLog.logStartOffset"""
        self.log_start_offset = max(self.log_start_offset, log_start_offset)

    # -------------------------------------------------------------------------------------------------- beginning

    def _follow(self, event: FollowerAssigned) -> list[FollowerAction]:
        """Begin to follow a leader. Source: AbstractFetcherThread.partitionFetchState, addPartitions"""
        followed = None if self.leader_id == NO_BROKER else (self.leader_id, self.leader_epoch)
        self.leader_epoch = max(self.leader_epoch, event.leader_epoch)
        if not begins_anew(self._rules, followed, event.leader_id, event.leader_epoch):
            return []
        self.leader_id = event.leader_id
        self.log_start_offset = event.log_start_offset
        self.log_end_offset = event.log_end_offset
        self.high_watermark = event.high_watermark
        self.last_fetched_epoch = event.latest_epoch
        self.delayed_until_us = None
        return self._begin()

    def _begin(self) -> list[FollowerAction]:
        """Prepare to fetch from the log end. The switch `truncation` may require to truncate or compare logs first."""
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
        )

    # ------------------------------------------------------------------------------------------------------- fetching

    def _fetch_answered(self, event: FetchAnswered) -> list[FollowerAction]:
        """Handle the response to a fetch. Source: AbstractFetcherThread.processFetchRequest"""
        if (
            event.requested_offset != self.fetch_offset
            or not answers(self._rules, event.requested_leader_epoch, self.leader_epoch)
            or not self.may_fetch(event.now_us)
        ):
            # Since the request, the log was truncated, the next fetch was delayed, or the leader was replaced.
            return []
        if event.error is not ErrorCode.NONE:
            return self._fetch_refused(event)
        if event.diverging is not None:
            # Ignore the rest of this response, so that high watermark and log start change only after the truncation.
            return self._diverged(event.diverging)
        if self.fetch_offset != self.log_end_offset:
            return self._fail(event.error, FetchFailureCause.OFFSET_GAP)
        self._leader_high_watermark = event.leader_high_watermark
        self._leader_log_start_offset = event.leader_log_start_offset
        if not event.has_records:
            return self._follow_the_leaders_offsets()
        self.state = FetchState.APPENDING
        return [AppendRecords(max_leader_epoch=newest_epoch_taken(self._rules, self.leader_epoch))]

    def _fetch_refused(self, event: FetchAnswered) -> list[FollowerAction]:
        if event.error is ErrorCode.FENCED_LEADER_EPOCH:
            return self._fenced()
        if event.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._ask(Which.LATEST)
        return self._delay(event.now_us)

    def _records_appended(self, event: RecordsAppended) -> list[FollowerAction]:
        self.state = FetchState.FETCHING
        self.fetch_offset = self.log_end_offset = event.log_end_offset
        if event.latest_epoch is not None:
            self.last_fetched_epoch = event.latest_epoch
        actions = self._follow_the_leaders_offsets()
        if event.was_cut:
            # Simplified: Kafka fetches again immediately, for ever.
            actions += self._delay(event.now_us)
        return actions

    def _append_failed(self, event: AppendFailed) -> list[FollowerAction]:
        self.state = FetchState.FETCHING
        if event.error in PASSING_APPEND_ERRORS:
            return self._delay(event.now_us)
        return self._fail(event.error, FetchFailureCause.NOT_APPENDED, event.message)

    def _follow_the_leaders_offsets(self) -> list[FollowerAction]:
        """Set high watermark and log start to the leader's, within the limits of this log.

        Source: ReplicaFetcherThread.processPartitionData, UnifiedLog.maybeUpdateHighWatermark
        """
        announced = self._leader_high_watermark
        actions: list[FollowerAction] = []
        if announced > self.log_end_offset:
            actions += self._set_high_watermark(self.log_end_offset, HighWatermarkCause.LOG_END)
        elif announced < self.log_start_offset:
            actions += self._set_high_watermark(self.log_start_offset, HighWatermarkCause.LOG_START)
        elif announced != self.high_watermark:
            actions += self._set_high_watermark(announced, HighWatermarkCause.LEADER)
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
        announced = self._leader_high_watermark
        return [
            SetHighWatermark(
                previous=previous, high_watermark=high_watermark, cause=cause, leader_high_watermark=announced
            )
        ]

    # ------------------------------------------------------------------------------------------------------ truncation

    def _diverged(self, diverging: tuple[LeaderEpoch, Offset]) -> list[FollowerAction]:
        """Truncate towards the common prefix of the logs. The next fetch shows whether the logs still diverge."""
        return self._cut(self._truncation.cut(diverging, self._log))

    def _epoch_end_answered(self, event: EpochEndAnswered) -> list[FollowerAction]:
        """Handle the leader's end offset of an epoch: truncate towards the common prefix of the logs before any fetch.

        Source: AbstractFetcherThread.maybeTruncate
        """
        if (
            event.requested_epoch != self.last_fetched_epoch
            or not answers(self._rules, event.requested_leader_epoch, self.leader_epoch)
            or not self.may_compare(event.now_us)
        ):
            return []
        if event.error is ErrorCode.FENCED_LEADER_EPOCH:
            return self._fenced()
        if event.error is not ErrorCode.NONE:
            return self._delay(event.now_us)
        cut = self._truncation.cut((event.epoch, event.end_offset), self._log)
        self._compares_again = cut.cause is TruncationCause.EARLIER_EPOCH
        return self._cut(cut)

    def _cut(self, cut: TruncateTo) -> list[FollowerAction]:
        self.state = FetchState.TRUNCATING
        self.fetch_offset = cut.offset
        self.log_start_offset = min(self.log_start_offset, cut.offset)
        return [cut]

    def _truncated(self, event: Truncated) -> list[FollowerAction]:
        self.state = FetchState.FETCHING
        self.log_end_offset = event.log_end_offset
        self.last_fetched_epoch = event.latest_epoch
        if self._compares_again and event.latest_epoch is not None:
            self.state = FetchState.COMPARING
        self._compares_again = False
        if self.high_watermark > self.log_end_offset:
            return self._set_high_watermark(self.log_end_offset, HighWatermarkCause.CUT)
        if self.high_watermark < self.log_start_offset:
            return self._set_high_watermark(self.log_start_offset, HighWatermarkCause.STARTED_ANEW)
        return []

    # ---------------------------------------------------------------------------------------------------- out of range

    def _ask(self, which: Which) -> list[FollowerAction]:
        self.state = FetchState.ASKING
        return [AskLeaderOffsets(which=which, leader_epoch=self.leader_epoch)]

    def _leader_offsets_known(self, event: LeaderOffsetsKnown) -> list[FollowerAction]:
        """Handle the start or end of the leader's log.

        Source: AbstractFetcherThread.fetchOffsetAndTruncate, handleOutOfRangeError
        """
        if self.state is not FetchState.ASKING or event.requested_leader_epoch != self.leader_epoch:
            return []
        self.state = FetchState.FETCHING
        if event.error is ErrorCode.FENCED_LEADER_EPOCH:
            return self._fenced()
        if event.error is not ErrorCode.NONE:
            return self._delay(event.now_us)
        if event.which is Which.LATEST:
            return self._leader_end_known(event.offset)
        return self._leader_start_known(event.offset)

    def _leader_end_known(self, leader_end_offset: Offset) -> list[FollowerAction]:
        if leader_end_offset >= self.log_end_offset:
            return self._ask(Which.EARLIEST)
        if self._rules.follower_ahead == "halt" and not self._unclean_elections_allowed():
            return self._halt(leader_end_offset)
        # This happens after an unclean election. It loses records, as it does in Kafka.
        cause = TruncationCause.LEADER_END
        return self._cut(TruncateTo(offset=leader_end_offset, cause=cause, leader_end_offset=leader_end_offset))

    def _halt(self, leader_end_offset: Offset) -> list[FollowerAction]:
        """Stop fetching, and return the action to end the broker's process.

        Source: ReplicaFetcherThread.handleOffsetOutOfRange (0.10 to 2.0.0; KAFKA-7414 removed it)
        """
        self.state = FetchState.FAILED
        return [Halt(leader_end_offset=leader_end_offset)]

    def _leader_start_known(self, leader_start_offset: Offset) -> list[FollowerAction]:
        if leader_start_offset <= self.log_end_offset:
            # Meanwhile the leader has appended records, and the end of this log is within the leader's log again.
            self.fetch_offset = self.log_end_offset
            return []
        self.state = FetchState.TRUNCATING
        self.fetch_offset = self.log_start_offset = leader_start_offset
        return [TruncateFullyAndStartAt(offset=leader_start_offset)]

    # -------------------------------------------------------------------------------------------------- not fetching

    def _is_delayed(self, now_us: int) -> bool:
        return self.delayed_until_us is not None and now_us < self.delayed_until_us

    def _delay(self, now_us: int) -> list[FollowerAction]:
        """Delay the next fetch; a delay in progress is not extended. Source: AbstractFetcherThread.delayPartitions"""
        if self.state is FetchState.ASKING:
            self.state = FetchState.FETCHING
        if self.state is FetchState.FAILED or self._is_delayed(now_us):
            return []
        self.delayed_until_us = now_us + self._fetch_backoff_us
        return [DelayFetch(until_us=self.delayed_until_us)]

    def _fenced(self) -> list[FollowerAction]:
        """Stop fetching, since the leader is in a later epoch than this broker knows. Source: onPartitionFenced"""
        return self._fail(ErrorCode.FENCED_LEADER_EPOCH, FetchFailureCause.FENCED)

    def _fail(self, error: ErrorCode, cause: FetchFailureCause, message: str = "") -> list[FollowerAction]:
        """Stop fetching the partition. Source: AbstractFetcherThread.markPartitionFailed

        Simplified: before KIP-461 (2.4), such an error ended the fetcher thread, and so all fetches from this leader.
        """
        self.state = FetchState.FAILED
        return [MarkFailed(error=error, cause=cause, message=message)]
