"""Kafka's Java client 4.1, unmodified, in a group of KIP-848, and in one that changes its protocol while it reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_cluster import SMALL_COORDINATORS, live_cluster
from test_java_transactions import java, pytestmark  # noqa: F401  # the same jars
from verdicts import expect_nothing_broken

from replica.trace.events import GroupMigrated

PROGRAM = Path(__file__).parent / "Groups.java"
SETTINGS = (
    *SMALL_COORDINATORS,
    "cluster.config.group.consumer.heartbeat.interval.ms=300",
    "cluster.config.group.consumer.min.heartbeat.interval.ms=300",
    "cluster.config.group.consumer.session.timeout.ms=6000",
    "cluster.config.group.consumer.min.session.timeout.ms=6000",
)


@pytest.mark.parametrize(
    ("steps", "said", "protocols"),
    [
        pytest.param(
            ("a=consumer", "b=consumer", "a"),
            ["a=consumer: Consumer a 4", "b=consumer: Consumer a 2, b 2", "a: Consumer b 4"],
            [],
            id="consumer",
        ),
        pytest.param(
            ("a=classic", "b=consumer", "a", "c=classic", "b"),
            [
                "a=classic: Classic a 4",
                "b=consumer: Consumer a 2, b 2",
                "a: Consumer b 4",
                "c=classic: Consumer b 2, c 2",
                "b: Classic c 4",
            ],
            ["consumer", "classic"],
            id="up-and-down",
        ),
    ],
)
def test_a_java_group_reads_each_record_once_while_its_members_come_and_go(
    tmp_path: Path, steps: tuple[str, ...], said: list[str], protocols: list[str]
) -> None:
    with live_cluster(tmp_path, "orders:4:3", settings=SETTINGS) as cluster:
        found = java(str(PROGRAM), cluster.bootstrap, *steps).splitlines()
        migrated = [event.protocol for event in cluster.events(GroupMigrated)]
    count = 8 * len(steps)
    assert found == [*said, f"read {count} of {count}, 0 of them more than once"]
    assert migrated == protocols
    expect_nothing_broken(cluster.result.summary)
