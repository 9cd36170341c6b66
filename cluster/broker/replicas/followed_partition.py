"""One partition that a broker follows: the decisions of its follower state are carried out on its log here.

source: ReplicaFetcherThread.processPartitionData, truncate; AbstractFetcherThread.PartitionFetchState
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cluster.broker.replicas.partition import Partition
from cluster.broker.replicas.replication_quotas import ReplicationQuota
from cluster.protocol.api_01_fetch import FetchedPartition
from controller.image import PartitionRegistration
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
from replica.trace.events import FetchRefused, FetchThrottled

if TYPE_CHECKING:
    from cluster.broker.replicas.fetchers import FetcherContext


class Fetcher(Protocol):
    """Reports of a followed partition to its fetcher."""

    def wants_offset(self, followed: FollowedPartition, question: AskLeaderOffsets) -> None: ...

    def stirred(self, name: TopicPartition) -> None: ...

    def appended(self, followed: FollowedPartition) -> None: ...

    def high_watermark_moved(self, followed: FollowedPartition) -> None: ...


class FollowedPartition:
    """error: the last one of the leader or the log

    lag_records: behind the leader's high watermark after the last answer, None before the first
    is_throttled: it was left out of the last request
    turn: its place among those of its fetcher
    """

    def __init__(self, partition: Partition, source: BrokerId, context: FetcherContext, fetcher: Fetcher) -> None:
        self.partition = partition
        self.error = ErrorCode.NONE
        self.lag_records: int | None = None
        self.is_throttled = False
        self.turn = 0
        self._stuck_at: Offset | None = None
        """where a batch lies that is larger than a fetch"""
        self.name: TopicPartition = partition.topic_partition
        self._source = source
        self._all = context
        self._fetcher = fetcher
        log = partition.log
        self.state = FollowerState(
            topic_partition=self.name,
            broker_id=context.base.broker_id,
            fetch_backoff_us=context.config.replica_fetch_backoff_ms * 1000,
            names=context.base.names,
            rules=context.base.rules,
            end_offset_for=log.end_offset_for_epoch,
            unclean_elections_allowed=lambda: log.config.unclean_leader_election_enable,
        )

    def follow(self, registration: PartitionRegistration, now_us: int) -> None:
        """The source leads, perhaps in a new epoch."""
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

    # ------------------------------------------------------------------------------------------------- what is heard

    def broke(self, reason: str, now_us: int) -> None:
        """There was no answer."""
        self.step(FetchBroke(now_us=now_us, reason=reason), now_us)

    def answered(self, asked: tuple[Offset, LeaderEpoch], entry: FetchedPartition, now_us: int) -> None:
        """asked: the fetch offset and the leader epoch of the request"""
        self.error = entry.error
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
        """Whether the next request leaves it out (KIP-73): a throttled replica that is behind, while the quota is
        exceeded. Never a caught-up replica, so that a throttle does not make it fall out of the ISR.

        source: shouldFollowerThrottle
        """
        is_in_sync = self.lag_records is not None and self.lag_records <= 0
        is_throttled = is_exceeded and not is_in_sync and quota.is_throttled(self.name)
        if is_throttled and not self.is_throttled:
            self._state_throttle(quota, now_us)
        self.is_throttled = is_throttled
        return is_throttled

    # ---------------------------------------------------------------------------------------------- what is done then

    def step(self, given: FollowerInput, now_us: int, records: memoryview | None = None) -> None:
        """records: of the answer that the input stands for"""
        self._fetcher.stirred(self.name)
        for action in self.state.step(given):
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
                    self._state_failure(action.reason, self.error)
                case Halt():
                    self._all.base.outbox.exit(action.reason)
                case DelayFetch():
                    pass  # The fetcher looks at the state.

    def _append(self, action: AppendRecords, records: memoryview | None, now_us: int) -> None:
        assert records is not None, "an append is decided on an answer"
        partition, log = self.partition, self.partition.log
        try:
            info = log.append_as_follower(records, self._all.base.clock.at(now_us), action.max_leader_epoch)
        except KafkaError as error:
            self.error = error.code
            failed = AppendFailed(now_us=now_us, error=error.code, reason=error.message or error.code.name)
            self.step(failed, now_us)
            return
        if info is not None:
            quota = self._all.quotas.follower
            if quota.is_throttled(self.name):
                quota.record(len(records), now_us)
            partition.events.appended(info, "follower")
            self._fetcher.appended(self)
        was_cut = self._all.base.rules.fetch_minimum == "none" and info is None
        if was_cut and self._stuck_at != log.log_end_offset:
            self._stuck_at = log.log_end_offset
            self._state_oversized(log.log_end_offset)
        appended = RecordsAppended(
            now_us=now_us, log_end_offset=log.log_end_offset, latest_epoch=log.latest_epoch, was_cut=was_cut
        )
        self.step(appended, now_us)

    def _set_high_watermark(self, action: SetHighWatermark) -> None:
        partition = self.partition
        partition.learn_high_watermark(action.high_watermark)
        partition.events.high_watermark_learned(
            action, self._all.base.names(self._source), self.state.leader_epoch, partition.log.log_end_offset
        )

    def _truncate(self, action: TruncateTo | TruncateFullyAndStartAt, now_us: int) -> None:
        """The high watermark falls with the log's end; this wakes no waiting request."""
        partition, log = self.partition, self.partition.log
        previous_end, previous_high_watermark = log.log_end_offset, partition.high_watermark
        try:
            if isinstance(action, TruncateTo):
                self._all.logs.truncate_to(self.name, action.offset)
            else:
                self._all.logs.truncate_fully_and_start_at(self.name, action.offset)
        except KafkaError:
            return  # The disk has failed, and takes the partition out of this fetcher next.
        end = log.log_end_offset
        if end != previous_end:
            partition.events.truncated(
                self.state.leader_epoch,
                log_end_offset=end,
                previous_log_end_offset=previous_end,
                previous_high_watermark=previous_high_watermark,
                reason=action.reason,
            )
        truncated = Truncated(now_us=now_us, log_end_offset=end, latest_epoch=log.latest_epoch)
        for consequence in self.state.step(truncated):
            assert isinstance(consequence, SetHighWatermark), "a cut moves nothing but the high watermark"
            self._set_high_watermark(consequence)

    def _state_failure(self, reason: str, error: ErrorCode) -> None:
        self._all.base.recorder.emit(
            FetchRefused(
                node=self._all.base.names(self._source),
                peer=self._all.base.node,
                topic=self.name.topic,
                partition=self.name.partition,
                error=error.name,
                offset=self.state.fetch_offset,
                leader_epoch=self.state.leader_epoch,
                reason=reason,
            )
        )

    def _state_oversized(self, offset: Offset) -> None:
        """source: ReplicaFetcherThread.warnIfMessageOversized (0.10.0)"""
        me, leader = self._all.base.node, self._all.base.names(self._source)
        self._state_failure(
            f"{me} cannot copy {self.name} from {leader} beyond {offset}: the next batch is larger than "
            f"replica.fetch.max.bytes={self._all.config.replica_fetch_max_bytes}",
            ErrorCode.MESSAGE_TOO_LARGE,
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
