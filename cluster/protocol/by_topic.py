"""The common form of requests and responses of Produce and Fetch: topics, each with its partitions' entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from cluster.protocol.primitives import Frame, read_count, read_text, read_uuid, skip_tagged, string
from cluster.slices import counted

Topic = str | UUID
"""A topic's name, or in later versions its id (KIP-516)."""

Partitions = TypeVar("Partitions")


def encode_topic(topic: Topic, *, by_id: bool, flexible: bool) -> bytes:
    """by_id: whether this version names topics by id"""
    if by_id:
        assert isinstance(topic, UUID), f"this version names topics by id, not by {topic!r}"
        return topic.bytes
    assert isinstance(topic, str), f"this version names topics by name, not by {topic!r}"
    return string(topic, flexible)


def read_by_topic(
    frame: Frame,
    position: int,
    version: int,
    flexible: bool,
    by_id: bool,
    read_partitions: Callable[[Frame, int, int], tuple[Partitions, int]],
) -> tuple[list[tuple[Topic, Partitions]], int]:
    """(topics, position behind them); call it inside a decoder (primitives.decodes).

    by_id: whether this version names topics by id
    read_partitions: of (frame, position, version), what is read and the position behind it
    """
    count, position = read_count(frame, position, flexible, 2)
    topics: list[tuple[Topic, Partitions]] = []
    topic: Topic
    for _ in counted(count):
        topic, position = read_uuid(frame, position) if by_id else read_text(frame, position, flexible)
        partitions, position = read_partitions(frame, position, version)
        if flexible:
            position = position + 1 if frame[position] == 0 else skip_tagged(frame, position)
        topics.append((topic, partitions))
    return topics, position
