"""Whom a client should ask in place of this broker (KIP-951)."""

from __future__ import annotations

from cluster.broker.metadata.follower import MetadataCache
from cluster.protocol.leaders import LeaderIdAndEpoch, NodeEndpoint
from replica.ids import BrokerId, TopicPartition


class LeaderHints:
    """Of one answer. endpoints: where the leaders are reached that it names, of those that live

    listener: by which the client came that asks
    """

    def __init__(self, cache: MetadataCache, listener: str) -> None:
        self._image = cache.image
        self._listener = listener
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
        address = None if broker is None or broker.fenced else broker.address_by(self._listener)
        if broker is not None and address is not None:
            self._endpoints[broker.broker_id] = NodeEndpoint(broker.broker_id, *address, broker.rack)
        return LeaderIdAndEpoch(registration.leader, registration.leader_epoch)
