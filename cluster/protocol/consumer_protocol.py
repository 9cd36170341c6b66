"""What consumers tell each other through a classic group: what a member reads and has, and what it is given.

A coordinator reads it: which topics a group is subscribed to, for the trace which partitions each member was given, and
all of it when classic members and members of KIP-848 are in one group.

source: ConsumerProtocol.java, ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json. A version is a prefix
of all later ones; a later one than HIGHEST_VERSION is read as that.
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
"""The protocol type of consumers; others (Kafka Connect) assign something else than partitions."""
HIGHEST_VERSION = 3
FIRST_WITH_OWNED, FIRST_WITH_GENERATION, FIRST_WITH_RACK = 1, 2, 3
_VERSION_BYTES = 2
_NO_USER_DATA = INT32.pack(-1)


class Subscription(NamedTuple):
    """owned: what it has; in version 0 nothing is said of it"""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    rack_id: str | None = None


class Assignment(NamedTuple):
    """user_data_bytes: what an assignor of the application's own has added"""

    partitions: tuple[TopicPartition, ...]
    user_data_bytes: int = 0


@decodes("a subscription")
def read_subscription(metadata: bytes) -> Subscription:
    """raises: PeerViolation     source: deserializeConsumerProtocolSubscription"""
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
    """Of a subscription of version 2 or later. raises: PeerViolation"""
    _, position = _read_topics(metadata, _VERSION_BYTES)
    _, position = _skip_bytes(metadata, position)
    _, position = _read_partitions(metadata, position)
    (generation,) = INT32.unpack_from(metadata, position)
    return int(generation)


@decodes("an assignment")
def read_assignment(assignment: bytes) -> Assignment:
    """raises: PeerViolation     source: deserializeConsumerProtocolAssignment"""
    read_version(assignment)
    partitions, position = _read_partitions(assignment, _VERSION_BYTES)
    return Assignment(partitions, _skip_bytes(assignment, position)[0])


def write_assignment(partitions: Iterable[TopicPartition], version: int) -> bytes:
    """version: of the member's subscription, as `read_version` returns it     source: serializeAssignment"""
    return INT16.pack(version) + partitions_by_topic(partitions) + _NO_USER_DATA


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> bytes:
    """An array of topics with their partitions. partitions: those of a topic next to each other"""
    topics = [(topic, [one.partition for one in found]) for topic, found in groupby(partitions, lambda one: one.topic)]
    parts = [INT32.pack(len(topics))]
    for topic, numbers in topics:
        parts += [string(topic, False), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts)


@decodes("the version of a subscription or an assignment")
def read_version(data: bytes) -> int:
    """raises: PeerViolation     source: deserializeVersion, checkSubscriptionVersion"""
    (version,) = INT16.unpack_from(data, 0)
    if version < 0:
        raise PeerViolation(f"a subscription or an assignment of version {version}")
    return min(int(version), HIGHEST_VERSION)


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """None if it cannot be read: the members may use a protocol of their own."""
    try:
        return _topics(metadata)
    except PeerViolation:
        return None


@decodes("a subscription")
def _topics(metadata: bytes) -> list[str]:
    return _read_topics(metadata, _VERSION_BYTES)[0]


def assigned_partitions(assignment: bytes) -> list[TopicPartition] | None:
    """In the order of the assignment; an empty one is nothing to read. None if it cannot be read."""
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
    """(how many, position after them); null is none."""
    size, position = read_length(data, position, False)
    return max(size, 0), position + max(size, 0)
