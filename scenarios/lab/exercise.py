"""What every exercise is: the files that a student starts from, and the criteria for the file that comes back.

The part of the file that is given is drawn from the student's name. So an answer of another student, a bundled scenario
or a file of another exercise is no answer, whatever its name is.
"""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from replica.ids import TopicPartition
from replica.trace.events import TraceEvent
from scenarios.lab.hand_in import HandIn, read_answers
from scenarios.lab.sandbox import CannotBePlayed, Sandbox, TooMuch
from scenarios.language.diagnostics import Diagnostic, ScenarioInvalid
from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario
from scenarios.language.write.lock import as_tree

if TYPE_CHECKING:
    from scenarios.run.runner import RunResult

E = TypeVar("E", bound=TraceEvent)

SEEDS = 3
"""Under so many seeds must an answer hold: one that is lucky under the file's own is none."""

_FREE = ("id", "title", "question", "questions", "sources", "lesson", "tags", "seed", "expect")
"""Keys that a student may change in every exercise: no judgement depends on them."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One thing that a check looks for. sentence: what must hold     hint: where to look, if it does not"""

    name: str
    holds: bool
    sentence: str
    hint: str = ""


@dataclass(slots=True)
class Judgement:
    """diagnostics: errors of a file that cannot be read"""

    criteria: list[Criterion] = field(default_factory=list)
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def passed(self) -> bool:
        return bool(self.criteria) and all(criterion.holds for criterion in self.criteria)


class Exercise(ABC):
    """One exercise. place: in the lesson     minutes: that the lesson has for it"""

    name: ClassVar[str]
    place: ClassVar[int]
    title: ClassVar[str]
    minutes: ClassVar[int]

    def text(self, student: str, suffix: str = "") -> str:
        """The text beside the exercise's module, with the values of this student."""
        module = files("scenarios.lab.exercises")
        template = module.joinpath(f"{type(self).__module__.rpartition('.')[2]}{suffix}.yaml").read_text("utf-8")
        draw = Draw(self.name, student)
        values = {"student": student, "topic": draw.topic(), "replicas": ", ".join(draw.brokers())}
        values |= {"leader": draw.brokers()[0], "file": f"{self.name}.yaml"}
        return Template(template).substitute({**values, **self.values(draw)})

    def values(self, draw: Draw) -> Mapping[str, object]:
        """For the places `$name` of the text, besides those that every exercise has."""
        return {}

    def files(self, student: str) -> dict[str, str]:
        """By name, the files that `start` writes; the first one is handed in."""
        return {f"{self.name}.yaml": self.text(student)}

    def given_run(self, student: str) -> Scenario | None:
        """The scenario whose run `start` writes as a folder `NAME-run`; None without one."""
        return None

    def seeds(self, student: str) -> tuple[int, ...]:
        first = Draw(self.name, student).number(1000, 9000, "seed")
        return tuple(range(first, first + SEEDS))

    def judge(self, hand_in: HandIn) -> Judgement:
        """By criteria in the order in which a student meets them; those that cannot be judged yet are left out."""
        judgement = Judgement()
        try:
            for criterion in self._criteria(hand_in):
                judgement.criteria.append(criterion)
        except ScenarioInvalid as invalid:
            return self.unreadable(invalid)
        except TooMuch as bound:
            judgement.criteria.append(Criterion("bounds", False, "it is as small as an exercise needs", str(bound)))
        except CannotBePlayed as error:
            judgement.criteria.append(Criterion("possible", False, "every step can be done", str(error)))
        return judgement

    def unreadable(self, invalid: ScenarioInvalid) -> Judgement:
        errors = tuple(found for found in invalid.diagnostics if found.severity == "error")
        return Judgement([Criterion("valid", False, "the file can be read")], errors)

    @abstractmethod
    def _criteria(self, hand_in: HandIn) -> Iterator[Criterion]: ...


class ScenarioExercise(Exercise):
    """The student hands in a scenario. may_change: paths of the given scenario, each with what is below it"""

    may_change: ClassVar[tuple[str, ...]]

    def _criteria(self, hand_in: HandIn) -> Iterator[Criterion]:
        given = load_text(self.text(hand_in.student), "given").scenario
        scenario = load_text(hand_in.text, hand_in.file).scenario
        yield Criterion("valid", True, "the file is a scenario")
        changed = changed_paths(given, scenario)
        outside = [path for path in changed if not any(within(path, allowed) for allowed in self.allowed(given))]
        named = hand_in.student or "a student without a name"
        hint = f"changed: {', '.join(outside[:3])}; yours to change: {', '.join(self.allowed(given))}"
        yield Criterion("given", not outside, f"what was given to {named} is as it was", hint)
        if not outside:
            yield from self.judge_scenario(hand_in, scenario, changed)

    def allowed(self, given: Scenario) -> tuple[str, ...]:
        """`may_change` with the topic's own name."""
        return tuple(path.replace("TOPIC", next(iter(given.topics))) for path in self.may_change)

    @abstractmethod
    def judge_scenario(self, hand_in: HandIn, scenario: Scenario, changed: Sequence[str]) -> Iterator[Criterion]:
        """changed: paths that differ from the given scenario, all of them allowed"""


