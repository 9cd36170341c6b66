"""The switch `isr-lag`: how far behind takes a follower out of the ISR.

Since 0.9 (KIP-16, KAFKA-1546) time alone counts. Before, a follower was out when it had not fetched for
replica.lag.time.max.ms ("stuck"), or was more than replica.lag.max.messages behind ("slow"); one batch larger than that
number evicted every healthy follower, since no follower can already have a batch that has just arrived.
Simplified: the check runs every half of replica.lag.time.max.ms; before 0.10.2 (KAFKA-4485) it was the whole of it.
source: 0.8.2 Partition.getOutOfSyncReplicas, Replica.logEndOffset_=
"""

from __future__ import annotations

from dataclasses import dataclass

from replica.ids import Offset
from replica.remote_replica import LONG_AGO_US, RemoteReplica
from replica.rules import Rules
from replica.wording import duration


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
