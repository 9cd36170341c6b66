"""One fetcher of a broker: the partitions it follows from one source, over one connection, one request in flight.

The follower states decide what to ask and what to do with the answer; here their actions are performed on the logs.
Simplified: no fetch session (KIP-227), every request names all its partitions; the leader reads and answers the same.
source: AbstractFetcherThread.scala, ReplicaFetcherThread.scala
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from cluster.broker_lifecycle import BrokerIdentity
from cluster.channel import Channel, Channels
from cluster.config import BrokerConfig
from cluster.epoch_questions import (
    OFFSET_FOR_LEADER_EPOCH_VERSION,
    Asked,
    epoch_ends_answers,
    epoch_ends_request,
)
from cluster.metadata_follower import MetadataCache
from cluster.outbox import Outbox
from cluster.partition import Partition
from cluster.partition_locks import PartitionLocks
from cluster.replica_manager import ReplicaManager
from cluster.replication_quotas import ReplicationQuota
from cluster.timers import Timer
from cluster.wall_clock import WallClock
from cluster.wire import cold
from cluster.wire.api_01_fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    RepeatedFetches,
    decode_fetch_response,
)
from cluster.wire.versions import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from controller.image import BrokerRegistration, PartitionRegistration
from replica.broker_logs import BrokerLogs
from replica.errors import ErrorCode, KafkaError, PeerViolation
from replica.fetch_fencing import current_leader_epoch
from replica.follower import FollowerState
from replica.follower_events import (
    AppendFailed,
    AppendRecords,
    AskLeaderOffsets,
    Delay,
    FetchAnswered,
    FetchBroke,
    FollowerAction,
    FollowerAssigned,
    Halt,
    LeaderOffsetsKnown,
    MarkFailed,
    RecordsAppended,
    SetHighWatermark,
    SetLogStartOffset,
    Truncated,
    TruncateFullyAndStartAt,
    TruncateTo,
)
from replica.ids import (
    NO_BROKER_EPOCH,
    UNKNOWN_OFFSET,
    BrokerEpoch,
    LeaderEpoch,
    Names,
    Offset,
    TopicPartition,
)
from replica.rules import Rules
from replica.trace import FetchRefused, FetchThrottled, Recorder

FETCH_VERSION = 16
LIST_OFFSETS_VERSION = 7


@dataclass(slots=True)
class _Followed:
    """One partition in a fetcher: its log, the state that decides about it, and the last error it was told of.

    lag_records: behind the leader's high watermark after the last answer, None before the first
    is_throttled: it was left out of the last request
    """

    partition: Partition
    state: FollowerState
    error: ErrorCode = ErrorCode.NONE
    lag_records: int | None = None
    is_throttled: bool = False

    @property
    def name(self) -> TopicPartition:
        return self.partition.topic_partition


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherContext:
    """What all fetchers of a broker share."""

    identity: BrokerIdentity
    config: BrokerConfig
    rules: Rules
    names: Names
    outbox: Outbox
    channels: Channels
    locks: PartitionLocks
    cache: MetadataCache
    replicas: ReplicaManager
    logs: BrokerLogs
    quota: Callable[[], ReplicationQuota]
    recorder: Recorder
    clock: WallClock
    broker_epoch: Callable[[], BrokerEpoch]
    halt: Callable[[str], None]

    @property
    def stated_broker_epoch(self) -> BrokerEpoch:
        """The follower's part of `isr-eligibility`: fetches say in which life of their broker they were made (KIP-903).

        Without it the leader knows no broker epochs, so none of its checks of them has anything to compare.
        Simplified: the fetch has today's version and says -1; before 3.5 there was no such field.
        """
        return self.broker_epoch() if self.rules.isr_eligibility == "broker-epoch" else NO_BROKER_EPOCH


class ReplicaFetcher:
    """`partitions` in the order in which they are asked for: one that got records goes behind the others, so that a
    full response starves none."""

    def __init__(self, context: FetcherContext, source: BrokerRegistration) -> None:
        self.partitions: dict[TopicPartition, _Followed] = {}
        self._all = context
        self._source = source.broker_id
        self._channel = Channel(context.outbox, context.channels, source.host, source.port)
        self._fetches = RepeatedFetches(FETCH_VERSION, context.identity.name)
        self._timer: Timer | None = None
        self._writing = False
        self._questions: list[tuple[_Followed, AskLeaderOffsets]] = []
        self._high_watermarks_moved: dict[TopicPartition, Partition] = {}

    @property
    def is_idle(self) -> bool:
        return not self.partitions

    def add(self, partition: Partition, registration: PartitionRegistration, now_us: int) -> None:
        log = partition.log
        config = self._all.config
        state = FollowerState(
            topic_partition=partition.topic_partition,
            broker_id=self._all.identity.broker_id,
            fetch_backoff_us=config.replica_fetch_backoff_ms * 1000,
            names=self._all.names,
            rules=self._all.rules,
            end_offset_for=log.end_offset_for_epoch,
            unclean_elections_allowed=lambda: log.config.unclean_leader_election_enable,
        )
        followed = self.partitions[partition.topic_partition] = _Followed(partition, state)
        self._follow(followed, registration, now_us)
        self._go_on(now_us)

    def follow_on(self, name: TopicPartition, registration: PartitionRegistration, now_us: int) -> None:
        followed = self.partitions.get(name)
        if followed is not None:
            self._follow(followed, registration, now_us)

    def _follow(self, followed: _Followed, registration: PartitionRegistration, now_us: int) -> None:
        partition, log = followed.partition, followed.partition.log
        assigned = FollowerAssigned(
            now_us=now_us,
            leader_id=self._source,
            leader_epoch=registration.leader_epoch,
            log_end_offset=log.log_end_offset,
            latest_epoch=log.latest_epoch,
            high_watermark=partition.high_watermark,
            log_start_offset=log.log_start_offset,
        )
        self._perform(followed, followed.state.step(assigned), None, now_us)

    def remove(self, name: TopicPartition) -> None:
        if self.partitions.pop(name, None) is not None:
            self._questions = [question for question in self._questions if question[0].name != name]

    def close(self) -> None:
        self._channel.close()
        if self._timer is not None:
            self._timer.cancel()

    # ------------------------------------------------------------------------------------------------------- asking

    def _go_on(self, now_us: int) -> None:
        """Send the next request if none is in flight: questions about the leader's log first, else a fetch.

        source: AbstractFetcherThread.doWork
        """
        if self._channel.busy or self._writing or not self.partitions:
            return
        if self._questions:
            self._ask(*self._questions.pop(0), now_us)
            return
        comparing = [followed for followed in self.partitions.values() if followed.state.may_compare(now_us)]
        if comparing:
            self._ask_epoch_ends(comparing, now_us)
            return
        may_fetch = [followed for followed in self.partitions.values() if followed.state.may_fetch(now_us)]
        ready = self._not_throttled(may_fetch, now_us) if self._all.quota().throttled else may_fetch
        if ready:
            self._fetch(ready, now_us)
        else:
            self._wait(now_us, is_throttled=bool(may_fetch))

    def _not_throttled(self, may_fetch: list[_Followed], now_us: int) -> list[_Followed]:
        """KIP-73: a throttled replica that is behind is not asked for while the quota is exceeded; one that has caught
        up always is, so that a throttle does not make it fall out of the ISR. source: shouldFollowerThrottle"""
        quota = self._all.quota()
        is_exceeded = quota.is_exceeded(now_us)
        for followed in may_fetch:
            is_in_sync = followed.lag_records is not None and followed.lag_records <= 0
            is_throttled = is_exceeded and not is_in_sync and quota.is_throttled(followed.name)
            if is_throttled and not followed.is_throttled:
                self._state_throttle(followed, quota, now_us)
            followed.is_throttled = is_throttled
        return [followed for followed in may_fetch if not followed.is_throttled]

    def _state_throttle(self, followed: _Followed, quota: ReplicationQuota, now_us: int) -> None:
        me, leader = self._all.identity.name, self._all.names(self._source)
        self._all.recorder.emit(
            FetchThrottled(
                node=me,
                peer=leader,
                topic=followed.name.topic,
                partition=followed.name.partition,
                reason=f"{me} leaves {followed.name} out of its fetches from {leader}: it has fetched "
                f"{quota.rate(now_us):,.0f} bytes a second, and follower.replication.throttled.rate is {quota.bound:,}",
            )
        )

    def _wait(self, now_us: int, *, is_throttled: bool) -> None:
        """Nothing may be fetched yet: until the first delay is over, or for a backoff when it is the throttle's."""
        delays = [f.state.delayed_until_us for f in self.partitions.values() if f.state.delayed_until_us is not None]
        delays = [until_us for until_us in delays if until_us > now_us]
        if is_throttled:
            delays.append(now_us + self._all.config.replica_fetch_backoff_ms * 1000)
        if self._timer is not None:
            self._timer.cancel()
        if delays:
            self._timer = self._all.outbox.timers.at(min(delays), self._go_on)

    def _fetch(self, ready: list[_Followed], now_us: int) -> None:
        config = self._all.config
        topics: dict[UUID, list[FetchPartition]] = {}
        asked: dict[TopicPartition, tuple[Offset, LeaderEpoch]] = {}
        for followed in ready:
            state = followed.state
            asked[followed.name] = (state.fetch_offset, state.leader_epoch)
            topics.setdefault(followed.partition.topic_id, []).append(
                FetchPartition(
                    followed.name.partition,
                    current_leader_epoch(self._all.rules, state.leader_epoch),
                    state.fetch_offset,
                    state.epoch_in_fetch,
                    followed.partition.log.log_start_offset,
                    config.replica_fetch_max_bytes,
                )
            )
        request = FetchRequest(
            replica_id=self._all.identity.broker_id,
            replica_epoch=self._all.stated_broker_epoch,
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            topics=list(topics.items()),
        )
        self._channel.request(
            FETCH,
            lambda correlation_id: self._fetches.encode(correlation_id, request),
            lambda frame, reason, now_us: self._answered(asked, frame, reason, now_us),
            config.replica_socket_timeout_ms * 1000,
            now_us,
        )

    # ----------------------------------------------------------------------------------------------------- answering

    def _answered(
        self, asked: dict[TopicPartition, tuple[Offset, LeaderEpoch]], frame: bytearray | None, reason: str, now_us: int
    ) -> None:
        response = None
        if frame is not None:
            try:
                response = decode_fetch_response(FETCH_VERSION, frame)
            except PeerViolation as violation:
                reason = str(violation)
        if response is None:  # Kafka then delays what it follows now, not only what it asked for.
            for followed in self.partitions.values():
                self._step_broken(followed, reason, now_us)
            self._go_on(now_us)
            return
        entries = {
            TopicPartition(self._all.cache.topic_name(topic) or "", entry.partition): entry
            for topic, partitions in response.topics
            for entry in partitions
        }
        written_us = self._written_us(entries, now_us)
        if written_us == now_us:
            self._take(asked, entries, now_us)
            return
        names = list(entries)
        self._writing = True
        self._all.locks.begin_append(names)

        def write(now_us: int) -> None:
            self._writing = False
            self._take(asked, entries, now_us)
            self._all.locks.end_append(names, now_us)

        self._all.outbox.timers.at(written_us, write)

    def _written_us(self, entries: dict[TopicPartition, FetchedPartition], now_us: int) -> int:
        """When the disk has written all records of an answer; the fetcher's one thread does nothing else meanwhile.

        Simplified: they become visible together.
        """
        written_us = now_us
        for name, entry in entries.items():
            followed = self.partitions.get(name)
            if followed is not None and entry.records:
                speed = followed.partition.log.disk.speed
                written_us = max(written_us, speed.append_ends_us(len(entry.records), now_us))
        return written_us

    def _take(
        self,
        asked: dict[TopicPartition, tuple[Offset, LeaderEpoch]],
        entries: dict[TopicPartition, FetchedPartition],
        now_us: int,
    ) -> None:
        for name, entry in entries.items():
            answered = self.partitions.get(name)
            if answered is not None and name in asked:
                self._step_answer(answered, asked[name], entry, now_us)
        moved, self._high_watermarks_moved = self._high_watermarks_moved, {}
        for partition in moved.values():
            self._all.replicas.high_watermark_moved(partition, now_us)
        self._go_on(now_us)

    def _step_broken(self, followed: _Followed, reason: str, now_us: int) -> None:
        self._perform(followed, followed.state.step(FetchBroke(now_us=now_us, reason=reason)), None, now_us)

    def _step_answer(
        self, followed: _Followed, asked: tuple[Offset, LeaderEpoch], entry: FetchedPartition, now_us: int
    ) -> None:
        followed.error = entry.error
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
        self._perform(followed, followed.state.step(answered), entry.records, now_us)
        if entry.error is ErrorCode.NONE and (len(entry.records) > 0 or followed.lag_records is None):
            followed.lag_records = max(0, entry.high_watermark - followed.partition.log.log_end_offset)

    # ---------------------------------------------------------------------------------------------------- performing

    def _perform(
        self, followed: _Followed, actions: list[FollowerAction], records: memoryview | None, now_us: int
    ) -> None:
        for action in actions:
            match action:
                case AppendRecords():
                    self._append(followed, action, records, now_us)
                case SetHighWatermark():
                    self._set_high_watermark(followed, action)
                    self._high_watermarks_moved[followed.name] = followed.partition
                case TruncateTo() | TruncateFullyAndStartAt():
                    self._truncate(followed, action, now_us)
                case SetLogStartOffset():
                    followed.partition.start_log_at(action.offset, "follower", action.reason)
                case AskLeaderOffsets():
                    self._questions.append((followed, action))
                case MarkFailed():
                    self._state_failure(followed, action)
                case Halt():
                    self._all.halt(action.reason)
                case Delay():
                    pass  # `_wait` looks at the states

    def _append(self, followed: _Followed, action: AppendRecords, records: memoryview | None, now_us: int) -> None:
        assert records is not None, "an append is decided on an answer"
        partition, log = followed.partition, followed.partition.log
        try:
            info = log.append_as_follower(records, self._all.clock.at(now_us), action.max_leader_epoch)
        except KafkaError as error:
            followed.error = error.code
            failed = AppendFailed(now_us=now_us, error=error.code, reason=error.message or error.code.name)
            self._perform(followed, followed.state.step(failed), None, now_us)
            return
        if info is not None:
            quota = self._all.quota()
            if quota.is_throttled(followed.name):
                quota.record(len(records), now_us)
            partition.facts.appended(info, "follower")
            self.partitions[followed.name] = self.partitions.pop(followed.name)
        appended = RecordsAppended(now_us=now_us, log_end_offset=log.log_end_offset, latest_epoch=log.latest_epoch)
        self._perform(followed, followed.state.step(appended), None, now_us)

    def _set_high_watermark(self, followed: _Followed, action: SetHighWatermark) -> None:
        partition = followed.partition
        partition.learn_high_watermark(action.high_watermark)
        partition.facts.high_watermark_learned(action, followed.state.leader_epoch, partition.log.log_end_offset)

    def _truncate(self, followed: _Followed, action: TruncateTo | TruncateFullyAndStartAt, now_us: int) -> None:
        """The high watermark falls with the log's end, and nobody is woken for that."""
        partition, log = followed.partition, followed.partition.log
        previous_end, previous_high_watermark = log.log_end_offset, partition.high_watermark
        try:
            if isinstance(action, TruncateTo):
                self._all.logs.truncate_to(followed.name, action.offset)
            else:
                self._all.logs.truncate_fully_and_start_at(followed.name, action.offset)
        except KafkaError:
            return  # The disk has failed, and takes the partition out of this fetcher next.
        end = log.log_end_offset
        if end != previous_end:
            partition.facts.truncated(
                followed.state.leader_epoch,
                log_end_offset=end,
                previous_log_end_offset=previous_end,
                previous_high_watermark=previous_high_watermark,
                reason=action.reason,
            )
        truncated = Truncated(now_us=now_us, log_end_offset=end, latest_epoch=log.latest_epoch)
        for consequence in followed.state.step(truncated):
            assert isinstance(consequence, SetHighWatermark), "a cut moves nothing but the high watermark"
            self._set_high_watermark(followed, consequence)

    def _state_failure(self, followed: _Followed, action: MarkFailed) -> None:
        self._all.recorder.emit(
            FetchRefused(
                node=self._all.names(self._source),
                peer=self._all.identity.name,
                topic=followed.name.topic,
                partition=followed.name.partition,
                error=followed.error.name,
                offset=followed.state.fetch_offset,
                leader_epoch=followed.state.leader_epoch,
                reason=action.reason,
            )
        )

    # ------------------------------------------------------------------------ where do the epochs of our records end

    def _ask_epoch_ends(self, comparing: list[_Followed], now_us: int) -> None:
        identity = self._all.identity
        states = [followed.state for followed in comparing]
        entity, asked = epoch_ends_request(self._all.rules, identity.broker_id, states)
        self._channel.request(
            OFFSET_FOR_LEADER_EPOCH,
            lambda correlation_id: cold.encode_request(
                OFFSET_FOR_LEADER_EPOCH, OFFSET_FOR_LEADER_EPOCH_VERSION, correlation_id, identity.name, entity
            ),
            lambda frame, reason, now_us: self._told_epoch_ends(asked, frame, reason, now_us),
            self._all.config.replica_socket_timeout_ms * 1000,
            now_us,
        )

    def _told_epoch_ends(self, asked: Asked, frame: bytearray | None, reason: str, now_us: int) -> None:
        if frame is None:
            for name in asked:
                if name in self.partitions:
                    self._step_broken(self.partitions[name], reason, now_us)
        else:
            for name, told in epoch_ends_answers(asked, frame, now_us):
                followed = self.partitions.get(name)
                if followed is not None:
                    followed.error = told.error
                    self._perform(followed, followed.state.step(told), None, now_us)
        self._go_on(now_us)

    # --------------------------------------------------------------------------------- where does your log begin, end

    def _ask(self, followed: _Followed, question: AskLeaderOffsets, now_us: int) -> None:
        entity = cold.request(
            LIST_OFFSETS,
            LIST_OFFSETS_VERSION,
            replica_id=self._all.identity.broker_id,
            isolation_level=0,
            topics=[
                {
                    "name": followed.name.topic,
                    "partitions": [
                        {
                            "partition_index": followed.name.partition,
                            "current_leader_epoch": current_leader_epoch(self._all.rules, question.leader_epoch),
                            "timestamp": question.which.value,
                        }
                    ],
                }
            ],
        )
        name = self._all.identity.name
        self._channel.request(
            LIST_OFFSETS,
            lambda correlation_id: cold.encode_request(
                LIST_OFFSETS, LIST_OFFSETS_VERSION, correlation_id, name, entity
            ),
            lambda frame, reason, now_us: self._told(followed, question, frame, reason, now_us),
            self._all.config.replica_socket_timeout_ms * 1000,
            now_us,
        )

    def _told(
        self, followed: _Followed, question: AskLeaderOffsets, frame: bytearray | None, reason: str, now_us: int
    ) -> None:
        if self.partitions.get(followed.name) is not followed:
            pass  # Removed meanwhile, and perhaps back with a new leader epoch.
        elif frame is None:
            self._step_broken(followed, reason, now_us)
        else:
            answer = cold.decode_response(LIST_OFFSETS, LIST_OFFSETS_VERSION, frame)
            entry = answer.topics[0].partitions[0]
            error = followed.error = ErrorCode(int(entry.error_code))
            known = LeaderOffsetsKnown(
                now_us=now_us,
                which=question.which,
                requested_leader_epoch=question.leader_epoch,
                error=error,
                offset=int(entry.offset) if error is ErrorCode.NONE else UNKNOWN_OFFSET,
            )
            self._perform(followed, followed.state.step(known), None, now_us)
        self._go_on(now_us)
