"""A consumer's position in each partition, its validation, and the replica that the consumer reads from.

A position is an offset, the epoch of the last record read, and the leader with which the position was validated
(KIP-320). A new leader epoch means that the log may have been truncated, so the position must be validated before the
next fetch. The consumer reads a partition from its leader, or from the replica that the leader has named (KIP-392).
Source: SubscriptionState.java, AbstractFetch.selectReadReplica, FetchUtils.requestMetadataUpdate
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from cluster.client.connections import ClientConnections
from cluster.client.events import ClientEvents
from cluster.client.metadata_cache import NO_LEADER, LeaderAndEpoch
from replica.causes import ReadReplicaCause, ResetCause
from replica.ids import NO_BROKER, UNDEFINED_EPOCH, UNKNOWN_OFFSET, BrokerId, LeaderEpoch, Offset, TopicPartition
from replica.rules import Rules
from replica.trace.events import ReadReplicaChanged


class PositionMove(NamedTuple):
    """The reason why a position moves, with the fields of the event PositionReset."""

    cause: ResetCause
    policy: str | None = None
    leader: str | None = None
    leader_epoch: LeaderEpoch | None = None


NEW = PositionMove(ResetCause.NO_POSITION)


class PositionState(Enum):
    """The state of a position, which determines the consumer's next request for the partition."""

    AWAIT_RESET = "await reset"
    AWAIT_VALIDATION = "await validation"
    FETCHING = "fetching"
    STOPPED = "stopped"
    """The application got an exception and has to seek."""


@dataclass(slots=True)
class PartitionPosition:
    """One consumer's position in one partition.

    Attributes:
        offset: offset of the next record to read, -1 before the first reset.
        offset_epoch: leader epoch of the record before `offset`, -1 if unknown.
        preferred: the replica to read from until `preferred_until_us`, NO_BROKER for the leader.
    """

    topic_partition: TopicPartition
    state: PositionState = PositionState.AWAIT_RESET
    offset: Offset = UNKNOWN_OFFSET
    offset_epoch: LeaderEpoch = UNDEFINED_EPOCH
    leader: LeaderAndEpoch = NO_LEADER
    reset_to: str = "latest"
    reset_error: str | None = None
    reset: PositionMove = NEW
    retry_at_us: int = 0
    failures: int = 0
    preferred: BrokerId = NO_BROKER
    preferred_until_us: int = 0
    awaits_answer: bool = False
    cause: int | None = None
    """The number of the event that made a reset necessary."""

    @property
    def read_from(self) -> BrokerId:
        """The broker to fetch from: the preferred replica or else the leader."""
        return self.leader.leader if self.preferred == NO_BROKER else self.preferred

    def await_reset(self, to: str, error: str | None, reset: PositionMove, cause: int | None = None) -> None:
        """Wait for a reset to the leader's "earliest" or "latest" offset (`to`) before the next fetch."""
        self.state = PositionState.AWAIT_RESET
        self.reset_to, self.reset_error, self.reset, self.cause = to, error, reset, cause
        self.retry_at_us, self.failures, self.awaits_answer = 0, 0, False

    def move_to(self, offset: Offset, epoch: LeaderEpoch, leader: LeaderAndEpoch) -> None:
        """Continue from `offset`; `epoch` is the leader epoch of the record before it, -1 to skip validation."""
        self.state = PositionState.FETCHING
        self.offset, self.offset_epoch, self.leader = offset, epoch, leader
        self.retry_at_us, self.failures, self.awaits_answer = 0, 0, False

    def leader_is(self, leader: LeaderAndEpoch, rules: Rules) -> bool:
        """Apply the leader from the metadata; return True if it replaces another one.

        The next fetch then waits for a validation, unless the rule `consumer-truncation-check` is off (before
        KAFKA-7747, 2.3).
        """
        if leader.leader == NO_BROKER or leader == self.leader:
            return False
        if self.state not in (PositionState.FETCHING, PositionState.AWAIT_VALIDATION):
            return False
        self.leader = leader
        self.retry_at_us, self.failures, self.awaits_answer = 0, 0, False
        known = self.offset_epoch != UNDEFINED_EPOCH and leader.epoch != UNDEFINED_EPOCH
        must_validate = known and rules.consumer_truncation_check
        self.state = PositionState.AWAIT_VALIDATION if must_validate else PositionState.FETCHING
        return True

    def stop(self) -> None:
        self.state = PositionState.STOPPED

    def may_ask(self, state: PositionState, now_us: int) -> bool:
        """Return True if the position is in `state` and its request is neither in flight nor backing off."""
        return self.state is state and not self.awaits_answer and now_us >= self.retry_at_us


