"""Random schedules of kills, stops, pauses and cuts that both the simulator and real Kafka can play.

Real brokers take seconds to start, so small delays would decide which faults overlap. Therefore each fault ends, and
the cluster recovers, before the next fault begins. `scenarios.search.schedules` makes schedules without these limits.
"""

from __future__ import annotations

import random
from typing import Any

import yaml

from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario
from scenarios.search.schedules import Tree

APART_MS = 15_000
"""Time from the end of a fault to the beginning of the next."""
FIRST_MS, FAULTS_MAX, QUIET_MS = 10_000, 4, 30_000
LENGTHS_MS = (2_000, 12_000, 25_000)
"""Durations of faults: shorter than a session, longer than a session, and longer than replica.lag.time.max.ms."""

RECORDS_FROM_MS = 5_200
"""Time of the first record. Two records are sent each second, never at the moment when a fault begins or ends."""

BROKERS = ("b1", "b2", "b3")


def schedule_of(seed: int, profile: str) -> Scenario:
    """Return a scenario with a random cluster and schedule, drawn from the seed.

    Args:
        profile: the era of Kafka.
    """
    rng = random.Random(f"agree/{seed}")
    timeline, end_ms = _faults(rng)
    acks = rng.choice((1, "all", "all"))
    tree: Tree = {
        "schema": 1,
        "id": f"random-{seed}",
        "title": f"Random faults, one after the other (seed {seed})",
        "seed": seed,
        "duration": f"{end_ms + QUIET_MS}ms",
        "profile": profile,
        "cluster": {
            "brokers": {name: {} for name in BROKERS},
            "config": {"replica.lag.time.max.ms": rng.choice((5_000, 10_000))},
        },
        "topics": {
            "t": {
                "partitions": {0: rng.sample(BROKERS, 3)},
                "config": {
                    "min.insync.replicas": rng.choice((1, 2)),
                    "unclean.leader.election.enable": rng.random() < 0.3,
                },
            }
        },
        "workloads": {
            "p1": {
                "kind": "producer",
                "topic": "t",
                "config": {"acks": acks, "enable.idempotence": acks == "all" and rng.random() < 0.5},
                "rate": "2/s",
                "start": f"{RECORDS_FROM_MS}ms",
                "stop": f"{end_ms + 5000}ms",
            },
            "r1": {"kind": "consumer", "topic": "t", "start": "5s"},
        },
        "timeline": timeline,
    }
    text = yaml.safe_dump(tree, sort_keys=False, default_flow_style=None, width=120)
    return load_text(text, f"random-{seed}.yaml").scenario


def _faults(rng: random.Random) -> tuple[list[Tree], int]:
    """Return random steps for a timeline, and the time at which the last fault ends, in milliseconds."""
    at_ms, steps = FIRST_MS, []
    for _ in range(rng.randint(2, FAULTS_MAX)):
        length_ms = rng.choice(LENGTHS_MS)
        steps.append({"at": f"{at_ms}ms", **_fault(rng), "for": f"{length_ms}ms"})
        at_ms += length_ms + APART_MS
    return steps, at_ms - APART_MS


def _fault(rng: random.Random) -> dict[str, Any]:
    item = rng.choice((*BROKERS, "leader(t-0)", "leader(t-0)"))
    verb = rng.choice(("kill", "kill", "stop", "pause", "cut"))
    if verb != "cut":
        return {verb: item}
    other = rng.choice(("c1", "followers(t-0)", "brokers") if item.startswith("leader") else ("c1", "brokers"))
    return {"cut": {"between": [item, other], "direction": rng.choice(("both", "both", "to", "from"))}}
