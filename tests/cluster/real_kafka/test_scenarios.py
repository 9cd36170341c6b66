"""Scenarios on real Kafka end as their files say: on the version that is installed, by `highwater kafka install`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cluster.kafka.home import find_home
from cluster.kafka.java import KafkaMissing
from replica.trace import events as trace
from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_file, load_text
from scenarios.run.kafka_limits import played_on
from scenarios.run.on_kafka import on_kafka
from scenarios.run.runner import RunResult, run_scenario
from scenarios.search.era_runs import moved_to

SLACK_US = 5_000_000


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("acks1-leader-kill", None),
        ("gc-pause-leader-zombie", None),
        ("hw-propagation-lag", None),
        ("acks0-connection-reset", "arrived"),
        ("group-by-pattern", "consumer"),
    ],
)
def test_it_ends_as_written(name: str, variant: str | None, tmp_path: Path) -> None:
    """A kill and a return, a pause, answers that are held back, what the kernel of a frozen JVM has when its connection
    is reset, and a topic that Kafka's coordinator finds by a member's pattern. None depends on when a broker
    looks for laggards.
    """
    home = find_home(None, None, os.environ)
    file = load_file(find_scenario(name))
    played = file.scenario if variant is None else file.variants[variant]
    scenario, real = played_on(played, home.version, SLACK_US)
    result = run_scenario(scenario, runs_dir=tmp_path, world=on_kafka(home), real=real)
    assert [(each.what, each.why) for each in result.expectations if not each.held] == []
    assert result.summary["real_kafka"] == home.version


IN_ORDER = """\
schema: 1
id: in-order
title: The brokers of a file come one after the other
duration: 2s
profile: kafka-3.9
cluster: {brokers: {b3: {}, b1: {}, b2: {}}, controllers: [c1]}
topics: {t: {partitions: {0: [b1, b2]}}}
workloads: {p1: {kind: producer, topic: t}}
timeline: [{at: 1s, produce: {from: p1, count: 1}}]
"""


@pytest.mark.kafka
def test_brokers_register_in_the_order_of_the_file(tmp_path: Path) -> None:
    home = find_home(None, None, os.environ)
    scenario, real = played_on(load_text(IN_ORDER, "in-order.yaml").scenario, home.version, SLACK_US)
    rows = run_scenario(scenario, runs_dir=tmp_path, world=on_kafka(home), real=real, keep_rows=True).rows
    registered = [row.event.broker for row in rows if isinstance(row.event, trace.BrokerRegistered)]
    assert registered == ["b3", "b1", "b2"]


def elections(result: RunResult) -> list[tuple[str | None, int]]:
    return [
        (row.event.broker, row.event.leader_epoch) for row in result.rows if isinstance(row.event, trace.LeaderElected)
    ]


@pytest.mark.kafka
@pytest.mark.parametrize("name", ["acks1-leader-kill", "kip101-hw-truncation-loss", "zk-session-expiry-leader"])
def test_with_zookeeper_it_ends_as_simulated(name: str, tmp_path: Path) -> None:
    """The controller dies with the leader, the same in a tumble, and a leader that ZooKeeper has given up."""
    try:
        home = find_home("2.8", None, os.environ)
    except KafkaMissing as missing:
        pytest.skip(f"{missing}: {missing.fix}")
    scenario = moved_to(load_file(find_scenario(name)).scenario, "kafka-2.7")
    played, real = played_on(scenario, home.version, SLACK_US)
    theirs = run_scenario(played, runs_dir=tmp_path, world=on_kafka(home), real=real, keep_rows=True)
    ours = run_scenario(scenario, runs_dir=None, keep_rows=True)
    assert elections(theirs) == elections(ours) != []
    assert theirs.summary["verdict"] == ours.summary["verdict"]
    expired = [row.event.broker for row in theirs.rows if isinstance(row.event, trace.SessionExpired)]
    assert expired[:1] == ["b1"]
