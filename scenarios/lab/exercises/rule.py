"""Exercise 5: write a scenario in which records are safe with a Kafka setting, and are damaged without it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    """A Kafka setting that protects records, which a scenario shows if it is played with the setting on and off.

    Attributes:
        path: path of the setting in the scenario.
        on: value of the setting that protects records.
        off: value of the setting that does not protect them.
        protects: tests of the run with `on`, by the part of the protection that each test looks for.
        protection: sentence that describes the whole protection.
        hurts: test of the run with `off`; returns True if the run shows the damage.
        damage: sentence that describes the damage.
    """

    path: str
    on: str
    off: str
    protects: Mapping[str, Callable[[RunResult], bool]]
    protection: str
    hurts: Callable[[RunResult], bool]
    damage: str


def _refused(result: RunResult) -> bool:
    errors = result.summary["producers"]["p1"]["errors"]
    return bool(errors.get("NOT_ENOUGH_REPLICAS", 0) + errors.get("NOT_ENOUGH_REPLICAS_AFTER_APPEND", 0))


_KEPT: dict[str, Callable[[RunResult], bool]] = {
    "a record is acked": lambda result: bool(result.verdict.records["acked"]),
    "no acked record is lost": lambda result: not lost(result),
}


def _twice_or_overtaken(result: RunResult) -> bool:
    records = result.verdict.records
    return bool(records["duplicated"] or records["reordered"])


RULES = {
    "min.insync.replicas": ShownRule(
        "topics.TOPIC.config.min.insync.replicas",
        "2",
        "1",
        {"p1 gets NOT_ENOUGH_REPLICAS": _refused, **_KEPT},
        "with min.insync.replicas=2, p1 gets NOT_ENOUGH_REPLICAS, and no acked record is lost",
        lambda result: bool(lost(result)),
        "with min.insync.replicas=1, an acked record is lost",
    ),
    "unclean.leader.election.enable": ShownRule(
        "topics.TOPIC.config.unclean.leader.election.enable",
        "false",
        "true",
        {"writers wait": lambda result: any(result.summary["unavailable"].values()), **_KEPT},
        "without unclean elections, writers wait and no acked record is lost",
        lambda result: bool(lost(result)),
        "with unclean elections, an acked record is lost",
    ),
    "enable.idempotence": ShownRule(
        "workloads.p1.config.enable.idempotence",
        "true",
        "false",
        {"every record is acked, stored once, and in order": all_told_and_kept},
        "with enable.idempotence, every record is acked, stored once, and in order",
        _twice_or_overtaken,
        "without enable.idempotence, a record is stored twice or out of order",
    ),
}
_CHOSEN = re.compile(r"^#[ \t]*rule:[ \t]*(\S+)\s*$", re.MULTILINE)
_HEAD_CHARACTERS = 2000


class Rule(ScenarioExercise):
    """The exercise to write a scenario that shows what a Kafka setting protects from; it is played with and without."""

    name = "rule"
    place = 5
    title = "Write a scenario that shows a rule"
    minutes = 8
    may_change = ("timeline", "duration", "cluster.config", "topics.TOPIC.config", "workloads.p1.config")

    def judge_scenario(self, hand_in: HandIn, scenario: Scenario, changed: Sequence[str]) -> Iterator[Criterion]:
        chosen = _CHOSEN.search(hand_in.text[:_HEAD_CHARACTERS])
        rule = RULES.get(chosen[1]) if chosen else None
        sentence = "the line `# rule:` names a rule of the exercise"
        yield Criterion("rule", rule is not None, sentence, f"choose one of {', '.join(RULES)}")
        yield Criterion("steps", bool(scenario.timeline), "the timeline has steps", "it is empty")
        if rule is None or not scenario.timeline:
            return
        sandbox, seeds = Sandbox(), self.seeds(hand_in.student)
        path = rule.path.replace("TOPIC", next(iter(scenario.topics)))
        with_rule, without = (
            load_text(hand_in.text, hand_in.file, [f"{path}={value}"]).scenario for value in (rule.on, rule.off)
        )
        results = [sandbox.play(with_rule, seed) for seed in seeds]
        shown = {words: sum(map(test, results)) for words, test in rule.protects.items()}
        lacking = [(words, count) for words, count in shown.items() if count < len(seeds)]
        hints = [f"{words}: only with {count} of {len(seeds)} seeds" for words, count in lacking]
        yield Criterion("protects", not hints, rule.protection, "; ".join(hints))
        hurt = sum(rule.hurts(sandbox.play(without, seed)) for seed in seeds)
        yield Criterion("hurts", hurt == len(seeds), rule.damage, f"true with {hurt} of {len(seeds)} seeds")
