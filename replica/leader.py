"""The leader of one partition: its followers' progress, the in-sync replicas, and how far records are committed.

Events in, actions out; nothing here knows a clock, a log file or a socket. The controller owns the in-sync replicas:
the leader only proposes, and until it hears back it honours the larger of the two sets (`maximal_isr`, KIP-497).
source: Partition.scala
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from replica.causes import LagCause
from replica.errors import ErrorCode, KafkaError
from replica.ids import (
    ACKS_ALL,
    NO_BROKER_EPOCH,
    UNDEFINED_EPOCH,
    UNKNOWN_OFFSET,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Names,
    Offset,
    PartitionEpoch,
    TopicPartition,
)
from replica.inputs import (
    AdvanceHighWatermark,
    Appended,
    CaughtUp,
    FetchReceived,
    IsrAccepted,
    IsrRefused,
    Lag,
    LagCheckDue,
    LagLimits,
    LeaderAction,
    LeaderAssigned,
    LeaderInput,
    MinIsrChanged,
    OutOfSync,
    PartitionUpdated,
    ProposalRefused,
    ProposeIsr,
)
from replica.isr import IsrLag, IsrState, RemoteReplica, check_step
from replica.rules import Rules

NOT_APPLIED = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The controller vouches that the proposal took no effect and never will: back to the committed ISR."""

AWAIT_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The controller's state is newer than ours: stay pending until the metadata brings it."""


def check_life(follower: str, broker_epoch: BrokerEpoch, known: BrokerEpoch | None) -> None:
    """KIP-903: a fetch from an earlier life of a follower says nothing of its log now.

    broker_epoch: as in the fetch, -1 for none     known: of the follower's present life, None if that is unknown
    raises: KafkaError NOT_LEADER_OR_FOLLOWER     source: Replica.updateFetchStateOrThrow
    """
    if known is not None and NO_BROKER_EPOCH != broker_epoch < known:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"the fetch comes from an earlier life of {follower}: broker epoch {broker_epoch}, now {known}",
        )


