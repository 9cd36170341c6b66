"""A schedule a little changed: times, order, targets, how long a fault lasts, one step more or less.

A safe schedule stays safe: no step moves to where Kafka promises nothing, and only harmless verbs get other targets or
come twice. What mends at the end is made anew for the changed faults.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from replica.rules import PROFILES
from scenarios.language.diagnostics import ScenarioInvalid
from scenarios.search.coverage import Turn
from scenarios.search.era_troubles import may_miss_a_rule, old_troubles
from scenarios.search.schedules import MENDED, Schedule, Tree, repairs
from scenarios.search.strikes import strikes
from scenarios.search.times import (
    CHAOS_BEGINS_MS,
    CHAOS_ENDS_MS,
    GAPS_MS,
    HEALED_MS,
    LASTING_MS,
    QUORUM_STANDS_MS,
    TROUBLES_MS,
)

_HARMLESS = ("cut", "partition", "latency", "loss", "bandwidth", "hold", "reset_peer", "elect", "flush", "slow_disk",
             "bump_clock", "pause", "reassign")  # fmt: skip
"""Verbs that a safe schedule may have any number of, against anything."""
_CHANGES_MAX = 4
_STRIKES_SHARE = 0.5
_STEPS_MAX = 40
_ATTEMPTS = 4
_NODE = re.compile(r"\b[bcpr]\d+\b")
_PARTITION = re.compile(r"\bt-(\d+)\b")

Steps = list[Tree]


def mutated(rng: random.Random, schedule: Schedule, donor: Schedule, turns: Sequence[Turn] = ()) -> Schedule:
    """Changed in one to four places; `donor` may give steps. If nothing new and valid comes of that: its seed.

    turns: of the run of the schedule
    """
    for _ in range(_ATTEMPTS):
        changed = _Mutation(rng, schedule, donor, turns).result()
        if changed.tree == schedule.tree:
            continue
        try:
            changed.scenario()
        except ScenarioInvalid:
            continue
        return changed
    tree = copy.deepcopy(schedule.tree)
    tree["seed"] = rng.randint(1, 1_000_000)
    return Schedule(tree, schedule.safe)


class _Mutation:
    def __init__(self, rng: random.Random, schedule: Schedule, donor: Schedule, turns: Sequence[Turn]) -> None:
        self.rng = rng
        self.turns = turns
        self.safe = schedule.safe
        self.tree: Tree = copy.deepcopy(schedule.tree)
        self.steps = faults_of(self.tree)
        self.donor = donor
        self.rules = PROFILES[self.tree["profile"]]
        self.earliest_ms = QUORUM_STANDS_MS if "controllers" in self.tree["cluster"] else CHAOS_BEGINS_MS

    def result(self) -> Schedule:
        changes: list[Callable[[], object]] = [
            self._shift, self._shift, self._meet, self._meet, self._swap, self._retarget, self._retarget, self._last,
            self._drop, self._repeat, self._repeat_elsewhere, self._borrow, self._splice, self._reseed,
        ]  # fmt: skip
        if self.turns:
            changes += [self._to_a_turn, self._to_a_turn, self._repeat_at_a_turn]
        if may_miss_a_rule(self.rules):
            changes.append(self._trouble)
        struck = bool(self.turns) and self.rng.random() < _STRIKES_SHARE and self._strike()
        for _ in range(0 if struck else self.rng.randint(1, _CHANGES_MAX)):
            self.rng.choice(changes)()
        self.steps.sort(key=at_ms)
        self.tree["timeline"] = [*self.steps, *MENDED, *repairs(self.steps)]
        return Schedule(self.tree, self.safe)

    # ------------------------------------------------------------------------------------------------------- families

    def _family(self) -> Steps:
        """A step and those that belong to it by its label, the first in time first; none where there are no steps."""
        if not self.steps:
            return []
        return family(self.steps, self.rng.randrange(len(self.steps)))

    def _move(self, steps: Steps, by_ms: int) -> None:
        """All by the same, within the time of faults."""
        if steps:
            first, last = at_ms(steps[0]), max(map(at_ms, steps))
            by_ms = max(self.earliest_ms - first, min(by_ms, HEALED_MS - 1 - last))
            for step in steps:
                step["at"] = f"{at_ms(step) + by_ms}ms"

    def _add(self, steps: Steps) -> Steps:
        """Copies, with labels of their own."""
        if not steps or len(self.steps) + len(steps) > _STEPS_MAX:
            return []
        taken = [str(step.get("as")) for step in self.steps]
        added = copy.deepcopy(steps)
        for label in [step["as"] for step in added if "as" in step]:
            new, number = label, 1
            while new in taken:
                new, number = f"{label}-{number}", number + 1
            for step in added:
                for key, value in step.items():
                    if (key == "as" and value == label) or value == f"@{label}":
                        step[key] = new if key == "as" else f"@{new}"
            taken.append(new)
        self.steps += added
        return added

    # -------------------------------------------------------------------------------------------------------- changes

    def _shift(self) -> None:
        self._nudge(self._family())

    def _nudge(self, steps: Steps) -> None:
        self._move(steps, self.rng.choice(GAPS_MS) * self.rng.choice((-1, 1)))

    def _meet(self) -> None:
        """One begins when another does, or shortly after."""
        one, other = self._family(), self._family()
        if one and other:
            self._move(one, at_ms(other[0]) + self.rng.choice((0, *GAPS_MS)) - at_ms(one[0]))

    def _to_a_turn(self) -> None:
        """Shortly before or after a leader, an ISR or a log took a turn in the run of this schedule."""
        self._move_to_a_turn(self._family())

    def _move_to_a_turn(self, steps: Steps) -> None:
        if steps:
            by_ms = self.rng.choice((0, *GAPS_MS[:5])) * self.rng.choice((-1, 1))
            self._move(steps, self.rng.choice(self.turns).at_ms + by_ms - at_ms(steps[0]))

    def _strike(self) -> bool:
        """New faults at one turn, and nothing else: the run is the parent's until then, so that the turn still comes.
        returns: whether there are any"""
        (turn,) = self.rng.choices(self.turns, [turn.worth for turn in self.turns])
        steps = strikes(self.rng, turn, self.tree, safe=self.safe)
        kept = [step for step in steps if self.earliest_ms <= at_ms(step) < HEALED_MS]
        return bool(self._add(kept))

    def _swap(self) -> None:
        one, other = self._family(), self._family()
        if one and other and one[0] is not other[0]:
            first, second = at_ms(one[0]), at_ms(other[0])
            self._move(one, second - first)
            self._move(other, first - second)

    def _retarget(self) -> None:
        self._aim_elsewhere(self._family())

    def _aim_elsewhere(self, steps: Steps) -> None:
        """Two brokers, or two partitions, change places in one family of steps."""
        if self.safe and not all(is_harmless(step) for step in steps):
            return
        brokers = list(self.tree["cluster"]["brokers"])
        one, other = self.rng.sample(brokers, 2)
        names = {one: other, other: one}
        partitions = count_of_partitions(self.tree)
        to = f"t-{self.rng.randrange(partitions)}"
        for step in steps:
            for key in [key for key in step if key not in ("at", "as", "for")]:
                step[key] = _renamed(step[key], lambda text: _NODE.sub(lambda m: names.get(m[0], m[0]), text))
                if self.rng.random() < 0.3:
                    step[key] = _renamed(step[key], lambda text: _PARTITION.sub(to, text))

    def _last(self) -> None:
        for step in self._family():
            if "for" in step:
                step["for"] = f"{self.rng.choice(LASTING_MS)}ms"

    def _drop(self) -> None:
        gone = self._family()
        if len(self.steps) > len(gone):
            self.steps = [step for step in self.steps if not any(step is one for one in gone)]

    def _repeat(self) -> Steps:
        steps = self._family()
        added = self._add(steps) if not self.safe or all(is_harmless(step) for step in steps) else []
        self._nudge(added)
        return added

    def _repeat_elsewhere(self) -> None:
        self._aim_elsewhere(self._repeat())

    def _repeat_at_a_turn(self) -> None:
        self._move_to_a_turn(self._repeat())

    def _borrow(self) -> None:
        """A family of the donor, if this cluster has all that it names."""
        theirs = faults_of(self.donor.tree)
        if theirs:
            steps = family(theirs, self.rng.randrange(len(theirs)))
            if self._may_take(steps):
                self._nudge(self._add(steps))

    def _splice(self) -> None:
        """This schedule up to some time, and the donor's from then on."""
        until_ms = self.rng.randint(self.earliest_ms, CHAOS_ENDS_MS)
        ours = [step for step in self.steps if at_ms(family(self.steps, self.steps.index(step))[0]) < until_ms]
        theirs = faults_of(self.donor.tree)
        families = [family(theirs, number) for number in range(len(theirs))]
        firsts = [steps for step, steps in zip(theirs, families, strict=True) if steps[0] is step]
        later = [steps for steps in firsts if at_ms(steps[0]) >= until_ms and self._may_take(steps)]
        if later:
            self.steps = ours
            for steps in later:
                self._add(steps)

    def _may_take(self, steps: Steps) -> bool:
        return (not self.safe or (self.donor.safe and all(map(is_harmless, steps)))) and self._knows(steps)

    def _knows(self, steps: Steps) -> bool:
        text = str(steps)
        nodes = [*self.tree["cluster"]["brokers"], *self.tree["cluster"].get("controllers", ["c1"])]
        nodes += list(self.tree["workloads"])
        partitions = count_of_partitions(self.tree)
        if any("reassign" in step for step in steps):
            return False
        return all(name in nodes for name in _NODE.findall(text)) and all(
            int(number) < partitions for number in _PARTITION.findall(text)
        )

    def _reseed(self) -> None:
        self.tree["seed"] = self.rng.randint(1, 1_000_000)

    def _trouble(self) -> None:
        begin_ms, end_ms = TROUBLES_MS
        steps = old_troubles(self.rng, self.tree, self.rules, safe=self.safe, begin_ms=begin_ms, end_ms=end_ms)
        self._nudge(self._add(steps))


