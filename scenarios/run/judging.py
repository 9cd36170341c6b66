"""The verdict of a run made anew from its trace, where judging failed or its process was killed.

The trace of a killed process ends at a different event in each table. It is read up to the first event that is missing,
and the logs are then taken as the events show them, since no event states what is on the disks.
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
from scenarios.check.expectations import Expectations, RunSight, logs_now
from scenarios.check.summary import Counters, build_summary
from scenarios.check.verdict import judge
from scenarios.language.spec import Scenario
from scenarios.observe.availability import GoneTopics
from scenarios.observe.columns.names import write_json
from scenarios.observe.groups import UnreadTimes
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.mirror import LogMirror
from scenarios.observe.story import Story
from scenarios.observe.trace_writer import complete, read_rows, trace_sha256
from scenarios.observe.view import ClusterView
from scenarios.process.work_folders import LOCK_FILE, UNJUDGED
from scenarios.run.runner import name_last
from scenarios.run.runs import lock_sha256

EVENTS_PER_PROGRESS = 5000


def rows_without_gap(trace_dir: Path) -> Iterator[TraceRow]:
    """The events of a trace up to the first one that is missing. raises: TraceError where there is none"""
    expected = 0
    for row in read_rows(trace_dir):
        if row.seq != expected:
            break
        expected += 1
        yield row
    if not expected:
        raise TraceError(f"{trace_dir}: it has no first event, so there is nothing to judge")


def judge_run(
    run_dir: Path, scenario: Scenario, former: dict[str, Any] | None, progress: Callable[[int], None]
) -> tuple[dict[str, Any], Story, Path]:
    """Judge a run by its trace, write its summary, and give its folder the name of a run that has one.

    scenario: that of its lock file
    former: its summary, if it had one: steps of its timeline were judged when they were done
    progress: called with the number of events read

    Returns: the summary, the story, and the folder under its name of now
    Raises: TraceError, OSError
    """
    started = time.perf_counter()
    if former is None:
        complete(run_dir / "trace")
    lock_text = (run_dir / LOCK_FILE).read_text(encoding="utf-8")
    view, mirror = ClusterView.of(scenario), LogMirror()
    ledger, story, unread = RecordLedger(mirror.deleted, mirror.sent.names), Story(view), UnreadTimes(view)
    sight = RunSight(view, ledger, mirror, {})
    expectations = Expectations(scenario.expect, sight)
    forgetful = GoneTopics(view, mirror, (mirror, ledger, story, expectations))
    handlers = Routes((view, ledger, mirror, expectations, unread, story, forgetful))
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
        ledger.final = logs_now(sight)
        unread.settle(at_us)
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
        verdict,
        results,
        Counters(
            events=events,
            steps=0,
            bytes={},
            trace_sha256=trace_sha256(run_dir / "trace"),
            run_dir=named,
            wall_s=time.perf_counter() - started,
            live=former is None or bool(former.get("live")),
        ),
    )
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
    """It may have ended before its time."""
    return replace(scenario, duration_us=min(scenario.duration_us, max(at_us, 1)))
