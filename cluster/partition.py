"""One replica on one broker: its log, and the leader or follower state that decides about it.

The states decide (replica.leader, replica.follower); here their actions are performed on the log, stated in the trace
and passed on to the replica manager. source: Partition.scala
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from cluster.delayed import FetchParams
from cluster.wire.api_01_fetch import FetchPartition, FetchPartitionResponse
from controller.image import PartitionRegistration
from replica.divergence import check_leader_epoch, find_divergence
from replica.errors import ErrorCode, KafkaError
from replica.file_slice import EMPTY_SLICE
from replica.ids import UNDEFINED_EPOCH, BrokerEpoch, BrokerId, Names, Offset, TopicPartition
from replica.leader import LeaderState
from replica.leader_events import (
    AdvanceHighWatermark,
    Appended,
    ConfigChanged,
    FollowerFetched,
    IsrAccepted,
    IsrRefused,
    LagCheckDue,
    LeaderAction,
    LeaderAssigned,
    PartitionChanged,
    ProposeIsr,
)
from replica.log import AppendInfo, Log
from replica.trace import (
    BatchAppended,
    DivergenceFound,
    FollowingBegan,
    HighWatermarkAdvanced,
    IsrProposed,
    LeadershipBegan,
    Recorder,
)
from replica.trace import FollowerFetched as FollowerFetchedFact


class Hooks(Protocol):
    """What a partition tells its replica manager."""

    def high_watermark_moved(self, partition: Partition, now_us: int) -> None: ...

    def isr_proposed(self, partition: Partition, proposal: ProposeIsr, now_us: int) -> None: ...

    def log_changed(self, partition: Partition, now_us: int) -> None: ...

    def role_changed(self, partition: Partition, now_us: int) -> None: ...


class Partition:
    """`leader` is set while this broker leads. `registration` is the controller's latest word on the partition."""

    def __init__(
        self,
        *,
        topic_id: UUID,
        log: Log,
        broker_id: BrokerId,
        names: Names,
        recorder: Recorder,
        hooks: Hooks,
        replica_lag_time_max_us: int,
        is_eligible: Callable[[BrokerId, BrokerEpoch], bool],
        high_watermark: Offset,
    ) -> None:
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader: LeaderState | None = None
        self.registration: PartitionRegistration | None = None
        self._broker_id = broker_id
        self._names = names
        self._recorder = recorder
        self._hooks = hooks
        self._replica_lag_time_max_us = replica_lag_time_max_us
        self._is_eligible = is_eligible
        self._high_watermark = high_watermark

    @property
    def node(self) -> str:
        return self._names(self._broker_id)

    @property
    def high_watermark(self) -> Offset:
        return self.leader.high_watermark if self.leader is not None else self._high_watermark

    def learn_high_watermark(self, high_watermark: Offset) -> None:
        """As a follower: what the fetcher took over from the leader."""
        self._high_watermark = high_watermark

    @property
    def leader_epoch(self) -> int:
        return self.registration.leader_epoch if self.registration is not None else UNDEFINED_EPOCH

    # --------------------------------------------------------------------------------------------------------- roles

    def make_leader(self, registration: PartitionRegistration, min_insync_replicas: int, now_us: int) -> None:
        """source: Partition.makeLeader"""
        previous, self.registration = self.registration, registration
        if self.leader is not None and previous is not None and previous.leader_epoch == registration.leader_epoch:
            self._perform(
                self.leader.step(ConfigChanged(now_us=now_us, min_insync_replicas=min_insync_replicas)), now_us
            )
            changed = PartitionChanged(
                now_us=now_us,
                partition_epoch=registration.partition_epoch,
                in_sync_replicas=registration.in_sync_replicas,
                assigned_replicas=registration.replicas,
            )
            self._perform(self.leader.step(changed), now_us)
            self._hooks.role_changed(self, now_us)
            return
        was_leader = self.leader is not None
        if self.leader is None:
            self.leader = LeaderState(
                topic_partition=self.topic_partition,
                broker_id=self._broker_id,
                replica_lag_time_max_us=self._replica_lag_time_max_us,
                min_insync_replicas=min_insync_replicas,
                names=self._names,
                is_eligible=self._is_eligible,
            )
        # The entry exists from the moment the epoch begins, before any record of it does (Partition.makeLeader).
        self.log.leader_epochs.assign(registration.leader_epoch, self.log.log_end_offset)
        assigned = LeaderAssigned(
            now_us=now_us,
            leader_epoch=registration.leader_epoch,
            partition_epoch=registration.partition_epoch,
            in_sync_replicas=registration.in_sync_replicas,
            assigned_replicas=registration.replicas,
            log_end_offset=self.log.log_end_offset,
            high_watermark=self._high_watermark if not was_leader else self.leader.high_watermark,
            was_leader=was_leader,
            recovering=registration.recovering,
        )
        self._recorder.emit(
            LeadershipBegan(
                node=self.node,
                topic=self.topic_partition.topic,
                partition=self.topic_partition.partition,
                leader_epoch=registration.leader_epoch,
                partition_epoch=registration.partition_epoch,
                isr=self._isr(registration.in_sync_replicas),
                log_end_offset=self.log.log_end_offset,
                high_watermark=assigned.high_watermark,
                reason=f"{self.node} leads {self.topic_partition} in epoch {registration.leader_epoch}, which starts at "
                f"{self.log.log_end_offset}; its high watermark is {assigned.high_watermark}",
            )
        )
        actions = self.leader.step(assigned)
        self._perform(actions, now_us)
        self._hooks.role_changed(self, now_us)

    def make_follower(self, registration: PartitionRegistration, now_us: int) -> bool:
        """Returns whether a fetcher must (re)start: only when the leader epoch is a new one. source: makeFollower"""
        previous, self.registration = self.registration, registration
        if self.leader is not None:
            self._high_watermark = self.leader.high_watermark
            self.leader = None
        is_new = previous is None or previous.leader_epoch < registration.leader_epoch
        if is_new:
            leader = self._names(registration.leader) if registration.has_leader else None
            what = f"follows {leader}" if leader is not None else "has no leader to follow"
            self._recorder.emit(
                FollowingBegan(
                    node=self.node,
                    broker=leader,
                    topic=self.topic_partition.topic,
                    partition=self.topic_partition.partition,
                    leader_epoch=registration.leader_epoch,
                    partition_epoch=registration.partition_epoch,
                    log_end_offset=self.log.log_end_offset,
                    high_watermark=self._high_watermark,
                    reason=f"{self.node} {what} in epoch {registration.leader_epoch} of {self.topic_partition}",
                )
            )
        self._hooks.role_changed(self, now_us)
        return is_new

    # -------------------------------------------------------------------------------------------------------- leader

    def append_as_leader(
        self, records: memoryview, required_acks: int, peer: str, now_us: int
    ) -> tuple[Offset, int | None, Offset]:
        """Append a client's batch; (base offset, the fact's seq or None for a duplicate, last offset).

        raises: KafkaError NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (before anything is written), or what the log
        refuses. source: Partition.appendRecordsToLeader
        """
        leader = self._leading()
        leader.may_produce(required_acks)
        info = self.log.append_as_leader(records, leader.leader_epoch, now_us)
        cause = None if info.duplicate else self.state_append(info, "leader")
        return info.first_offset, cause, info.last_offset

    def after_append(self, now_us: int) -> None:
        """Evaluate the high watermark for the new log end, then wake whoever waits for bytes."""
        leader = self.leader
        if leader is not None and leader.log_end_offset < self.log.log_end_offset:
            self._perform(leader.step(Appended(now_us=now_us, log_end_offset=self.log.log_end_offset)), now_us)
            self._hooks.log_changed(self, now_us)

    def state_append(self, info: AppendInfo, role: str) -> int | None:
        seq: int | None = None
        for header in info.batches:
            seq = self._recorder.emit(
                BatchAppended(
                    node=self.node,
                    role=role,
                    topic=self.topic_partition.topic,
                    partition=self.topic_partition.partition,
                    leader_epoch=header.leader_epoch,
                    base_offset=header.base_offset,
                    last_offset=header.last_offset,
                    log_end_offset=header.last_offset + 1,
                    size_bytes=header.size_bytes,
                    crc=header.crc,
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    base_sequence=header.base_sequence,
                )
            )
        return seq

    def check_lag(self, now_us: int) -> None:
        if self.leader is not None:
            self._perform(self.leader.step(LagCheckDue(now_us=now_us)), now_us)

    def isr_answered(self, event: IsrAccepted | IsrRefused, now_us: int) -> None:
        """The controller answered an AlterPartition of this leader."""
        if self.leader is not None:
            self._perform(self.leader.step(event), now_us)
            self._hooks.role_changed(self, now_us)

    def _perform(self, actions: list[LeaderAction], now_us: int) -> None:
        for action in actions:
            match action:
                case AdvanceHighWatermark():
                    self._state_high_watermark(action)
                    self._hooks.high_watermark_moved(self, now_us)
                case ProposeIsr():
                    self._state_proposal(action)
                    self._hooks.isr_proposed(self, action, now_us)

    def _state_high_watermark(self, action: AdvanceHighWatermark) -> None:
        assert self.leader is not None
        self._recorder.emit(
            HighWatermarkAdvanced(
                node=self.node,
                role="leader",
                topic=self.topic_partition.topic,
                partition=self.topic_partition.partition,
                leader_epoch=self.leader.leader_epoch,
                high_watermark=action.high_watermark,
                previous_high_watermark=action.previous,
                log_end_offset=self.log.log_end_offset,
                reason=action.reason,
            )
        )

    def _state_proposal(self, action: ProposeIsr) -> None:
        assert self.leader is not None
        self._recorder.emit(
            IsrProposed(
                node=self.node,
                topic=self.topic_partition.topic,
                partition=self.topic_partition.partition,
                leader_epoch=action.leader_epoch,
                partition_epoch=action.partition_epoch,
                isr=self._isr(action.in_sync_replicas),
                previous_isr=self._isr(self.leader.in_sync_replicas),
                reason=action.reason,
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
        """One partition of a fetch. The order inside is Kafka's: check the epoch, look for divergence, read (noting the
        high watermark), and only then count the fetch as an acknowledgement. source: Partition.fetchRecords
        """
        leader = self._check_fetch(params, entry)
        divergence = self._divergence(params, entry)
        number = self.topic_partition.partition
        if divergence is not None:
            return FetchPartitionResponse(number, ErrorCode.NONE, -1, -1, -1, diverging_epoch=divergence)
        log, high_watermark = self.log, self.high_watermark
        upper_offset = log.log_end_offset if params.from_follower else high_watermark
        log_start_offset, end_offset = log.log_start_offset, log.log_end_offset
        if upper_offset <= entry.fetch_offset <= end_offset and entry.fetch_offset >= log_start_offset:
            found = EMPTY_SLICE
        else:
            found = log.read(entry.fetch_offset, max_bytes, upper_offset, at_least_one)
        if leader is not None and params.from_follower and first_time:
            self._follower_fetched(leader, params, entry, end_offset, high_watermark, now_us)
        return FetchPartitionResponse(
            number, ErrorCode.NONE, high_watermark, high_watermark, log_start_offset, slice=found
        )

    def _check_fetch(self, params: FetchParams, entry: FetchPartition) -> LeaderState | None:
        if entry.current_leader_epoch != UNDEFINED_EPOCH:
            check_leader_epoch(entry.current_leader_epoch, self.leader_epoch)
        if params.leader_only or params.from_follower:
            leader = self._leading()
            if params.from_follower:
                has_epoch = entry.current_leader_epoch != UNDEFINED_EPOCH
                leader.check_follower(params.replica_id, params.replica_epoch, has_epoch)
            return leader
        return self.leader

    def _divergence(self, params: FetchParams, entry: FetchPartition) -> tuple[int, Offset] | None:
        if entry.last_fetched_epoch == UNDEFINED_EPOCH:
            return None
        divergence = find_divergence(
            entry.last_fetched_epoch,
            entry.fetch_offset,
            self.log.end_offset_for_epoch,
            self.log.log_start_offset,
        )
        if divergence is not None:
            epoch, end_offset = divergence
            self._recorder.emit(
                DivergenceFound(
                    node=self.node,
                    peer=params.peer,
                    topic=self.topic_partition.topic,
                    partition=self.topic_partition.partition,
                    leader_epoch=epoch,
                    offset=end_offset,
                    reason=f"{params.peer} fetches from {entry.fetch_offset} after a record of epoch "
                    f"{entry.last_fetched_epoch}, but in {self.node}'s log epoch {epoch} ends at {end_offset}",
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
        self._recorder.emit(
            FollowerFetchedFact(
                node=self.node,
                peer=params.peer,
                topic=self.topic_partition.topic,
                partition=self.topic_partition.partition,
                leader_epoch=leader.leader_epoch,
                fetch_offset=entry.fetch_offset,
                log_end_offset=end_offset,
                high_watermark=high_watermark,
                in_isr=params.replica_id in leader.in_sync_replicas,
            )
        )
        fetched = FollowerFetched(
            now_us=now_us,
            broker_id=params.replica_id,
            broker_epoch=params.replica_epoch,
            fetch_offset=entry.fetch_offset,
            leader_end_offset=end_offset,
            log_start_offset=entry.log_start_offset,
        )
        self._perform(leader.step(fetched), now_us)

    def available_bytes(self, params: FetchParams, entry: FetchPartition, segment_base: Offset) -> tuple[int, bool]:
        """For a waiting fetch: bytes it could have now, and whether it should be answered at once in any case.

        raises: KafkaError when waiting has become pointless. source: DelayedFetch.tryComplete
        """
        self._check_fetch(params, entry)
        if entry.last_fetched_epoch != UNDEFINED_EPOCH:
            epoch, end_offset = self.log.end_offset_for_epoch(entry.last_fetched_epoch)
            if epoch < entry.last_fetched_epoch or end_offset < entry.fetch_offset:
                return 0, True
        upper_offset = self.log.log_end_offset if params.from_follower else self.high_watermark
        if self.log.log_end_offset < entry.fetch_offset:
            return 0, True
        if upper_offset <= entry.fetch_offset:
            return 0, False
        if self.log.segment_base_of(upper_offset) != segment_base:
            return 0, True
        return self.log.bytes_available(entry.fetch_offset, upper_offset), False

    def offset_for_leader_epoch(self, current_leader_epoch: int, leader_epoch: int) -> tuple[int, Offset]:
        """source: Partition.lastOffsetForLeaderEpoch; raises: KafkaError"""
        self.check_leading(current_leader_epoch)
        return self.log.end_offset_for_epoch(leader_epoch)

    def latest_offset(self, current_leader_epoch: int, *, from_follower: bool) -> Offset:
        """The end a reader may see. KIP-207: refused until the high watermark has reached the start of this epoch,
        so that the end never seems to go back after a failover. source: Partition.fetchOffsetForTimestamp
        """
        if current_leader_epoch != UNDEFINED_EPOCH:
            check_leader_epoch(current_leader_epoch, self.leader_epoch)
        leader = self._leading()
        if from_follower:
            return self.log.log_end_offset
        if leader.high_watermark < leader.leader_epoch_start_offset:
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"the high watermark {leader.high_watermark} of the new leader has not reached the start of its epoch, "
                f"{leader.leader_epoch_start_offset}",
            )
        return leader.high_watermark

    def check_leading(self, current_leader_epoch: int) -> None:
        """raises: KafkaError unless this broker leads in that epoch (-1: in any)"""
        if current_leader_epoch != UNDEFINED_EPOCH:
            check_leader_epoch(current_leader_epoch, self.leader_epoch)
        self._leading()

    def _leading(self) -> LeaderState:
        if self.leader is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.node} does not lead {self.topic_partition}")
        return self.leader

    def _isr(self, in_sync_replicas: tuple[BrokerId, ...]) -> tuple[str, ...]:
        return tuple(self._names(broker_id) for broker_id in in_sync_replicas)
