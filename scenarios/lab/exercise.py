"""Base classes of the exercises: the files that a student starts from, and the criteria for the file handed in.

The values in an exercise depend on the student's name, so the file of another student does not pass.
"""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from replica.ids import TopicPartition
from replica.trace.events import TraceEvent
from scenarios.lab.hand_in import AnswerForm, HandIn, is_same, meaning, read_answers, read_hand_in
from scenarios.lab.sandbox import CannotBePlayed, Sandbox, TooMuch
from scenarios.language.diagnostics import Diagnostic, ScenarioInvalid, printable
from scenarios.language.parse.loading import load_text
from scenarios.language.spec import Scenario
from scenarios.language.write.lock import as_tree

if TYPE_CHECKING:
    from scenarios.run.runner import RunResult

E = TypeVar("E", bound=TraceEvent)

SEEDS = 3
"""Number of seeds with which an answer is tested. It must pass with all of them, to exclude luck."""

_FREE = ("id", "title", "question", "questions", "sources", "lesson", "tags", "seed", "expect")
"""Top-level keys that a student may change in every exercise, because no criterion depends on them."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One criterion for a file, and whether the file meets it.

    Attributes:
        name: short name for lists of failed criteria.
        sentence: the condition in words.
        hint: advice for a file that does not meet it.
    """

    name: str
    holds: bool
    sentence: str
    hint: str = ""


@dataclass(slots=True)
class Judgement:
    """The result of judging a file.

    Attributes:
        criteria: the criteria judged so far, in order.
        diagnostics: errors of a file that cannot be read.
    """

    criteria: list[Criterion] = field(default_factory=list)
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def passed(self) -> bool:
        return bool(self.criteria) and all(criterion.holds for criterion in self.criteria)


class Exercise(ABC):
    """An exercise of the lesson.

    Attributes:
        place: number of the exercise in the lesson, from 1.
        minutes: time that the lesson allows for it.
    """

    name: ClassVar[str]
    place: ClassVar[int]
    title: ClassVar[str]
    minutes: ClassVar[int]

    def text(self, student: str, suffix: str = "") -> str:
        """Return the text of the exercise's YAML file, filled in with the values of this student.

        Args:
            suffix: appended to the module's name to find another file, such as `_run`.
        """
        module = files("scenarios.lab.exercises")
        template = module.joinpath(f"{type(self).__module__.rpartition('.')[2]}{suffix}.yaml").read_text("utf-8")
        draw = Draw(self.name, student)
        values = {"student": student, "topic": draw.topic(), "replicas": ", ".join(draw.brokers())}
        values |= {"leader": draw.brokers()[0], "file": f"{self.name}.yaml"}
        return Template(template).substitute({**values, **self.values(draw)})

    def values(self, draw: Draw) -> Mapping[str, object]:
        """Return the values of the exercise's own placeholders (`$name` in its YAML file), drawn for one student."""
        return {}

    def files(self, student: str) -> dict[str, str]:
        """Return the files that `start` writes, by name; the student hands in the first file."""
        return {f"{self.name}.yaml": self.text(student)}

    def given_run(self, student: str) -> Scenario | None:
        """Return the scenario whose run `start` writes into the folder `NAME-run`; None if the exercise has no run."""
        return None

    def seeds(self, student: str) -> tuple[int, ...]:
        first = Draw(self.name, student).number(1000, 9000, "seed")
        return tuple(range(first, first + SEEDS))

    def judge(self, hand_in: HandIn) -> Judgement:
        """Judge a file by the criteria of the exercise, in order. Skip criteria that depend on a failed criterion."""
        judgement = Judgement()
        try:
            for criterion in self._criteria(hand_in):
                judgement.criteria.append(criterion)
        except ScenarioInvalid as invalid:
            return self.unreadable(invalid)
        except TooMuch as bound:
            judgement.criteria.append(
                Criterion("bounds", False, "the scenario is within the limits of an exercise", str(bound))
            )
        except CannotBePlayed as error:
            judgement.criteria.append(Criterion("possible", False, "every step can be performed", str(error)))
        return judgement

    def unreadable(self, invalid: ScenarioInvalid) -> Judgement:
        errors = tuple(diagnostic for diagnostic in invalid.diagnostics if diagnostic.severity == "error")
        return Judgement([Criterion("valid", False, "the file can be read")], errors)

    @abstractmethod
    def _criteria(self, hand_in: HandIn) -> Iterator[Criterion]: ...


class ScenarioExercise(Exercise):
    """An exercise in which the student hands in a scenario.

    Attributes:
        may_change: paths in the scenario that the student may change, with everything below them. TOPIC stands for the
            name of the topic.
    """

    may_change: ClassVar[tuple[str, ...]]

    def _criteria(self, hand_in: HandIn) -> Iterator[Criterion]:
        value = load_text(self.text(hand_in.student), "given").scenario
        scenario = load_text(hand_in.text, hand_in.file).scenario
        yield Criterion("valid", True, "the file is a scenario")
        changed = changed_paths(value, scenario)
        outside = [path for path in changed if not any(within(path, allowed) for allowed in self.allowed(value))]
        named = hand_in.student or "a student without a name"
        hint = f"you changed {', '.join(outside[:3])}; you may change only {', '.join(self.allowed(value))}"
        yield Criterion("given", not outside, f"the fixed part of the exercise for {named} is unchanged", hint)
        if not outside:
            yield from self.judge_scenario(hand_in, scenario, changed)

    def allowed(self, scenario: Scenario) -> tuple[str, ...]:
        """Return `may_change` with TOPIC replaced by the name of the student's topic."""
        return tuple(path.replace("TOPIC", next(iter(scenario.topics))) for path in self.may_change)

    @abstractmethod
    def judge_scenario(self, hand_in: HandIn, scenario: Scenario, changed: Sequence[str]) -> Iterator[Criterion]:
        """Judge a scenario in which the student changed only what is allowed.

        Args:
            changed: paths that differ from the given scenario.
        """