class SheetExercise(Exercise):
    """The student hands in answers about a given run."""

    asks: ClassVar[Mapping[str, str]]
    """By the name of an answer, what holds when it is right."""

    def given(self, student: str) -> Scenario:
        return load_text(self.text(student, "_run"), "given").scenario

    def seeds(self, student: str) -> tuple[int, ...]:
        """The answers are about one run."""
        return (self.given(student).seed,)

    def _criteria(self, hand_in: HandIn) -> Iterator[Criterion]:
        answers = read_answers(hand_in, tuple(self.asks))
        yield Criterion("valid", True, "the sheet can be read")
        right = self.right_answers(hand_in.student, Sandbox()) if answers else {}
        for name, sentence in self.asks.items():
            said = answers.get(name)
            hint = "no answer yet" if said is None else "not what the run shows"
            yield Criterion(name, said is not None and self.is_right(name, said, right[name]), sentence, hint)

    @abstractmethod
    def right_answers(self, student: str, sandbox: Sandbox) -> Mapping[str, str]: ...

    def is_right(self, name: str, said: str, right: str) -> bool:
        return said == right


# ------------------------------------------------------------------------------------------------ what was changed


def within(path: str, allowed: str) -> bool:
    return path == allowed or path.startswith(f"{allowed}.")


def changed_paths(given: Scenario, scenario: Scenario) -> list[str]:
    """Paths of the values that differ, those that no judgement depends on left out."""
    before, after = (dict(_leaves(as_tree(one), "")) for one in (given, scenario))
    paths = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    return [path for path in paths if path.split(".")[0] not in _FREE]


def _leaves(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(tree, list):
        for number, value in enumerate(tree, 1):
            yield from _leaves(value, f"{path}.{number}")
    else:
        yield path, tree


# ---------------------------------------------------------------------------------------------- what a run has shown


def last_event(result: RunResult, kind: type[E]) -> E:
    """The last event of that kind; the run has one."""
    return [row.event for row in result.rows if isinstance(row.event, kind)][-1]


def lost(result: RunResult) -> Sequence[str]:
    return result.verdict.records["lost"]


def all_told_and_kept(result: RunResult) -> bool:
    """Every record was acked, is in the log that counts, once and in order."""
    records = result.verdict.records
    return bool(records["acked"]) and len(records["acked"]) == result.summary["records"]["sent"] and result.verdict.ok


def acked_since(result: RunResult, at_us: int) -> int:
    """Records that were sent and acked from that time on."""
    return sum(entry.acked and entry.sent_us >= at_us for entry in result.ledger)


def waited_us(result: RunResult, partition: TopicPartition) -> int:
    """The longest stretch in which records waited for an ack and none came."""
    return max((until - since for since, until in result.summary["unavailable"].get(str(partition), ())), default=0)


def first_partition(scenario: Scenario) -> TopicPartition:
    return next(iter(scenario.topics.values())).topic_partitions[0]


# -------------------------------------------------------------------------------------------------------- all exercises
#
# All exercises, in the order of the lesson: one for each module of exercises/.


def exercises() -> dict[str, Exercise]:
    """By name."""
    room = files("scenarios.lab.exercises")
    modules = sorted(path.name.removesuffix(".py") for path in room.iterdir() if path.name.endswith(".py"))
    made = [_exercise_of(name) for name in modules if name != "__init__"]
    return {one.name: one for one in sorted(made, key=lambda one: one.place)}


def _exercise_of(name: str) -> Exercise:
    module = import_module(f"scenarios.lab.exercises.{name}")
    classes = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]
    (found,) = (one for one in classes if issubclass(one, Exercise))
    made: Exercise = found()
    return made


# -------------------------------------------------------------------------------------------------------------- drawing
#
# Numbers and names drawn from a student's name: each student has a scenario of their own, the same on every day.

T = TypeVar("T")

BROKERS = ("b1", "b2", "b3")
TOPICS = ("orders", "payments", "clicks", "views", "parcels", "tickets", "sensors", "scores")


@dataclass(frozen=True, slots=True)
class Draw:
    """exercise: students get different values in each"""

    exercise: str
    student: str

    def one_of(self, choices: Sequence[T], purpose: str) -> T:
        name = " ".join(self.student.casefold().split())
        digest = hashlib.sha256(f"{self.exercise}/{purpose}/{name}".encode()).digest()
        return choices[int.from_bytes(digest[:8], "big") % len(choices)]

    def number(self, low: int, high: int, purpose: str) -> int:
        return self.one_of(range(low, high + 1), purpose)

    def topic(self) -> str:
        return self.one_of(TOPICS, "topic")

    def brokers(self) -> tuple[str, ...]:
        """The replicas in an order that is not always b1, b2, b3: the first one leads."""
        first = self.number(0, len(BROKERS) - 1, "leader")
        return BROKERS[first:] + BROKERS[:first]
