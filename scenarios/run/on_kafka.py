"""The third world: the nodes of a scenario are JVMs of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from cluster.broker.apis.coordinators import wanted_topic
from cluster.config import BrokerConfig
from cluster.kafka.fabric import KafkaFabric, KafkaPlan, PlacedTopic
from cluster.kafka.home import KafkaHome
from cluster.kafka.properties import NodeSpec, Role
from cluster.network.links import Network
from cluster.protocol.versions import api_name
from controller.placement import UsableBroker, place
from replica.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from replica.trace.events import TraceLog
from scenarios.language.spec import Scenario, Workload
from scenarios.run.kafka_limits import ELR_SINCE
from scenarios.run.worlds import NewWorld, live_latency

FOLDER = "kafka"
"""Of a run: what its JVMs were started with, and what they say."""
ELR_FEATURE = "eligible.leader.replicas.version"
NEVER_WORD = "never"
OURS = ("log.dirs",)
"""Keys of a file whose values are names of Highwater's own."""


def on_kafka(home: KafkaHome, client_classes: Path | None = None) -> NewWorld:
    """client_classes: of Kafka's own clients; None: the clients are Highwater's"""

    def world(scenario: Scenario, trace: TraceLog, log_root: Path) -> KafkaFabric:
        plan = KafkaPlan(
            specs=node_specs(scenario, log_root),
            folder=(log_root.parent / FOLDER).absolute(),
            topics=len(scenario.topics_at_the_start),
            placed=coordinator_topics(scenario),
            java_clients=tuple(scenario.workloads),
            client_classes=client_classes,
            features={ELR_FEATURE: int(scenario.rules.elr)} if home.jars.number >= ELR_SINCE else {},
        )
        return KafkaFabric(trace, Network(scenario.seed, live_latency(scenario), {}), api_name, home, plan)

    return world


def node_specs(scenario: Scenario, log_root: Path) -> dict[str, NodeSpec]:
    cluster = scenario.cluster
    has_registry = scenario.rules.membership == "zk-session"
    shared = _own_keys(cluster.config)
    role: Role = "registry" if has_registry else "controller"
    specs = {
        name: NodeSpec(
            name=name,
            node_id=cluster.ids[name],
            role=role,
            log_dirs=((log_root / name).absolute(),),
            config=shared,
        )
        for name in cluster.controllers
    }
    for name, broker in cluster.brokers.items():
        specs[name] = NodeSpec(
            name=name,
            node_id=cluster.ids[name],
            role="broker",
            log_dirs=tuple((log_root / name / directory).absolute() for directory in cluster.log_dirs(name)),
            rack=broker.rack,
            config={**shared, **_own_keys(broker.config), **(_session(scenario, name) if has_registry else {})},
        )
    return specs


def _session(scenario: Scenario, broker: str) -> dict[str, str]:
    """In the language a session with the registry has the length of one with a controller, unless the file says it."""
    session_us = scenario.cluster.broker_config(broker).registry_session_timeout_us
    return {"zookeeper.session.timeout.ms": str(session_us // 1000)}


def _own_keys(config: Mapping[str, str]) -> dict[str, str]:
    """`never` is a word of the language; Kafka has the largest number that the key can hold."""
    return {
        key: str(BrokerConfig.check(key, value)) if value == NEVER_WORD else value
        for key, value in config.items()
        if key not in OURS
    }


# ------------------------------------------------------------------------------------------------- coordinators' topics
#
# Where the simulated controller puts the topics of the coordinators that a scenario needs.
#
# Kafka's begins at a broker that it draws (StripedReplicaPlacer): `coordinator(billing)` would be another broker in
# each play on a real cluster. There the topics are made before the run, in the places that they have in the
# simulator.
#
# Source: AutoTopicCreationManager.createTopics, StripedReplicaPlacer.place


def coordinator_topics(scenario: Scenario) -> list[PlacedTopic]:
    """In the order in which clients ask for them; none that wants more replicas than there are brokers."""
    cluster = scenario.cluster
    brokers = [UsableBroker(cluster.ids[name], broker.rack, fenced=False) for name, broker in cluster.brokers.items()]
    existing = sum(len(topic.assignment or ()) or topic.partitions or 1 for topic in scenario.topics_at_the_start)
    found: list[PlacedTopic] = []
    by_start = sorted(scenario.workloads.values(), key=lambda workload: workload.start_us)
    for name in dict.fromkeys(name for workload in by_start for name in _asked_for(workload)):
        wanted = wanted_topic(name, cluster.controller_config())
        if wanted.replication_factor <= len(brokers):
            assignment = place(brokers, wanted.partitions, wanted.replication_factor, start=existing)
            found.append(PlacedTopic(name, tuple(assignment), wanted.config))
            existing += wanted.partitions
    return found


def _asked_for(workload: Workload) -> Iterator[str]:
    """A transform that has both ids looks for the coordinator of its transactions first."""
    if workload.config.get("transactional.id"):
        yield TRANSACTIONS_TOPIC
    if workload.kind == "transform":
        yield OFFSETS_TOPIC
