"""The files that a JVM of Kafka is started with: server.properties and the configuration of its console log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cluster.kafka.addresses import Addresses
from cluster.kafka.observe.metadata_records import INTERNAL_SEGMENT_BYTES, SEGMENT_BYTES

Role = Literal["broker", "controller", "registry"]
"""registry: of a cluster with ZooKeeper, which has no controllers besides its brokers"""

SMALL = {
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "4",
    "log.cleaner.dedupe.buffer.size": "4194304",
}
"""Threads and buffers for a cluster of one machine; a file may say otherwise."""
OFFSETS_REPLICATION = 3

SEGMENT_BYTES_LEAST = 1 << 20
INTERNAL_SEGMENT_SINCE = (4, 1)
"""Since 4.0 Kafka takes no smaller segments (KIP-1030); see INTERNAL_SEGMENT_BYTES."""

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
"""By the library that the release comes with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One broker or controller, or the registry. config: the file's own keys, over all defaults"""

    name: str
    node_id: int
    role: Role
    log_dirs: tuple[Path, ...]
    rack: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)


def topic_settings(config: Mapping[str, str], version: tuple[int, ...]) -> dict[str, str]:
    """As this release takes them. source: LogConfig.segmentSize"""
    size_bytes = int(config.get(SEGMENT_BYTES, SEGMENT_BYTES_LEAST))
    small = version >= INTERNAL_SEGMENT_SINCE and size_bytes < SEGMENT_BYTES_LEAST
    return {INTERNAL_SEGMENT_BYTES if small and key == SEGMENT_BYTES else key: value for key, value in config.items()}


def server_properties(
    node: NodeSpec, nodes: Mapping[str, NodeSpec], addresses: Addresses, membership: Mapping[str, str]
) -> dict[str, str]:
    """membership: what makes it a member of its cluster"""
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
    """Of a member of KRaft. The voters are static: a quorum that changes is no part of any scenario."""
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
