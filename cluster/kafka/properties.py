"""The configuration files of Kafka's JVMs: server.properties and the configuration of the console log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cluster.kafka.addresses import Addresses
from cluster.kafka.observe.metadata_records import INTERNAL_SEGMENT_BYTES, SEGMENT_BYTES
from replica.config import BROKER_KEY_OF_TOPIC_KEY

Role = Literal["broker", "controller", "registry"]
"""The role of a node. A registry is a ZooKeeper server; its cluster has no controller nodes."""

SMALL = {
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "4",
    "log.cleaner.dedupe.buffer.size": "4194304",
}
"""Numbers of threads and sizes of buffers for a cluster on one machine; a scenario's file may override them."""
OFFSETS_REPLICATION = 3

SEGMENT_BYTES_LEAST = 1 << 20
INTERNAL_SEGMENT_SINCE = (4, 1)
"""The first release in which segments below 1 MiB need INTERNAL_SEGMENT_BYTES. Kafka 4.0 forbids them (KIP-1030)."""

CONSOLE = {
    "log4j2": """<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="OFF">
  <Appenders>
    <Console name="console" target="SYSTEM_OUT">
      <PatternLayout alwaysWriteExceptions="false" pattern="%d{UNIX_MILLIS} %p %m (%c{1})%n%notEmpty{%throwable{1}%n}"/>
    </Console>
  </Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="console"/></Root></Loggers>
</Configuration>
""",
    "log4j": """log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c{1})%n
""",
}
"""Configurations of the console log, by the logging library of the release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One broker, controller or registry. `config` has the scenario's settings, which override all defaults."""

    name: str
    node_id: int
    role: Role
    log_dirs: tuple[Path, ...]
    rack: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)


def topic_defaults_of(specs: Iterable[NodeSpec]) -> dict[str, str]:
    """Return the defaults for topics in the first broker's configuration file, by their topic keys."""
    config = next(spec.config for spec in specs if spec.role == "broker")
    return {key: config[own] for key, own in BROKER_KEY_OF_TOPIC_KEY.items() if own in config}


def topic_settings(config: Mapping[str, object], version: tuple[int, ...]) -> dict[str, str]:
    """Return a topic's settings, with the key for small segments that this release needs.

    Source: LogConfig.segmentSize
    """
    size_bytes = int(str(config.get(SEGMENT_BYTES, SEGMENT_BYTES_LEAST)))
    small = version >= INTERNAL_SEGMENT_SINCE and size_bytes < SEGMENT_BYTES_LEAST
    return {
        INTERNAL_SEGMENT_BYTES if small and key == SEGMENT_BYTES else key: str(value) for key, value in config.items()
    }


def server_properties(
    node: NodeSpec, nodes: Mapping[str, NodeSpec], addresses: Addresses, membership: Mapping[str, str]
) -> dict[str, str]:
    """Return the server.properties of a node. `membership` has the settings that make it a member of its cluster."""
    brokers = [other for other in nodes.values() if other.role == "broker"]
    listener = "CONTROLLER" if node.role == "controller" else "PLAINTEXT"
    host, port = addresses.own(node.name)
    rack = {} if node.rack is None else {"broker.rack": node.rack}
    replication = str(min(OFFSETS_REPLICATION, len(brokers)))
    return {
        **SMALL,
        "offsets.topic.replication.factor": replication,
        "transaction.state.log.replication.factor": replication,
        **rack,
        **node.config,
        **membership,
        "listeners": f"{listener}://{host}:{port}",
        "advertised.listeners": f"{listener}://{node.name}:{port}",
        "log.dirs": ",".join(map(str, node.log_dirs)),
    }


def quorum_properties(node: NodeSpec, nodes: Mapping[str, NodeSpec], addresses: Addresses) -> dict[str, str]:
    """Return the settings that make a node a member of a KRaft cluster. Its voters are static."""
    controllers = [other for other in nodes.values() if other.role == "controller"]
    return {
        "process.roles": node.role,
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(
            f"{other.node_id}@{other.name}:{addresses.nodes[other.name]}" for other in controllers
        ),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }


def properties_text(properties: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in properties.items())
