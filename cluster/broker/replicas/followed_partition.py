"""A partition that a broker follows: the follower state makes decisions, which are applied to the log here.

Source: ReplicaFetcherThread.processPartitionData, truncate; AbstractFetcherThread.PartitionFetchState
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from cluster.broker.replicas.partition import Partition
from cluster.broker.replicas.replication_quotas import ReplicationQuota
from cluster.protocol.api_01_fetch import FetchedPartition
from controller.image import PartitionRegistration
from replica.causes import FetchFailureCause, TruncationCause
from replica.errors import ErrorCode, KafkaError
from replica.follower import FollowerState
from replica.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from replica.inputs import (
    AppendFailed,
    AppendRecords,
    AskLeaderOffsets,
    DelayFetch,
    FetchAnswered,
    FetchBroke,
    FollowerAssigned,
    FollowerInput,
    Halt,
    MarkFailed,
    RecordsAppended,
    SetHighWatermark,
    SetLogStartOffset,
    Truncated,
    TruncateFullyAndStartAt,
    TruncateTo,
)
from replica.trace.events import FetchRefused, FetchThrottled, HighWatermarkLearned, LogTruncated

if TYPE_CHECKING:
    from cluster.broker.replicas.fetchers import FetcherContext


class Fetcher(Protocol):
    """The fetcher of a followed partition, as the partition uses it."""

    def wants_offset(self, followed: FollowedPartition, question: AskLeaderOffsets) -> None: ...

    def stirred(self, name: TopicPartition) -> None: ...

    def appended(self, followed: FollowedPartition) -> None: ...

    def high_watermark_moved(self, followed: FollowedPartition) -> None: ...


class FollowedPartition:
    """A partition that this broker follows.

    Attributes:
        lag_records: leader's high watermark minus log end offset, at least 0, after the last response with records;
            None before the first response.
        is_throttled: True if the last request omitted the partition because of the replication throttle.
        turn: sort key in the order of the fetcher's partitions.
    """

    def __init__(self, partition: Partition, source: BrokerId, context: FetcherContext, fetcher: Fetcher) -> None:
        self.partition = partition
        self.lag_records: int | None = None
        self.is_throttled = False
        self.turn = 0
        self._stuck_at: Offset | None = None
        """Offset of a batch that is larger than a fetch and has been reported; None if there is none."""
        self.name: TopicPartition = partition.topic_partition
        self._source = source
        self._all = context
        self._fetcher = fetcher
        log = partition.log
        self.state = FollowerState(
            fetch_backoff_us=context.config.replica_fetch_backoff_ms * 1000,
            rules=context.base.rules,
            end_offset_for=log.end_offset_for_epoch,
            unclean_elections_allowed=lambda: log.config.unclean_leader_election_enable,
        )

    def follow(self, registration: PartitionRegistration, now_us: int) -> None:
        """Follow the leader in the leader epoch of `registration`."""
        partition, log = self.partition, self.partition.log
        assigned = FollowerAssigned(
            now_us=now_us,
            leader_id=self._source,
            leader_epoch=registration.leader_epoch,
            log_end_offset=log.log_end_offset,
            latest_epoch=log.latest_epoch,
            high_watermark=partition.high_watermark,
            log_start_offset=log.log_start_offset,
        )
        self.step(assigned, now_us)

    # ----------------------------------------------------------------------------------------------------- responses

    def broke(self, now_us: int) -> None:
        """Handle a request that got no response."""
        self.step(FetchBroke(now_us=now_us), now_us)

    def answered(self, asked: tuple[Offset, LeaderEpoch], entry: FetchedPartition, now_us: int) -> None:
        """Handle the entry of a Fetch response; `asked` is (fetch offset, leader epoch) in the request."""
        self.state.begins_at(self.partition.log.log_start_offset)
        answered = FetchAnswered(
            now_us=now_us,
            requested_offset=asked[0],
            requested_leader_epoch=asked[1],
            error=entry.error,
            leader_high_watermark=entry.high_watermark,
            leader_log_start_offset=entry.log_start_offset,
            diverging=entry.diverging_epoch,
            has_records=len(entry.records) > 0,
        )
        self.step(answered, now_us, entry.records)
        if entry.error is ErrorCode.NONE and (len(entry.records) > 0 or self.lag_records is None):
            self.lag_records = max(0, entry.high_watermark - self.partition.log.log_end_offset)

    def throttle(self, quota: ReplicationQuota, is_exceeded: bool, now_us: int) -> bool:
        """Return True to omit this partition from the next request, because it lags and the quota is exceeded (KIP-73).

        A replica that has caught up is never throttled; it would leave the ISR.
        Source: shouldFollowerThrottle
        """
        is_in_sync = self.lag_records is not None and self.lag_records <= 0
        is_throttled = is_exceeded and not is_in_sync and quota.is_throttled(self.name)
        if is_throttled and not self.is_throttled:
            self._state_throttle(quota, now_us)
        self.is_throttled = is_throttled
        return is_throttled

    # -------------------------------------------------------------------------------------------------------- actions

    def step(self, event: FollowerInput, now_us: int, records: memoryview | None = None) -> None:
        """Pass an input to the follower state, and perform the actions that it decides.

        Args:
            records: records in the response, if the input is a response.
        """
        self._fetcher.stirred(self.name)
        for action in self.state.step(event):
            match action:
                case AppendRecords():
                    self._append(action, records, now_us)
                case SetHighWatermark():
                    self._set_high_watermark(action)
                    self._fetcher.high_watermark_moved(self)
                case TruncateTo() | TruncateFullyAndStartAt():
                    self._truncate(action, now_us)
                case SetLogStartOffset():
                    self.partition.start_log_at(action.offset, "follower", self._all.base.names(self._source))
                case AskLeaderOffsets():
                    self._fetcher.wants_offset(self, action)
                case MarkFailed():
                    self._state_failure(action.error, action.cause, message=action.message or None)
                case Halt():
                    self._all.base.outbox.exit(self._last_words(action))
                case DelayFetch():
                    pass  # The fetcher reads the delay from the state.

    def _append(self, action: AppendRecords, records: memoryview | None, now_us: int) -> None:
        assert records is not None, "there is no Fetch response to append"
        partition, log = self.partition, self.partition.log
        try:
            info = log.append_as_follower(records, self._all.base.clock.at(now_us), action.max_leader_epoch)
        except KafkaError as error:
            self.step(AppendFailed(now_us=now_us, error=error.code, message=error.message), now_us)
            return
        if info is not None:
            quota = self._all.quotas.follower
            if quota.is_throttled(self.name):
                quota.record(len(records), now_us)
            partition.state_appended(info, "follower")
            self._fetcher.appended(self)
        was_cut = self._all.base.rules.fetch_minimum == "none" and info is None
        if was_cut and self._stuck_at != log.log_end_offset:
            self._stuck_at = log.log_end_offset
            self._state_failure(
                ErrorCode.MESSAGE_TOO_LARGE,
                FetchFailureCause.BATCH_TOO_LARGE,
                limit=self._all.config.replica_fetch_max_bytes,
            )
        appended = RecordsAppended(
            now_us=now_us, log_end_offset=log.log_end_offset, latest_epoch=log.latest_epoch, was_cut=was_cut
        )
        self.step(appended, now_us)

    def _set_high_watermark(self, action: SetHighWatermark) -> None:
        partition = self.partition
        partition.learn_high_watermark(action.high_watermark)
        self._all.base.recorder.emit(
            HighWatermarkLearned(
                *partition.place,
                role="follower",
                leader_epoch=self.state.leader_epoch,
                high_watermark=action.high_watermark,
                previous_high_watermark=action.previous,
                log_end_offset=partition.log.log_end_offset,
                cause=action.cause,
                leader=self._all.base.names(self._source),
                leader_high_watermark=action.leader_high_watermark,
            )
        )

    def _truncate(self, action: TruncateTo | TruncateFullyAndStartAt, now_us: int) -> None:
        """Truncate the log, and lower the high watermark if necessary, without waking waiting requests."""
        log = self.partition.log
        previous_end = log.log_end_offset
        try:
            if isinstance(action, TruncateTo):
                self._all.logs.holder(self.name).truncate_to(self.name, action.offset)
            else:
                self._all.logs.holder(self.name).truncate_fully_and_start_at(self.name, action.offset)
        except KafkaError:
            return  # The disk has failed; its partitions are about to be removed from this fetcher.
        end = log.log_end_offset
        if end != previous_end:
            identity = self.partition.place
            leader = self._all.base.names(self._source)
            self._all.base.recorder.emit(log_truncated(identity, leader, self.state, action, end))
        truncated = Truncated(now_us=now_us, log_end_offset=end, latest_epoch=log.latest_epoch)
        for consequence in self.state.step(truncated):
            assert isinstance(consequence, SetHighWatermark), "a truncation may only change the high watermark"
            self._set_high_watermark(consequence)

    def _state_failure(
        self, error: ErrorCode, cause: FetchFailureCause, *, limit: int | None = None, message: str | None = None
    ) -> None:
        """Record a failed fetch in the trace.

        Source: handlePartitionsWithErrors, ReplicaFetcherThread.warnIfMessageOversized (0.10.0)
        """
        self._all.base.recorder.emit(
            FetchRefused(
                self._all.base.names(self._source),
                *self.name,
                peer=self._all.base.node,
                error=error.name,
                offset=self.state.fetch_offset,
                leader_epoch=self.state.leader_epoch,
                cause=cause,
                log_end_offset=self.state.log_end_offset,
                limit=limit,
                message=message,
            )
        )

    def _last_words(self, action: Halt) -> str:
        """Return Kafka's message when it halts. Source: ReplicaFetcherThread.handleOffsetOutOfRange (0.10 to 2.0.0)"""
        return (
            f"Exiting because log truncation is not allowed for partition {self.name}, current leader "
            f"{self._all.base.names(self._source)}'s latest offset {action.leader_end_offset} is less than replica "
            f"{self._all.base.node}'s latest offset {self.state.log_end_offset}"
        )

    def _state_throttle(self, quota: ReplicationQuota, now_us: int) -> None:
        self._all.base.recorder.emit(
            FetchThrottled(
                self._all.base.node,
                *self.name,
                peer=self._all.base.names(self._source),
                bytes_per_s=round(quota.rate(now_us)),
                limit=quota.bound,
            )
        )


def log_truncated(
    identity: tuple[str, str, int],
    leader: str,
    state: FollowerState,
    action: TruncateTo | TruncateFullyAndStartAt,
    log_end_offset: Offset,
) -> LogTruncated:
    """Return the trace event of a truncation that was performed.

    Args:
        identity: (broker, topic, partition).
        state: follower state before the truncation.
    """
    event = partial(
        LogTruncated,
        *identity,
        leader_epoch=state.leader_epoch,
        log_end_offset=log_end_offset,
        previous_log_end_offset=state.log_end_offset,
        high_watermark=min(state.high_watermark, log_end_offset),
        previous_high_watermark=state.high_watermark,
        leader=leader,
        offset=action.offset,
    )
    if isinstance(action, TruncateFullyAndStartAt):
        return event(cause=TruncationCause.LEADER_START)
    return event(
        cause=action.cause,
        diverging_epoch=action.diverging_epoch,
        leader_end_offset=action.leader_end_offset,
        own_epoch=action.own_epoch,
        own_end_offset=action.own_end_offset,
    )
