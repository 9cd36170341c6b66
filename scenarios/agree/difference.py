"""A difference between two worlds, real or noise, and what is shared by those who look for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from scenarios.agree.facts import RunFacts
from scenarios.observe.wording import seconds

TIE = "only which came first"
VARIES = "not in every repetition"
RUN_ENDED = "the run ended first"
RETRIES = "how often hangs on times"
DRAWN = "its producer draws the partition"
NEVER_ARRIVED = "never arrived"
"""What readers call records whose class is `missing`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldDifference:
    """what: the kind of fact      where: its partition, replica or client
    at_us: since when, None for what has no time

    ours, theirs: what the first repetition that differs has      noise: why it is no difference; empty if it is one
    """

    what: str
    where: str
    at_us: int | None = None
    ours: str
    theirs: str
    noise: str = ""

    @property
    def title(self) -> str:
        """`t-0, leader, epoch, ISR, ELR since 19.029 s`: all but the values"""
        since = "" if self.at_us is None else f" since {seconds(self.at_us)}"
        what = NEVER_ARRIVED if self.what == "missing" else self.what
        return f"{self.where}, {what}{since}" + (f": {self.noise}" if self.noise else "")


Agree = Callable[[RunFacts, RunFacts], bool]


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of both worlds, in the order of their repetitions. slack_us: see `compare`"""

    ours: Sequence[RunFacts]
    theirs: Sequence[RunFacts]
    slack_us: int

    def __iter__(self) -> Iterator[tuple[RunFacts, RunFacts]]:
        return zip(self.ours, self.theirs, strict=True)

    def keys(self, of: Callable[[RunFacts], Iterable[Any]]) -> list[Any]:
        """What any run has a fact of, in order."""
        return sorted({key for run in (*self.ours, *self.theirs) for key in of(run)})

    def sent_apart(self) -> dict[str, frozenset[str]]:
        """Records that went to different partitions in different runs, and to which: their producer draws it."""
        found: dict[str, set[str]] = {}
        for run in (*self.ours, *self.theirs):
            for record, partition in run.partitions.items():
                found.setdefault(record, set()).add(partition)
        return {record: frozenset(partitions) for record, partitions in found.items() if len(partitions) > 1}

    def apart(self, agree: Agree) -> tuple[tuple[RunFacts, RunFacts], str] | None:
        """The first repetition that does not agree, and whether that is noise; None if all agree.

        It is, if some repetition of one world agrees with some repetition of the other.
        """
        first = next((pair for pair in self if not agree(*pair)), None)
        if first is None:
            return None
        varies = any(agree(one, other) for one in self.ours for other in self.theirs)
        return first, VARIES if varies else ""


Element = TypeVar("Element")


def elements_apart(
    ours: Sequence[frozenset[Element]], theirs: Sequence[frozenset[Element]]
) -> tuple[frozenset[Element], frozenset[Element], str] | None:
    """Elements that only one world has, and whether that is noise; None if all repetitions have the same.

    Real are those that every run of one world has, and none of the other.
    """
    first = next(((one, other) for one, other in zip(ours, theirs, strict=True) if one != other), None)
    if first is None:
        return None
    only_ours = frozenset.intersection(*ours) - frozenset[Element]().union(*theirs)
    only_theirs = frozenset.intersection(*theirs) - frozenset[Element]().union(*ours)
    if only_ours or only_theirs:
        return only_ours, only_theirs, ""
    one, other = first
    return one - other, other - one, VARIES
