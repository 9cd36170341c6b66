"""A difference between the simulated runs and the runs on real Kafka, and helpers to find differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from scenarios.agree.facts import RunFacts
from scenarios.observe.wording import seconds

TIE = "only the order differs"
VARIES = "not in every repetition"
RUN_ENDED = "one run ended earlier"
RETRIES = "the number depends on timing"
DRAWN = "the producer chooses the partition at random"
"""This and the four texts above are reasons why a difference is noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldDifference:
    """A difference between the two sides, the simulator and real Kafka.

    Attributes:
        what: the kind of fact, such as `truncations`.
        where: the partition, replica or client.
        at_us: time at which the difference begins; None if the fact has no time.
        ours: value of the simulator in the first repetition that differs.
        theirs: value of the other side in that repetition.
        noise: reason why the difference is noise; empty if it is real.
    """

    what: str
    where: str
    at_us: int | None = None
    ours: str
    theirs: str
    noise: str = ""

    @property
    def title(self) -> str:
        """Return the difference as text without the values: `t-0, leader, epoch, ISR, ELR since 19.029 s`."""
        since = "" if self.at_us is None else f" since {seconds(self.at_us)}"
        return f"{self.where}, {self.what}{since}" + (f": {self.noise}" if self.noise else "")


Agree = Callable[[RunFacts, RunFacts], bool]


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of both sides, in the order of their repetitions.

    Attributes:
        slack_us: length of the period before the end of a run in which events may be missing, in microseconds.
    """

    ours: Sequence[RunFacts]
    theirs: Sequence[RunFacts]
    slack_us: int

    def __iter__(self) -> Iterator[tuple[RunFacts, RunFacts]]:
        return zip(self.ours, self.theirs, strict=True)

    def keys(self, of: Callable[[RunFacts], Iterable[Any]]) -> list[Any]:
        """Return the sorted keys that any run has, such as the partitions for which it has facts.

        Args:
            of: returns the keys of one run.
        """
        return sorted({key for run in (*self.ours, *self.theirs) for key in of(run)})

    def sent_apart(self) -> dict[str, frozenset[str]]:
        """Return the partitions of each record that was not sent to the same partition in all runs.

        The producer of such a record chooses the partition at random.
        """
        found: dict[str, set[str]] = {}
        for run in (*self.ours, *self.theirs):
            for record, partition in run.partitions.items():
                found.setdefault(record, set()).add(partition)
        return {record: frozenset(partitions) for record, partitions in found.items() if len(partitions) > 1}

    def apart(self, agree: Agree) -> tuple[tuple[RunFacts, RunFacts], str] | None:
        """Return the first pair of runs that do not agree, and the reason why that is noise, empty if it is real.

        The difference is noise if any run of one side agrees with any run of the other. Return None if all pairs agree.
        """
        first = next((pair for pair in self if not agree(*pair)), None)
        if first is None:
            return None
        varies = any(agree(item, other) for item in self.ours for other in self.theirs)
        return first, VARIES if varies else ""


Element = TypeVar("Element")


def elements_apart(
    ours: Sequence[frozenset[Element]], theirs: Sequence[frozenset[Element]]
) -> tuple[frozenset[Element], frozenset[Element], str] | None:
    """Compare the sets of both sides, one set for each run; return None if all pairs are equal.

    Elements that are in every run of one side and in no run of the other are a real difference. If there are none, the
    difference of the first unequal pair is noise.

    Returns:
        Elements only in ours, elements only in theirs, and the reason why they are noise; empty if they are real.
    """
    first = next(((item, other) for item, other in zip(ours, theirs, strict=True) if item != other), None)
    if first is None:
        return None
    only_ours = frozenset.intersection(*ours) - frozenset[Element]().union(*theirs)
    only_theirs = frozenset.intersection(*theirs) - frozenset[Element]().union(*ours)
    if only_ours or only_theirs:
        return only_ours, only_theirs, ""
    item, other = first
    return item - other, other - item, VARIES
