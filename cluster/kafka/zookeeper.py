"""A cluster with ZooKeeper: one server of it is the registry, and every broker has its address.

Source: ZooKeeper 3.5 QuorumPeerConfig, QuorumPeerMain (one server alone); Kafka 2.8 KafkaConfig, KafkaServer.startup
"""

from __future__ import annotations

from cluster.kafka.addresses import Addresses
from cluster.kafka.exchanges import Exchanges
from cluster.kafka.properties import NodeSpec
from cluster.protocol.versions import ZOOKEEPER

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
STARTED = b"PrepRequestProcessor (sid:0) started"
BROKER_STARTED = b" started (KafkaServer)"
"""Of the registry and of a broker. source: PrepRequestProcessor.run, KafkaServer.startup"""
TICK_MS = 2000
"""As in ZooKeeper's sample and in the simulator: a session ends at the tick after its timeout."""
CONNECT_MS = 120_000
"""A broker waits so long for the registry, whose JVM starts at the same time."""
FILE_KB = 64
"""ZooKeeper fills its transaction log with zeros by so much, 64 MB unless it is said."""
JVM_PROPERTIES = {"zookeeper.preAllocSize": str(FILE_KB)}


def registry_properties(node: NodeSpec, addresses: Addresses) -> dict[str, str]:
    host, port = addresses.own(node.name)
    (data_dir,) = node.log_dirs
    return {
        "tickTime": str(TICK_MS),
        "dataDir": str(data_dir),
        "clientPort": str(port),
        "clientPortAddress": host,
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
    }


def membership_properties(node: NodeSpec, registry: NodeSpec, addresses: Addresses) -> dict[str, str]:
    """What makes a broker a member of the cluster."""
    return {
        "broker.id": str(node.node_id),
        "zookeeper.connect": f"{registry.name}:{addresses.nodes[registry.name]}",
        "zookeeper.connection.timeout.ms": str(CONNECT_MS),
    }


class RegistryExchanges(Exchanges):
    """Of a connection to the registry: its frames have a size as Kafka's have, and no API key."""

    def request(self, frame: bytes | bytearray) -> int:
        return ZOOKEEPER

    def response(self, frame: bytes | bytearray) -> int:
        return ZOOKEEPER
