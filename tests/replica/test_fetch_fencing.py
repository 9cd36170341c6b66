"""When a follower looks for its place in the leader's log again. source: Partition.makeFollower (2.0.0, 2.0.1, 2.1)"""

from __future__ import annotations

import pytest

from replica.fetch_fencing import begins_anew
from replica.ids import NO_BROKER
from replica.rules import PROFILES


@pytest.mark.parametrize(
    ("profile", "leader_id", "leader_epoch", "expected"),
    [
        ("kafka-0.11", 1, 7, False),  # the same leader, regardless of events in between
        ("kafka-2.0", 1, 6, False),
        ("kafka-2.0", 1, 7, True),  # KAFKA-7164: epoch 6 was missed
        ("kafka-2.0", 2, 6, True),
        ("kafka-2.0", NO_BROKER, 7, False),
        ("kafka-2.1", 1, 6, True),
        ("kafka-2.1", 1, 5, False),
    ],
)
def test_a_follower_of_broker_1_in_epoch_5_is_told_of_a_leader(
    profile: str, leader_id: int, leader_epoch: int, expected: bool
) -> None:
    assert begins_anew(PROFILES[profile], (1, 5), leader_id, leader_epoch) is expected


def test_the_era_2_0_is_2_0_1() -> None:
    """KAFKA-7128 and KAFKA-7414 came with it, KIP-320 with 2.1."""
    rules = PROFILES["kafka-2.0"]
    assert (rules.isr_join, rules.follower_ahead, rules.fetch_fencing) == ("epoch-start", "truncate", "none")
