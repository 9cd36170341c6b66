"""Whom a client should ask in place of this broker (KIP-951)."""

from __future__ import annotations

from cluster.broker.metadata.follower import MetadataCache
from cluster.protocol.leaders import LeaderIdAndEpoch, NodeEndpoint
from replica.ids import BrokerId, TopicPartition


class LeaderHints:
    """Of one answer. endpoints: where the leaders are reached that it names, of those that live"""

    def __init__(self, cache: MetadataCache) -> None:
        self._image = cache.image
        self._endpoints: dict[BrokerId, NodeEndpoint] = {}

    @property
    def endpoints(self) -> list[NodeEndpoint]:
        return list(self._endpoints.values())

    def leader_of(self, name: TopicPartition) -> LeaderIdAndEpoch:
        """As far as this broker knows."""
        registration = self._image.partition(name.topic, name.partition)
        if registration is None:
            return LeaderIdAndEpoch()
        broker = self._image.brokers.get(registration.leader)
        if broker is not None and not broker.fenced:
            endpoint = NodeEndpoint(broker.broker_id, broker.host, broker.port, broker.rack)
            self._endpoints[broker.broker_id] = endpoint
        return LeaderIdAndEpoch(registration.leader, registration.leader_epoch)
