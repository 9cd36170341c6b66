"""Transactions in random schedules: which ones have them, and that what is drawn is a scenario that can be played."""

from __future__ import annotations

import pytest

from scenarios.search.findings import judge
from scenarios.search.schedules import Schedule, Tree
from scenarios.search.search import SeedJob, schedule_of

SEEDS = range(0, 320, 8)


def drawn(profile: str, *, safe: bool = False) -> list[Schedule]:
    return [schedule_of(SeedJob(seed, profile, safe=safe, swarm=True)) for seed in SEEDS]


def transactional(schedule: Schedule) -> list[Tree]:
    return [workload for workload in schedule.tree["workloads"].values() if "transaction" in workload]


@pytest.mark.parametrize("profile", ["kafka-0.11", "kafka-3.5", "kafka-3.9", "kafka-4.1"])
def test_some_schedules_have_transactions(profile: str) -> None:
    counts = [len(transactional(schedule)) for schedule in drawn(profile)]
    assert 5 <= sum(map(bool, counts)) <= 30 and max(counts) > 1


def test_an_era_without_transactions_draws_none() -> None:
    assert not any(map(transactional, drawn("kafka-0.10")))


def test_what_is_drawn_can_be_loaded() -> None:
    found = [schedule.scenario() for schedule in drawn("kafka-4.1") if transactional(schedule)]
    assert {workload.transaction for scenario in found for workload in scenario.workloads.values()} - {None}


def test_a_safe_schedule_keeps_two_copies_of_what_the_coordinator_decides() -> None:
    trees = [schedule.tree for schedule in drawn("kafka-4.1", safe=True) if transactional(schedule)]
    assert {tree["cluster"]["config"]["transaction.state.log.min.isr"] for tree in trees} == {2}


@pytest.mark.soak
def test_it_breaks_nothing() -> None:
    schedule = next(one for one in drawn("kafka-4.1") if transactional(one))
    assert judge(schedule)[1] == ()
