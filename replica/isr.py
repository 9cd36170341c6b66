"""The states of a partition's ISR at its leader, and the table of their transitions, which LeaderState checks.

    COMMITTED   the controller has confirmed the ISR
    EXPANDING   a larger ISR is proposed (AlterPartition) and not answered yet; the new members already count
    SHRINKING   a smaller ISR is proposed and not answered yet; the leaving members still count

So a record is committed only when every broker that may be a member has it, whatever the controller answers (KIP-497).
There is one proposal at a time. An input without an entry in the table does not change the state. An example is a
refusal that does not state what the controller has decided.

Source: Partition.scala (PartitionState and its subclasses)
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
# The leader's knowledge of one follower, which comes from the follower's fetches alone. Source: Kafka Replica,
# ReplicaState

LONG_AGO_US = -(2**62)
"""The time that means "never". Kafka uses 0, that is 1970; virtual time starts at 0, so this is far below 0."""


class RemoteReplica:
    """The leader's view of one follower.

    `log_end_offset` is -1 and `broker_epoch` None until this leader receives the first fetch. `last_caught_up_us` is
    the latest time at which the follower had every record that the leader had at that time.
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
        """Record one fetch.

        A follower that now fetches from the offset that was the leader's log end at its previous fetch was caught up at
        the time of that previous fetch. Without this rule, no follower would count as caught up under steady load,
        since the leader's log end has moved at every fetch.

        Args:
            leader_end_offset: the leader's log end when this fetch was read.

        Source: Replica.updateFetchStateOrThrow
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
        """Record that the follower has kept fetching from the log end until now."""
        self.last_caught_up_us = max(self.last_caught_up_us, now_us)
        self.last_fetch_us = max(self.last_fetch_us, now_us)

    def reset(self, now_us: int, leader_end_offset: Offset, *, is_new_leader: bool, is_in_sync: bool) -> None:
        """Begin a leader epoch.

        Members of the ISR count as caught up now; other replicas have to catch up first. If the same leader is elected
        again, it keeps the known offsets. Source: Replica.resetReplicaState
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
        """Return True if the follower is at the leader's log end, or was there within the last `lag_time_max_us`.

        Source: ReplicaState.isCaughtUp
        """
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
"""The next state, by state and type of input; inputs without an entry do not change the state."""


def check_step(before: IsrState, event: LeaderInput, after: IsrState) -> None:
    """Assert that the table of transitions allows this step."""
    assert after is before or after is NEXT_STATES[before].get(type(event)), (
        f"{type(event).__name__} leads from {before.name} to {after.name}"
    )


# -------------------------------------------------------------------------------------------------------------- isr lag
#
# The switch `isr-lag`: how far a follower may lag before it leaves the ISR.
#
# Since 0.9 (KIP-16, KAFKA-1546) only time counts. Before, a follower left the ISR when it had not fetched for
# replica.lag.time.max.ms ("stuck"), or was more than replica.lag.max.messages behind ("slow"). A single batch with more
# messages evicted every healthy follower, since no follower can have a batch that has just arrived.
#
# Simplified: the check runs every half replica.lag.time.max.ms; before 0.10.2 (KAFKA-4485) it ran half as often.
# Source: 0.8.2 Partition.getOutOfSyncReplicas, Replica.logEndOffset_=


@dataclass(frozen=True, slots=True)
class IsrLag:
    limits: LagLimits
    rules: Rules

    def of(self, replica: RemoteReplica, log_end_offset: Offset, now_us: int) -> Lag | None:
        """Return the lag of a member, None if the member is in sync. Source: Partition.isFollowerOutOfSync"""
        if self.rules.isr_lag == "messages":
            return self._not_fetching(replica, now_us) or self._behind(replica, log_end_offset)
        if replica.is_caught_up(log_end_offset, now_us, self.limits.time_max_us):
            return None
        if replica.last_caught_up_us == LONG_AGO_US:
            return Lag(LagCause.NEVER_CAUGHT_UP)
        return Lag(LagCause.NOT_CAUGHT_UP, now_us - replica.last_caught_up_us)

    def _not_fetching(self, replica: RemoteReplica, now_us: int) -> Lag | None:
        # A new leader starts the delay again, also for replicas that have yet to fetch.
        silent_us = now_us - max(replica.last_fetch_us, replica.last_caught_up_us)
        return None if silent_us <= self.limits.time_max_us else Lag(LagCause.NOT_FETCHING, silent_us)

    def _behind(self, replica: RemoteReplica, log_end_offset: Offset) -> Lag | None:
        behind = log_end_offset - replica.log_end_offset
        limit = self.limits.max_messages
        if replica.log_end_offset < 0 or limit is None or behind <= limit:
            return None
        return Lag(LagCause.BEHIND, behind)

    def may_hold_high_watermark(self, replica: RemoteReplica, log_end_offset: Offset, now_us: int) -> bool:
        """Return True if the high watermark waits for this replica outside the ISR, since the replica is caught up.

        In 0.8 the high watermark waited only for the ISR.
        """
        return self.rules.isr_lag == "time" and replica.is_caught_up(log_end_offset, now_us, self.limits.time_max_us)
