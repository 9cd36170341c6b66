"""Encodes and decodes what consumers exchange through a classic group: subscriptions and assignments.

A coordinator decodes them to find out a group's topics, to show assigned partitions in the trace, and to manage groups
that mix classic members and members of KIP-848.

Later versions only append fields, so versions after HIGHEST_VERSION are decoded as HIGHEST_VERSION.

Source: ConsumerProtocol.java, ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from cluster.protocol.primitives import INT16, INT32, decodes, read_count, read_length, read_string, read_text, string
from replica.errors import PeerViolation
from replica.ids import TopicPartition

CONSUMER = "consumer"
"""The protocol type of consumers. Groups of other types (Kafka Connect) do not assign partitions."""
HIGHEST_VERSION = 3
FIRST_WITH_OWNED, FIRST_WITH_GENERATION, FIRST_WITH_RACK = 1, 2, 3
_VERSION_BYTES = 2
_NO_USER_DATA = INT32.pack(-1)


class Subscription(NamedTuple):
    """A consumer's subscription. `owned` are its current partitions; version 0 lacks them."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    rack_id: str | None = None


class Assignment(NamedTuple):
    """A consumer's assignment. `user_data_bytes` is the size of the data that a custom assignor added."""

    partitions: tuple[TopicPartition, ...]
    user_data_bytes: int = 0


@decodes("a subscription")
def read_subscription(metadata: bytes) -> Subscription:
    """Decode a subscription. Source: deserializeConsumerProtocolSubscription

    Raises:
        PeerViolation: if it is malformed.
    """
    version = read_version(metadata)
    topics, position = _read_topics(metadata, _VERSION_BYTES)
    _, position = _skip_bytes(metadata, position)
    owned: tuple[TopicPartition, ...] = ()
    rack_id: str | None = None
    if version >= FIRST_WITH_OWNED:
        owned, position = _read_partitions(metadata, position)
    if version >= FIRST_WITH_GENERATION:
        INT32.unpack_from(metadata, position)
        position += 4
    if version >= FIRST_WITH_RACK:
        rack_id, position = read_string(metadata, position, False)
    return Subscription(tuple(topics), owned, rack_id)


@decodes("a subscription")
def read_generation(metadata: bytes) -> int:
    """Return the generation in a subscription of version 2 or later.

    Raises:
        PeerViolation: if it is malformed.
    """
    _, position = _read_topics(metadata, _VERSION_BYTES)
    _, position = _skip_bytes(metadata, position)
    _, position = _read_partitions(metadata, position)
    (generation,) = INT32.unpack_from(metadata, position)
    return int(generation)


@decodes("an assignment")
def read_assignment(assignment: bytes) -> Assignment:
    """Decode an assignment. Source: deserializeConsumerProtocolAssignment

    Raises:
        PeerViolation: if it is malformed.
    """
    read_version(assignment)
    partitions, position = _read_partitions(assignment, _VERSION_BYTES)
    return Assignment(partitions, _skip_bytes(assignment, position)[0])


def write_assignment(partitions: Iterable[TopicPartition], version: int) -> bytes:
    """Encode an assignment. Source: serializeAssignment

    Args:
        version: version of the member's subscription, as returned by `read_version`.
    """
    return INT16.pack(version) + partitions_by_topic(partitions) + _NO_USER_DATA


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode an array of topics with their partitions. Partitions of one topic must be adjacent."""
    topics = [
        (topic, [item.partition for item in found]) for topic, found in groupby(partitions, lambda item: item.topic)
    ]
    parts = [INT32.pack(len(topics))]
    for topic, numbers in topics:
        parts += [string(topic, False), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts)


@decodes("the version of a subscription or an assignment")
def read_version(data: bytes) -> int:
    """Return the version of a subscription or assignment, at most HIGHEST_VERSION.

    Raises:
        PeerViolation: if it is negative or missing.

    Source: deserializeVersion, checkSubscriptionVersion
    """
    (version,) = INT16.unpack_from(data, 0)
    if version < 0:
        raise PeerViolation(f"version {version} of a subscription or an assignment is not supported")
    return min(int(version), HIGHEST_VERSION)


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """Return the topics of a subscription, or None if `metadata` is not in the consumer protocol."""
    try:
        return _topics(metadata)
    except PeerViolation:
        return None


@decodes("a subscription")
def _topics(metadata: bytes) -> list[str]:
    return _read_topics(metadata, _VERSION_BYTES)[0]


def assigned_partitions(assignment: bytes) -> list[TopicPartition] | None:
    """Return the partitions of an assignment in order, or None if it is not in the consumer protocol."""
    if not assignment:
        return []
    try:
        return _partitions(assignment)
    except PeerViolation:
        return None


@decodes("an assignment")
def _partitions(assignment: bytes) -> list[TopicPartition]:
    return list(_read_partitions(assignment, _VERSION_BYTES)[0])


def _read_topics(data: bytes, position: int) -> tuple[list[str], int]:
    count, position = read_count(data, position, False, 2)
    topics = []
    for _ in range(count):
        topic, position = read_text(data, position, False)
        topics.append(topic)
    return topics, position


def _read_partitions(data: bytes, position: int) -> tuple[tuple[TopicPartition, ...], int]:
    count, position = read_count(data, position, False, 2)
    partitions = []
    for _ in range(count):
        topic, position = read_text(data, position, False)
        numbers, position = read_count(data, position, False, 4)
        for number in struct.unpack_from(f">{numbers}i", data, position):
            partitions.append(TopicPartition(topic, number))
        position += 4 * numbers
    return tuple(partitions), position


def _skip_bytes(data: bytes, position: int) -> tuple[int, int]:
    """Skip a bytes field. Return its length, 0 for null, and the position after it."""
    size, position = read_length(data, position, False)
    return max(size, 0), position + max(size, 0)
