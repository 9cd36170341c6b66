"""Consume-transform-produce in random schedules: what is drawn can be played, and what goes wrong in it is found."""

from __future__ import annotations

from copy import deepcopy

import pytest

from scenarios.search.findings import judge
from scenarios.search.schedules import Schedule, Tree
from scenarios.search.search import SeedJob, schedule_of

SEEDS = range(0, 640, 8)


def drawn(profile: str, *, safe: bool = False) -> list[Schedule]:
    found = [schedule_of(SeedJob(seed, profile, safe=safe, swarm=True)) for seed in SEEDS]
    return [schedule for schedule in found if transforms(schedule)]


def transforms(schedule: Schedule) -> list[Tree]:
    return [one for one in schedule.tree["workloads"].values() if one["kind"] == "transform"]


def test_what_is_drawn_can_be_loaded() -> None:
    scenarios = [schedule.scenario() for schedule in drawn("kafka-4.1")]
    assert len(scenarios) > 2 and all(one.to == "out" for scenario in scenarios for one in scenario.transforms)


def test_members_are_two_at_times_where_their_group_fences_them() -> None:
    assert {len(transforms(schedule)) for schedule in drawn("kafka-4.1")} == {1, 2}
    assert {len(transforms(schedule)) for schedule in drawn("kafka-0.11")} == {1}


def test_in_a_safe_schedule_offsets_are_in_the_transaction_and_every_topic_keeps_two_copies() -> None:
    found = drawn("kafka-4.1", safe=True)
    assert {one["offsets"] for schedule in found for one in transforms(schedule)} == {"in-transaction"}
    assert {schedule.tree["cluster"]["config"]["min.insync.replicas"] for schedule in found} == {2}


@pytest.mark.soak
def test_it_breaks_nothing() -> None:
    for schedule in drawn("kafka-4.1", safe=True)[:2]:
        assert judge(schedule)[1] == ()


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
