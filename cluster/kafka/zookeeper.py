"""The configuration of a cluster with ZooKeeper: one server, the registry, to which all brokers connect.

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
"""The messages after the start of ZooKeeper and of a broker. Source: PrepRequestProcessor.run, KafkaServer.startup"""
TICK_MS = 2000
"""ZooKeeper's tick, as in its sample configuration and in the simulator. Sessions expire only at ticks."""
CONNECT_MS = 120_000
"""How long a broker waits for ZooKeeper, whose JVM starts at the same time."""
FILE_KB = 64
"""The size in KiB by which ZooKeeper preallocates its transaction log; the default is 64 MiB."""
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
    """Return the settings that make a broker a member of the cluster."""
    return {
        "broker.id": str(node.node_id),
        "zookeeper.connect": f"{registry.name}:{addresses.nodes[registry.name]}",
        "zookeeper.connection.timeout.ms": str(CONNECT_MS),
    }


class RegistryExchanges(Exchanges):
    """The requests on a connection to ZooKeeper. Frames begin with their size, as Kafka's do, but have no API key."""

    def request(self, frame: bytes | bytearray) -> int:
        return ZOOKEEPER

    def response(self, frame: bytes | bytearray) -> int:
        return ZOOKEEPER
