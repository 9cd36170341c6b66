"""The mode in which a scenario's nodes are JVMs that run Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from cluster.broker.apis.coordinators import wanted_topic
from cluster.config import REGISTRY_SESSION, BrokerConfig
from cluster.kafka.fabric import KafkaFabric, KafkaPlan, PlacedTopic
from cluster.kafka.home import KafkaHome
from cluster.kafka.properties import NodeSpec, Role
from cluster.network.links import Network
from cluster.protocol.versions import api_name
from controller.placement import UsableBroker, place
from replica.ids import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from replica.trace.events import TraceLog
from scenarios.language.spec import Scenario, Workload
from scenarios.run.kafka_limits import ELR_SINCE
from scenarios.run.worlds import NewWorld, live_latency

FOLDER = "kafka"
"""Name of the folder in a run folder that has the configuration and output of the JVMs."""
ELR_FEATURE = "eligible.leader.replicas.version"
NEVER_WORD = "never"
OURS = ("log.dirs",)
"""Configuration keys that are not passed to Kafka, because a scenario's values for them are names, not paths."""


def on_kafka(home: KafkaHome, client_classes: Path | None = None) -> NewWorld:
    """Return a function that creates the fabric of a run whose nodes are JVMs of Apache Kafka.

    Args:
        client_classes: directory with the compiled Java clients; None to use Highwater's clients.
    """

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
    config = scenario.cluster.broker_config(broker, scenario.rules.release)
    return {REGISTRY_SESSION: str(config.zookeeper_session_timeout_ms)}


def _own_keys(config: Mapping[str, str]) -> dict[str, str]:
    """Return a scenario's configuration in a form for Kafka: without OURS, and with a number in place of `never`."""
    return {
        key: str(BrokerConfig.check(key, value)) if value == NEVER_WORD else value
        for key, value in config.items()
        if key not in OURS
    }


# ------------------------------------------------------------------------------------------------- coordinators' topics
#
# Computes the replica assignments of the internal topics of coordinators, as the simulated controller does.
#
# Kafka's controller starts at a random broker (StripedReplicaPlacer), so `coordinator(billing)` would be a different
# broker in each run on a real cluster. So these topics are created before the run, assigned as in the simulator.
#
# Source: AutoTopicCreationManager.createTopics, StripedReplicaPlacer.place


def coordinator_topics(scenario: Scenario) -> list[PlacedTopic]:
    """Return the coordinators' internal topics, such as __consumer_offsets, in the order in which clients need them.

    A topic that needs more replicas than there are brokers is left out.
    """
    cluster = scenario.cluster
    brokers = [UsableBroker(cluster.ids[name], broker.rack, fenced=False) for name, broker in cluster.brokers.items()]
    existing = sum(len(topic.assignment or ()) or topic.partitions or 1 for topic in scenario.topics_at_the_start)
    found: list[PlacedTopic] = []
    by_start = sorted(scenario.workloads.values(), key=lambda workload: workload.start_us)
    for name in dict.fromkeys(name for workload in by_start for name in _asked_for(workload)):
        wanted = wanted_topic(name, cluster.controller_config(scenario.rules.release))
        if wanted.replication_factor <= len(brokers):
            assignment = place(brokers, wanted.partitions, wanted.replication_factor, start=existing)
            found.append(PlacedTopic(name, tuple(assignment), wanted.config))
            existing += wanted.partitions
    return found


def _asked_for(workload: Workload) -> Iterator[str]:
    """Yield the coordinators' topics that a client needs, in the order in which it looks for the coordinators."""
    if workload.config.get("transactional.id"):
        yield TRANSACTIONS_TOPIC
    if workload.kind in ("transform", "share_consumer"):
        yield OFFSETS_TOPIC
    if workload.kind == "share_consumer":
        yield SHARE_STATE_TOPIC
