"""One scenario in two worlds: the same, different, or different as two runs of one world are (noise).

agreement = compare(ours, theirs, slack_us=2_000_000)      # the runs of each world, in the order of their repetitions
agreement.verdict                                          # same, noise or differs

A difference is real when it is in every repetition. What a repetition of one world has in common with some repetition
of the other is noise, and so is what the runs of one world do not agree on among themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from replica.trace.ranges import format_record_names, split_record_name
from scenarios.agree.difference import RETRIES, VARIES, Runs, WorldDifference, elements_apart
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


# --------------------------------------------------------------------------------------------- records and errors
#
# What became of each record, and the errors that each client was answered with.

RECORDS_COMPARED = ("acked", "failed", "lost", "missing", "unseen", "duplicated", "reordered", "dirty")
"""Of RECORD_CLASSES; `unknown` are those that are left."""

COUNT_SLACK = 0.25
"""By how much of the larger count the counts of an error may differ: a retry more or less is a matter of time."""
COUNT_SLACK_LEAST = 2


def record_differences(runs: Runs) -> Iterator[WorldDifference]:
    for kind in RECORDS_COMPARED:
        sets = [[run.records.get(kind, frozenset()) for run in side] for side in (runs.ours, runs.theirs)]
        found = elements_apart(*sets)
        if found is not None:
            ours, theirs, noise = found
            having = [(one, ours) for one in runs.ours] + [(other, theirs) for other in runs.theirs]
            moments = [run.moments_us[name] for run, names in having for name in names if name in run.moments_us]
            at_us = min(moments, default=None)
            mine, its = _text(ours), _text(theirs)
            yield WorldDifference(what=kind, where="records", at_us=at_us, ours=mine, theirs=its, noise=noise)


def _text(names: frozenset[str]) -> str:
    return format_record_names(sorted(names, key=split_record_name))


def error_differences(runs: Runs) -> Iterator[WorldDifference]:
    for client in runs.keys(lambda run: run.errors):
        counts = [[run.errors.get(client, {}) for run in side] for side in (runs.ours, runs.theirs)]
        for error in sorted({error for side in counts for run in side for error in run}):
            ours, theirs = ([run.get(error, 0) for run in side] for side in counts)
            if ours != theirs:
                noise, mine, its = _noise_of_counts(ours, theirs), f"{ours[0]} times", f"{theirs[0]} times"
                yield WorldDifference(what=error, where=client, ours=mine, theirs=its, noise=noise)


def _noise_of_counts(ours: Sequence[int], theirs: Sequence[int]) -> str:
    if min(ours) <= max(theirs) and min(theirs) <= max(ours):
        return VARIES
    between = max(min(ours), min(theirs)) - min(max(ours), max(theirs))
    is_near = between <= max(COUNT_SLACK_LEAST, COUNT_SLACK * max(*ours, *theirs))
    return RETRIES if is_near and 0 not in (*ours, *theirs) else ""
