"""Jepsen's Redpanda recipe at the size of its own runs: 300 s, 4 partitions, 200 records/s, a fault every 5 to 20 s.

The bundled scenario pause-kill-soak plays three such schedules small. Here are seeds 1 to 50, about a minute each, all
but two of them in `make night`, and the controls that show that the faults are strong enough: with a weaker promise, or
by older rules, some seed fails.
"""

from __future__ import annotations

import random

import pytest

from scenarios.language.parse.loading import load_text
from scenarios.run.runner import RunResult, run_scenario

SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.night) for seed in range(2, 51))]
DURATION_S, QUIET_S = 300, 60

HEAD = """\
schema: 1
id: pause-kill-{seed}
title: Pause, kill or isolate a random broker every 5 to 20 s
seed: {seed}
profile: {profile}
duration: {duration}s
cluster: {{controllers: [c1], brokers: {{{brokers}}}}}
topics: {{t: {{partitions: 4, replication_factor: 3, config: {{min.insync.replicas: 2}}}}}}
workloads:
  p1: {{kind: producer, topic: t, rate: {rate}/s, start: 1s, stop: {stop}s, config: {{{config}}}}}
  r1: {{kind: consumer, topic: t, config: {{auto.offset.reset: earliest}}}}
timeline:
"""
SAFE = "acks: all, delivery.timeout.ms: 300000"
LEADER_ONLY = "acks: 1, enable.idempotence: false"


def schedule(seed: int, *, profile: str = "kafka-4.1", config: str = SAFE, rate: int = 200) -> str:
    """Each fault strikes a broker that has none; the last is over when the quiet minute begins."""
    rng = random.Random(f"pause-kill/{seed}")
    brokers = [f"b{number + 1}" for number in range(rng.choice((3, 5)))]
    well_since_s = dict.fromkeys(brokers, 0)
    steps, at_s = [], rng.randint(5, 20)
    while at_s < DURATION_S - QUIET_S:
        well = [broker for broker in brokers if well_since_s[broker] <= at_s]
        if well:
            broker = rng.choice(well)
            for_s = min(rng.randint(5, 30), DURATION_S - QUIET_S - at_s)
            others = ", ".join(name for name in (*brokers, "c1") if name != broker)
            fault = rng.choice((f"pause: {broker}", f"kill: {broker}", f"partition: [[{broker}], [{others}]]"))
            steps.append(f"  - {{at: {at_s}.5s, {fault}, for: {for_s}s}}\n")
            well_since_s[broker] = at_s + for_s + 1
        at_s += rng.randint(5, 20)
    head = HEAD.format(
        seed=seed,
        profile=profile,
        duration=DURATION_S,
        brokers=", ".join(f"{name}: {{}}" for name in brokers),
        rate=rate,
        stop=DURATION_S - QUIET_S,
        config=config,
    )
    return head + "".join(steps)


def play(text: str) -> RunResult:
    return run_scenario(load_text(text, "pause-kill.yaml").scenario, runs_dir=None)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", SEEDS)
def test_acks_all_holds_whatever_the_schedule(seed: int) -> None:
    text = schedule(seed)
    result = play(text)
    records = result.summary["records"]
    assert result.verdict.kinds == () and not result.broken, text
    assert not records["failed"] and not records["unknown"] and len(records["acked"]) > 40_000, text


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_the_faults_are_strong_enough_to_lose_what_one_leader_acked() -> None:
    assert "lost" in play(schedule(4, config=LEADER_ONLY, rate=20)).verdict.kinds


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_the_faults_are_strong_enough_for_the_rules_of_0_10() -> None:
    result = play(schedule(5, profile="kafka-0.10", rate=20))
    assert "lost" in result.verdict.kinds and not result.broke_an_invariant
