"""Compare the runs of a scenario in the simulator with its runs on real Kafka.

    agreement = compare(ours, theirs, slack_us=2_000_000)  # simulated runs and Kafka's runs, in order of repetition
    agreement.verdict                                      # same, noise or differs

A difference is real if it is in every repetition. It is noise if some run of one side agrees with some run of the other
side, or if the runs of one side differ from each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from replica.trace.ranges import format_record_names, split_record_name
from scenarios.agree.difference import RETRIES, VARIES, Runs, WorldDifference, elements_apart
from scenarios.agree.facts import RunFacts
from scenarios.agree.replicas import replica_differences
from scenarios.agree.standings import TimeGap, standing_differences, time_gaps
from scenarios.observe.wording import count_of

SAME, NOISE, DIFFERS = "same", "noise", "differs"


@dataclass(frozen=True, slots=True)
class Agreement:
    """The result of a comparison.

    Attributes:
        differences: real differences, followed by noise.
        gaps: time gaps between equal states of both sides, in all repetitions; they do not count as differences.
    """

    differences: tuple[WorldDifference, ...]
    gaps: tuple[TimeGap, ...]

    @property
    def verdict(self) -> str:
        if any(not difference.noise for difference in self.differences):
            return DIFFERS
        return NOISE if self.differences else SAME

    @property
    def largest_gap(self) -> TimeGap | None:
        return max(self.gaps, key=lambda gap: abs(gap.by_us), default=None)


def compare(ours: Sequence[RunFacts], theirs: Sequence[RunFacts], *, slack_us: int) -> Agreement:
    """Compare the simulated runs, `ours`, with the runs on real Kafka, `theirs`.

    Args:
        slack_us: length of the period before the end of a run in which events may be missing, in microseconds.
    """
    assert len(ours) == len(theirs) > 0
    runs = Runs(ours, theirs, slack_us)
    found = [
        *standing_differences(runs),
        *record_differences(runs),
        *replica_differences(runs),
        *error_differences(runs),
    ]
    in_order = sorted(_together(found), key=lambda item: bool(item.noise))
    return Agreement(tuple(in_order), tuple(time_gaps(runs)))


def _together(found: Sequence[WorldDifference]) -> list[WorldDifference]:
    """Join differences that are equal except for the node. `where` then has all nodes, such as `b1, b2 t-0`."""
    nodes: dict[WorldDifference, list[str]] = {}
    for item in found:
        node, _, partition = item.where.rpartition(" ")
        nodes.setdefault(replace(item, where=partition), []).append(node)
    return [replace(item, where=f"{', '.join(names)} {item.where}".strip()) for item, names in nodes.items()]


# --------------------------------------------------------------------------------------------- records and errors
#
# The outcome of each record, and the errors that each client got.

RECORDS_COMPARED = ("acked", "failed", "lost", "missing", "unseen", "duplicated", "reordered", "dirty")
"""The RECORD_CLASSES to compare. `unknown` is left out, because it follows from the other classes."""

COUNT_SLACK = 0.25
"""Largest difference between the counts of an error that is noise, as a share of the larger count.

The number of retries depends on timing.
"""
COUNT_SLACK_LEAST = 2


def record_differences(runs: Runs) -> Iterator[WorldDifference]:
    for kind in RECORDS_COMPARED:
        sets = [[run.records.get(kind, frozenset()) for run in side] for side in (runs.ours, runs.theirs)]
        found = elements_apart(*sets)
        if found is not None:
            ours, theirs, noise = found
            having = [(item, ours) for item in runs.ours] + [(other, theirs) for other in runs.theirs]
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
                noise, mine, its = (
                    _noise_of_counts(ours, theirs),
                    count_of(ours[0], "time"),
                    count_of(theirs[0], "time"),
                )
                yield WorldDifference(what=error, where=client, ours=mine, theirs=its, noise=noise)


def _noise_of_counts(ours: Sequence[int], theirs: Sequence[int]) -> str:
    if min(ours) <= max(theirs) and min(theirs) <= max(ours):
        return VARIES
    between = max(min(ours), min(theirs)) - min(max(ours), max(theirs))
    is_near = between <= max(COUNT_SLACK_LEAST, COUNT_SLACK * max(*ours, *theirs))
    return RETRIES if is_near and 0 not in (*ours, *theirs) else ""
