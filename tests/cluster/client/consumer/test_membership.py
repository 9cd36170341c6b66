"""What a member of a group writes about itself, and how the one that leads assigns."""

from __future__ import annotations

import pytest

from cluster.client.consumer.assignors import assignment, by_range, partitions_in, subscription
from cluster.protocol.consumer_protocol import assigned_partitions, subscribed_topics
from replica.ids import TopicPartition


@pytest.mark.parametrize(
    ("members", "partitions", "assigned"),
    [
        ([("", "b"), ("", "a")], 3, {"a": [0, 1], "b": [2]}),
        ([("", "b"), ("", "a")], 1, {"a": [0], "b": []}),
        ([("z", "a"), ("", "m")], 4, {"m": [0, 1], "a": [2, 3]}),
    ],
)
def test_ranges(members, partitions, assigned):
    """Static members go by their instance ids."""
    assert by_range(members, partitions) == assigned


def test_the_coordinator_can_read_what_members_write():
    names = [TopicPartition("orders", 0), TopicPartition("orders", 2)]
    assert subscribed_topics(subscription("orders")) == ["orders"]
    assert partitions_in(assignment("orders", [0, 2])) == assigned_partitions(assignment("orders", [0, 2])) == names
    assert partitions_in(b"") == []
