"""Which topics a consumer subscribes to: the one part of a member's metadata that the coordinator looks into.

source: ConsumerProtocol.deserializeSubscription (version 0 is a prefix of all versions)
"""

from __future__ import annotations

from cluster.protocol.primitives import decodes, read_array_count, read_text
from replica.errors import PeerViolation

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
    count, position = read_array_count(metadata, _VERSION_BYTES, False, 2)
    topics = []
    for _ in range(count):
        topic, position = read_text(metadata, position, False)
        topics.append(topic)
    return topics
