"""The cluster as a broker describes it to clients. source: KRaftMetadataCache, ZkMetadataCache, AuthHelper"""

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
"""AclOperation: read, write, create, delete, alter, describe, describe configs, alter configs. There are no rules who
may do what, so every client may do everything (AuthHelper.authorizedOperations without an authorizer)."""
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
        """Those of `brokers` that have the listener by which a client came, each with its host and port there.

        source: KRaftMetadataCache.getAliveBrokerNodes
        """
        listener = self._connections.listener(connection)
        for broker in brokers:
            address = broker.address_by(listener)
            if address is not None:
                yield broker, address

    def controller_id(self) -> BrokerId:
        """Differs from Kafka: where clients may not talk to controllers it names a random live broker, we the first."""
        controller_id = self._plane.controller_id()
        if controller_id is not None:
            return controller_id
        live = self.live()
        return live[0].broker_id if live else NO_BROKER

    def known_leader(self, registration: PartitionRegistration) -> BrokerId:
        """The leader, if clients can reach it: a ZooKeeper-era broker may learn of a death before the election.

        source: getAliveEndpoint of KRaftMetadataCache (where a fenced broker has an endpoint too) and ZkMetadataCache
        """
        return registration.leader if registration.leader in self._cache.image.brokers else NO_BROKER

    def offline_replicas(self, topic: str, number: int, registration: PartitionRegistration) -> list[BrokerId]:
        """source: KRaftMetadataCache.isReplicaOffline"""
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
    """A topic of an answer that has none of its partitions."""
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
# Whom a client should ask in place of this broker (KIP-951).


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
