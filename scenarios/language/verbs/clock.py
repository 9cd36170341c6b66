"""Clock: wall clocks jump; monotonic clocks do not."""

from __future__ import annotations

from scenarios.language.selectors import Selector
from scenarios.language.values.links import ref
from scenarios.language.values.trees import time_text
from scenarios.language.values.yaml_source import Scalar
from scenarios.language.verbs.declaration import Given, Kind, Lasts, Verb, key, verb
from scenarios.language.verbs.kinds import BROKERS, time

STROBE_PERIOD_MIN_US = 1_000


def _read_jump(given: Given) -> int:
    node = given.node
    if not isinstance(node, Scalar) or not node.text.startswith("-"):
        return given.reader.time(node, given.path, given.what, 1)
    length = Scalar(node.place, node.text.removeprefix("-"), node.quoted)
    return -given.reader.time(length, given.path, given.what, 1)


def _jump_tree(by_us: int) -> str:
    return f"{'-' if by_us < 0 else ''}{time_text(abs(by_us))}"


JUMP = Kind(
    read=_read_jump,
    write=_jump_tree,
    schema=ref("jump"),
    blank=1,
    example="60s",
    asked="how far, such as 60s or -60s",
)
"""`60s`, or `-60s` to set the clock back."""


def _jump(by_us: int) -> str:
    return f"{time_text(abs(by_us))} {'ahead' if by_us > 0 else 'back'}"


@verb("bump_clock", example="{brokers: b1, by: 60s}", usage="bump_clock b1 60s", undoable=True)
class BumpClock(Verb):
    """The wall clock jumps, with `by: -60s` back. Replica lag and segment ages see it; sessions and timers do not."""

    brokers: Selector = key(BROKERS)
    by_us: int = key(JUMP, "by")

    def sentence(self) -> str:
        return f"set the wall clock of {self.brokers} {_jump(self.by_us)}"


@verb(
    "strobe_clock",
    example="{brokers: b1, by: 60s, period: 100ms}",
    usage="strobe_clock b1 60s 1s",
    undoable=True,
    lasts=Lasts.UNTIL_ENDED,
)
class StrobeClock(Verb):
    """The wall clock jumps there and back, at every period."""

    brokers: Selector = key(BROKERS)
    by_us: int = key(JUMP, "by")
    period_us: int = key(time(STROBE_PERIOD_MIN_US, asked="a period, such as 1s"), "period")

    def sentence(self) -> str:
        every = time_text(self.period_us)
        return f"set the wall clock of {self.brokers} {_jump(self.by_us)} and again, every {every}"
