"""Coordinators' topics are made on a real cluster where a simulated one has them."""

from __future__ import annotations

import pytest

from replica.ids import INTERNAL_TOPICS
from replica.trace.events import PartitionCreated
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file, load_text
from scenarios.run.on_kafka import coordinator_topics
from scenarios.run.runner import run_scenario

TOO_FEW = """\
schema: 1
id: too-few
title: Two brokers cannot keep three replicas
duration: 5s
cluster: {brokers: {b1: {}, b2: {}}}
topics: {t: {partitions: {0: [b1, b2]}}}
workloads: {p1: {kind: producer, topic: t, config: {transactional.id: orders}, transaction: {records: 2}}}
timeline: []
"""


@pytest.mark.soak
@pytest.mark.parametrize("name", ["ctp-killed", "group-coordinator-dies", "txn-answer-lost", "acks1-leader-kill"])
def test_they_are_where_the_simulator_has_them(name: str) -> None:
    """Transactions and a group, in this order; a group of several members; transactions; none."""
    scenario = load_file(find_scenario(name)).scenario
    created: dict[str, list[tuple[int, ...]]] = {}
    for row in run_scenario(scenario, runs_dir=None, keep_rows=True).rows:
        if isinstance(row.event, PartitionCreated) and row.event.topic in INTERNAL_TOPICS:
            replicas = tuple(scenario.cluster.ids[broker] for broker in row.event.replicas)
            created.setdefault(row.event.topic, []).append(replicas)
    placed = {topic.name: list(topic.assignment) for topic in coordinator_topics(scenario)}
    assert list(placed.items()) == list(created.items())


def test_none_that_the_controller_would_refuse() -> None:
    assert coordinator_topics(load_text(TOO_FEW, "too-few.yaml").scenario) == []
