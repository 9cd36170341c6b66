"""Compare runs for a table with one column per run: the rows that differ, and the values that are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from spark_reports.report.words import joined, short_time

Section = Mapping[str, Any]

RUNS_COMPARED = 6
"""Largest number of runs that are shown as columns. More do not fit on a screen and are shown as rows."""


class Differences(NamedTuple):
    """The differences between runs, and the values that all runs share.

    Attributes:
        settings: (name, values in the runs) of each setting that differs.
        results: (name, values in the runs) of each result that differs.
        same: (name, value) of each setting and result that all runs share.
    """

    settings: list[tuple[str, list[str]]]
    results: list[tuple[str, list[str]]]
    same: list[tuple[str, str]]


def differences(runs: Sequence[Section]) -> Differences | None:
    """Return the differences between runs, None for a single run or more than RUNS_COMPARED.

    Args:
        runs: the runs, each as the dict that page.render passes to its template.
    """
    if not 1 < len(runs) <= RUNS_COMPARED:
        return None
    built = [("scenario", [run["title"] for run in runs])]
    names = dict.fromkeys(name for run in runs for name in run["settings"])  # A watched cluster has fewer settings.
    built += [(name, [run["settings"].get(name, "–") for run in runs]) for name in names]
    found = [(name, [value(run) for run in runs]) for name, value in _RESULTS]
    same = [(name, values[0]) for name, values in (*built, *found) if len(set(values)) == 1]
    return Differences(_that_differ(built), _that_differ(found), same)


def _that_differ(rows: Sequence[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def _count(column: str) -> Callable[[Section], str]:
    def of_run(run: Section) -> str:
        number = sum(count[column] for count in run["counts"])
        names = "; ".join(count["named"][column] for count in run["counts"] if column in count["named"])
        return f"{number:,}" + (f": {names}" if names else "")

    return of_run


def _tile(label: str) -> Callable[[Section], str]:
    return lambda run: next((number for number, what, _ in run["tiles"] if what == label), "–")


LEADERS_NAMED = 3


def _leaders(run: Section) -> str:
    elections = run["elections"]
    named = [f"{row['topic']}-{row['partition']} → {row['leader']}" for row in elections.rows[:LEADERS_NAMED]]
    more = [f"{elections.total - LEADERS_NAMED:,} more"] if elections.total > LEADERS_NAMED else []
    return joined(named + more) or "none"


_RESULTS: tuple[tuple[str, Callable[[Section], str]], ...] = (
    ("verdict", lambda run: ("✕ " + ", ".join(name for name, _ in run["verdict"])) if run["verdict"] else "✓ ok"),
    ("sent", _count("sent")),
    ("acked", _count("acked")),
    ("lost", _count("lost")),
    ("missing", _count("missing")),
    ("duplicated", _count("duplicated")),
    ("dirty", _count("dirty")),
    ("reordered", _count("reordered")),
    ("offline, summed over partitions", lambda run: short_time(run["offline_us"])),
    ("under min ISR, summed over partitions", _tile("under min ISR, summed over partitions")),
    ("longest time without a successful write", _tile("longest time without a successful write")),
    ("99 % acked within", lambda run: ", ".join(f"{within} ({level})" for level, within in run["slowest_acks"]) or "–"),
    ("elections", _leaders),
    ("ISR changes", lambda run: f"{run['isr_changes'].total:,}"),
)
