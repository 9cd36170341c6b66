"""Runs one random schedule per seed, and shrinks the timeline of a schedule that shows a finding."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from scenarios.process.failures import lack_behind
from scenarios.search.findings import Finding, FindingCause, cause_of, judge, kinds_of
from scenarios.search.mix import mix_of
from scenarios.search.schedules import Schedule, random_schedule

_MENDED_BY_ALL = {"heal": ("partition", "cut", "latency", "bandwidth", "loss"), "release": ("hold",)}
_MENDED_BY_LABEL = ("start", "resume")


class SeedJob(NamedTuple):
    """One seed to run in an era.

    Attributes:
        profile: the era, such as kafka-3.9.
        safe: True for a schedule in which Kafka promises a clean verdict.
        swarm: True to use the mix of the seed's batch.
    """

    seed: int
    profile: str
    safe: bool
    swarm: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """The findings of one seed, () if there are none. An exception that stopped the run is a finding."""

    seed: int
    findings: tuple[Finding, ...]
    schedule: Schedule

    @property
    def clean(self) -> bool:
        return not self.findings

    @property
    def text(self) -> str:
        """Return the schedule as a scenario file."""
        return self.schedule.text

    @property
    def kinds(self) -> tuple[str, ...]:
        return kinds_of(self.findings)

    def as_json(self) -> dict[str, Any]:
        return {"seed": self.seed, "findings": [asdict(finding) for finding in self.findings]}


@dataclass(frozen=True, slots=True)
class FindingKind:
    """All findings of a search with the same kind and the same `our_bug`.

    Attributes:
        sentence: description of one finding.
        first: the first run with the finding, or the run with the smallest schedule.
        seeds: seeds of all runs with the finding.
    """

    kind: str
    our_bug: bool
    sentence: str
    first: Found
    seeds: tuple[int, ...]

    @property
    def cause(self) -> FindingCause:
        return cause_of(self.kind, our_bug=self.our_bug)

    def as_json(self) -> dict[str, Any]:
        fields = {"kind": self.kind, "our_bug": self.our_bug, "cause": self.cause, "sentence": self.sentence}
        settings = self.first.schedule.settings
        return {**fields, "first_seed": self.first.seed, "first_settings": settings, "seeds": list(self.seeds)}


def by_kind(found: list[Found]) -> list[FindingKind]:
    """Return the kinds of findings, in the order in which they were first found."""
    first: dict[tuple[str, bool], tuple[Found, str]] = {}
    seeds: dict[tuple[str, bool], dict[int, None]] = {}
    for item in found:
        for finding in item.findings:
            key = finding.kind, finding.our_bug
            first.setdefault(key, (item, finding.sentence))
            seeds.setdefault(key, {})[item.seed] = None
    return [FindingKind(*key, sentence, item, tuple(sorted(seeds[key]))) for key, (item, sentence) in first.items()]


def schedule_of(job: SeedJob) -> Schedule:
    rng, safe = random.Random(job.seed), True if job.safe else None
    if not job.swarm:
        return random_schedule(rng, safe=safe, profile=job.profile)
    safe = job.safe or rng.random() < 0.4
    return random_schedule(rng, safe=safe, profile=job.profile, mix=mix_of(job.seed, job.profile, safe=safe))


def play_seed(job: SeedJob) -> Found:
    schedule = schedule_of(job)
    return Found(job.seed, _findings(schedule), schedule)


def _findings(schedule: Schedule) -> tuple[Finding, ...]:
    try:
        return judge(schedule)[1]
    except Exception as error:  # Any exception that stops a run belongs to its schedule, and must not end the search.
        if lack_behind(error) is not None:  # This failure belongs to the machine.
            raise
        return (Finding(f"stopped by {type(error).__name__}", str(error)[:500], True),)


def shrink(schedule: Schedule, kinds: tuple[str, ...]) -> Iterator[Schedule]:
    """Yield smaller and smaller schedules that show findings of the same `kinds`.

    Steps are removed one by one until no single step can be removed. A step that ends a fault stays as long as the
    fault.
    """
    smallest, tried = schedule, 0
    number = 0
    while tried < len(smallest.tree["timeline"]):
        steps = smallest.tree["timeline"]
        number %= len(steps)
        candidate = without_step(smallest, number) if _may_go(steps, number) else None
        if candidate is not None and kinds_of(_findings(candidate)) == kinds:
            smallest, tried = candidate, 0
            yield smallest
        else:
            number, tried = number + 1, tried + 1


def without_step(schedule: Schedule, number: int) -> Schedule:
    """Return the schedule without the step `number`, the steps that use its label, and repairs of no fault."""
    tree = copy.deepcopy(schedule.tree)
    gone = tree["timeline"].pop(number)
    label = f"@{gone.get('as')}"
    rest = [step for step in tree["timeline"] if label not in (str(value) for value in step.values())]
    tree["timeline"] = [step for step in rest if not _mends_nothing(step, rest)]
    return Schedule(tree, schedule.safe)


def _may_go(steps: list[dict[str, Any]], number: int) -> bool:
    """Return True if the step `number` ends no fault, or if a later step ends the same fault."""
    step = steps[number]
    mending = next((verb for verb in (*_MENDED_BY_ALL, *_MENDED_BY_LABEL) if verb in step), None)
    if mending is None:
        return True
    return any(later.get(mending) == step[mending] for later in steps[number + 1 :])


def _mends_nothing(step: dict[str, Any], steps: list[dict[str, Any]]) -> bool:
    """Return True for `heal: all` in a timeline without a network fault, and `release: all` without a hold."""
    return any(
        step.get(mending) == "all" and not any(fault in other for other in steps for fault in faults)
        for mending, faults in _MENDED_BY_ALL.items()
    )
