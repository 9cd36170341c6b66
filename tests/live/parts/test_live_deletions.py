"""Topics of a live cluster come, are written to, and go: neither files nor objects of them stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kept_objects import Kept
from live_cluster import live_cluster
from verdicts import expect_nothing_broken
from waiting import wait_for

from tests.descriptors import open_descriptors

pytestmark = pytest.mark.live
WARM, ROUNDS, PARTITIONS = 15, 45, 4
DELAY_MS = 200
PATIENCE_S = 60
SETTINGS = (
    f"cluster.config.log.segment.delete.delay.ms={DELAY_MS}",
    "cluster.config.offsets.topic.num.partitions=1",
    "cluster.config.log.cleaner.enable=false",
)
KEPT_FOR_EACH = 40
"""Objects: the name of a topic, a line of the story, and the record that was written to it."""


@pytest.mark.soak  # in virtual time: tests/simulation/test_deleted_topics.py
def test_nothing_is_kept_of_topics_that_are_gone(tmp_path: Path) -> None:
    counted: list[Kept] = []
    with live_cluster(tmp_path, "stays:1:3", settings=SETTINGS) as cluster:
        client: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap}
        admin, producer = AdminClient(client), Producer({**client, "acks": "all"})
        for number in range(ROUNDS + 1):
            if number in (WARM, ROUNDS):
                wait_until_removed(tmp_path)
                assert [what for what in open_descriptors().values() if "come-and-go" in what] == []
                counted.append(cluster.kept())
            come_and_go(admin, producer, f"come-and-go-{number}")
        producer.flush(0)
    expect_nothing_broken(cluster.result.summary)
    early, late = counted
    grown = late - early
    assert grown.total() < (ROUNDS - WARM) * KEPT_FOR_EACH, grown.most_common(20)


def come_and_go(admin: AdminClient, producer: Producer, topic: str) -> None:
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(PATIENCE_S)
    for partition in range(PARTITIONS):
        producer.produce(topic, f"{topic}-{partition}".encode(), partition=partition)
    assert producer.flush(PATIENCE_S) == 0
    admin.delete_topics([topic])[topic].result(PATIENCE_S)


def wait_until_removed(record: Path) -> None:
    """All brokers have heard of the deletions, and the delay is over."""
    wait_for(
        lambda: [path for path in record.glob(".run-*/logs/*/come-and-go*") if path.is_dir()],
        PATIENCE_S,
        holds=lambda found: not found,
        pause_s=0.1,
    )