class SheetExercise(Exercise):
    """An exercise in which the student hands in a sheet of answers about a given run."""

    asks: ClassVar[Mapping[str, tuple[AnswerForm, str]]]
    """By name of each question: the form of the answer, and a description of the right answer."""

    def given(self, student: str) -> Scenario:
        return load_text(self.text(student, "_run"), "given").scenario

    def seeds(self, student: str) -> tuple[int, ...]:
        """Return the seed of the given run, the only seed of this exercise."""
        return (self.given(student).seed,)

    def _criteria(self, hand_in: HandIn) -> Iterator[Criterion]:
        answers = read_answers(hand_in, tuple(self.asks))
        yield Criterion("valid", True, "the sheet can be read")
        right = self.right_answers(hand_in.student, Sandbox()) if answers else {}
        run = Path(hand_in.file).with_name(f"{self.name}-run.yaml")
        is_of_another = self._is_of_another(run, hand_in.student)
        wrong = f"{run.name} was made for another name" if is_of_another else "the run shows something else"
        for name, (kind, sentence) in self.asks.items():
            said = answers.get(name)
            if said is None:
                yield Criterion(name, False, sentence, "no answer yet")
            elif meaning(kind, said) is None:
                hint = f"cannot be read: write {kind.value}"
                if kind is AnswerForm.OFFSET and meaning(AnswerForm.RECORDS, said):
                    hint = "is a record: write its offset, a number"
                yield Criterion(name, False, sentence, f"`{printable(said[:40])}` {hint}")
            else:
                yield Criterion(name, is_same(kind, said, right[name]), sentence, wrong)

    def _is_of_another(self, run: Path, student: str) -> bool:
        """Return True if the scenario at `run` is readable but differs from this student's in topics or replicas."""
        try:
            theirs = load_text(read_hand_in(run).text, run.name).scenario.topics
        except ScenarioInvalid:
            return False
        value = self.given(student).topics
        return {name: item.assignment for name, item in theirs.items()} != {
            name: item.assignment for name, item in value.items()
        }

    @abstractmethod
    def right_answers(self, student: str, sandbox: Sandbox) -> Mapping[str, str]: ...


# ------------------------------------------------------------------------------------------------ what was changed


def within(path: str, allowed: str) -> bool:
    return path == allowed or path.startswith(f"{allowed}.")


def changed_paths(event: Scenario, scenario: Scenario) -> list[str]:
    """Return the paths of the values that differ between two scenarios, such as `topics.orders.partitions`.

    Keys that a student may always change, such as `title`, are left out.
    """
    before, after = (dict(_leaves(as_tree(item), "")) for item in (event, scenario))
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
    """Return the last event of the class `kind`. The run must have such an event."""
    return [row.event for row in result.rows if isinstance(row.event, kind)][-1]


def lost(result: RunResult) -> Sequence[str]:
    return result.verdict.records["lost"]


def all_told_and_kept(result: RunResult) -> bool:
    """Return True if every record was acked, and is stored once and in order."""
    records = result.verdict.records
    return bool(records["acked"]) and len(records["acked"]) == result.summary["records"]["sent"] and result.verdict.ok


def acked_since(result: RunResult, at_us: int) -> int:
    """Count the acked records that were sent at `at_us` or later."""
    return sum(entry.acked and entry.sent_us >= at_us for entry in result.ledger)


def waited_us(result: RunResult, partition: TopicPartition) -> int:
    """Return the longest time in which records of a partition waited and no write succeeded, in microseconds."""
    return max((until - since for since, until in result.summary["unavailable"].get(str(partition), ())), default=0)


def first_partition(scenario: Scenario) -> TopicPartition:
    return next(iter(scenario.topics.values())).topic_partitions[0]


# -------------------------------------------------------------------------------------------------------- all exercises
#
# The list of all exercises, one for each module of exercises/, in the order of the lesson.


def exercises() -> dict[str, Exercise]:
    """Return all exercises by name, in the order of the lesson."""
    room = files("scenarios.lab.exercises")
    modules = sorted(path.name.removesuffix(".py") for path in room.iterdir() if path.name.endswith(".py"))
    made = [_exercise_of(name) for name in modules if name != "__init__"]
    return {item.name: item for item in sorted(made, key=lambda item: item.place)}


def _exercise_of(name: str) -> Exercise:
    module = import_module(f"scenarios.lab.exercises.{name}")
    classes = [var for var in vars(module).values() if inspect.isclass(var) and var.__module__ == module.__name__]
    (found,) = (class_ for class_ in classes if issubclass(class_, Exercise))
    made: Exercise = found()
    return made


# -------------------------------------------------------------------------------------------------------------- drawing
#
# Values derived from a hash of the student's name. They differ between students, and never change for one student.

T = TypeVar("T")

BROKERS = ("b1", "b2", "b3")
TOPICS = ("orders", "payments", "clicks", "views", "parcels", "tickets", "sensors", "scores")


@dataclass(frozen=True, slots=True)
class Draw:
    """The choices for a student in one exercise, derived from a hash of exercise, student and purpose.

    Attributes:
        exercise: name of the exercise, so that a student gets different values in each exercise.
        student: name of the student; case and number of spaces do not matter.
    """

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
        """Return the replicas in the student's order, which begins with the preferred leader."""
        first = self.number(0, len(BROKERS) - 1, "leader")
        return BROKERS[first:] + BROKERS[:first]
