"""Consume-transform-produce in random schedules: what is drawn can be played, and what goes wrong in it is found."""

from __future__ import annotations

from copy import deepcopy

import pytest

from replica.rules import PROFILES, KafkaRelease
from scenarios.search.findings import judge
from scenarios.search.schedules import Schedule, Tree
from scenarios.search.search import SeedJob, schedule_of

SEEDS = range(0, 640, 8)


def drawn(profile: str, *, safe: bool = False) -> list[Schedule]:
    found = [schedule_of(SeedJob(seed, profile, safe=safe, swarm=True)) for seed in SEEDS]
    return [schedule for schedule in found if transforms(schedule)]


def schedule_at(seed: int, profile: str) -> Schedule:
    return schedule_of(SeedJob(seed, profile, safe=False, swarm=True))


def protocol(config: Tree) -> str:
    """Of a member: `consumer`, or the strategies of its classic protocol."""
    strategies = config.get("partition.assignment.strategy", [])
    return config.get("group.protocol") or ", ".join([strategies] if isinstance(strategies, str) else strategies)


def transforms(schedule: Schedule) -> list[Tree]:
    return [one for one in schedule.tree["workloads"].values() if one["kind"] == "transform"]


def test_what_is_drawn_can_be_loaded() -> None:
    scenarios = [schedule.scenario() for schedule in drawn("kafka-4.1")]
    assert len(scenarios) > 2 and all(one.to == "out" for scenario in scenarios for one in scenario.transforms)


def test_before_kip_447_a_safe_schedule_has_one_member_and_no_group_metadata() -> None:
    """TxnOffsetCommit of 0.11 names the group only, so two members could do the same work once each."""
    old = drawn("kafka-0.11", safe=True)
    assert {len(transforms(schedule)) for schedule in old} == {1}
    assert {one["group-metadata"] for schedule in old for one in transforms(schedule)} == {"id"}
    new = drawn("kafka-3.5", safe=True)
    assert max(len(transforms(schedule)) for schedule in new) > 1
    assert not any("group-metadata" in one for schedule in new for one in transforms(schedule))


@pytest.mark.parametrize(
    ("profile", "known"),
    [
        ("kafka-0.11", {"range"}),
        ("kafka-3.5", {"range", "cooperative-sticky", "cooperative-sticky, range"}),
        ("kafka-4.1", {"range", "cooperative-sticky", "cooperative-sticky, range", "consumer"}),
    ],
)
def test_groups_are_of_each_kind_that_the_era_has(profile: str, known: set[str]) -> None:
    members = [one["config"] for seed in range(0, 2400, 4) for one in transforms(schedule_at(seed, profile))]
    assert set(map(protocol, members)) == known
    assert any("group.instance.id" in config for config in members) == (PROFILES[profile].release >= KafkaRelease(2, 7))
    assert any("enable.auto.commit" in config for config in members)


def test_some_groups_are_on_the_way_from_one_protocol_to_the_other() -> None:
    groups = [transforms(schedule_at(seed, "kafka-4.1")) for seed in range(0, 2400, 4)]
    kinds = [{protocol(one["config"]) for one in group} for group in groups]
    assert any("consumer" in kind and len(kind) > 1 for kind in kinds)


def test_in_a_safe_schedule_offsets_are_in_the_transaction_and_every_topic_keeps_two_copies() -> None:
    found = drawn("kafka-4.1", safe=True)
    assert {one["offsets"] for schedule in found for one in transforms(schedule)} == {"in-transaction"}
    assert {schedule.tree["cluster"]["config"]["min.insync.replicas"] for schedule in found} == {2}


@pytest.mark.soak
def test_it_breaks_nothing() -> None:
    for schedule in drawn("kafka-4.1", safe=True)[:2]:
        assert judge(schedule)[1] == ()


@pytest.mark.soak
def test_work_that_is_done_twice_is_a_finding() -> None:
    """Offsets after the transaction, and a member that dies in between."""
    tree = deepcopy(drawn("kafka-4.1", safe=True)[0].tree)
    for one in transforms(Schedule(tree, safe=True)):
        one["offsets"] = "after"
    tree["timeline"] = [
        {"at": "8s", "hold": {"from": "clients", "to": "brokers", "api": "OffsetCommit", "part": "request"}},
        {"at": "12s", "kill": "x1", "as": "death", "for": "1s"},
        {"at": "14s", "release": "all"},
    ]
    found = judge(Schedule(tree, safe=True))[1]
    assert "duplicated" in {finding.kind for finding in found}


@pytest.mark.soak
def test_work_that_a_group_leaves_undone_is_a_finding() -> None:
    """Its member joins when half of the inputs are there, and begins at the end of the log."""
    tree = deepcopy(drawn("kafka-4.1", safe=True)[0].tree)
    for one in transforms(Schedule(tree, safe=True)):
        one["start"] = "10s"
        one["config"]["auto.offset.reset"] = "latest"
    tree["timeline"] = []
    found = judge(Schedule(tree, safe=True))[1]
    assert {finding.kind for finding in found} == {"undone"}
    tree["profile"] = "kafka-3.5"
    assert judge(Schedule(tree, safe=True))[1] == (), "a transaction may hang there, and hold up its readers"
