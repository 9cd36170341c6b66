"""Exercise 3: prevent a loss under given faults by changing one setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scenarios.lab.exercise import Criterion, Draw, ScenarioExercise, all_told_and_kept, lost
from scenarios.lab.hand_in import HandIn
from scenarios.lab.sandbox import Sandbox
from scenarios.language.spec import Scenario
from scenarios.language.steps import At


class OneSetting(ScenarioExercise):
    """The exercise to prevent a loss by one Kafka setting, without leaving records unacked or delaying acks."""

    name = "one-setting"
    place = 3
    title = "Stop the loss with one setting"
    minutes = 5
    may_change = ("cluster.config", "topics.TOPIC.config", "workloads.p1.config")

    def values(self, draw: Draw) -> Mapping[str, object]:
        return {"slow_s": draw.number(9, 12, "slow"), "killed_ms": draw.number(140, 170, "killed") * 100 + 50}

    def judge_scenario(self, hand_in: HandIn, scenario: Scenario, changed: Sequence[str]) -> Iterator[Criterion]:
        hint = f"you changed {', '.join(changed)}" if changed else "you have changed nothing yet"
        yield Criterion("one", len(changed) == 1, "exactly one setting is changed", hint)
        if len(changed) != 1:
            return
        sandbox, seeds = Sandbox(), self.seeds(hand_in.student)
        results = [sandbox.play(scenario, seed) for seed in seeds]
        kept = not any(lost(result) or result.verdict.records["missing"] for result in results)
        yield Criterion(
            "kept", kept, "no record is lost or missing, with every seed", "ask what an ack promised, and to whom"
        )
        all_kept = all(all_told_and_kept(result) for result in results)
        sentence = "p1 gets an ack for every record, and each record is stored once"
        yield Criterion("told", all_kept, sentence, "a record that is stored without an ack fails this")
        first_us = min(step.trigger.at_us for step in scenario.timeline if isinstance(step.trigger, At))
        early = [entry for result in results for entry in result.ledger if entry.sent_us < first_us - 1_000_000]
        soon = bool(early) and all((entry.acked_us or first_us) < first_us for entry in early)
        sentence = "records that are sent before the first fault are acked before it"
        yield Criterion("in-time", soon, sentence, "records that wait in the producer are not safe, only late")
