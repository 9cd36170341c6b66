"""What became of each record, and the errors that each client was answered with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scenarios.agree.difference import RETRIES, VARIES, Runs, WorldDifference, elements_apart
from scenarios.language.selectors import format_record_names, split_record_name

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
