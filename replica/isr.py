"""The states of a partition's ISR at its leader, and which input leads from which to which: a table that LeaderState
obeys in every step.

    COMMITTED   the ISR is what the controller has decided
    EXPANDING   a larger one is proposed (AlterPartition), and not answered: all of the larger one count already
    SHRINKING   a smaller one is proposed, and not answered: all of the larger one count still

So a record is committed only when every broker that could be a member by now has it, however the controller answers
(KIP-497). One proposal at a time. Where the table has no entry an input changes no state: a refusal, for instance,
that leaves open what the controller has decided. source: Partition.scala (PartitionState and its subclasses)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from replica.ids import Offset
from replica.inputs import (
    FetchReceived,
    IsrAccepted,
    IsrRefused,
    LagCheckDue,
    LeaderAssigned,
    LeaderInput,
    PartitionUpdated,
)
from replica.remote_replica import LONG_AGO_US, RemoteReplica
from replica.rules import Rules
from replica.wording import duration


class IsrState(Enum):
    COMMITTED = "committed"
    EXPANDING = "expanding"
    SHRINKING = "shrinking"


COMMITTED, EXPANDING, SHRINKING = IsrState

_END = {IsrAccepted: COMMITTED, IsrRefused: COMMITTED, PartitionUpdated: COMMITTED, LeaderAssigned: COMMITTED}

NEXT_STATES: Mapping[IsrState, Mapping[type[LeaderInput], IsrState]] = {
    COMMITTED: {FetchReceived: EXPANDING, LagCheckDue: SHRINKING},
    EXPANDING: _END,
    SHRINKING: _END,
}
"""State -> input -> the state it may lead to."""


def check_step(before: IsrState, given: LeaderInput, after: IsrState) -> None:
    """A step that the table does not have is a bug."""
    assert after is before or after is NEXT_STATES[before].get(type(given)), (
        f"{type(given).__name__} leads from {before.name} to {after.name}"
    )


# -------------------------------------------------------------------------------------------------------------- isr lag
#
# The switch `isr-lag`: how far behind takes a follower out of the ISR.
#
# Since 0.9 (KIP-16, KAFKA-1546) time alone counts. Before, a follower was out when it had not fetched for
# replica.lag.time.max.ms ("stuck"), or was more than replica.lag.max.messages behind ("slow"); one batch larger than
# that
# number evicted every healthy follower, since no follower can already have a batch that has just arrived.
# Simplified: the check runs every half of replica.lag.time.max.ms; before 0.10.2 (KAFKA-4485) it was the whole of it.
# source: 0.8.2 Partition.getOutOfSyncReplicas, Replica.logEndOffset_=


@dataclass(frozen=True, slots=True)
class LagLimits:
    """max_messages counts only under `isr-lag: messages`."""

    time_max_us: int
    max_messages: int


@dataclass(frozen=True, slots=True)
class IsrLag:
    limits: LagLimits
    rules: Rules

    def explain(self, replica: RemoteReplica, log_end_offset: Offset, now_us: int, leader: str) -> str | None:
        """Why this member lags too much, to follow its name; None: it does not.

        source: Partition.isFollowerOutOfSync
        """
        if self.rules.isr_lag == "messages":
            return self._stuck(replica, now_us) or self._slow(replica, log_end_offset)
        if replica.is_caught_up(log_end_offset, now_us, self.limits.time_max_us):
            return None
        if replica.last_caught_up_us == LONG_AGO_US:
            return f"has not caught up since {leader} leads"
        return f"has not caught up for {duration(now_us - replica.last_caught_up_us)}"

    def _stuck(self, replica: RemoteReplica, now_us: int) -> str | None:
        # With a new leader the delay begins anew, for replicas that have yet to fetch as well.
        silent_us = now_us - max(replica.last_fetch_us, replica.last_caught_up_us)
        return None if silent_us <= self.limits.time_max_us else f"has not fetched for {duration(silent_us)}"

    def _slow(self, replica: RemoteReplica, log_end_offset: Offset) -> str | None:
        behind = log_end_offset - replica.log_end_offset
        if replica.log_end_offset < 0 or behind <= self.limits.max_messages:
            return None
        return f"is {behind} records behind"

    @property
    def told(self) -> str:
        """The limits by their keys."""
        limit = f"replica.lag.time.max.ms is {duration(self.limits.time_max_us)}"
        if self.rules.isr_lag == "messages":
            return f"{limit}, replica.lag.max.messages is {self.limits.max_messages}"
        return limit

    def may_hold_high_watermark(self, replica: RemoteReplica, log_end_offset: Offset, now_us: int) -> bool:
        """Outside the ISR, and yet so close that the high watermark waits for it. In 0.8 it waited for the ISR only."""
        return self.rules.isr_lag == "time" and replica.is_caught_up(log_end_offset, now_us, self.limits.time_max_us)
