"""`highwater search`: seeds are schedules, findings are kept as files, and shrinking keeps what breaks."""

from __future__ import annotations

import random

from scenarios.loading import load_text
from scenarios.runner import run_scenario
from scenarios.schedules import Schedule, judge, random_schedule
from scenarios.search import SeedJob, play_seed, schedule_of, shrink


def readers_see_the_log_end(seed: int) -> Schedule:
    """A schedule in which consumers read uncommitted records, cut down to one consumer and ten seconds of faults."""
    schedule = random_schedule(random.Random(seed), safe=True)
    tree = {**schedule.tree, "protocol": {"consumer-limit": "log-end"}, "duration": "20s"}
    tree["workloads"] = {
        **tree["workloads"],
        "r1": {"kind": "consumer", "topic": "t", "config": {"auto.offset.reset": "earliest"}},
    }
    tree["timeline"] = [
        {"at": "5s", "flush": "b1"},
        {"at": "6s", "pause": "b2", "as": "pause-1"},
        {"at": "7s", "resume": "@pause-1"},
        {"at": "8s", "elect": "preferred"},
    ]
    return Schedule(tree, schedule.safe)


def test_a_seed_is_a_schedule() -> None:
    job = SeedJob(7, "kafka-3.9", safe=False)
    assert schedule_of(job) == schedule_of(job)
    assert schedule_of(job).tree["profile"] == "kafka-3.9"
    assert schedule_of(SeedJob(7, "kafka-3.9", safe=True)).safe


def test_an_old_era_gets_troubles_of_its_own_and_a_new_one_none() -> None:
    def troubled(profile: str) -> list[bool]:
        trees = [schedule_of(SeedJob(seed, profile, safe=False)).tree for seed in range(40)]
        return [any(str(step.get("as", "")).startswith("trouble-") for step in tree["timeline"]) for tree in trees]

    assert 10 <= sum(troubled("kafka-2.0")) <= 30
    assert 10 <= sum(troubled("kafka-3.3")) <= 30
    assert not any(troubled("kafka-3.5") + troubled("kafka-3.9"))


def test_a_safe_schedule_of_an_old_era_loses_no_disk() -> None:
    trees = [schedule_of(SeedJob(seed, "kafka-2.0", safe=True)).tree for seed in range(60)]
    assert not [step for tree in trees for step in tree["timeline"] if "power_off" in step or "wipe" in step]


def test_a_clean_seed_and_its_file_agree() -> None:
    found = play_seed(SeedJob(3, "kafka-3.9", safe=True))
    assert found.clean and not found.our_bug
    assert run_scenario(load_text(found.text, "found.yaml").scenario, runs_dir=None).verdict.kinds == ()


def test_shrinking_leaves_the_steps_that_are_needed() -> None:
    schedule = readers_see_the_log_end(5)
    result, wrong = judge(schedule)
    assert wrong and not result.broke_an_invariant
    sizes = [len(smaller.tree["timeline"]) for smaller in shrink(schedule)]
    # Resuming speaks of the pause by its label, so they go together.
    assert sizes == [3, 1, 0]
