"""One replica on one broker: its log, and the leader or follower state that decides about it.

The states decide (replica.leader, replica.follower); here their actions are performed on the log, stated in the trace
and passed on to the replica manager. source: Partition.scala
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol
from uuid import UUID

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.broker.replicas.delayed import FetchParams, HighWatermarkPush, pushes_high_watermark
from cluster.broker.replicas.partition_events import PartitionEvents
from cluster.broker.replicas.resting import Rest, RestingPartitions
from cluster.broker.replicas.transaction_checks import TransactionsInSight
from cluster.protocol.api_01_fetch import FetchPartition, FetchPartitionResponse
from controller.image import PartitionRegistration
from replica.config import TopicConfig
from replica.errors import ErrorCode, KafkaError
from replica.fetch_fencing import begins_anew, check_leader_epoch, only_leader_serves
from replica.frozen import dataclass
from replica.ids import (
    UNDEFINED_EPOCH,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicPartition,
)
from replica.inputs import (
    AdvanceHighWatermark,
    Appended,
    FetchReceived,
    IsrAccepted,
    IsrRefused,
    LagCheckDue,
    LagLimits,
    LeaderAction,
    LeaderAssigned,
    MinIsrChanged,
    PartitionUpdated,
    ProposeIsr,
)
from replica.leader import LeaderState, check_life
from replica.log.batches.records import read_records
from replica.log.batches.validation import Inspected
from replica.log.files.open_files import EMPTY_SLICE
from replica.log.log import Log
from replica.log.producers.transaction_index import NOT_ASKED_FOR
from replica.log.segment import Segment
from replica.truncation import find_divergence, truncation_of

KEEP_UNCOMMITTED: Offset = -1
"""DeleteRecordsRequest.HIGH_WATERMARK"""


class Hooks(Protocol):
    """Reports of a partition to its replica manager."""

    def high_watermark_moved(self, partition: Partition, now_us: int) -> None: ...

    def isr_proposed(self, partition: Partition, proposal: ProposeIsr, now_us: int) -> None: ...

    def leadership_ended(self, partition: Partition, now_us: int) -> None: ...

    def follower_start_moved(self, partition: Partition) -> None: ...


@dataclass(frozen=True, slots=True)
class ProducedBatch:
    """Where a client's batch lies now; `cause` is the event that says so, None for a duplicate."""

    base_offset: Offset
    last_offset: Offset
    cause: int | None
    high_watermark_advanced: bool
    log_append_time_ms: int


