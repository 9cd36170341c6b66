"""A leader's knowledge of one follower, from its fetches alone. source: Kafka Replica, ReplicaState"""

from __future__ import annotations

from replica.ids import UNKNOWN_OFFSET, BrokerEpoch, Offset

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
