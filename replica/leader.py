"""The leader of one partition: its followers' progress, the in-sync replicas, and the high watermark.

The leader is a state machine from inputs to actions, without a clock, a log file or a socket. The controller decides
the ISR; the leader only proposes changes. Until a proposal is answered, a record is committed only when the larger of
the two ISRs has it (`maximal_isr`, KIP-497).

Source: Partition.scala
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
"""Errors that mean that the proposal never takes effect: the committed ISR applies again."""

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
"""Errors that mean that the controller has newer state: the proposal stays pending until new metadata arrives."""


def check_incarnation(follower: str, broker_epoch: BrokerEpoch, known: BrokerEpoch | None) -> None:
    """Refuse a fetch from an earlier incarnation of a follower (KIP-903).

    Args:
        broker_epoch: epoch in the fetch, -1 if it has none.
        known: epoch of the follower's current registration, None if unknown.

    Raises:
        KafkaError: NOT_LEADER_OR_FOLLOWER if the fetch is older than `known`.

    Source: Replica.updateFetchStateOrThrow
    """
    if known is not None and NO_BROKER_EPOCH != broker_epoch < known:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"the fetch has broker epoch {broker_epoch} of an earlier incarnation of {follower}; the latest is {known}",
        )


class LeaderState:
    """The state machine of a partition's leader.

    Attributes:
        in_sync_replicas: the ISR that the controller has confirmed.
        pending_isr: the proposed ISR that is not answered yet, if any. `isr_state` is the kind of proposal (isr.py).
        maximal_isr: all brokers that must have a record before it is committed.
        replicas: the other assigned replicas.

    Args:
        is_eligible: called with a broker id and a broker epoch; returns True if the broker is not fenced, not shutting
            down, and still in this epoch.
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
        """min.insync.replicas, but at most the number of replicas. Source: Partition.effectiveMinIsr

        The limit came with `hw-advance: min-isr` (KAFKA-15583). Before, a partition with one replica and a minimum of 2
        accepted no writes.
        """
        if self._rules.hw_advance == "isr":
            return self.min_insync_replicas
        return min(self.min_insync_replicas, len(self.replicas) + 1)

    def step(self, event: LeaderInput) -> list[LeaderAction]:
        before = self.isr_state
        actions = self._decide(event)
        if self.isr_state is not before:
            check_step(before, event, self.isr_state)
        return actions

    def _decide(self, event: LeaderInput) -> list[LeaderAction]:
        match event:
            case FetchReceived():
                return self._follower_fetched(event)
            case Appended():
                assert event.log_end_offset >= self.log_end_offset, "a leader never truncates"
                self.log_end_offset = event.log_end_offset
                return self._maybe_advance_high_watermark(event.now_us)
            case LagCheckDue():
                return self._maybe_shrink_isr(event.now_us)
            case IsrAccepted():
                return self._isr_accepted(event)
            case IsrRefused():
                return self._isr_refused(event)
            case PartitionUpdated():
                return self._partition_changed(event)
            case LeaderAssigned():
                return self._become_leader(event)
            case MinIsrChanged():
                # As in Kafka, the high watermark is not computed again until the next fetch, append or ISR change.
                self.min_insync_replicas = event.min_insync_replicas
                return []

    # ---------------------------------------------------------------------------------------------------- requests

    def may_produce(self, required_acks: int) -> None:
        """Check the ISR before an append. Source: Partition.appendRecordsToLeader

        Raises:
            KafkaError: NOT_ENOUGH_REPLICAS for acks=all while the committed ISR is below the minimum.
        """
        if required_acks == ACKS_ALL and len(self.in_sync_replicas) < self.effective_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"the ISR {self._names.set_of(self.in_sync_replicas)} is smaller than "
                f"min.insync.replicas={self.effective_min_isr}",
            )

    def produce_status(self, required_offset: Offset) -> ErrorCode | None:
        """Return the result of an acks=all produce, None until the records below `required_offset` are committed.

        Unlike `may_produce`, this counts the maximal ISR, since a joining member already holds back the high watermark.

        Source: Partition.checkEnoughReplicasReachOffset
        """
        if self.high_watermark < required_offset:
            return None
        if len(self.maximal_isr) >= self.effective_min_isr:
            return ErrorCode.NONE
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def check_follower(self, broker_id: BrokerId, broker_epoch: BrokerEpoch, has_epoch: bool) -> None:
        """Check that a fetch comes from one of the partition's replicas, in its current incarnation.

        Args:
            has_epoch: True if the fetch has a leader epoch.

        Raises:
            KafkaError: UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER otherwise; the follower retries after both.

        Source: Partition.followerReplicaOrThrow, Replica.updateFetchStateOrThrow
        """
        replica = self.replicas.get(broker_id)
        if replica is None:
            # The request has the leader epoch of this broker, so the follower knows newer metadata than this broker.
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if has_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
            name = self._names(broker_id)
            raise KafkaError(code, f"{name} is not a replica of {self.topic_partition} in epoch {self.leader_epoch}")
        # Differs from Kafka: Kafka compares only with the broker epoch in the metadata (the partition does that after
        # the read). Here a fetch is also refused if a later incarnation has already fetched.
        if broker_epoch != replica.broker_epoch:
            check_incarnation(self._names(broker_id), broker_epoch, replica.broker_epoch)

    def may_want(self, broker_id: BrokerId) -> bool:
        """Return True if the follower's next fetch may bring it into the ISR."""
        replica = self.replicas.get(broker_id)
        if replica is None or broker_id in self.in_sync_replicas:
            return False
        return self._pending is not None or self._is_replica_eligible(broker_id, replica)

    # -------------------------------------------------------------------------------------------------- leadership

    def _become_leader(self, event: LeaderAssigned) -> list[LeaderAction]:
        """Apply an election of this broker. Source: Partition.makeLeader"""
        if event.partition_epoch < self.partition_epoch:
            return []
        self._assign(event.in_sync_replicas, event.assigned_replicas, event.partition_epoch)
        self.recovering = event.recovering
        if event.leader_epoch > self.leader_epoch:
            assert event.high_watermark <= event.log_end_offset, "a high watermark beyond the log"
            self.leader_epoch = event.leader_epoch
            self.leader_epoch_start_offset = self.log_end_offset = event.log_end_offset
            # This high watermark may be lower than that of the previous leader; it rises again as the ISR fetches.
            self.high_watermark = event.high_watermark
            for broker_id, replica in self.replicas.items():
                replica.reset(
                    event.now_us,
                    event.log_end_offset,
                    is_new_leader=not event.was_leader,
                    is_in_sync=broker_id in event.in_sync_replicas,
                )
        return self._maybe_advance_high_watermark(event.now_us)

    def _partition_changed(self, event: PartitionUpdated) -> list[LeaderAction]:
        """Apply new metadata, which ends any pending proposal. The progress of the replicas is kept."""
        if event.partition_epoch < self.partition_epoch:
            return []
        self._assign(event.in_sync_replicas, event.assigned_replicas, event.partition_epoch)
        return self._maybe_advance_high_watermark(event.now_us)

    def _assign(
        self, in_sync_replicas: tuple[BrokerId, ...], assigned: tuple[BrokerId, ...], partition_epoch: PartitionEpoch
    ) -> None:
        """Set the assigned replicas and the ISR. Source: Partition.updateAssignmentAndIsr"""
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

    def _follower_fetched(self, event: FetchReceived) -> list[LeaderAction]:
        """Record a follower's fetch, and expand the ISR or advance the high watermark.

        Source: Partition.updateFollowerFetchState
        """
        broker_id = event.broker_id
        replica = self.replicas[broker_id]
        previous_end_offset = replica.log_end_offset
        replica.fetched(
            event.now_us, event.fetch_offset, event.leader_end_offset, event.log_start_offset, event.broker_epoch
        )
        actions = [] if broker_id in self.in_sync_replicas else self._maybe_expand_isr(broker_id, replica)
        if previous_end_offset != event.fetch_offset:
            actions += self._maybe_advance_high_watermark(event.now_us)
        return actions

    def _maybe_advance_high_watermark(self, now_us: int) -> list[LeaderAction]:
        """Advance the high watermark if all required replicas allow it. Source: Partition.maybeIncrementLeaderHW"""
        # KIP-966 part 1 (3.7): if the committed ISR is below the minimum, nothing new is committed, not even records
        # acknowledged with acks=1. Otherwise a record is committed once the maximal ISR has it.
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
        """Return True for a caught-up replica outside the ISR for which the high watermark has to wait."""
        return self._lag.may_hold_high_watermark(replica, self.log_end_offset, now_us) and self._is_replica_eligible(
            broker_id, replica
        )

    def _is_replica_eligible(self, broker_id: BrokerId, replica: RemoteReplica) -> bool:
        """Return True if the switch `isr-eligibility` lets the leader propose to add the replica to the ISR.

        The controller checks the same in controller/alter_partition.py. KIP-841 requires that the broker is neither
        fenced nor shutting down, KIP-903 that the broker has fetched in its current incarnation.

        Source: Partition.isReplicaIsrEligible
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
        """Propose to add a replica that is outside the ISR, if it is caught up. Source: Partition.maybeExpandIsr"""
        if self._pending is not None or replica.log_end_offset < self.high_watermark:
            return []
        # KAFKA-7128: a new leader's high watermark can be stale, and the previous leader may have committed all records
        # below the start of the new epoch.
        must_reach_epoch_start = self._rules.isr_join == "epoch-start"
        if must_reach_epoch_start and replica.log_end_offset < self.leader_epoch_start_offset:
            return []
        if not self._is_replica_eligible(broker_id, replica):
            return []
        epoch_start_offset = self.leader_epoch_start_offset if must_reach_epoch_start else None
        why = CaughtUp(replica.log_end_offset, self.high_watermark, epoch_start_offset)
        proposed = (*self.in_sync_replicas, broker_id)
        # If the proposal fails, waiting for one more replica has done no harm.
        return self._propose(proposed, maximal_isr=proposed, why=why)

    def _maybe_shrink_isr(self, now_us: int) -> list[LeaderAction]:
        """Propose to remove the members that are out of sync. Source: Partition.maybeShrinkIsr"""
        if self._pending is not None:
            return []
        lags = tuple((member, lag) for member in self.in_sync_replicas if (lag := self._lag_of(member, now_us)))
        if not lags:
            return []
        out_of_sync = [member for member, _ in lags]
        remaining = tuple(member for member in self.in_sync_replicas if member not in out_of_sync)
        # If the proposal fails, the old members can still be elected, so the high watermark waits for them as well.
        return self._propose(remaining, maximal_isr=self.in_sync_replicas, why=OutOfSync(lags, self._lag.limits))

    def _lag_of(self, member: BrokerId, now_us: int) -> Lag | None:
        """Return the lag of a member of the ISR, or None if the member is in sync."""
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

    def _isr_accepted(self, event: IsrAccepted) -> list[LeaderAction]:
        """Apply the ISR that the controller has accepted. Source: Partition.handleAlterPartitionUpdate"""
        if not self._is_in_flight(event.proposal) or event.partition_epoch < self.partition_epoch:
            return []
        if event.leader_epoch != self.leader_epoch:
            return []  # This leader epoch is over; the next one begins with the metadata.
        self.partition_epoch = event.partition_epoch
        self.recovering = event.recovering
        self._commit(event.in_sync_replicas)
        return self._maybe_advance_high_watermark(event.now_us)

    def _isr_refused(self, event: IsrRefused) -> list[LeaderAction]:
        """Withdraw or repeat the proposal, depending on the error. Source: Partition.handleAlterPartitionError"""
        if not self._is_in_flight(event.proposal):
            return []
        proposal = self._pending
        assert proposal is not None
        if event.error in NOT_APPLIED:
            self._commit(self.in_sync_replicas)
            return []
        if event.error in AWAIT_METADATA:
            return []
        self._pending = dataclasses.replace(proposal, why=ProposalRefused(event.error))
        return [self._pending]

    def _is_in_flight(self, proposal: ProposeIsr | None) -> bool:
        """Return False if the proposal was replaced by new metadata or an election before its answer came."""
        return self._pending is not None and (proposal is None or proposal == self._pending)
