"""The steps of a timeline: when and how often each happens. The package `verbs` declares what a step does."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Any, ClassVar, Literal

from replica.frozen import dataclass
from scenarios.language.expect import StateTest

DEFAULT = "default"
"""The word in a file that resets a dynamic setting to its default."""

Direction = Literal["both", "to", "from"]
"""A direction relative to the first side of `between`: `to` affects messages sent to it, `from` those that it sends."""


MODIFIERS = ("at", "when", "timeout", "every", "times", "for", "as")
"""The keys that a step may have besides its verb."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The time that a message travels.

    | kind | microseconds |
    |---|---|
    | constant | least_us |
    | uniform | between least_us and least_us + spread_us |
    | exponential | least_us plus an exponential delay with the mean spread_us |
    """

    kind: Literal["constant", "uniform", "exponential"]
    least_us: int
    spread_us: int = 0


class Payload:
    """The action of a step, with one subclass for each verb.

    Attributes:
        verb: the key of the action in a file.
        undoable: whether `for` can undo the action.
    """

    __slots__ = ()
    verb: ClassVar[str]
    undoable: ClassVar[bool]

    def sentence(self) -> str:
        """Return a description in the imperative, such as `kill leader(t-0)`."""
        raise NotImplementedError

    def tree(self) -> Any:
        """Return the value of the verb's key in the form that a scenario file has."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class At:
    """A trigger at a moment of virtual time. Steps of the same moment happen in the order of the file."""

    at_us: int


@dataclass(frozen=True, slots=True)
class When:
    """A trigger that fires as soon as a condition holds.

    It is armed once the previous step of the timeline has fired; the first step is armed at time 0.

    Attributes:
        timeout_us: time after arming at which the step counts as a failed check; None waits until the end of the run.
    """

    state: StateTest
    timeout_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the timeline.

    Attributes:
        index: position in the timeline, from 0.
        label: the value of the step's `as`; None without one.
        every_us: time between repetitions; None if the step is not repeated.
        times: how often the step fires, the first time at the trigger.
        for_us: time after which the step is undone; None if it is not.
        line: line in the scenario's file, from 1; 0 if unknown.
    """

    index: int
    trigger: At | When
    payload: Payload
    label: str | None = None
    every_us: int | None = None
    times: int = 1
    for_us: int | None = None
    line: int = field(default=0, compare=False)

    @property
    def verb(self) -> str:
        return self.payload.verb

    @property
    def name(self) -> str:
        """Return the name of the fault in the trace: the step's label, or else VERB-N, where N counts from 1."""
        return self.label or f"{self.verb}-{self.index + 1}"


# ------------------------------------------------------------------------------------------------------------ questions
#
# Questions that a scenario asks in predict mode. Answers about the run are computed from its trace.

QUESTIONS_MAX = 8
CHOICES_MAX = 6
QUESTION_CHARACTERS_MAX = 300


class NamedThing(Enum):
    """The kind of thing that the value of an `answer_from` key refers to."""

    PARTITION = "a partition"
    RECORD = "a record"
    RECORDS = "a kind of records"


@dataclass(frozen=True, slots=True)
class AnswerKind:
    """A kind of answer that can be computed from a trace.

    Attributes:
        names: the kind of thing that the value of the key refers to.
        has_moment: whether the answer changes during the run, so that `by` may give a time.
    """

    names: NamedThing
    has_moment: bool
    example: str
    doc: str


ANSWER_KINDS = {
    "leader": AnswerKind(NamedThing.PARTITION, True, "{leader: t-0, by: 30s}", "The leader of the partition, or none."),
    "isr": AnswerKind(NamedThing.PARTITION, True, "{isr: t-0}", "The in-sync replicas of the partition."),
    "hw": AnswerKind(NamedThing.PARTITION, True, "{hw: t-0, by: 20s}", "The high watermark of the leader."),
    "fate": AnswerKind(
        NamedThing.RECORD, False, "{fate: r12}", "Whether the record was acked, and whether the log has it at the end."
    ),
    "number_of": AnswerKind(
        NamedThing.RECORDS,
        False,
        "{number_of: lost}",
        "The number of records of this kind, as in `records` of `expect`.",
    ),
}
"""Kinds of answers, by the key that selects them in `answer_from`.

An answer describes the state at the time `by`, or at the end of the run without `by`.
"""


@dataclass(frozen=True, slots=True)
class AnswerFromTrace:
    """An answer that is computed from the trace.

    Attributes:
        kind: a key of ANSWER_KINDS.
        of: the partition, record or kind of records in question, such as `t-0`, `r12` or `lost`.
        by_us: the time for which the answer holds; None for the end of the run.
    """

    kind: str
    of: str
    by_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioQuestion:
    """A question asked at `at_us`, or before the first event named `before`.

    The answer is one of `choices`, or it is computed from the trace.
    """

    ask: str
    at_us: int | None = None
    before: str | None = None
    choices: tuple[str, ...] = ()
    answer: str | None = None
    answer_from: AnswerFromTrace | None = None
    because: str | None = None
