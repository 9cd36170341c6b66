"""A scenario's own questions of predict mode: typed, frozen. What is asked about the run is answered from its trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

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
