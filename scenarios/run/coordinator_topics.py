"""Where the simulated controller puts the topics of the coordinators that a scenario needs.

Kafka's begins at a broker that it draws (StripedReplicaPlacer): `coordinator(billing)` would be another broker in each
play on a real cluster. There the topics are made before the run, in the places that they have in the simulator.

Source: AutoTopicCreationManager.createTopics, StripedReplicaPlacer.place
"""

from __future__ import annotations

from collections.abc import Iterator

from cluster.broker.apis.coordinators import wanted_topic
from cluster.kafka.fabric import PlacedTopic
from controller.placement import UsableBroker, place
from replica.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from scenarios.language.spec import Scenario, Workload


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
