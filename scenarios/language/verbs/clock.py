"""Verbs of clocks. They move wall clocks; monotonic clocks never jump."""

from __future__ import annotations

from scenarios.language.selectors import Selector
from scenarios.language.values.links import ref
from scenarios.language.values.trees import time_text
from scenarios.language.values.yaml_source import Scalar
from scenarios.language.verbs.declaration import LASTING, Effect, Given, Kind, Verb, key, verb
from scenarios.language.verbs.kinds import BROKERS, time

STROBE_PERIOD_MIN_US = 1_000


def _read_jump(value: Given) -> int:
    node = value.node
    if not isinstance(node, Scalar) or not node.text.startswith("-"):
        return value.reader.time(node, value.path, value.what, 1)
    length = Scalar(node.place, node.text.removeprefix("-"), node.quoted)
    return -value.reader.time(length, value.path, value.what, 1)


def _jump_tree(by_us: int) -> str:
    return f"{'-' if by_us < 0 else ''}{time_text(abs(by_us))}"


JUMP = Kind(
    read=_read_jump,
    write=_jump_tree,
    schema=ref("jump"),
    blank=1,
    example="60s",
    asked="a time, such as 60s or -60s",
)
"""How far a clock jumps: `60s` ahead, or `-60s` back."""


def _jump(by_us: int) -> str:
    return f"{time_text(abs(by_us))} {'ahead' if by_us > 0 else 'back'}"


@verb("bump_clock", example="{brokers: b1, by: 60s}", usage="bump_clock b1 60s", effect=Effect(undoable=True))
class BumpClock(Verb):
    """Move the wall clock, back with `by: -60s`. This affects replica lag and segment ages, not sessions and timers."""

    brokers: Selector = key(BROKERS)
    by_us: int = key(JUMP, "by")

    def sentence(self) -> str:
        return f"move the wall clock of {self.brokers} {_jump(self.by_us)}"


@verb("strobe_clock", example="{brokers: b1, by: 60s, period: 100ms}", usage="strobe_clock b1 60s 1s", effect=LASTING)
class StrobeClock(Verb):
    """Move the wall clock, and in each period move it back or forth again."""

    brokers: Selector = key(BROKERS)
    by_us: int = key(JUMP, "by")
    period_us: int = key(time(STROBE_PERIOD_MIN_US, asked="a period, such as 1s"), "period")

    def sentence(self) -> str:
        every, undone = time_text(self.period_us), "back" if self.by_us > 0 else "ahead"
        return f"move the wall clock of {self.brokers} {_jump(self.by_us)} and {undone} again, every {every}"
