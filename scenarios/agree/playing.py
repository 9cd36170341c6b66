"""Plays a scenario in both worlds, again and again, below one folder; what is there already is not played twice.

A repetition is the folder of its number, with the runs of both: `1/theirs/0001-NAME` first, then its simulated twin in
`1/ours`, whose brokers look for lagging followers when those of the other world did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from replica.trace.columns import TraceError
from scenarios.agree.facts import RunFacts, epochs_in, facts_of
from scenarios.agree.phases import in_phase, phases_of_run
from scenarios.language.spec import Scenario
from scenarios.language.write import lock
from scenarios.observe.trace_writer import read_rows
from scenarios.run.runs import RunNotFound, list_runs, lock_sha256, read_summary

Play = Callable[[Scenario, Path], Path]
"""Plays a scenario and keeps the run in a folder of runs; returns the run's own folder."""


class Repetition(NamedTuple):
    """The folders of two runs."""

    ours: Path
    theirs: Path


def why_no_two_are_alike(scenario: Scenario) -> str:
    """Of one whose network or clients draw what happens in it; empty for all others."""
    delays = [scenario.network.latency, *(link.latency for link in scenario.network.links)]
    if any(delay is not None and delay.kind != "constant" for delay in delays):
        return "its links draw their delays: no two runs of it are alike"
    if any(work.arrival is not None and work.arrival.poisson for work in scenario.workloads.values()):
        return "its records come by chance (`poisson`): no two runs of it are alike"
    return ""


def repetitions(
    scenario: Scenario, folder: Path, times: int, *, play_ours: Play, play_theirs: Play
) -> Iterator[Repetition]:
    """raises: whatever the two raise"""
    for number in range(1, times + 1):
        place = folder / str(number)
        theirs = _kept(scenario, place / "theirs") or play_theirs(scenario, place / "theirs")
        twin = in_phase(scenario, phases_of_run(theirs, scenario))
        yield Repetition(_kept(twin, place / "ours") or play_ours(twin, place / "ours"), theirs)


def facts_in(run_dir: Path) -> RunFacts:
    """raises: TraceError, OSError"""
    return facts_of(read_rows(run_dir / "trace"), epochs_in(run_dir / "logs"))


def _kept(scenario: Scenario, runs_dir: Path) -> Path | None:
    """The newest whole run of exactly this scenario."""
    digest = lock_sha256(lock.dump(scenario))
    for run_dir in reversed(list_runs(runs_dir)):
        try:
            if read_summary(run_dir).get("lock_sha256") == digest:
                next(iter(read_rows(run_dir / "trace")))
                return run_dir
        except (RunNotFound, TraceError, OSError, StopIteration):
            continue
    return None