class ReadReplicas:
    """The replicas that one consumer reads from.

    Args:
        lease_ms: how long a replica stays preferred, metadata.max.age.ms.
    """

    def __init__(
        self,
        positions: Mapping[TopicPartition, PartitionPosition],
        connections: ClientConnections,
        events: ClientEvents,
        lease_ms: int,
    ) -> None:
        self._positions = positions
        self._connections = connections
        self._metadata = connections.metadata
        self._events = events
        self._lease_us = lease_ms * 1000
        self._awaited: dict[int, None] = {}
        """Brokers that are being connected for a fetch."""

    def node_of(self, position: PartitionPosition, now_us: int) -> BrokerId:
        """Return the broker to fetch from.

        It is the preferred replica or else, as in Kafka, the last known leader, even while the metadata has no leader.
        A former leader that has not heard of its successor still answers.
        """
        preferred = position.preferred
        if preferred == NO_BROKER:
            return position.leader.leader
        if now_us > position.preferred_until_us:
            self.leave(position, ReadReplicaCause.EXPIRED)
        elif not self._metadata.is_online(position.topic_partition, preferred):
            self._metadata.request_update()
            self.leave(position, ReadReplicaCause.OFFLINE)
        return position.read_from

    def prefer(self, position: PartitionPosition, replica: BrokerId, leader: str, rack: str, now_us: int) -> None:
        """Read from the replica that the leader has named until the lease ends or an error occurs; emit an event."""
        if position.preferred == replica:
            return
        position.preferred, position.preferred_until_us = replica, now_us + self._lease_us
        self._state(position, replica, ReadReplicaCause.PREFERRED, leader=leader, rack=rack)

    def leave(self, position: PartitionPosition, cause: ReadReplicaCause, error: str | None = None) -> bool:
        """Read from the leader again; return False if the consumer reads from the leader already."""
        left, position.preferred = position.preferred, NO_BROKER
        if left == NO_BROKER:
            return False
        self._state(position, left, cause, error=error)
        return True

    def _state(
        self,
        position: PartitionPosition,
        replica: BrokerId,
        cause: ReadReplicaCause,
        *,
        leader: str | None = None,
        rack: str | None = None,
        error: str | None = None,
    ) -> None:
        self._events.emit(
            ReadReplicaChanged(
                self._events.client,
                *position.topic_partition,
                peer=self._connections.name(replica),
                offset=position.offset,
                cause=cause,
                leader=leader,
                rack=rack,
                error=error,
            )
        )

    # --------------------------------------------------------------------------------------------------- failures

    def await_connection(self, node_id: BrokerId, now_us: int) -> bool:
        """Note that a fetch waits for a connection to a broker.

        Return False if the connection has failed and partitions that preferred this broker go back to their leaders.

        Source: ConsumerNetworkClient.checkDisconnects, AbstractFetch.handleFetchFailure
        """
        if not self._connections.is_unavailable(node_id, now_us):
            self._awaited[node_id] = None
        elif node_id in self._awaited:
            del self._awaited[node_id]
            return not self.lost(node_id)
        return True

    def sent(self, node_id: BrokerId) -> None:
        self._awaited.pop(node_id, None)

    def lost(self, node_id: BrokerId) -> bool:
        """Read the partitions of an unreachable replica from their leaders, and return True if there are any.

        Source: AbstractFetch.handleFetchFailure
        """
        left = [position for position in self._positions.values() if position.preferred == node_id]
        for position in left:
            self.leave(position, ReadReplicaCause.UNREACHABLE)
        return bool(left)
