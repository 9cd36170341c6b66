"""A partition's replica on one broker: its log, and its leader state while the broker leads.

The leader and follower states make the decisions (replica.leader, replica.follower). This module performs those of the
leader on the log, records changes in the trace, and reports them to the replica manager.

Source: Partition.scala
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.delayed import FetchParams, HighWatermarkPush, pushes_high_watermark
from cluster.broker.replicas.resting import Rest, RestingPartitions
from cluster.broker.replicas.transaction_checks import TransactionsInSight
from cluster.protocol.api_01_fetch import FetchPartition, FetchPartitionResponse
from controller.image import PartitionRegistration
from replica.causes import IsrCause
from replica.config import TopicConfig
from replica.errors import ErrorCode, KafkaError
from replica.fetch_fencing import begins_anew, check_leader_epoch, only_leader_serves
from replica.frozen import dataclass
from replica.ids import (
    INTERNAL_TOPICS,
    NO_BROKER,
    UNDEFINED_EPOCH,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicPartition,
)
from replica.inputs import (
    AdvanceHighWatermark,
    Appended,
    CaughtUp,
    FetchReceived,
    IsrAccepted,
    IsrRefused,
    LagCheckDue,
    LagLimits,
    LeaderAction,
    LeaderAssigned,
    MinIsrChanged,
    OutOfSync,
    PartitionUpdated,
    ProposalRefused,
    ProposeIsr,
)
from replica.leader import LeaderState, check_incarnation
from replica.log.batches.records import BatchHeader, Record, read_records
from replica.log.batches.validation import Inspected
from replica.log.files.open_files import EMPTY_SLICE
from replica.log.log import AppendInfo, Log
from replica.log.producers.transaction_index import NOT_ASKED_FOR
from replica.log.segment import Segment
from replica.trace.events import (
    BatchAppended,
    BatchCompacted,
    DivergenceFound,
    FollowerFetched,
    FollowingBegan,
    HighWatermarkAdvanced,
    IsrProposed,
    KeysAppended,
    LeadershipBegan,
    LogCompacted,
    LogStartOffsetAdvanced,
    RecordsExpired,
)
from replica.truncation import find_divergence, truncation_of

if TYPE_CHECKING:
    from replica.log.cleaner.cleanable import LogToClean
    from replica.log.cleaner.cleaner import Cleaned

KEEP_UNCOMMITTED: Offset = -1
"""Offset in DeleteRecords that stands for the high watermark: DeleteRecordsRequest.HIGH_WATERMARK."""


class Hooks(Protocol):
    """The replica manager, as a partition reports to it."""

    def high_watermark_moved(self, partition: Partition, now_us: int) -> None: ...

    def isr_proposed(self, partition: Partition, proposal: ProposeIsr, now_us: int) -> None: ...

    def leadership_ended(self, partition: Partition, now_us: int) -> None: ...

    def follower_start_moved(self, partition: Partition) -> None: ...


@dataclass(frozen=True, slots=True)
class ProducedBatch:
    """The result of an append; `cause` is the sequence number of its trace event, None for a duplicate batch."""

    base_offset: Offset
    last_offset: Offset
    cause: int | None
    high_watermark_advanced: bool
    log_append_time_ms: int


class Partition:
    """One replica of a partition.

    `leader` is set while this broker leads; `registration` is the partition's latest state from the controller. The log
    and the leader's state use wall-clock time, as Partition.scala uses `time.milliseconds`. Arguments `now_us` and the
    hooks, which set timers, use the broker's monotonic time.
    """

    def __init__(
        self,
        base: BrokerBase,
        *,
        topic_id: UUID,
        log: Log,
        hooks: Hooks,
        lag_limits: LagLimits,
        high_watermark: Offset,
    ) -> None:
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader: LeaderState | None = None
        self.registration: PartitionRegistration | None = None
        self.node = base.node
        self.place = (base.node, *log.topic_partition)
        self._recorder = base.recorder
        self._transactions = TransactionsInSight(log, self.place, base.recorder)
        self._broker_id = base.broker_id
        self._names = base.names
        self._hooks = hooks
        self._lag_limits = lag_limits
        self._rules = base.rules
        self._push = HighWatermarkPush() if pushes_high_watermark(base.rules) else None
        self._brokers = base.cache
        self._clock = base.clock
        self._high_watermark = high_watermark
        self._followed: tuple[BrokerId, LeaderEpoch] | None = None
        self._rests: dict[BrokerId | RestingPartitions, Rest] = {}
        """The fetchers for which this partition rests (resting.py), by follower or by a consumer's session."""

    @property
    def high_watermark(self) -> Offset:
        return self.leader.high_watermark if self.leader is not None else self._high_watermark

    @property
    def consumer_limit(self) -> Offset:
        """The offset below which consumers read: the high watermark, or the log end by the rule `consumer-limit`."""
        return self.log.log_end_offset if self._rules.consumer_limit == "log-end" else self.high_watermark

    @property
    def last_stable_offset(self) -> Offset:
        """The offset below which consumers with isolation.level=read_committed read."""
        return self.log.last_stable_offset(self.high_watermark)

    def upper_offset(self, params: FetchParams) -> Offset:
        """Return the offset below which a fetch may read. Source: FetchParams.isolation, FetchIsolation.of"""
        if params.from_follower:
            return self.log.log_end_offset
        return self.log.last_stable_offset(self.consumer_limit) if params.read_committed else self.consumer_limit

    def learn_high_watermark(self, high_watermark: Offset) -> None:
        """Set the high watermark of a follower, as decided from the leader's response."""
        self._high_watermark = high_watermark

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self.registration.leader_epoch if self.registration is not None else UNDEFINED_EPOCH

    @property
    def role(self) -> str:
        return "follower" if self.leader is None else "leader"

    # --------------------------------------------------------------------------------------------------------- roles

    def make_leader(self, registration: PartitionRegistration, now_us: int) -> None:
        """Become the leader, or apply a new state to it. Waiting requests are checked only if the high watermark moves.

        Source: makeLeader
        """
        self.end_rests()
        previous, self.registration = self.registration, registration
        self._followed = (self._broker_id, registration.leader_epoch)
        leader = self.leader
        if leader is not None and previous is not None and previous.leader_epoch == registration.leader_epoch:
            changed = PartitionUpdated(
                now_us=self._clock.at(now_us),
                partition_epoch=registration.partition_epoch,
                in_sync_replicas=registration.in_sync_replicas,
                assigned_replicas=registration.replicas,
            )
            self._perform(leader.step(changed), now_us)
            return
        high_watermark, was_leader = self.high_watermark, leader is not None
        if leader is None:
            if self._push is not None:
                self._push.begin()
            leader = self.leader = LeaderState(
                topic_partition=self.topic_partition,
                broker_id=self._broker_id,
                lag_limits=self._lag_limits,
                min_insync_replicas=self.log.config.min_insync_replicas,
                names=self._names,
                rules=self._rules,
                is_eligible=self._brokers.is_eligible,
            )
        if truncation_of(self._rules).begins_epoch_at_once:
            # The epoch gets an entry when it begins, before it has any record (Partition.makeLeader).
            self.log.leader_epochs.assign(registration.leader_epoch, self.log.log_end_offset)
        self._recorder.emit(
            LeadershipBegan(
                *self.place,
                leader_epoch=registration.leader_epoch,
                partition_epoch=registration.partition_epoch,
                isr=self._named(registration.in_sync_replicas),
                log_end_offset=self.log.log_end_offset,
                high_watermark=high_watermark,
            )
        )
        self._transactions.leadership_began()
        self._transactions.high_watermark_moved(registration.leader_epoch, high_watermark)
        assigned = LeaderAssigned(
            now_us=self._clock.at(now_us),
            leader_epoch=registration.leader_epoch,
            partition_epoch=registration.partition_epoch,
            in_sync_replicas=registration.in_sync_replicas,
            assigned_replicas=registration.replicas,
            log_end_offset=self.log.log_end_offset,
            high_watermark=high_watermark,
            was_leader=was_leader,
            recovering=registration.recovering,
        )
        self._perform(leader.step(assigned), now_us)

    def make_follower(self, registration: PartitionRegistration) -> bool:
        """Become a follower. Return True if fetching has to begin anew, with a comparison of the logs.

        Source: makeFollower
        """
        self.end_rests()
        previous, self.registration = self.registration, registration
        if self.leader is not None:
            self._high_watermark = self.leader.high_watermark
            self.leader = None
        leader_id, leader_epoch = registration.leader, registration.leader_epoch
        begins = begins_anew(self._rules, self._followed, leader_id, leader_epoch)
        if begins or (self._followed is not None and self._followed[0] == leader_id):
            self._followed = (leader_id, leader_epoch)
        if begins or previous is None or previous.leader_epoch < leader_epoch:
            self._recorder.emit(
                FollowingBegan(
                    *self.place,
                    broker=self._names(leader_id) if registration.has_leader else None,
                    leader_epoch=leader_epoch,
                    partition_epoch=registration.partition_epoch,
                    log_end_offset=self.log.log_end_offset,
                    high_watermark=self._high_watermark,
                )
            )
        return begins

    def following_began(self, now_us: int) -> None:
        """Complete the requests that waited for this broker as the leader, or for an older leader epoch.

        Called after the change of the fetcher.
        """
        self._hooks.leadership_ended(self, now_us)

    def configured(self, config: TopicConfig, now_us: int) -> None:
        """Apply a new configuration of the log. Source: TopicConfigHandler"""
        self.log.config = config
        if self.leader is not None:
            minimum = self.log.config.min_insync_replicas
            changed = MinIsrChanged(now_us=self._clock.at(now_us), min_insync_replicas=minimum)
            self._perform(self.leader.step(changed), now_us)

    # -------------------------------------------------------------------------------------------------------- leader

    def append_as_leader(
        self,
        records: memoryview,
        required_acks: int,
        now_us: int,
        inspected: Inspected | None = None,
        *,
        from_client: bool = True,
        guard: int = NOT_ASKED_FOR,
        transaction_version: int = 0,
    ) -> ProducedBatch:
        """Append a batch and update the high watermark, without waking waiting requests. Source: appendRecordsToLeader

        Args:
            from_client, guard, transaction_version: see Log.append_as_leader.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (before the append), or an error of the log.
        """
        leader = self._leading()
        leader.may_produce(required_acks)
        self.end_rests()
        wall_us = self._clock.at(now_us)
        info = self.log.append_as_leader(
            records,
            leader.leader_epoch,
            wall_us,
            inspected,
            from_client=from_client,
            guard=guard,
            transaction_version=transaction_version,
        )
        cause = self.state_appended(info, "leader")
        if not from_client:
            self._transactions.appended(records, info)
        if self.log.config.is_compacted and from_client:
            for header in info.batches:
                self.state_keys(header, read_records(records))
        advances = leader.step(Appended(now_us=wall_us, log_end_offset=info.log_end_offset))
        for action in advances:
            assert isinstance(action, AdvanceHighWatermark), "an append may only advance the high watermark"
            self._high_watermark_advanced(action, leader, info.log_end_offset)
        return ProducedBatch(info.first_offset, info.last_offset, cause, bool(advances), info.log_append_time_ms)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now_us: int, *, supports_epoch_bump: bool
    ) -> int | None:
        """Call ProducerStateManager.begin_verification. Source: Partition.maybeStartTransactionVerification"""
        at_ms = self._clock.at(now_us) // 1000
        return self.log.producers.begin_verification(
            producer_id, producer_epoch, sequence, at_ms, supports_epoch_bump=supports_epoch_bump
        )

    def check_lag(self, now_us: int) -> None:
        if self.leader is not None:
            self._perform(self.leader.step(LagCheckDue(now_us=self._clock.at(now_us))), now_us)

    def isr_answered(self, event: IsrAccepted | IsrRefused, now_us: int) -> None:
        """Handle the controller's response to this leader's ISR proposal."""
        if self.leader is not None:
            self.end_rests()
            self._perform(self.leader.step(replace(event, now_us=self._clock.at(now_us))), now_us)

    def _perform(self, actions: list[LeaderAction], now_us: int) -> None:
        leader = self.leader
        assert leader is not None, "this replica is not the leader"
        for action in actions:
            match action:
                case AdvanceHighWatermark():
                    self._high_watermark_advanced(action, leader, self.log.log_end_offset)
                    self._hooks.high_watermark_moved(self, now_us)
                case ProposeIsr():
                    self._state_proposal(action, leader.in_sync_replicas)
                    self._hooks.isr_proposed(self, action, now_us)

    def _high_watermark_advanced(self, action: AdvanceHighWatermark, leader: LeaderState, end_offset: Offset) -> None:
        self._recorder.emit(
            HighWatermarkAdvanced(
                *self.place,
                role="leader",
                leader_epoch=leader.leader_epoch,
                high_watermark=action.high_watermark,
                previous_high_watermark=action.previous,
                log_end_offset=end_offset,
                holders=self._named(action.holders),
                joining=None if action.joining is None else self._names(action.joining),
            )
        )
        self._transactions.high_watermark_moved(leader.leader_epoch, action.high_watermark)

    def _state_proposal(self, action: ProposeIsr, previous_isr: tuple[BrokerId, ...]) -> None:
        proposed = partial(
            IsrProposed,
            *self.place,
            leader_epoch=action.leader_epoch,
            partition_epoch=action.partition_epoch,
            isr=self._named(action.in_sync_replicas),
            previous_isr=self._named(previous_isr),
        )
        match action.why:
            case CaughtUp(end, high_watermark, start):
                event = proposed(
                    cause=IsrCause.CAUGHT_UP, caught_up_to=end, high_watermark=high_watermark, epoch_start_offset=start
                )
            case OutOfSync(lags, limits):
                event = proposed(
                    cause=IsrCause.LAG,
                    lag_causes=tuple(lag.cause for _, lag in lags),
                    lags=tuple(-1 if lag.amount is None else lag.amount for _, lag in lags),
                    lag_time_max_us=limits.time_max_us,
                    lag_max_messages=limits.max_messages,
                )
            case ProposalRefused(error):
                event = proposed(cause=IsrCause.RETRY, error=error.name)
        self._recorder.emit(event)

    def _named(self, brokers: tuple[BrokerId, ...]) -> tuple[str, ...]:
        return tuple(map(self._names, brokers))

    # ---------------------------------------------------------------------------------------------- what was appended

    def state_appended(self, info: AppendInfo, role: str) -> int | None:
        """Emit an event for each batch. Return the last one's sequence number, None for a duplicate without events."""
        seq: int | None = None
        for header in info.batches:
            last_offset = header.last_offset
            seq = self._recorder.emit(
                BatchAppended(
                    *self.place,
                    role=role,
                    leader_epoch=header.leader_epoch,
                    base_offset=header.base_offset,
                    last_offset=last_offset,
                    log_end_offset=last_offset + 1,
                    size_bytes=header.size_bytes,
                    crc=header.crc,
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    base_sequence=header.base_sequence,
                )
            )
        return seq

    def state_keys(self, header: BatchHeader, records: Sequence[Record]) -> None:
        """Emit the keys of a batch in a compacted topic; they show what compaction may remove."""
        if self.topic_partition.topic not in INTERNAL_TOPICS:
            self._recorder.aside(keys_appended(self.place, header, records))

    def state_compaction(self, found: LogToClean, cleaned: Cleaned) -> None:
        self._recorder.emit(
            LogCompacted(
                *self.place,
                role=self.role,
                leader_epoch=self.leader_epoch,
                offset=cleaned.end_offset,
                size_bytes=cleaned.bytes_before - cleaned.bytes_after,
                first_dirty_offset=found.first_dirty_offset,
                dirty_percent=round(found.dirty_ratio * 100),
                records_removed=cleaned.records_removed,
                message=None if cleaned.problem is None else cleaned.problem.message,
            )
        )
        if self.topic_partition.topic in INTERNAL_TOPICS:
            return
        for batch in cleaned.batches:
            before = batch.before
            self._recorder.emit(
                BatchCompacted(
                    *self.place,
                    leader_epoch=before.leader_epoch,
                    base_offset=before.base_offset,
                    last_offset=before.last_offset,
                    crc=before.crc,
                    new_crc=None if batch.after is None else batch.after.crc,
                    cleaned_to=cleaned.end_offset,
                    removed=batch.removed,
                    aborted=batch.was_aborted,
                )
            )

    # --------------------------------------------------------------------------------------------------------- fetch

    def fetch(
        self,
        params: FetchParams,
        entry: FetchPartition,
        max_bytes: int,
        at_least_one: bool,
        first_time: bool,
        now_us: int,
    ) -> FetchPartitionResponse:
        """Read the records of one partition in a fetch. Source: Partition.fetchRecords

        As in Kafka: check the epoch and the divergence, read, and only then count the fetch as an acknowledgement. The
        result has the high watermark from before.

        Args:
            at_least_one: True to return a batch even if it is larger than `max_bytes`.
            first_time: True to count the fetch of a follower as an acknowledgement.

        Raises:
            KafkaError: as check_fetch, or an error of the log.
        """
        leader = self.check_fetch(params, entry)
        log, high_watermark = self.log, self._high_watermark if leader is None else leader.high_watermark
        log_start_offset, end_offset = log.log_start_offset, log.log_end_offset
        number = self.topic_partition.partition
        stable = log.last_stable_offset(high_watermark)
        preferred = self._preferred_read_replica(params, entry) if params.rack else NO_BROKER
        if preferred != NO_BROKER:
            return FetchPartitionResponse(
                number, ErrorCode.NONE, high_watermark, stable, log_start_offset, preferred_read_replica=preferred
            )
        divergence = self._divergence(params, entry)
        if divergence is not None:
            return FetchPartitionResponse(number, ErrorCode.NONE, high_watermark, stable, log_start_offset, divergence)
        upper_offset = end_offset if params.from_follower else self.upper_offset(params)
        if upper_offset <= entry.fetch_offset <= end_offset and entry.fetch_offset >= log_start_offset:
            found = EMPTY_SLICE
        else:
            is_old = self._rules.fetch_minimum == "none"
            found = log.read(entry.fetch_offset, max_bytes, upper_offset, at_least_one and not is_old, may_cut=is_old)
        if first_time and leader is not None and params.from_follower:
            if self._push is not None:
                self._push.sent(params.replica_id, high_watermark)
            self._follower_fetched(leader, params, entry, end_offset, high_watermark, now_us)
        aborted = None
        if params.read_committed:
            overlapping = log.aborted_transactions(entry.fetch_offset, found)
            aborted = tuple((item.producer_id, item.first_offset) for item in overlapping)
        return FetchPartitionResponse(
            number,
            ErrorCode.NONE,
            high_watermark,
            stable,
            log_start_offset,
            aborted_transactions=aborted,
            slice=found,
        )

    def _preferred_read_replica(self, params: FetchParams, entry: FetchPartition) -> BrokerId:
        """Return the replica in the consumer's rack to read from, NO_BROKER for this broker's replica (KIP-392)."""
        from replica.read_replica import preferred_read_replica

        if self.leader is None:
            return NO_BROKER
        brokers = self._brokers.image.brokers
        in_rack = [
            broker_id
            for broker_id in self.leader.assigned_replicas
            if broker_id in brokers and not brokers[broker_id].fenced and brokers[broker_id].rack == params.rack
        ]
        return preferred_read_replica(self.leader, in_rack, entry.fetch_offset, self._rules)

    def high_watermark_is_news(self, params: FetchParams) -> bool:
        """Return True to answer a follower's fetch only to send the high watermark (rule `hw-push`)."""
        push = self._push
        return push is not None and params.from_follower and push.is_news(params.replica_id, self.high_watermark)

    def check_fetch(self, params: FetchParams, entry: FetchPartition) -> LeaderState | None:
        """Check that this fetch may read the partition. Return the leader's state, None if this broker follows.

        Raises:
            KafkaError: if it may not.

        Source: Partition.localLogWithEpochOrThrow, followerReplicaOrThrow
        """
        registration = self.registration
        if registration is None or registration.leader_epoch != entry.current_leader_epoch:  # Saves a call.
            self.check_epoch(entry.current_leader_epoch)
        leader = self.leader
        if leader is None:
            if params.from_follower or only_leader_serves(self._rules, params.leader_only):
                raise self._not_leading()
        elif params.from_follower:
            has_epoch = entry.current_leader_epoch != UNDEFINED_EPOCH
            leader.check_follower(params.replica_id, params.replica_epoch, has_epoch)
        return leader

    def _divergence(self, params: FetchParams, entry: FetchPartition) -> tuple[LeaderEpoch, Offset] | None:
        if entry.last_fetched_epoch == UNDEFINED_EPOCH:
            return None
        divergence = find_divergence(
            entry.last_fetched_epoch, entry.fetch_offset, self.log.end_offset_for_epoch, self.log.log_start_offset
        )
        if divergence is not None:
            epoch, end_offset = divergence
            self._recorder.emit(
                DivergenceFound(
                    *self.place,
                    peer=params.peer,
                    leader_epoch=epoch,
                    offset=end_offset,
                    fetch_offset=entry.fetch_offset,
                    last_fetched_epoch=entry.last_fetched_epoch,
                )
            )
        return divergence

    def _follower_fetched(
        self,
        leader: LeaderState,
        params: FetchParams,
        entry: FetchPartition,
        end_offset: Offset,
        high_watermark: Offset,
        now_us: int,
    ) -> None:
        check_incarnation(params.peer, params.replica_epoch, self._brokers.alive_broker_epoch(params.replica_id))
        self._recorder.emit(
            FollowerFetched(
                *self.place,
                peer=params.peer,
                leader_epoch=leader.leader_epoch,
                fetch_offset=entry.fetch_offset,
                log_end_offset=end_offset,
                high_watermark=high_watermark,
                in_isr=params.replica_id in leader.in_sync_replicas,
            )
        )
        fetched = FetchReceived(
            now_us=self._clock.at(now_us),
            broker_id=params.replica_id,
            broker_epoch=params.replica_epoch,
            fetch_offset=entry.fetch_offset,
            leader_end_offset=end_offset,
            log_start_offset=entry.log_start_offset,
        )
        start_before = leader.replicas[params.replica_id].log_start_offset
        self._perform(leader.step(fetched), now_us)
        if start_before != entry.log_start_offset:
            self._hooks.follower_start_moved(self)

    # ---------------------------------------------------------------------------------------------------------- rest

    def rest(self, rest: Rest) -> None:
        self._rests[rest.fetcher] = rest

    def rested(self, rest: Rest, fetched_us: int) -> None:
        """End a rest (resting.py). The session's fetch at wall-clock time `fetched_us` counts for this partition."""
        fetcher = rest.fetcher
        if self._rests.get(fetcher) is not rest:
            return
        del self._rests[fetcher]
        if self.leader is None or isinstance(fetcher, RestingPartitions):
            return
        replica = self.leader.replicas.get(fetcher)
        if replica is not None:
            replica.fetched_the_same(fetched_us)

    def end_rests(self) -> None:
        """End all rests of this partition, before a change of it. Fetches then check it again (resting.py)."""
        for rest in list(self._rests.values()):
            rest.end()

    # ------------------------------------------------------------------------------------------------------ deletion

    def delete_records(self, offset: Offset, peer: str) -> Offset:
        """Raise the leader's log start offset to `offset`, -1 for the high watermark, and return that offset.

        Followers get the new log start offset with their next fetch. Source: Partition.deleteRecordsOnLeader

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE.
        """
        leader = self._leading()
        wanted = leader.high_watermark if offset == KEEP_UNCOMMITTED else offset
        if not 0 <= wanted <= leader.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"records can be deleted up to the high watermark {leader.high_watermark}, not up to offset {offset}",
            )
        self.start_log_at(wanted, "leader", peer)
        return wanted

    def start_log_at(self, offset: Offset, role: str, peer: str) -> None:
        """Raise the log start offset to `offset`, if that is higher. Source: UnifiedLog.maybeIncrementLogStartOffset"""
        if offset > self.log.log_start_offset:
            self.end_rests()
            self.log.set_log_start_offset(offset)
            self._recorder.emit(
                LogStartOffsetAdvanced(
                    *self.place, role=role, leader_epoch=self.leader_epoch, log_start_offset=offset, peer=peer
                )
            )
            if self.leader is not None:
                self._transactions.high_watermark_moved(self.leader_epoch, self.high_watermark)

    def expire_records(self, now_us: int) -> list[Segment]:
        """Apply retention to the log, and return the removed segments, whose files must be deleted later.

        Source: LogManager.cleanupLogs
        """
        try:
            found = self.log.retire_old_segments(self.high_watermark, self._clock.at(now_us))
        except KafkaError:
            return []  # The disk has failed, and the partition is about to be taken offline.
        for retired in found:
            self.end_rests()
            if retired.cause is None:
                continue  # The segment had only records that could no longer be read.
            self._recorder.emit(
                RecordsExpired(
                    *self.place,
                    role=self.role,
                    leader_epoch=self.leader_epoch,
                    log_start_offset=retired.log_start_offset,
                    size_bytes=sum(segment.size for segment in retired.segments),
                    segments=len(retired.segments),
                    cause=retired.cause,
                    limit=retired.limit,
                )
            )
        return [segment for retired in found for segment in retired.segments]

    # ------------------------------------------------------------------------------------------------------- offsets

    def check_leading(self, current_leader_epoch: LeaderEpoch) -> None:
        """Check that this broker leads, in this leader epoch unless it is -1.

        Raises:
            KafkaError: if it does not.
        """
        self.check_epoch(current_leader_epoch)
        self._leading()

    def check_epoch(self, current_leader_epoch: LeaderEpoch) -> None:
        """Check that this leader epoch is the current one, unless it is -1.

        Raises:
            KafkaError: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH if it is not.
        """
        registration = self.registration
        if registration is None or registration.leader_epoch != current_leader_epoch:
            check_leader_epoch(self._rules, current_leader_epoch, self.leader_epoch)

    def check_high_watermark_caught_up(self) -> None:
        """Check that the high watermark has reached the start of this leader's epoch (`list-offsets-guard`, KIP-207).

        Until then it may be lower than that of the previous leader, and clients would see the end offset decrease.
        Source: Partition.fetchOffsetForTimestamp

        Raises:
            KafkaError: OFFSET_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER.
        """
        leader = self._leading()
        if self._rules.list_offsets_guard and leader.high_watermark < leader.leader_epoch_start_offset:
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"the high watermark {leader.high_watermark} of the new leader is below the start offset "
                f"{leader.leader_epoch_start_offset} of its epoch",
            )

    def _leading(self) -> LeaderState:
        if self.leader is None:
            raise self._not_leading()
        return self.leader

    def _not_leading(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.node} does not lead {self.topic_partition}")


KEY_CHARACTERS_MAX = 40


def keys_appended(identity: tuple[str, str, int], header: BatchHeader, records: Sequence[Record]) -> KeysAppended:
    """Return the event with the keys of a batch; `identity` is (broker, topic, partition)."""
    return KeysAppended(
        *identity,
        leader_epoch=header.leader_epoch,
        base_offset=header.base_offset,
        crc=header.crc,
        keys=tuple(_key_text(record.key) for record in records),
        tombstones=tuple(record.offset for record in records if record.value is None or record.key is None),
    )


def _key_text(key: bytes | None) -> str:
    """Return a key as text for the trace, or its digest if it is long or not printable."""
    content = key or b""
    text = content.decode("utf-8", "replace")
    if len(text) <= KEY_CHARACTERS_MAX and text.isprintable() and "\N{REPLACEMENT CHARACTER}" not in text:
        return text
    return f"#{sha256(content).hexdigest()[:KEY_CHARACTERS_MAX]}"
