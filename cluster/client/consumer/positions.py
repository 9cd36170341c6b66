"""Where a consumer stands in each partition, and whether it may read on from there. Source: SubscriptionState.java.

A position is an offset, the epoch of the last record read, and the leader it was checked against (KIP-320): a new
leader epoch means the log may have been cut, so the position must be validated before the next fetch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from cluster.client.metadata_cache import NO_LEADER, LeaderAndEpoch
from replica.causes import ResetCause
from replica.ids import NO_BROKER, UNDEFINED_EPOCH, UNKNOWN_OFFSET, LeaderEpoch, Offset, TopicPartition
from replica.rules import Rules


class PositionMove(NamedTuple):
    """Why a position is to move, as PositionReset has it."""

    cause: ResetCause
    policy: str | None = None
    leader: str | None = None
    leader_epoch: LeaderEpoch | None = None


NEW = PositionMove(ResetCause.NO_POSITION)


class PositionState(Enum):
    """The next step of a partition."""

    AWAIT_RESET = "await reset"
    AWAIT_VALIDATION = "await validation"
    FETCHING = "fetching"
    STOPPED = "stopped"
    """The application was handed an exception it has to answer with a seek."""


@dataclass(slots=True)
class PartitionPosition:
    """One partition of one consumer. `offset` is the next record to read, -1 before the first reset."""

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
    awaits_answer: bool = False
    cause: int | None = None
    """The trace event that made a reset necessary."""

    def await_reset(self, to: str, error: str | None, reset: PositionMove, cause: int | None = None) -> None:
        """Ask the leader for the earliest or latest offset before reading on."""
        self.state = PositionState.AWAIT_RESET
        self.reset_to, self.reset_error, self.reset, self.cause = to, error, reset, cause
        self.retry_at_us, self.failures, self.awaits_answer = 0, 0, False

    def move_to(self, offset: Offset, epoch: LeaderEpoch, leader: LeaderAndEpoch) -> None:
        """Read on from `offset`. epoch: of the record before it, -1 if unknown: then there is nothing to validate"""
        self.state = PositionState.FETCHING
        self.offset, self.offset_epoch, self.leader = offset, epoch, leader
        self.retry_at_us, self.failures, self.awaits_answer = 0, 0, False

    def leader_is(self, leader: LeaderAndEpoch, rules: Rules) -> None:
        """The metadata names this leader; if that is news, the position is validated against it first.

        Without `consumer-truncation-check` (before KAFKA-7747, 2.3) the consumer reads on from its offset without
        checking the new leader's log.
        """
        if leader.leader == NO_BROKER or leader == self.leader:
            return
        if self.state not in (PositionState.FETCHING, PositionState.AWAIT_VALIDATION):
            return
        self.leader = leader
        self.retry_at_us, self.failures, self.awaits_answer = 0, 0, False
        known = self.offset_epoch != UNDEFINED_EPOCH and leader.epoch != UNDEFINED_EPOCH
        must_validate = known and rules.consumer_truncation_check
        self.state = PositionState.AWAIT_VALIDATION if must_validate else PositionState.FETCHING

    def stop(self) -> None:
        self.state = PositionState.STOPPED

    def may_ask(self, state: PositionState, now_us: int) -> bool:
        """Whether the request that `state` needs may be sent now."""
        return self.state is state and not self.awaits_answer and now_us >= self.retry_at_us