def faults_of(tree: Tree) -> Steps:
    """The steps without those at the end that mend."""
    steps: Steps = tree["timeline"]
    mending = [*MENDED, *repairs([step for step in steps if "as" in step])]
    return [step for step in steps if step not in mending]


def family(steps: Steps, number: int) -> Steps:
    """The step and all that name it, or that it names, in order of time."""
    chosen = steps[number]
    labels = {str(chosen.get("as"))} | {str(value).removeprefix("@") for value in chosen.values() if _is_label(value)}
    found = [
        step
        for step in steps
        if step is chosen or step.get("as") in labels or any(_is_label(v) and v[1:] in labels for v in step.values())
    ]
    return sorted(found, key=at_ms)


def is_harmless(step: Tree) -> bool:
    return any(verb in step for verb in _HARMLESS)


def count_of_partitions(tree: Tree) -> int:
    partitions = tree["topics"]["t"]["partitions"]
    return partitions if isinstance(partitions, int) else len(partitions)


def at_ms(step: Tree) -> int:
    return int(str(step["at"]).removesuffix("ms"))


def _is_label(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("@")


def _renamed(value: Any, rename: Callable[[str], str]) -> Any:
    match value:
        case str():
            return rename(value)
        case list():
            return [_renamed(one, rename) for one in value]
        case dict():
            return {key: _renamed(one, rename) for key, one in value.items()}
    return value
