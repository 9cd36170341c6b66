"""Groups of each protocol under random stalls, deaths and a dead broker: in the end each record is worked on."""

from __future__ import annotations

import random

import pytest

from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario
from tests.soak import one_in

MEMBERS = ("m1", "m2", "m3", "m4")
CONFIGS = {
    "eager": "session.timeout.ms: 10000, heartbeat.interval.ms: 2000",
    "cooperative": "session.timeout.ms: 10000, partition.assignment.strategy: cooperative-sticky",
    "consumer": "group.protocol: consumer",
}
QUIET_S, LAST_S = 60, 100
SCENARIO = """
schema: 1
id: random-groups
title: Members come and go
seed: {seed}
duration: 130s
profile: kafka-4.1
cluster:
  controllers: [c1]
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
  config:
    offsets.topic.num.partitions: 1
    group.consumer.min.session.timeout.ms: 10000
    group.consumer.session.timeout.ms: 10000
    group.consumer.min.heartbeat.interval.ms: 2000
    group.consumer.heartbeat.interval.ms: 2000
topics:
  t: {{partitions: {{0: [b1, b2, b3], 1: [b2, b3, b1], 2: [b3, b1, b2], 3: [b1, b2, b3], 4: [b2, b3, b1]}}}}
  out: {{partitions: {{0: [b3, b1, b2]}}}}
workloads:
  p1: {{kind: producer, topic: t}}
{members}
timeline:
{steps}
expect: {{verdict: ok}}
"""


def steps_of(rng: random.Random) -> list[tuple[float, str]]:
    standing = dict.fromkeys(MEMBERS, "start")
    found: list[tuple[float, str]] = []
    at_s, broker_died = 8.0, False
    while at_s < QUIET_S:
        at_s += rng.uniform(0.05, 4)
        member = rng.choice(MEMBERS)
        after = {"start": rng.choice(["pause", "kill"]), "resume": "kill", "pause": "resume", "kill": "start"}
        standing[member] = after[standing[member]]
        found.append((at_s, f"{standing[member]}: {member}"))
        if rng.random() < 0.3:
            found.append((at_s + 0.01, "produce: {from: p1, count: 3}"))
        if not broker_died and rng.random() < 0.15:
            broker_died = True
            broker = rng.choice(["b1", "b2", "b3"])
            found += [(at_s + 0.02, f"kill: {broker}"), (at_s + 15, f"start: {broker}")]
    mend = {"pause": "resume", "kill": "start"}
    found += [(LAST_S - 25, f"{mend[how]}: {one}") for one, how in standing.items() if how in mend]
    return sorted([*found, (LAST_S, "produce: {from: p1, count: 12}")])


@pytest.mark.soak
@pytest.mark.parametrize("seed", one_in(3, list(range(30)), pytest.mark.night))
@pytest.mark.parametrize("protocol", CONFIGS)
def test_each_record_is_worked_on_and_no_invariant_breaks(protocol: str, seed: int) -> None:
    steps = steps_of(random.Random(f"{protocol}/{seed}"))
    config = f"group.id: g, auto.offset.reset: earliest, {CONFIGS[protocol]}"
    text = SCENARIO.format(
        seed=seed,
        members="\n".join(
            f"  {name}: {{kind: transform, topic: t, to: out, start: {place}s, config: {{{config}}}}}"
            for place, name in enumerate(MEMBERS)
        ),
        steps="\n".join(f"  - {{at: {at_s:.3f}s, {what}}}" for at_s, what in steps),
    )
    summary = run_scenario(load_text(text, "random-groups.yaml").scenario, runs_dir=None).summary
    assert [one["sentence"] for one in summary["anomalies"] if one["kind"] == "invariant"] == []
    done = set(summary["logs"]["out-0"])
    inputs = [name for name in summary["records"]["acked"] if not name.startswith("t")]
    assert [name for name in inputs if f"t{name}" not in done] == []
