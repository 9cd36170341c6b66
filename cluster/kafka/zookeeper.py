"""The configuration of a cluster with ZooKeeper, where one server is the registry that all brokers connect to.

Source: ZooKeeper 3.5 QuorumPeerConfig, QuorumPeerMain (one server alone); Kafka 2.8 KafkaConfig, KafkaServer.startup
"""

from __future__ import annotations

from cluster.kafka.addresses import Addresses
from cluster.kafka.properties import NodeSpec
from cluster.kafka.relay import Exchanges
from cluster.protocol.versions import ZOOKEEPER

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
STARTED = b"PrepRequestProcessor (sid:0) started"
BROKER_STARTED = b" started (KafkaServer)"
"""Start messages of the registry and of a broker. Source: PrepRequestProcessor.run, KafkaServer.startup"""
TICK_MS = 2000
"""The tick, as in ZooKeeper's sample and in the simulator: a session ends at the tick after its timeout."""
CONNECT_MS = 120_000
"""How long a broker waits for the registry, whose JVM starts at the same time."""
FILE_KB = 64
"""The size by which ZooKeeper preallocates its transaction log, by default 64 MB."""
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
    """Return the keys that make a broker a member of the cluster."""
    return {
        "broker.id": str(node.node_id),
        "zookeeper.connect": f"{registry.name}:{addresses.nodes[registry.name]}",
        "zookeeper.connection.timeout.ms": str(CONNECT_MS),
    }


class RegistryExchanges(Exchanges):
    """The requests on a connection to ZooKeeper, whose frames have a size as in Kafka, but no API key."""

    def request(self, frame: bytes | bytearray) -> int:
        return ZOOKEEPER

    def response(self, frame: bytes | bytearray) -> int:
        return ZOOKEEPER
