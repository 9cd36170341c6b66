"""The cluster as responses describe it to clients. Source: KRaftMetadataCache, ZkMetadataCache, AuthHelper"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cluster.broker.apis.api import BrokerParts, Values
from cluster.broker.metadata.follower import MetadataCache
from cluster.node import ConnectionId
from cluster.protocol.leaders import LeaderIdAndEpoch, NodeEndpoint
from controller.image import BrokerRegistration, PartitionRegistration
from controller.topics import check_legal, is_internal
from replica.errors import ErrorCode, KafkaError
from replica.ids import NO_BROKER, BrokerId, TopicPartition

NOT_ASKED = -(2**31)
ALL_OF_TOPIC = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""Bits of AclOperation: read, write, create, delete, alter, describe, describe configs, alter configs.

Without an authorizer every client may do everything (AuthHelper.authorizedOperations).
"""
ALL_OF_CLUSTER = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))


class DescribedCluster:
    def __init__(self, broker: BrokerParts) -> None:
        self._cache = broker.base.cache
        self._plane = broker.plane
        self._connections = broker.connections

    def live(self) -> list[BrokerRegistration]:
        return [broker for _, broker in sorted(self._cache.image.brokers.items()) if not broker.fenced]

    def reached(
        self, connection: ConnectionId, brokers: Sequence[BrokerRegistration]
    ) -> Iterator[tuple[BrokerRegistration, tuple[str, int]]]:
        """Yield the brokers with the listener of the client's connection, each with its (host, port) there.

        Source: KRaftMetadataCache.getAliveBrokerNodes
        """
        listener = self._connections.listener(connection)
        for broker in brokers:
            address = broker.address_by(listener)
            if address is not None:
                yield broker, address

    def controller_id(self) -> BrokerId:
        """Return the id of the controller, or of the first live broker if clients cannot reach controllers.

        Differs from Kafka: there it is a random live broker.
        """
        controller_id = self._plane.controller_id()
        if controller_id is not None:
            return controller_id
        live = self.live()
        return live[0].broker_id if live else NO_BROKER

    def known_leader(self, registration: PartitionRegistration) -> BrokerId:
        """Return a partition's leader, or NO_BROKER if the leader is not registered.

        A ZooKeeper-era broker may learn of a leader's death before the election of the next leader.

        Source: getAliveEndpoint of KRaftMetadataCache (where a fenced broker has an endpoint too) and ZkMetadataCache
        """
        return registration.leader if registration.leader in self._cache.image.brokers else NO_BROKER

    def offline_replicas(self, topic: str, number: int, registration: PartitionRegistration) -> list[BrokerId]:
        """Return the offline replicas of a partition. Source: KRaftMetadataCache.isReplicaOffline"""
        name, image = TopicPartition(topic, number), self._cache.image
        return [
            broker_id
            for broker_id in registration.replicas
            if self.is_offline(broker_id) or not image.has_online_dir(broker_id, name)
        ]

    def is_offline(self, broker_id: BrokerId) -> bool:
        broker = self._cache.image.brokers.get(broker_id)
        return broker is None or broker.fenced


def failed(error: ErrorCode, name: str | None) -> Values:
    """Return the entry of a Metadata response for a topic with an error."""
    internal = name is not None and is_internal(name)
    return {"error_code": error, "name": name, "is_internal": internal, "partitions": []}


def why_missing(name: str) -> ErrorCode:
    try:
        check_legal(name)
    except KafkaError as refusal:
        return refusal.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# --------------------------------------------------------------------------------------------------------- leader hints
#
# A leader hint is the leader that a client should ask instead of this broker (KIP-951).


class LeaderHints:
    """The leader hints in one response.

    Attributes:
        endpoints: addresses of the live leaders in the hints.
        listener: listener of the client.
    """

    def __init__(self, cache: MetadataCache, listener: str) -> None:
        self._image = cache.image
        self._listener = listener
        self._endpoints: dict[BrokerId, NodeEndpoint] = {}

    @property
    def endpoints(self) -> list[NodeEndpoint]:
        return list(self._endpoints.values())

    def leader_of(self, name: TopicPartition) -> LeaderIdAndEpoch:
        """Return the leader in this broker's metadata, and add its address to `endpoints` if it is alive."""
        registration = self._image.partition(name.topic, name.partition)
        if registration is None:
            return LeaderIdAndEpoch()
        broker = self._image.brokers.get(registration.leader)
        address = None if broker is None or broker.fenced else broker.address_by(self._listener)
        if broker is not None and address is not None:
            self._endpoints[broker.broker_id] = NodeEndpoint(broker.broker_id, *address, broker.rack)
        return LeaderIdAndEpoch(registration.leader, registration.leader_epoch)