class Partition:
    """`leader` is set while this broker leads. `registration` is the controller's latest word on the partition.

    Logs and the leader's state are given the wall clock's time, as Partition.scala takes `time.milliseconds`; hooks,
    which set timers, the broker's monotonic one.
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
        self.events = PartitionEvents(
            broker_id=base.broker_id, names=base.names, recorder=base.recorder, name=log.topic_partition
        )
        self._transactions = TransactionsInSight(log, self.events)
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
        """By the follower, or by the session of a consumer."""

    @property
    def node(self) -> str:
        return self.events.node

    @property
    def high_watermark(self) -> Offset:
        return self.leader.high_watermark if self.leader is not None else self._high_watermark

    @property
    def consumer_limit(self) -> Offset:
        """Consumers read below it: the high watermark, except for the teaching mutant (`consumer-limit: log-end`)."""
        return self.log.log_end_offset if self._rules.consumer_limit == "log-end" else self.high_watermark

    @property
    def last_stable_offset(self) -> Offset:
        """Consumers of committed transactions read below it."""
        return self.log.last_stable_offset(self.high_watermark)

    def upper_offset(self, params: FetchParams) -> Offset:
        """Where a fetch ends at the latest (exclusive). source: FetchParams.isolation, FetchIsolation.of"""
        if params.from_follower:
            return self.log.log_end_offset
        return self.log.last_stable_offset(self.consumer_limit) if params.read_committed else self.consumer_limit

    def learn_high_watermark(self, high_watermark: Offset) -> None:
        """As a follower: the value that the fetcher took over from the leader."""
        self._high_watermark = high_watermark

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self.registration.leader_epoch if self.registration is not None else UNDEFINED_EPOCH

    # --------------------------------------------------------------------------------------------------------- roles

    def make_leader(self, registration: PartitionRegistration, now_us: int) -> None:
        """Requests that wait on the partition are checked again only if the high watermark moves. source: makeLeader"""
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
            # The entry exists from the moment the epoch begins, before any record of it does (Partition.makeLeader).
            self.log.leader_epochs.assign(registration.leader_epoch, self.log.log_end_offset)
        self.events.leadership_began(registration, self.log.log_end_offset, high_watermark)
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
        """Returns whether a fetcher has to (re)start and find its place in the leader's log. source: makeFollower"""
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
            self.events.following_began(registration, self.log.log_end_offset, self._high_watermark)
        return begins

    def following_began(self, now_us: int) -> None:
        """The fetcher has started: requests that waited on us as the leader, or for an older leader epoch, end."""
        self._hooks.leadership_ended(self, now_us)

    def configured(self, config: TopicConfig, now_us: int) -> None:
        """Take over another config of the log. source: TopicConfigHandler"""
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
    ) -> ProducedBatch:
        """Append a batch and evaluate the high watermark; waiting requests are not woken yet.

        from_client, guard: see Log.append_as_leader
        raises: KafkaError NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (before anything is written), or what the log
        refuses. source: Partition.appendRecordsToLeader
        """
        leader = self._leading()
        leader.may_produce(required_acks)
        self.end_rests()
        wall_us = self._clock.at(now_us)
        info = self.log.append_as_leader(
            records, leader.leader_epoch, wall_us, inspected, from_client=from_client, guard=guard
        )
        cause = self.events.appended(info, "leader")
        if not from_client:
            self._transactions.appended(records, info)
        if self.log.config.is_compacted and from_client:
            for header in info.batches:
                self.events.keys_read(header, read_records(records))
        advances = leader.step(Appended(now_us=wall_us, log_end_offset=info.log_end_offset))
        for action in advances:
            assert isinstance(action, AdvanceHighWatermark), "an append proposes no ISR"
            self._high_watermark_advanced(action, leader, info.log_end_offset)
        return ProducedBatch(info.first_offset, info.last_offset, cause, bool(advances), info.log_append_time_ms)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now_us: int, *, supports_epoch_bump: bool
    ) -> int | None:
        """See ProducerStateManager.begin_verification. source: Partition.maybeStartTransactionVerification"""
        at_ms = self._clock.at(now_us) // 1000
        return self.log.producers.begin_verification(
            producer_id, producer_epoch, sequence, at_ms, supports_epoch_bump=supports_epoch_bump
        )

    def check_lag(self, now_us: int) -> None:
        if self.leader is not None:
            self._perform(self.leader.step(LagCheckDue(now_us=self._clock.at(now_us))), now_us)

    def isr_answered(self, given: IsrAccepted | IsrRefused, now_us: int) -> None:
        """The controller answered an AlterPartition of this leader."""
        if self.leader is not None:
            self.end_rests()
            self._perform(self.leader.step(replace(given, now_us=self._clock.at(now_us))), now_us)

    def _perform(self, actions: list[LeaderAction], now_us: int) -> None:
        leader = self.leader
        assert leader is not None, "only a leader acts"
        for action in actions:
            match action:
                case AdvanceHighWatermark():
                    self._high_watermark_advanced(action, leader, self.log.log_end_offset)
                    self._hooks.high_watermark_moved(self, now_us)
                case ProposeIsr():
                    self.events.isr_proposed(action, leader.in_sync_replicas)
                    self._hooks.isr_proposed(self, action, now_us)

    def _high_watermark_advanced(self, action: AdvanceHighWatermark, leader: LeaderState, end_offset: Offset) -> None:
        self.events.high_watermark_advanced(action, leader.leader_epoch, end_offset)
        self._transactions.high_watermark_moved(leader.leader_epoch, action.high_watermark)

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
        """One partition of a fetch. The order inside is Kafka's: check the epoch, look for divergence, read (noting the
        high watermark), and only then count the fetch as an acknowledgement. source: Partition.fetchRecords
        """
        leader = self.check_fetch(params, entry)
        log, high_watermark = self.log, self._high_watermark if leader is None else leader.high_watermark
        log_start_offset, end_offset = log.log_start_offset, log.log_end_offset
        number = self.topic_partition.partition
        divergence = self._divergence(params, entry)
        stable = log.last_stable_offset(high_watermark)
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
            aborted = tuple((one.producer_id, one.first_offset) for one in overlapping)
        return FetchPartitionResponse(
            number,
            ErrorCode.NONE,
            high_watermark,
            stable,
            log_start_offset,
            aborted_transactions=aborted,
            slice=found,
        )

    def high_watermark_is_news(self, params: FetchParams) -> bool:
        """Whether a follower's fetch is answered for the sake of the high watermark alone (`hw-push`)."""
        push = self._push
        return push is not None and params.from_follower and push.is_news(params.replica_id, self.high_watermark)

    def check_fetch(self, params: FetchParams, entry: FetchPartition) -> LeaderState | None:
        """Returns the leader's state if it is here.     raises: KafkaError, nothing can be fetched (any more)

        source: Partition.localLogWithEpochOrThrow, followerReplicaOrThrow
        """
        registration = self.registration
        if registration is None or registration.leader_epoch != entry.current_leader_epoch:  # else one call less
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
            self.events.diverged(params, entry, *divergence)
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
        check_life(params.peer, params.replica_epoch, self._brokers.alive_broker_epoch(params.replica_id))
        self.events.follower_fetched(
            params.peer,
            leader.leader_epoch,
            entry.fetch_offset,
            log_end_offset=end_offset,
            high_watermark=high_watermark,
            in_isr=params.replica_id in leader.in_sync_replicas,
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
        """The rest is over: its follower, which had everything, has last fetched at `fetched_us` (wall clock)."""
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
        """Something is about to happen to the partition."""
        for rest in list(self._rests.values()):
            rest.end()

    # ------------------------------------------------------------------------------------------------------ deletion

    def delete_records(self, offset: Offset, peer: str) -> Offset:
        """Raise the start of the leader's log to `offset`, or with -1 to the high watermark; followers learn of it with
        their next fetch.     returns: the offset that was meant

        raises: KafkaError NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE     source: Partition.deleteRecordsOnLeader
        """
        leader = self._leading()
        wanted = leader.high_watermark if offset == KEEP_UNCOMMITTED else offset
        if not 0 <= wanted <= leader.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"only records below the high watermark {leader.high_watermark} can go"
            )
        self.start_log_at(wanted, "leader", peer)
        return wanted

    def start_log_at(self, offset: Offset, role: str, peer: str) -> None:
        """Drop the records below `offset`, if there are any. source: UnifiedLog.maybeIncrementLogStartOffset"""
        if offset > self.log.log_start_offset:
            self.end_rests()
            self.log.set_log_start_offset(offset)
            self.events.log_start_advanced(role, self.leader_epoch, offset, peer)
            if self.leader is not None:
                self._transactions.high_watermark_moved(self.leader_epoch, self.high_watermark)

    def expire_records(self, now_us: int) -> list[Segment]:
        """Take out the segments that retention no longer keeps, here only: every replica does so by itself.

        returns: the segments, whose files are to be removed later     source: LogManager.cleanupLogs
        """
        try:
            found = self.log.retire_old_segments(self.high_watermark, self._clock.at(now_us))
        except KafkaError:
            return []  # Its disk has failed, which takes the partition away next.
        for retired in found:
            self.end_rests()
            role = "follower" if self.leader is None else "leader"
            self.events.records_expired(role, self.leader_epoch, retired)
        return [segment for retired in found for segment in retired.segments]

    # ------------------------------------------------------------------------------------------------------- offsets

    def check_leading(self, current_leader_epoch: LeaderEpoch) -> None:
        """raises: KafkaError unless this broker leads in that epoch (-1: in any)"""
        self.check_epoch(current_leader_epoch)
        self._leading()

    def check_epoch(self, current_leader_epoch: LeaderEpoch) -> None:
        """raises: KafkaError unless this broker leads or follows in that epoch (-1: in any)"""
        registration = self.registration
        if registration is None or registration.leader_epoch != current_leader_epoch:
            check_leader_epoch(self._rules, current_leader_epoch, self.leader_epoch)

    def check_high_watermark_caught_up(self) -> None:
        """KIP-207: our high watermark may be behind the one our predecessor showed, until it reaches our epoch's start;
        so that the end never seems to go back after a failover, it is not told before (`list-offsets-guard`).

        raises: KafkaError OFFSET_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER     source: Partition.fetchOffsetForTimestamp
        """
        leader = self._leading()
        if self._rules.list_offsets_guard and leader.high_watermark < leader.leader_epoch_start_offset:
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"the high watermark {leader.high_watermark} of the new leader has not reached the start of its epoch, "
                f"{leader.leader_epoch_start_offset}",
            )

    def _leading(self) -> LeaderState:
        if self.leader is None:
            raise self._not_leading()
        return self.leader

    def _not_leading(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.node} does not lead {self.topic_partition}")
