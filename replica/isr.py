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

from replica.causes import LagCause
from replica.ids import UNKNOWN_OFFSET, BrokerEpoch, Offset
from replica.inputs import (
    FetchReceived,
    IsrAccepted,
    IsrRefused,
    Lag,
    LagCheckDue,
    LagLimits,
    LeaderAssigned,
    LeaderInput,
    PartitionUpdated,
)
from replica.rules import Rules

# ------------------------------------------------------------------------------------------------------- remote replica
#
# A leader's knowledge of one follower, from its fetches alone. source: Kafka Replica, ReplicaState

LONG_AGO_US = -(2**62)
"""Kafka writes 0 here, which is 1970. Our clock starts at 0 with the run, so "long ago" lies far before it."""


class RemoteReplica:
    """log_end_offset: -1 until the first fetch seen by this leader     broker_epoch: None until then

    last_caught_up_us is the latest time at which the follower held everything the leader had at that time.
    """

    __slots__ = (
        "broker_epoch",
        "last_caught_up_us",
        "last_fetch_leader_end_offset",
        "last_fetch_us",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self) -> None:
        self.log_end_offset: Offset = UNKNOWN_OFFSET
        self.log_start_offset: Offset = UNKNOWN_OFFSET
        self.last_fetch_leader_end_offset: Offset = 0
        self.last_fetch_us = LONG_AGO_US
        self.last_caught_up_us = LONG_AGO_US
        self.broker_epoch: BrokerEpoch | None = None

    def fetched(
        self,
        now_us: int,
        fetch_offset: Offset,
        leader_end_offset: Offset,
        log_start_offset: Offset,
        broker_epoch: BrokerEpoch,
    ) -> None:
        """Record one fetch; leader_end_offset: the leader's log end captured when this fetch was read.

        A follower that now asks for the end of a moment ago was caught up then: under steady load no fetch ever reaches
        the end of the same instant, and yet the follower keeps pace. source: Replica.updateFetchStateOrThrow
        """
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_us = max(self.last_caught_up_us, now_us)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_us = max(self.last_caught_up_us, self.last_fetch_us)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end_offset = max(leader_end_offset, self.last_fetch_leader_end_offset)
        self.last_fetch_us = now_us
        self.broker_epoch = broker_epoch

    def fetched_the_same(self, now_us: int) -> None:
        """It has gone on to fetch what it had fetched before, where the log ended and still ends, up to now."""
        self.last_caught_up_us = max(self.last_caught_up_us, now_us)
        self.last_fetch_us = max(self.last_fetch_us, now_us)

    def reset(self, now_us: int, leader_end_offset: Offset, *, is_new_leader: bool, is_in_sync: bool) -> None:
        """A leader epoch begins. ISR members get a fresh delay, others must prove themselves first.

        A re-elected leader keeps the offsets it knows. source: Replica.resetReplicaState
        """
        self.last_caught_up_us = now_us if is_in_sync else LONG_AGO_US
        if is_new_leader:
            self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
            self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
            self.last_fetch_us = LONG_AGO_US
            self.broker_epoch = None
        else:
            self.last_fetch_leader_end_offset = leader_end_offset
            self.last_fetch_us = now_us if is_in_sync else LONG_AGO_US

    def is_caught_up(self, leader_end_offset: Offset, now_us: int, lag_time_max_us: int) -> bool:
        """At the end right now, or not longer than the lag limit ago. source: ReplicaState.isCaughtUp"""
        return self.log_end_offset == leader_end_offset or now_us - self.last_caught_up_us <= lag_time_max_us


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
class IsrLag:
    limits: LagLimits
    rules: Rules

    def of(self, replica: RemoteReplica, log_end_offset: Offset, now_us: int) -> Lag | None:
        """None: this member does not lag too much. source: Partition.isFollowerOutOfSync"""
        if self.rules.isr_lag == "messages":
            return self._not_fetching(replica, now_us) or self._behind(replica, log_end_offset)
        if replica.is_caught_up(log_end_offset, now_us, self.limits.time_max_us):
            return None
        if replica.last_caught_up_us == LONG_AGO_US:
            return Lag(LagCause.NEVER_CAUGHT_UP)
        return Lag(LagCause.NOT_CAUGHT_UP, now_us - replica.last_caught_up_us)

    def _not_fetching(self, replica: RemoteReplica, now_us: int) -> Lag | None:
        # With a new leader the delay begins anew, for replicas that have yet to fetch as well.
        silent_us = now_us - max(replica.last_fetch_us, replica.last_caught_up_us)
        return None if silent_us <= self.limits.time_max_us else Lag(LagCause.NOT_FETCHING, silent_us)

    def _behind(self, replica: RemoteReplica, log_end_offset: Offset) -> Lag | None:
        behind = log_end_offset - replica.log_end_offset
        limit = self.limits.max_messages
        if replica.log_end_offset < 0 or limit is None or behind <= limit:
            return None
        return Lag(LagCause.BEHIND, behind)

    def may_hold_high_watermark(self, replica: RemoteReplica, log_end_offset: Offset, now_us: int) -> bool:
        """Outside the ISR, and yet so close that the high watermark waits for it. In 0.8 it waited for the ISR only."""
        return self.rules.isr_lag == "time" and replica.is_caught_up(log_end_offset, now_us, self.limits.time_max_us)
