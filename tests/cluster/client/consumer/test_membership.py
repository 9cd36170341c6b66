"""What a member of a group writes about itself, and how the one that leads assigns."""

from __future__ import annotations

import pytest

from cluster.client.consumer.assignors import assignment, by_range, partitions_in, subscription
from cluster.protocol.consumer_protocol import assigned_partitions, subscribed_topics
from replica.ids import TopicPartition


@pytest.mark.parametrize(
    ("members", "partitions", "assigned"),
    [
        ([("", "b"), ("", "a")], {"t": 3}, {"a": "t-0 t-1", "b": "t-2"}),
        ([("", "b"), ("", "a")], {"t": 1}, {"a": "t-0", "b": ""}),
        ([("z", "a"), ("", "m")], {"t": 4}, {"m": "t-0 t-1", "a": "t-2 t-3"}),
        ([("", "a"), ("", "b")], {"t": 3, "u": 3}, {"a": "t-0 t-1 u-0 u-1", "b": "t-2 u-2"}),
    ],
)
def test_ranges(members, partitions, assigned):
    """Static members go by their instance ids; each topic is shared for itself."""
    names = [TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)]
    found = by_range(members, names)
    assert {name: " ".join(map(str, has)) for name, has in found.items()} == assigned


def test_the_coordinator_can_read_what_members_write():
    names = [TopicPartition("orders", 0), TopicPartition("orders", 2), TopicPartition("payments", 1)]
    assert subscribed_topics(subscription(["orders", "payments"])) == ["orders", "payments"]
    assert partitions_in(assignment(names)) == assigned_partitions(assignment(names)) == names
    assert partitions_in(b"") == []