class LeaderState:
    """in_sync_replicas: as committed by the controller     pending_isr: as proposed and not yet answered, or None

    isr_state: where a proposal stands, by the table in isr.py
    maximal_isr: all that must hold a record before it counts as committed     replicas: the other assigned replicas
    is_eligible(broker_id, broker_epoch): not fenced, not shutting down, and alive in this very broker epoch
    """

    def __init__(
        self,
        *,
        topic_partition: TopicPartition,
        broker_id: BrokerId,
        lag_limits: LagLimits,
        min_insync_replicas: int,
        names: Names,
        rules: Rules,
        is_eligible: Callable[[BrokerId, BrokerEpoch], bool],
    ) -> None:
        self.topic_partition = topic_partition
        self.broker_id = broker_id
        self.min_insync_replicas = min_insync_replicas
        self.leader_epoch: LeaderEpoch = UNDEFINED_EPOCH
        self.partition_epoch: PartitionEpoch = UNDEFINED_EPOCH
        self.leader_epoch_start_offset: Offset = UNKNOWN_OFFSET
        self.log_end_offset: Offset = 0
        self.high_watermark: Offset = 0
        self.recovering = False
        self.assigned_replicas: tuple[BrokerId, ...] = ()
        self.replicas: dict[BrokerId, RemoteReplica] = {}
        self.in_sync_replicas: tuple[BrokerId, ...] = ()
        self.maximal_isr: tuple[BrokerId, ...] = ()
        self.isr_state = IsrState.COMMITTED
        self._pending: ProposeIsr | None = None
        self._lag = IsrLag(lag_limits, rules)
        self._names = names
        self._rules = rules
        self._is_eligible = is_eligible

    @property
    def pending_isr(self) -> tuple[BrokerId, ...] | None:
        return self._pending.in_sync_replicas if self._pending is not None else None

    @property
    def effective_min_isr(self) -> int:
        """min.insync.replicas, but never more than there are replicas. source: Partition.effectiveMinIsr

        The bound came with `hw-advance: min-isr` (KAFKA-15583); before, one replica with a minimum of 2 took no write.
        """
        if self._rules.hw_advance == "isr":
            return self.min_insync_replicas
        return min(self.min_insync_replicas, len(self.replicas) + 1)

    def step(self, given: LeaderInput) -> list[LeaderAction]:
        before = self.isr_state
        actions = self._decide(given)
        if self.isr_state is not before:
            check_step(before, given, self.isr_state)
        return actions

    def _decide(self, given: LeaderInput) -> list[LeaderAction]:
        match given:
            case FetchReceived():
                return self._follower_fetched(given)
            case Appended():
                assert given.log_end_offset >= self.log_end_offset, "a leader never truncates"
                self.log_end_offset = given.log_end_offset
                return self._maybe_advance_high_watermark(given.now_us)
            case LagCheckDue():
                return self._maybe_shrink_isr(given.now_us)
            case IsrAccepted():
                return self._isr_accepted(given)
            case IsrRefused():
                return self._isr_refused(given)
            case PartitionUpdated():
                return self._partition_changed(given)
            case LeaderAssigned():
                return self._become_leader(given)
            case MinIsrChanged():
                # As in Kafka the high watermark is not looked at until the next fetch, append or ISR change.
                self.min_insync_replicas = given.min_insync_replicas
                return []

    # ------------------------------------------------------------------------------------------------ for requests

    def may_produce(self, required_acks: int) -> None:
        """Before anything is appended. source: Partition.appendRecordsToLeader

        raises: KafkaError NOT_ENOUGH_REPLICAS for acks=all while the committed ISR is below the minimum
        """
        if required_acks == ACKS_ALL and len(self.in_sync_replicas) < self.effective_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"the ISR {self._names.set_of(self.in_sync_replicas)} is smaller than "
                f"min.insync.replicas={self.effective_min_isr}",
            )

    def produce_status(self, required_offset: Offset) -> ErrorCode | None:
        """For a waiting acks=all produce: None while records below required_offset are not all committed.

        The maximal ISR is counted here, the committed one in `may_produce`: a member that is joining already holds the
        high watermark back, so it counts. source: Partition.checkEnoughReplicasReachOffset
        """
        if self.high_watermark < required_offset:
            return None
        if len(self.maximal_isr) >= self.effective_min_isr:
            return ErrorCode.NONE
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def check_follower(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, has_epoch: bool) -> None:
        """Is this a fetch of one of our replicas, in its present life? has_epoch: it named a current leader epoch.

        raises: KafkaError UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER; the follower tries again after both.
        source: Partition.followerReplicaOrThrow, Replica.updateFetchStateOrThrow
        """
        replica = self.replicas.get(broker_id)
        if replica is None:
            # With the epoch given and equal to ours, the follower knows newer metadata than we do.
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if has_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
            name = self._names(broker_id)
            raise KafkaError(code, f"{name} is not a replica of {self.topic_partition} in epoch {self.leader_epoch}")
        # Differs from Kafka: it compares with the broker epoch in its metadata only (as the partition does after the
        # read); here a fetch is also refused when a later incarnation has already fetched.
        if broker_epoch != replica.broker_epoch:
            check_life(self._names(broker_id), broker_epoch, replica.broker_epoch)

    def may_want(self, broker_id: BrokerId) -> bool:
        """Whether its next fetch may bring it into the ISR: it is not in it, and nothing is against it."""
        replica = self.replicas.get(broker_id)
        if replica is None or broker_id in self.in_sync_replicas:
            return False
        return self._pending is not None or self._is_replica_eligible(broker_id, replica)

    # -------------------------------------------------------------------------------------------------- leadership

    def _become_leader(self, given: LeaderAssigned) -> list[LeaderAction]:
        """source: Partition.makeLeader"""
        if given.partition_epoch < self.partition_epoch:
            return []
        self._assign(given.in_sync_replicas, given.assigned_replicas, given.partition_epoch)
        self.recovering = given.recovering
        if given.leader_epoch > self.leader_epoch:
            assert given.high_watermark <= given.log_end_offset, "a high watermark beyond the log"
            self.leader_epoch = given.leader_epoch
            self.leader_epoch_start_offset = self.log_end_offset = given.log_end_offset
            # Ours may be older than the one our predecessor showed, and rises again as the ISR fetches.
            self.high_watermark = given.high_watermark
            for broker_id, replica in self.replicas.items():
                replica.reset(
                    given.now_us,
                    given.log_end_offset,
                    is_new_leader=not given.was_leader,
                    is_in_sync=broker_id in given.in_sync_replicas,
                )
        return self._maybe_advance_high_watermark(given.now_us)

    def _partition_changed(self, given: PartitionUpdated) -> list[LeaderAction]:
        """New metadata ends any pending change; the leader still knows what the replicas hold."""
        if given.partition_epoch < self.partition_epoch:
            return []
        self._assign(given.in_sync_replicas, given.assigned_replicas, given.partition_epoch)
        return self._maybe_advance_high_watermark(given.now_us)

    def _assign(
        self, in_sync_replicas: tuple[BrokerId, ...], assigned: tuple[BrokerId, ...], partition_epoch: PartitionEpoch
    ) -> None:
        """source: Partition.updateAssignmentAndIsr"""
        known = self.replicas
        others = [broker_id for broker_id in assigned if broker_id != self.broker_id]
        self.replicas = {broker_id: known.get(broker_id) or RemoteReplica() for broker_id in others}
        self.assigned_replicas = assigned
        self.partition_epoch = partition_epoch
        self._commit(in_sync_replicas)

    def _commit(self, in_sync_replicas: tuple[BrokerId, ...]) -> None:
        self.in_sync_replicas = in_sync_replicas
        self.isr_state = IsrState.COMMITTED
        self._pending = None
        self._set_maximal(in_sync_replicas)

    def _set_maximal(self, maximal_isr: tuple[BrokerId, ...]) -> None:
        self.maximal_isr = maximal_isr

    # -------------------------------------------------------------------------------------- progress and high watermark

    def _follower_fetched(self, given: FetchReceived) -> list[LeaderAction]:
        """source: Partition.updateFollowerFetchState"""
        broker_id = given.broker_id
        replica = self.replicas[broker_id]
        previous_end_offset = replica.log_end_offset
        replica.fetched(
            given.now_us, given.fetch_offset, given.leader_end_offset, given.log_start_offset, given.broker_epoch
        )
        actions = [] if broker_id in self.in_sync_replicas else self._maybe_expand_isr(broker_id, replica)
        if previous_end_offset != given.fetch_offset:
            actions += self._maybe_advance_high_watermark(given.now_us)
        return actions

    def _maybe_advance_high_watermark(self, now_us: int) -> list[LeaderAction]:
        """source: Partition.maybeIncrementLeaderHW"""
        # KIP-966 part 1 (3.7): under min ISR nothing new counts as committed, not even what acks=1 has answered. The
        # committed ISR is counted, the maximal one is waited for.
        if self._rules.hw_advance == "min-isr" and len(self.in_sync_replicas) < self.effective_min_isr:
            return []
        candidate = self.log_end_offset
        joining: BrokerId | None = None
        for broker_id, replica in self.replicas.items():
            if replica.log_end_offset >= candidate:
                continue
            if broker_id in self.maximal_isr:
                candidate, joining = replica.log_end_offset, None
            elif self._may_join_soon(broker_id, replica, now_us):
                candidate, joining = replica.log_end_offset, broker_id
        previous = self.high_watermark
        if candidate <= previous:
            return []
        self.high_watermark = candidate
        return [
            AdvanceHighWatermark(previous=previous, high_watermark=candidate, holders=self.maximal_isr, joining=joining)
        ]

    def _may_join_soon(self, broker_id: BrokerId, replica: RemoteReplica, now_us: int) -> bool:
        """Wait for a caught-up replica outside the ISR, or the high watermark would run away from it for ever."""
        return self._lag.may_hold_high_watermark(replica, self.log_end_offset, now_us) and self._is_replica_eligible(
            broker_id, replica
        )

    def _is_replica_eligible(self, broker_id: BrokerId, replica: RemoteReplica) -> bool:
        """The leader's half of `isr-eligibility`; the controller's is in controller/alter_partition.py.

        KIP-841: the metadata calls it alive and not on its way out. KIP-903: and it has fetched in this very life.
        source: Partition.isReplicaIsrEligible
        """
        match self._rules.isr_eligibility:
            case "any":
                return True
            case "unfenced":
                return self._is_eligible(broker_id, NO_BROKER_EPOCH)
            case "broker-epoch":
                return replica.broker_epoch is not None and self._is_eligible(broker_id, replica.broker_epoch)

    # ----------------------------------------------------------------------------------------------- in-sync replicas

    def _maybe_expand_isr(self, broker_id: BrokerId, replica: RemoteReplica) -> list[LeaderAction]:
        """source: Partition.maybeExpandIsr; the caller knows that the replica is outside the ISR"""
        if self._pending is not None or replica.log_end_offset < self.high_watermark:
            return []
        # KAFKA-7128: a fresh leader's high watermark can be stale, and below the start of its epoch everything may
        # have been committed by its predecessor.
        must_reach_epoch_start = self._rules.isr_join == "epoch-start"
        if must_reach_epoch_start and replica.log_end_offset < self.leader_epoch_start_offset:
            return []
        if not self._is_replica_eligible(broker_id, replica):
            return []
        epoch_start_offset = self.leader_epoch_start_offset if must_reach_epoch_start else None
        why = CaughtUp(replica.log_end_offset, self.high_watermark, epoch_start_offset)
        proposed = (*self.in_sync_replicas, broker_id)
        # If the proposal fails, having waited for one replica more has done no harm.
        return self._propose(proposed, maximal_isr=proposed, why=why)

    def _maybe_shrink_isr(self, now_us: int) -> list[LeaderAction]:
        """source: Partition.maybeShrinkIsr"""
        if self._pending is not None:
            return []
        lags = tuple((member, lag) for member in self.in_sync_replicas if (lag := self._lag_of(member, now_us)))
        if not lags:
            return []
        out_of_sync = [member for member, _ in lags]
        remaining = tuple(member for member in self.in_sync_replicas if member not in out_of_sync)
        # If the proposal fails, the old members could still be elected: they gate the high watermark until it succeeds.
        return self._propose(remaining, maximal_isr=self.in_sync_replicas, why=OutOfSync(lags, self._lag.limits))

    def _lag_of(self, member: BrokerId, now_us: int) -> Lag | None:
        """None: the member is in sync."""
        if member == self.broker_id:
            return None
        replica = self.replicas.get(member)
        if replica is None:
            return Lag(LagCause.NOT_ASSIGNED)
        return self._lag.of(replica, self.log_end_offset, now_us)

    def _propose(
        self, proposed: tuple[BrokerId, ...], *, maximal_isr: tuple[BrokerId, ...], why: CaughtUp | OutOfSync
    ) -> list[LeaderAction]:
        self._pending = ProposeIsr(
            in_sync_replicas=proposed,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            broker_epochs=tuple(self._known_broker_epoch(member) for member in proposed),
            why=why,
        )
        self.isr_state = IsrState.EXPANDING if len(proposed) > len(self.in_sync_replicas) else IsrState.SHRINKING
        self._set_maximal(maximal_isr)
        return [self._pending]

    def _known_broker_epoch(self, member: BrokerId) -> BrokerEpoch:
        replica = self.replicas.get(member)
        return NO_BROKER_EPOCH if replica is None or replica.broker_epoch is None else replica.broker_epoch

    def _isr_accepted(self, given: IsrAccepted) -> list[LeaderAction]:
        """source: Partition.handleAlterPartitionUpdate"""
        if not self._is_in_flight(given.proposal) or given.partition_epoch < self.partition_epoch:
            return []
        if given.leader_epoch != self.leader_epoch:
            return []  # This term is over: the next one begins with the metadata.
        self.partition_epoch = given.partition_epoch
        self.recovering = given.recovering
        self._commit(given.in_sync_replicas)
        return self._maybe_advance_high_watermark(given.now_us)

    def _isr_refused(self, given: IsrRefused) -> list[LeaderAction]:
        """source: Partition.handleAlterPartitionError"""
        if not self._is_in_flight(given.proposal):
            return []
        proposal = self._pending
        assert proposal is not None
        if given.error in NOT_APPLIED:
            self._commit(self.in_sync_replicas)
            return []
        if given.error in AWAIT_METADATA:
            return []
        self._pending = dataclasses.replace(proposal, why=ProposalRefused(given.error))
        return [self._pending]

    def _is_in_flight(self, proposal: ProposeIsr | None) -> bool:
        """An answer to anything else comes too late: metadata or an election has overtaken it."""
        return self._pending is not None and (proposal is None or proposal == self._pending)
