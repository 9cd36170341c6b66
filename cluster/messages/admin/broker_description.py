"""A broker's entries in DescribeConfigs that BrokerConfig lacks: identity, listeners and keys without effect.

Source: KafkaConfig, SocketServerConfigs, KRaftConfigs; ReplicationConfigs of 3.9 (inter.broker.protocol.version)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cluster.broker.metadata.lifecycle import BETWEEN_BROKERS, BrokerIdentity
from cluster.config import is_of_release
from controller.metadata import Endpoint
from replica.ids import BrokerId
from replica.rules import CONSUMER_GROUPS_SINCE, KafkaRelease, Rules, as_of

INTER_BROKER_PROTOCOLS: Final[Mapping[KafkaRelease, str | None]] = {
    KafkaRelease(0, 8): "0.8.2.X",
    KafkaRelease(0, 10): "0.10.2-IV0",
    KafkaRelease(0, 11): "0.11.0-IV2",
    KafkaRelease(2, 0): "2.0-IV1",
    KafkaRelease(2, 1): "2.1-IV2",
    KafkaRelease(2, 7): "2.7-IV2",
    KafkaRelease(3, 3): "3.3-IV3",
    KafkaRelease(3, 5): "3.5-IV2",
    KafkaRelease(3, 9): "3.9-IV0",
    KafkaRelease(4, 0): None,
}
"""The default inter.broker.protocol.version of each release. Kafka 4 has no such key."""
_KRAFT_ONLY: Final = (
    "broker.heartbeat.",
    "broker.session.",
    "controller.quorum.",
    "initial.broker.",
    "log.dir.failure.",
    "metadata.log.",
)


class OwnKey(NamedTuple):
    """A setting that the broker was started with."""

    name: str
    value: str
    type: int
    documentation: str


def own_keys(
    identity: BrokerIdentity, rules: Rules, log_dirs: Sequence[Path], controllers: Mapping[BrokerId, tuple[str, int]]
) -> list[OwnKey]:
    """Return the settings that a broker was started with.

    Args:
        log_dirs: all log directories, including failed ones.
        controllers: addresses of the controllers, or of the registry in the ZooKeeper era.
    """
    endpoints = identity.all_endpoints
    advertised, bound = _printed(endpoints), _printed((endpoints[0], *identity.bound))
    broker_id = str(identity.broker_id)
    keys = [
        OwnKey("advertised.listeners", advertised, STRING, "Addresses at which clients connect to this broker."),
        OwnKey("broker.id", broker_id, INT, "ID of this broker in the cluster."),
        OwnKey("listeners", bound, STRING, "Addresses at which this broker accepts connections."),
        OwnKey("log.dirs", ",".join(map(str, log_dirs)), STRING, "Directories of the partition logs."),
    ]
    if endpoints[0].name == BETWEEN_BROKERS:
        keys.append(
            OwnKey("inter.broker.listener.name", BETWEEN_BROKERS, STRING, "Listener for connections between brokers.")
        )
    if identity.rack is not None:
        keys.append(
            OwnKey("broker.rack", identity.rack, STRING, "Rack of this broker; replicas are spread across racks.")
        )
    protocol = as_of(INTER_BROKER_PROTOCOLS, rules.release, None)
    if protocol is not None:
        text = "Kafka release whose protocol is used between brokers."
        keys.append(OwnKey("inter.broker.protocol.version", protocol, STRING, text))
    servers = [(number, f"{host}:{port}") for number, (host, port) in sorted(controllers.items())]
    if rules.membership == "zk-session":
        connect = ",".join(address for _, address in servers)
        keys.append(OwnKey("zookeeper.connect", connect, STRING, "Addresses of the ZooKeeper servers."))
    else:
        protocols = ",".join(
            [*(f"{endpoint.name}:{endpoint.protocol}" for endpoint in endpoints), "CONTROLLER:PLAINTEXT"]
        )
        voters = ",".join(f"{number}@{address}" for number, address in servers)
        keys += [
            OwnKey("controller.listener.names", "CONTROLLER", STRING, "Names of the listeners of the controllers."),
            OwnKey("controller.quorum.voters", voters, LIST, "Voters of the controller quorum, each as id@host:port."),
            OwnKey("listener.security.protocol.map", protocols, STRING, "Security protocol of each listener."),
            OwnKey("node.id", broker_id, INT, "ID of this node in the cluster."),
            OwnKey("process.roles", "broker", LIST, "Roles of this process: broker, controller or both."),
        ]
    return sorted(keys)


def _printed(endpoints: Sequence[Endpoint]) -> str:
    return ",".join(f"{endpoint.name}://{endpoint.host}:{endpoint.port}" for endpoint in endpoints)


def is_of_the_era(name: str, rules: Rules) -> bool:
    """Return True if brokers of this era have the key. Some keys exist only with KRaft, with ZooKeeper or in 0.8."""
    if name == "max.partitions":
        return False  # Highwater's key, not Kafka's.
    if name == "replica.lag.max.messages":
        return rules.isr_lag == "messages"
    if name.endswith(".assignment.interval.ms"):
        return rules.release >= KafkaRelease(4, 3)
    if not is_of_release(name, rules.release):
        return False
    if name.startswith("zookeeper."):
        return rules.membership == "zk-session"
    if name.startswith("group.coordinator."):
        return rules.release >= CONSUMER_GROUPS_SINCE
    return rules.membership == "registration" or not name.startswith(_KRAFT_ONLY)


UNKNOWN, BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(10)
"""Values of DescribeConfigsResponse.ConfigType."""


class PassiveKey(NamedTuple):
    """A broker key of Kafka that has no effect here. It is described with Kafka's default, for tools that read it.

    Differs from Kafka: its feature does not exist here, or is set by options of `highwater serve` (TLS, SASL, ACLs).

    Attributes:
        default: default value as Kafka prints it; None for null.

    Source: KafkaConfig.configDef (4.1)
    """

    name: str
    type: int
    default: str | None
    documentation: str


_TABLE: Final = (
    (CLASS, "alter.config.policy.class.name", None, "Class that can reject changes of configs."),
    (CLASS, "create.topic.policy.class.name", None, "Class that can reject the creation of topics."),
    (INT, "group.coordinator.threads", "4", "Number of threads of the group coordinator."),
    (INT, "socket.listen.backlog.size", "50", "Maximum number of connections that wait to be accepted."),
    (INT, "socket.receive.buffer.bytes", "102400", "Receive buffer size in bytes of the broker's sockets."),
    (INT, "socket.send.buffer.bytes", "102400", "Send buffer size in bytes of the broker's sockets."),
    (LIST, "sasl.enabled.mechanisms", "GSSAPI", "SASL mechanisms that clients may use on SASL listeners."),
    (LONG, "queued.max.request.bytes", "-1", "Maximum size in bytes of all waiting requests; -1: no limit."),
    (PASSWORD, "sasl.jaas.config", None, "JAAS login configuration of SASL listeners."),
    (PASSWORD, "ssl.key.password", None, "Password of the private key."),
    (PASSWORD, "ssl.keystore.password", None, "Password of the key store."),
    (PASSWORD, "ssl.truststore.password", None, "Password of the trust store."),
    (STRING, "authorizer.class.name", "", "Authorizer class; if empty, every user may do everything."),
    (STRING, "security.inter.broker.protocol", "PLAINTEXT", "Security protocol between brokers."),
    (STRING, "ssl.client.auth", "none", "Whether clients must present a certificate."),
)

PASSIVE_BROKER_KEYS: Final = tuple(PassiveKey(name, kind, default, text) for kind, name, default, text in _TABLE)
