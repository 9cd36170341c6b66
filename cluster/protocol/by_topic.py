"""What requests and responses of Produce and Fetch have in common: topics, each with what is said of its partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cluster.protocol.primitives import Frame, read_array_count, skip_tagged

Topic = TypeVar("Topic")
Partitions = TypeVar("Partitions")


def read_by_topic(
    frame: Frame,
    position: int,
    version: int,
    flexible: bool,
    read_topic: Callable[[Frame, int, int], tuple[Topic, int]],
    read_partitions: Callable[[Frame, int, int], tuple[Partitions, int]],
) -> tuple[list[tuple[Topic, Partitions]], int]:
    """(topics, position behind them); call it inside a decoder (primitives.decodes).

    read_topic, read_partitions: of (frame, position, version), what is read and the position behind it
    """
    count, position = read_array_count(frame, position, flexible, 2)
    topics = []
    for _ in range(count):
        topic, position = read_topic(frame, position, version)
        partitions, position = read_partitions(frame, position, version)
        if flexible:
            position = skip_tagged(frame, position)
        topics.append((topic, partitions))
    return topics, position
