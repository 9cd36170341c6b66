"""The replica that a leader names to a consumer (KIP-392)."""

from __future__ import annotations

import pytest

from replica.ids import NO_BROKER, TopicPartition
from replica.inputs import LagLimits
from replica.isr import RemoteReplica
from replica.leader import LeaderState
from replica.read_replica import preferred_read_replica
from replica.rules import PROFILES, Rules


def leader_with(rules: Rules, **known: tuple[int, int, int]) -> LeaderState:
    """Broker 1 leads; b2 to b4 have (log start, log end, last caught up in microseconds). 4 is out of the ISR."""
    leader = LeaderState(
        topic_partition=TopicPartition("t", 0),
        broker_id=1,
        lag_limits=LagLimits(30_000_000, None),
        min_insync_replicas=1,
        names=None,  # type: ignore[arg-type]
        rules=rules,
        is_eligible=lambda broker_id, epoch: True,
    )
    leader.in_sync_replicas = (1, 2, 3)
    for name, (start, end, caught_up_us) in known.items():
        replica = leader.replicas[int(name[1:])] = RemoteReplica()
        replica.log_start_offset, replica.log_end_offset, replica.last_caught_up_us = start, end, caught_up_us
    return leader


NEWEST, OLD = PROFILES["kafka-4.1"], PROFILES["kafka-2.7"]


@pytest.mark.parametrize(
    ("in_rack", "offset", "rules", "named"),
    [
        ([], 5, NEWEST, NO_BROKER),
        ([1, 2], 5, NEWEST, NO_BROKER),  # the leader itself stands there
        ([2], 5, NEWEST, 2),
        ([2], 8, NEWEST, 2),  # at its end
        ([2], 9, NEWEST, NO_BROKER),  # it is behind the reader
        ([2], 1, NEWEST, NO_BROKER),  # it has dropped the offset
        ([2, 3], 5, NEWEST, 3),  # the longer log
        ([4], 5, NEWEST, NO_BROKER),  # out of the ISR
        ([4], 5, OLD, 4),
        ([2, 3, 4], 5, OLD, 4),
    ],
    ids=[
        "nobody",
        "leader",
        "follower",
        "at-its-end",
        "behind",
        "dropped",
        "longer-log",
        "not-in-sync",
        "old-rule",
        "best",
    ],
)
def test_which_replica_is_named(in_rack: list[int], offset: int, rules: Rules, named: int) -> None:
    leader = leader_with(rules, b2=(2, 8, 0), b3=(0, 9, 0), b4=(0, 9, 0))
    assert preferred_read_replica(leader, in_rack, offset, rules) == named


def test_of_equal_logs_that_of_the_latest_to_be_caught_up_then_of_the_highest_id() -> None:
    leader = leader_with(NEWEST, b2=(0, 9, 7_000), b3=(0, 9, 2_000))
    assert preferred_read_replica(leader, [2, 3], 0, NEWEST) == 2
    leader = leader_with(NEWEST, b2=(0, 9, 7_900), b3=(0, 9, 7_100))
    assert preferred_read_replica(leader, [2, 3], 0, NEWEST) == 3
