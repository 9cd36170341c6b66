"""What the coordinator reads of the consumers' own protocol: which topics a member subscribes to, and, for the trace,
which partitions the member that assigns has given it.

source: ConsumerProtocol.deserializeSubscription, deserializeAssignment (version 0 is a prefix of all versions)
"""

from __future__ import annotations

import struct

from cluster.protocol.primitives import decodes, read_count, read_text
from replica.errors import PeerViolation
from replica.ids import TopicPartition

CONSUMER = "consumer"
"""The protocol type of consumers; others (Kafka Connect) assign something else than partitions."""
_VERSION_BYTES = 2


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """None if it cannot be read: the members may use a protocol of their own."""
    try:
        return _topics(metadata)
    except PeerViolation:
        return None


@decodes("a subscription")
def _topics(metadata: bytes) -> list[str]:
    count, position = read_count(metadata, _VERSION_BYTES, False, 2)
    topics = []
    for _ in range(count):
        topic, position = read_text(metadata, position, False)
        topics.append(topic)
    return topics


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
    count, position = read_count(assignment, _VERSION_BYTES, False, 2)
    partitions = []
    for _ in range(count):
        topic, position = read_text(assignment, position, False)
        numbers, position = read_count(assignment, position, False, 4)
        for number in struct.unpack_from(f">{numbers}i", assignment, position):
            partitions.append(TopicPartition(topic, number))
        position += 4 * numbers
    return partitions
