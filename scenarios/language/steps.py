"""The steps of a timeline: when they happen, how often, and what each does, which verbs/ declares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import Enum
from typing import Any, ClassVar, Literal

from replica.frozen import dataclass
from scenarios.language.expect import StateTest

DEFAULT = "default"
"""In a file, instead of the value of a dynamic setting: back to what it is by itself."""

Direction = Literal["both", "to", "from"]
"""Relative to the first side of `between`: `to` stops what travels to it, `from` what it sends."""


@dataclass(frozen=True, slots=True)
class Delay:
    """How long a message travels, microseconds.

    constant: least_us    uniform: least_us .. least_us + spread_us    exponential: least_us + Exp(mean spread_us)
    """

    kind: Literal["constant", "uniform", "exponential"]
    least_us: int
    spread_us: int = 0


class Payload:
    """What a step does: one subclass for each verb. undoable: `for` can undo it"""

    __slots__ = ()
    verb: ClassVar[str]
    undoable: ClassVar[bool]

    def sentence(self) -> str:
        """In the imperative: `kill leader(t-0)`."""
        raise NotImplementedError

    def tree(self) -> Any:
        """What stands behind the verb in a file."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class At:
    """At this instant of virtual time; steps of the same instant happen in the order of the file."""

    at_us: int


@dataclass(frozen=True, slots=True)
class When:
    """As soon as the state is so. Armed once the previous step of the list has fired (the first one: at 0).

    timeout_us: after arming; None waits to the end of the run. Running out of time is a failed check.
    """

    state: StateTest
    timeout_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of the timeline.

    index: position in the timeline, from 0     label: `as`, else None
    every_us, times: fire `times` times, `every_us` apart, the first time at the trigger
    for_us: undo it after that long             line: in the scenario's file, from 1 (0: unknown)
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
        """Name of the fault in the trace: its `as`, else verb-N with N counted from 1."""
        return self.label or f"{self.verb}-{self.index + 1}"


# ------------------------------------------------------------------------------------------------------------ questions
#
# A scenario's own questions of predict mode: typed, frozen. What is asked about the run is answered from its trace.

QUESTIONS_MAX = 8
CHOICES_MAX = 6
QUESTION_CHARACTERS_MAX = 300


class NamedThing(Enum):
    """What the value of an answer's key names."""

    PARTITION = "a partition"
    RECORD = "a record"
    RECORDS = "a kind of records"


@dataclass(frozen=True, slots=True)
class AnswerKind:
    """One thing that a trace can answer.

    has_moment: it changes during the run, so `by` may say when it is looked at
    """

    names: NamedThing
    has_moment: bool
    example: str
    doc: str


ANSWER_KINDS = {
    "leader": AnswerKind(NamedThing.PARTITION, True, "{leader: t-0, by: 30s}", "The broker that leads, or none."),
    "isr": AnswerKind(NamedThing.PARTITION, True, "{isr: t-0}", "The in-sync replicas."),
    "hw": AnswerKind(NamedThing.PARTITION, True, "{hw: t-0, by: 20s}", "The high watermark of its leader."),
    "fate": AnswerKind(NamedThing.RECORD, False, "{fate: r12}", "Was it acked, and is it in the log at the end?"),
    "number_of": AnswerKind(
        NamedThing.RECORDS, False, "{number_of: lost}", "How many records are of that kind (as in `expect`, `records`)."
    ),
}
"""By the key of `answer_from`. `by` means the state at that time, the end of the run without it."""


@dataclass(frozen=True, slots=True)
class AnswerFromTrace:
    """of: `t-0`, `r12` or `lost`, by the kind     by_us None: at the end of the run"""

    kind: str
    of: str
    by_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioQuestion:
    """Asked at `at_us`, or before the first event called `before`. The answer is one of `choices`, or in the trace."""

    ask: str
    at_us: int | None = None
    before: str | None = None
    choices: tuple[str, ...] = ()
    answer: str | None = None
    answer_from: AnswerFromTrace | None = None
    because: str | None = None


def answer_table(kinds: Iterable[tuple[str, AnswerKind]]) -> str:
    """The table of LANGUAGE.md."""
    rows = (f"| `{name}` | {kind.names.value} | {kind.doc} | `{kind.example}` |\n" for name, kind in kinds)
    return "| `answer_from` | names | answer | example |\n|---|---|---|---|\n" + "".join(rows)
