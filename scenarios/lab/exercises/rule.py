"""Exercise 5: a scenario of one's own that shows a rule: with the rule nothing is lost, without it something is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scenarios.lab.exercise import Criterion, ScenarioExercise, all_told_and_kept, lost
from scenarios.lab.hand_in import HandIn
from scenarios.lab.sandbox import Sandbox
from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario

if TYPE_CHECKING:
    from scenarios.run.runner import RunResult


@dataclass(frozen=True, slots=True)
class ShownRule:
    """A setting, its value with and without the rule, and what the two runs must show."""

    path: str
    on: str
    off: str
    protects: Callable[[RunResult], bool]
    protection: str
    hurts: Callable[[RunResult], bool]
    damage: str


def _refused_and_kept(result: RunResult) -> bool:
    errors = result.summary["producers"]["p1"]["errors"]
    refused = errors.get("NOT_ENOUGH_REPLICAS", 0) + errors.get("NOT_ENOUGH_REPLICAS_AFTER_APPEND", 0)
    return refused > 0 and bool(result.verdict.records["acked"]) and not lost(result)


def _offline_and_kept(result: RunResult) -> bool:
    waits = any(windows for windows in result.summary["unavailable"].values())
    return waits and bool(result.verdict.records["acked"]) and not lost(result)


def _twice_or_overtaken(result: RunResult) -> bool:
    records = result.verdict.records
    return bool(records["duplicated"] or records["reordered"])


RULES = {
    "min.insync.replicas": ShownRule(
        "topics.TOPIC.config.min.insync.replicas",
        "2",
        "1",
        _refused_and_kept,
        "with min.insync.replicas=2 p1 gets NOT_ENOUGH_REPLICAS, and no acked record is lost",
        lambda result: bool(lost(result)),
        "with min.insync.replicas=1 an acked record is lost",
    ),
    "unclean.leader.election.enable": ShownRule(
        "topics.TOPIC.config.unclean.leader.election.enable",
        "false",
        "true",
        _offline_and_kept,
        "without unclean elections writers wait, and no acked record is lost",
        lambda result: bool(lost(result)),
        "with unclean elections an acked record is lost",
    ),
    "enable.idempotence": ShownRule(
        "workloads.p1.config.enable.idempotence",
        "true",
        "false",
        all_told_and_kept,
        "with enable.idempotence every record is acked, and stored once and in order",
        _twice_or_overtaken,
        "without enable.idempotence a record is stored twice, or overtaken",
    ),
}
_CHOSEN = re.compile(r"^#[ \t]*rule:[ \t]*(\S+)\s*$", re.MULTILINE)
_HEAD_CHARACTERS = 2000


class Rule(ScenarioExercise):
    """The checker plays the scenario with the rule and without it."""

    name = "rule"
    place = 5
    title = "Write a scenario that shows a rule"
    minutes = 8
    may_change = ("timeline", "duration", "cluster.config", "topics.TOPIC.config", "workloads.p1.config")

    def judge_scenario(self, hand_in: HandIn, scenario: Scenario, changed: Sequence[str]) -> Iterator[Criterion]:
        chosen = _CHOSEN.search(hand_in.text[:_HEAD_CHARACTERS])
        rule = RULES.get(chosen[1]) if chosen else None
        sentence = "the line `# rule:` names a rule of the exercise"
        yield Criterion("rule", rule is not None, sentence, f"one of {', '.join(RULES)}")
        yield Criterion("steps", bool(scenario.timeline), "the timeline has steps", "it is empty")
        if rule is None or not scenario.timeline:
            return
        sandbox, seeds = Sandbox(), self.seeds(hand_in.student)
        path = rule.path.replace("TOPIC", next(iter(scenario.topics)))
        with_rule, without = (
            load_text(hand_in.text, hand_in.file, [f"{path}={value}"]).scenario for value in (rule.on, rule.off)
        )
        protected = sum(rule.protects(sandbox.play(with_rule, seed)) for seed in seeds)
        hint = f"under {protected} of {len(seeds)} seeds"
        yield Criterion("protects", protected == len(seeds), rule.protection, hint)
        hurt = sum(rule.hurts(sandbox.play(without, seed)) for seed in seeds)
        yield Criterion("hurts", hurt == len(seeds), rule.damage, f"under {hurt} of {len(seeds)} seeds")
