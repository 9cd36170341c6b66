"""One scenario in two worlds: the same, different, or different as two runs of one world are (noise).

agreement = compare(ours, theirs, slack_us=2_000_000)      # the runs of each world, in the order of their repetitions
agreement.verdict                                          # same, noise or differs

A difference is real when it is in every repetition. What a repetition of one world has in common with some repetition
of the other is noise, and so is what the runs of one world do not agree on among themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scenarios.agree.clients import error_differences, record_differences
from scenarios.agree.difference import Runs, WorldDifference
from scenarios.agree.facts import RunFacts
from scenarios.agree.replicas import replica_differences
from scenarios.agree.standings import TimeGap, standing_differences, time_gaps

SAME, NOISE, DIFFERS = "same", "noise", "differs"


@dataclass(frozen=True, slots=True)
class Agreement:
    """differences: the real ones first      gaps: of every standing that both have, in all repetitions; not judged"""

    differences: tuple[WorldDifference, ...]
    gaps: tuple[TimeGap, ...]

    @property
    def verdict(self) -> str:
        if any(not one.noise for one in self.differences):
            return DIFFERS
        return NOISE if self.differences else SAME

    @property
    def largest_gap(self) -> TimeGap | None:
        return max(self.gaps, key=lambda gap: abs(gap.by_us), default=None)


def compare(ours: Sequence[RunFacts], theirs: Sequence[RunFacts], *, slack_us: int) -> Agreement:
    """slack_us: how long before the end of a run something may be missing from it"""
    assert len(ours) == len(theirs) > 0
    runs = Runs(ours, theirs, slack_us)
    found = [
        *standing_differences(runs),
        *record_differences(runs),
        *replica_differences(runs),
        *error_differences(runs),
    ]
    in_order = sorted(_together(found), key=lambda one: bool(one.noise))
    return Agreement(tuple(in_order), tuple(time_gaps(runs)))


def _together(found: Sequence[WorldDifference]) -> list[WorldDifference]:
    """What is the same of several replicas is one difference: `b1, b2 t-0`."""
    nodes: dict[WorldDifference, list[str]] = {}
    for one in found:
        node, _, partition = one.where.rpartition(" ")
        nodes.setdefault(replace(one, where=partition), []).append(node)
    return [replace(one, where=f"{', '.join(names)} {one.where}".strip()) for one, names in nodes.items()]
