"""What operators do while faults happen, and what looked like a bug in Highwater once: a swarm found it."""

from __future__ import annotations

import random

import pytest

from replica.rules import PROFILES
from scenarios.language.parse.loading import load_text
from scenarios.run.runner import run_scenario
from scenarios.search.mix import mix_of
from scenarios.search.schedules import random_schedule

EXPIRE = "{at: %s, set_config: {entity_default: brokers, config: {log.retention.ms: 4000}}}"
SESSION = "broker.session.timeout.ms: 3000, broker.heartbeat.interval.ms: 1000, replica.lag.time.max.ms: 4000"


def scenario(*steps: str, producer: str, config: str = "", **topics: str) -> str:
    """topics: their partitions     producer: more of its configuration; each topic has one, and half a minute of it"""
    assigned = ", ".join(f"{name}: {{partitions: {partitions}}}" for name, partitions in topics.items())
    clients = "\n".join(
        f"  p{name}: {{kind: producer, topic: {name}, rate: 5/s, start: 1s, stop: 16s, {producer}}}" for name in topics
    )
    return "\n".join([
        "{schema: 1, id: operations, title: An operator and a fault, seed: 3, duration: 100s, profile: kafka-4.1,",
        "cluster: {controllers: [c1], brokers: {b1: {}, b2: {}, b3: {}},",
        f"  config: {{{SESSION}, log.retention.check.interval.ms: 1000{config}}}}},",
        f"topics: {{{assigned}}},",
        "workloads: {",
        ",\n".join(line.strip() for line in clients.splitlines()),
        "},",
        f"timeline: [{', '.join(steps)}]}}",
    ])  # fmt: skip


IDEMPOTENT = "config: {acks: all, delivery.timeout.ms: 120000, request.timeout.ms: 2500, linger.ms: 0}"
TRANSACTIONAL = "config: {acks: all, transactional.id: tx, linger.ms: 0}, transaction: {records: 8, abort-every: 2}"
SMALL = ", log.segment.bytes: 1024"

FROZEN_LEADER = scenario(
    "{at: 3910ms, pause: b1, as: frozen, for: 14s}",
    EXPIRE % "7310ms",
    "{at: 8s, set_config: {topic: t, config: {segment.ms: 1000}}}",
    producer=IDEMPOTENT,
    t="{0: [b1, b2]}",
)
"""It wakes and appends what has been written elsewhere, and has expired there; then it cuts that off."""

OPEN_TRANSACTION = scenario(EXPIRE % "9510ms", producer=TRANSACTIONAL, config=SMALL, t="{0: [b1, b2]}")
"""Its first records expire; those of ended ones and their markers, too."""

MADE_AGAIN = scenario(
    "{at: 9s, stop: b2, as: away, for: 1s}",
    "{at: 12s, delete_topic: u}",
    "{at: 12015ms, create_topic: u}",
    producer=IDEMPOTENT,
    t="{0: [b1, b3]}",
    u="{0: [b2, b3], 1: [b2, b3]}",
)
"""Its epochs begin anew, below those that its clients know."""

DEPARTS_BELOW_THE_START = f"""\
schema: 1
id: departs-below-the-start
title: The leader drops the records that its follower has otherwise
duration: 100s
profile: kafka-4.1
cluster:
  controllers: [c1]
  brokers: {{b1: {{}}, b2: {{}}}}
  config: {{{SESSION}, log.retention.check.interval.ms: 1000}}
topics: {{t: {{partitions: {{0: [b1, b2]}}}}}}
workloads:
  p1: {{kind: producer, topic: t, config: {{acks: 1, linger.ms: 0}}}}
  p2: {{kind: producer, topic: t, config: {{acks: 1, linger.ms: 0, request.timeout.ms: 1000}}}}
timeline:
  - {{at: 3s, produce: {{from: p1, count: 3}}}}
  - {{at: 5s, partition: [[b1, p1], [b2, c1, p2]], as: split}}
  - {{at: 5.1s, produce: {{from: p1, count: 1}}}}
  - {{at: 8s, produce: {{from: p2, count: 1}}}}
  - {EXPIRE % "12s"}
  - {{at: 24s, heal: split}}
  - {{at: 27s, produce: {{from: p2, count: 2}}}}
"""


@pytest.mark.parametrize("text", [FROZEN_LEADER, OPEN_TRANSACTION, MADE_AGAIN, DEPARTS_BELOW_THE_START])
def test_what_an_operator_does_is_no_bug(text: str) -> None:
    result = run_scenario(load_text(text, "test.yaml").scenario, runs_dir=None)
    assert [event.reason for event in result.broken if event.promised] == []
    assert not result.verdict.our_bug


@pytest.mark.parametrize("profile", PROFILES)
def test_a_swarm_draws_what_operators_do_in_every_era(profile: str) -> None:
    verbs: dict[str, None] = {}
    for seed in range(0, 640, 16):
        mix = mix_of(seed, profile, safe=False)
        schedule = random_schedule(random.Random(seed), safe=False, profile=profile, mix=mix)
        schedule.scenario()  # It has no errors.
        verbs.update(dict.fromkeys(verb for step in schedule.tree["timeline"] for verb in step))
    wanted = {"set_config"}
    if PROFILES[profile].membership == "registration":
        wanted |= {"reassign", "cancel_reassign", "throttle", "set_quota", "delete_topic", "create_topic"}
    if PROFILES[profile].elr:
        wanted |= {"update_features"}
    assert wanted <= set(verbs)
