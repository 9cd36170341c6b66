"""An invariant that an era does not promise breaks in it, and not in the era that has the missing rule."""

from __future__ import annotations

import pytest

from replica.rules import PROFILES, Rules
from replica.trace.events import InvariantBroken
from scenarios.explain.blame import additions, blame, play_additions, suspects_of
from scenarios.language.parse.loading import load_text
from scenarios.language.write import lock
from scenarios.run.runner import run_scenario
from scenarios.search.search import SeedJob, schedule_of

CONTROLLING_LEADER_BLINKS = """\
schema: 1
id: controlling-leader-blinks
title: A leader that controls loses power and is back before the next controller looks
profile: {profile}
seed: 1
duration: 60s
cluster:
  brokers: {{b1: {{}}, b2: {{}}, b3: {{}}}}
  config: {{replica.lag.time.max.ms: 2000, broker.session.timeout.ms: 3000}}
topics: {{t: {{partitions: {{0: [b1, b2, b3]}}}}}}
workloads: {{p1: {{kind: producer, topic: t, config: {{acks: 1}}, rate: 20/s, start: 1s, stop: 25s}}}}
timeline:
  - {{at: 10s, {verb}: b1, as: gone}}
  - {{at: 13s, start: "@gone"}}
"""


def broken_in(profile: str, verb: str) -> dict[str, str]:
    """Invariants that did not hold, and why; none that the era promises."""
    scenario = load_text(CONTROLLING_LEADER_BLINKS.format(profile=profile, verb=verb), "test.yaml").scenario
    result = run_scenario(scenario, runs_dir=None, keep_rows=True)
    assert not result.broke_an_invariant
    events = [row.event for row in result.rows if isinstance(row.event, InvariantBroken)]
    return {event.invariant: event.sentence() for event in events}


def test_a_leader_that_lost_its_log_leads_on_in_its_epoch_in_the_zookeeper_era() -> None:
    """source: KafkaController.onControllerFailover, PartitionStateMachine.initializePartitionState"""
    assert "lacks KIP-631" in broken_in("kafka-2.7", "power_off")["S9"]


@pytest.mark.soak
def test_it_does_not_when_its_log_survives_nor_when_it_has_to_register() -> None:
    assert broken_in("kafka-2.7", "kill") == {}
    assert broken_in("kafka-3.9", "power_off") == {}


@pytest.mark.night
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("profile", [era for era, rules in PROFILES.items() if rules.unlike(Rules())])
def test_what_breaks_in_an_era_is_mended_by_rules_that_it_lacks(profile: str) -> None:
    """An invariant that no missing rule would have kept is a bug in Highwater that is wrongly excused."""
    for seed in range(1, 31):
        schedule = schedule_of(SeedJob(seed, profile, False))
        result = run_scenario(schedule.scenario(), runs_dir=None, keep_rows=True)
        assert not result.broke_an_invariant, schedule.text
        suspects = suspects_of(result.rows, result.scenario.rules)
        broken_with = dict(play_additions(lock.dump(result.scenario), additions(suspects), 1))
        for found in blame(suspects, broken_with):
            assert found.to_blame or found.together, f"{found.invariant}\n\n{schedule.text}"
