"""Exercise 2: make a cluster lose an acked record by injecting faults, without changing a setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scenarios.lab.exercise import Criterion, Draw, ScenarioExercise, acked_since, lost
from scenarios.lab.hand_in import HandIn
from scenarios.lab.sandbox import Sandbox
from scenarios.language.spec import Scenario
from scenarios.language.verbs import network, process
from scenarios.language.verbs.process import Wipe

STEPS_MAX = 4


class MakeLoss(ScenarioExercise):
    """The exercise to make a cluster of three replicas lose a record that was acked with acks=1."""

    name = "loss"
    place = 2
    title = "Make a loss happen"
    minutes = 7
    may_change = ("timeline",)

    def values(self, draw: Draw) -> Mapping[str, object]:
        return {"rate": draw.one_of((2, 3, 4), "rate"), "late_ms": draw.number(2, 6, "latency")}

    def judge_scenario(self, hand_in: HandIn, scenario: Scenario, changed: Sequence[str]) -> Iterator[Criterion]:
        steps = len(scenario.timeline)
        yield Criterion(
            "steps", 1 <= steps <= STEPS_MAX, f"the timeline has one to {STEPS_MAX} steps", f"it has {steps}"
        )
        foreign = [step.verb for step in scenario.timeline if not is_fault(step.payload)]
        sentence = "every step is a fault of a process or of the network, and none wipes a disk"
        yield Criterion("faults", not foreign, sentence, f"`{foreign[0]}` is not allowed" if foreign else "")
        if foreign or not 1 <= steps <= STEPS_MAX:
            return
        sandbox, seeds = Sandbox(), self.seeds(hand_in.student)
        results = [sandbox.play(scenario, seed) for seed in seeds]
        losing = sum(bool(lost(result)) for result in results)
        sentence = "an acked record is lost with every seed"
        hint = f"only with {losing} of {len(seeds)} seeds: which acked record had only one broker, and did it return?"
        yield Criterion("lost", losing == len(seeds), sentence, hint)
        alive = sum(acked_since(result, scenario.duration_us - 15_000_000) > 0 for result in results)
        sentence = "at the end the topic accepts records again"
        yield Criterion("alive", alive == len(seeds), sentence, "no record of the last 15 s was acked")


def is_fault(payload: object) -> bool:
    """Return True if a step is a fault of a process or of the network, and does not wipe a disk."""
    return type(payload).__module__ in (network.__name__, process.__name__) and not isinstance(payload, Wipe)
