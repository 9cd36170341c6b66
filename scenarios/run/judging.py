"""Judges a run from its trace after the process was killed or judging failed.

A killed process leaves each table of the trace at a different event. The trace is read up to the first missing event.
Without a final event about the disks, the final logs are derived from the earlier events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from replica.trace.columns import TraceError
from replica.trace.events import InvariantBroken, RunFinished, TraceRow
from replica.trace.listening import Routes
from scenarios.check.expectations import logs_now
from scenarios.check.summary import Counters, build_summary
from scenarios.check.verdict import judge
from scenarios.language.spec import Scenario
from scenarios.observe.columns.names import write_json
from scenarios.observe.story import Story
from scenarios.observe.trace_writer import complete, digests_of, read_rows
from scenarios.process.work_folders import LOCK_FILE, UNJUDGED
from scenarios.run.runner import Observers, name_last
from scenarios.run.runs import lock_sha256

EVENTS_PER_PROGRESS = 5000


def rows_without_gap(trace_dir: Path) -> Iterator[TraceRow]:
    """Yield the events of a trace until a sequence number is missing.

    Raises:
        TraceError: the very first event is missing.
    """
    expected = 0
    for row in read_rows(trace_dir):
        if row.seq != expected:
            break
        expected += 1
        yield row
    if not expected:
        raise TraceError(f"the trace {trace_dir} has no first event, so it cannot be judged")


def judge_run(
    run_dir: Path, scenario: Scenario, former: dict[str, Any] | None, progress: Callable[[int], None]
) -> tuple[dict[str, Any], Story, Path]:
    """Judge a run by its trace, write its summary, and rename its folder to that of a complete run.

    Args:
        scenario: the scenario of the run's lock file.
        former: the previous summary, None if there is none. The results of expectations are taken from it.
        progress: called with the number of events read so far.

    Returns:
        The summary, the story, and the new path of the folder.

    Raises:
        TraceError, OSError: the trace cannot be read, or the summary cannot be written.
    """
    started = time.perf_counter()
    if former is None:
        complete(run_dir / "trace")
    lock_text = (run_dir / LOCK_FILE).read_text(encoding="utf-8")
    seen = Observers(scenario, {})
    ledger, story, unread, expectations = seen.ledger, seen.story, seen.unread, seen.expectations
    handlers = Routes(seen.listeners(story))
    broken: list[InvariantBroken] = []
    events, at_us, is_whole = 0, 0, False
    for row in rows_without_gap(run_dir / "trace"):
        for handler in handlers[type(row.event)]:
            handler(row, row.event)
        if isinstance(row.event, InvariantBroken):
            broken.append(row.event)
        is_whole |= isinstance(row.event, RunFinished)
        events, at_us = events + 1, row.at_us
        if events % EVENTS_PER_PROGRESS == 0:
            progress(events)
    if not is_whole:
        ledger.final = logs_now(seen.sight)
        unread.settle(at_us)
    seen.waits.settle(at_us)
    story.end_us = at_us
    ledger.close()
    scenario = _that_long(scenario, at_us)
    verdict = judge(ledger, broken)
    results = expectations.results(verdict, scenario.duration_us)
    run_name = run_dir.name.removesuffix(UNJUDGED)
    named = run_dir.with_name(run_name)
    summary = build_summary(
        scenario,
        ledger,
        unread.found,
        seen.waits.waits,
        verdict,
        results,
        Counters(
            events=events,
            steps=0,
            bytes={},
            digests=digests_of(run_dir / "trace"),
            run_dir=named,
            wall_s=time.perf_counter() - started,
            live=former is None or bool(former.get("live")),
        ),
    )
    summary |= seen.shares.as_json()
    summary["dashboard"] = seen.dashboard.outcome(at_us, ledger, verdict.records["lost"])
    if former is not None:
        summary |= {name: former[name] for name in ("expectations", "held", "steps", "bytes") if name in former}
    summary["lock_sha256"] = lock_sha256(lock_text)
    temporary = run_dir / ".summary.json.tmp"
    with temporary.open("w", encoding="utf-8") as file:
        write_json(summary, file)
    temporary.replace(run_dir / "summary.json")
    if named != run_dir:
        run_dir.rename(named)
        name_last(named)
    return summary, story, named


def _that_long(scenario: Scenario, at_us: int) -> Scenario:
    """Return the scenario with its duration cut to that of the run, which ended at `at_us`."""
    return replace(scenario, duration_us=min(scenario.duration_us, max(at_us, 1)))
