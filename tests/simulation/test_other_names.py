"""No name of a node, topic or client means anything: under other names the same happens at the same time.

Brokers that are all called `bN` have the ids N, others their places in the file. So a scenario whose first broker is
b3 is first given names in the order of its file: ids decide ties, and Kafka shows them.
"""

from __future__ import annotations

import random

import pytest
from renaming import Renaming, random_by_old_names

from scenarios.language.parse.catalogue import find_scenario
from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario, ScenarioFile
from scenarios.run.runner import RunResult, run_scenario
from tests.soak import one_in

BROKERS = ("zeta", "alpha", "mike", "kilo", "echo")
"""Not in the order of the alphabet: nothing may sort by name where Kafka sorts by id."""
CONTROLLERS = ("oscar", "hotel", "papa")
TOPICS = ("orders", "payments")
CLIENTS = ("writer", "xavier", "reader", "uniform", "victor")

CHOSEN = (
    "acks1-leader-kill",
    "acks1-leader-kill:acks-all",
    "controller-down-isr-frozen:the-leader-dies",
    "isr-expansion-in-flight",
    "kip101-hw-truncation-loss",
    "kip320-consumer-truncation",
    "kraft-controller-failover",
    "last-replica-standing:elr-lossy-first",
    "luck-or-law",
    "rack-failure",
    "reassign-target-dies",
    "retry-duplicates-lost-ack",
    "shrink-then-logdir-failure",
    "torn-tail-follower",
    "zk-session-expiry-leader",
)
"""Elections, truncation, consumers, both control planes, a quorum of 3, racks, several disks, an operator, retries."""


def read(name: str) -> tuple[str, str]:
    """Text and variant, with the brokers in the order of their ids."""
    scenario, _, variant = name.partition(":")
    text = find_scenario(scenario).read_text(encoding="utf-8")
    brokers = load_text(text, "file").scenario.cluster.brokers
    in_order = Renaming({broker: f"b{place}" for place, broker in enumerate(brokers, 1)})
    return in_order.of_scenario(text), variant


def other_names(file: ScenarioFile) -> Renaming:
    scenario = file.scenario
    kinds = (
        (scenario.cluster.brokers, BROKERS),
        (scenario.cluster.controllers, CONTROLLERS),
        (sorted(scenario.topics), TOPICS),
        (scenario.workloads, CLIENTS),
    )
    return Renaming({old: new for olds, news in kinds for old, new in zip(olds, news, strict=False)})


def played(text: str, variant: str) -> RunResult:
    file = load_text(text, "file")
    scenario: Scenario = file.variants[variant] if variant else file.scenario
    return run_scenario(scenario, runs_dir=None, keep_rows=True)


@pytest.mark.soak
@pytest.mark.parametrize("name", one_in(4, CHOSEN))
def test_the_trace_is_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, variant = read(name)
    renaming = other_names(load_text(text, "file"))
    one = played(text, variant)
    monkeypatch.setattr(random, "Random", random_by_old_names(renaming))
    other = played(renaming.of_scenario(text), variant)
    assert other.held
    assert not other.broke_an_invariant
    assert one.summary["records"] == other.summary["records"]
    assert one.summary["verdict"] == other.summary["verdict"]
    assert [str(row) for row in one.rows] == [renaming.back(str(row)) for row in other.rows]


def test_three_brokers_by_any_name() -> None:
    """`alpha` acks what `alpha` has: an ack that named `b1` broke S25, and the run ended with exit code 4."""
    text = """\
schema: 1
id: greek
title: Brokers with names of their own
duration: 10s
cluster: {brokers: {alpha: {}, beta: {}, gamma: {}}}
topics: {t: {partitions: 1, replication_factor: 3, config: {min.insync.replicas: 2}}}
workloads: {p1: {kind: producer, topic: t, config: {acks: all}}}
timeline: [{at: 1s, produce: {from: p1, count: 1}}]
"""
    result = played(text, "")
    assert result.broken == ()
    assert result.summary["records"]["acked"] == ["r0"]


def test_a_controller_without_a_name_takes_a_free_one() -> None:
    text = "\n".join(
        (
            "{schema: 1, id: brokers-called-c1, title: t, duration: 10s, cluster: {brokers: {c1: {}, c2: {}}},",
            "topics: {t: {partitions: 1, replication_factor: 2}}, workloads: {}, timeline: []}",
        )
    )
    scenario = load_text(text, "file").scenario
    assert scenario.cluster.controllers == ("c3",)
    assert run_scenario(scenario, runs_dir=None).broken == ()
