"""The steps of a timeline: when they happen, how often, and what each does, which verbs/ declares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from scenarios.language.conditions import StateTest

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
