"""Random schedules, seed by seed: which of them break something, and the smallest timeline that still does."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scenarios.schedules import Schedule, judge, random_schedule


@dataclass(frozen=True, slots=True)
class SeedJob:
    """One seed in an era. safe: only schedules in which acks=all, min ISR 2 and idempotence promise a clean verdict"""

    seed: int
    profile: str
    safe: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What one seed showed. wrong: each in one sentence, () when all is well; our_bug: the era had promised it

    crash: what the run stopped with, which is a bug as well     text: the schedule as a scenario file
    """

    seed: int
    wrong: tuple[str, ...]
    our_bug: bool
    crash: str
    text: str

    @property
    def clean(self) -> bool:
        return not self.wrong and not self.crash

    def as_json(self) -> dict[str, Any]:
        return {"seed": self.seed, "wrong": list(self.wrong), "our_bug": self.our_bug, "crash": self.crash}


def schedule_of(job: SeedJob) -> Schedule:
    return random_schedule(random.Random(job.seed), safe=True if job.safe else None, profile=job.profile)


def play_seed(job: SeedJob) -> Found:
    schedule = schedule_of(job)
    try:
        result, wrong = judge(schedule)
    except Exception as error:  # Whatever a run stops with belongs to its seed, and must not end the search.
        return Found(job.seed, (), True, f"{type(error).__name__}: {error}"[:500], schedule.text)
    return Found(job.seed, tuple(wrong), result.broke_an_invariant, "", schedule.text)


def shrink(schedule: Schedule) -> Iterator[Schedule]:
    """Ever smaller schedules that still go wrong, each a step shorter than the one before; the last is the smallest.

    Steps are left out one after the other until no single one can be.
    """
    smallest, shrunk = schedule, True
    while shrunk:
        shrunk = False
        for number in range(len(smallest.tree["timeline"])):
            candidate = _without(smallest, number)
            if _still_wrong(candidate):
                smallest, shrunk = candidate, True
                yield smallest
                break


def _without(schedule: Schedule, number: int) -> Schedule:
    """Without one step, and without those that speak of it by its label."""
    tree = copy.deepcopy(schedule.tree)
    gone = tree["timeline"].pop(number)
    label = f"@{gone.get('as')}"
    tree["timeline"] = [step for step in tree["timeline"] if label not in (str(value) for value in step.values())]
    return Schedule(tree, schedule.safe)


def _still_wrong(schedule: Schedule) -> bool:
    try:
        _, wrong = judge(schedule)
    except Exception:  # A timeline that cannot be played shows nothing.
        return False
    return bool(wrong)
