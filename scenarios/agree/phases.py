"""Where in their period a run's brokers looked for followers that lag, so that a simulated twin looks then, too.

Kafka's ReplicaManager checks the ISR every half of `replica.lag.time.max.ms`, from its own start on: a JVM that took
4 s to start looks at 4, 19, 34 s, where a simulated broker looks at 15, 30, 45 s. Which of two things comes first can
hang on that, and no rule decides it.

source: ReplicaManager.startup, scheduler.schedule("isr-expiration", ..., replicaLagTimeMaxMs / 2)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from replica.trace import events as trace
from replica.trace.events import TraceRow
from scenarios.language.spec import Scenario
from scenarios.language.steps import At
from scenarios.observe.trace_writer import read_rows

PHASES = "phases.json"
"""In a run's folder: the phases by its brokers' own words, microseconds by name."""

ON_ITS_WAY_US = 20_000
"""From a check to the moment at which its shrink is seen to be committed, about."""

_SCHEDULED = re.compile(r"^(?:(\d{13})|\[([-\d]{10} [:\d]{8},\d{3})\]) .*LogDirFailureHandler.*: Starting")
"""ReplicaManager.startup schedules the check and then starts this thread, which says so. Log4j 1 writes UTC."""


def phases_of_run(run_dir: Path, scenario: Scenario) -> dict[str, int]:
    """By what its trace shows, else by what its brokers said when they started. raises: TraceError, OSError"""
    file = run_dir / PHASES
    said = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return {**said, **phases_of(read_rows(run_dir / "trace"), scenario)}


def phases_of(rows: Iterable[TraceRow], scenario: Scenario) -> dict[str, int]:
    """Of each broker whose first life has shrunk an ISR by itself: what its first shrink says."""
    found: dict[str, int] = {}
    lives: dict[str, int] = {}
    by_file = {step.name: step.trigger.at_us for step in scenario.timeline if isinstance(step.trigger, At)}
    late_us = 0
    for row in rows:
        event = row.event
        if isinstance(event, trace.NodeStarted):
            lives[event.node] = lives.get(event.node, 0) + 1
        elif isinstance(event, trace.FaultBegan) and event.fault in by_file:
            # A world that waits for a process to start does what follows in the file later.
            late_us = max(late_us, row.at_us - by_file.pop(event.fault))
        elif isinstance(event, trace.IsrCommitted) and len(event.isr) < len(event.previous_isr):
            leader = event.proposed_by or ""
            if leader in scenario.cluster.brokers and leader not in found and lives.get(leader, 1) == 1:
                found[leader] = max(0, row.at_us - late_us - ON_ITS_WAY_US) % _period_us(scenario, leader)
    return found


def write_phases(run_dir: Path, consoles: Path, began_us: int, scenario: Scenario) -> None:
    """Into the run's folder. consoles: the folder of what each broker has said

    began_us: 0 of the run, in microseconds since 1970
    """
    found: dict[str, int] = {}
    for name in scenario.cluster.brokers:
        with (consoles / f"{name}.log").open(encoding="utf-8", errors="replace") as lines:
            scheduled = next(filter(None, map(_SCHEDULED.match, lines)), None)
        if scheduled is not None:
            found[name] = (_since_1970_us(scheduled) - began_us) % _period_us(scenario, name)
    (run_dir / PHASES).write_text(json.dumps(found), encoding="utf-8")


def _since_1970_us(stamp: re.Match[str]) -> int:
    if stamp[1]:
        return int(stamp[1]) * 1000
    moment = datetime.strptime(stamp[2], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000)


def _period_us(scenario: Scenario, broker: str) -> int:
    return scenario.cluster.broker_config(broker).replica_lag_time_max_ms * 1000 // 2


def in_phase(scenario: Scenario, phases: dict[str, int]) -> Scenario:
    """The same scenario, whose brokers' first lives look when these did; brokers of unknown phase as the file says."""
    known = scenario.cluster.phases if isinstance(scenario.cluster.phases, dict) else {}
    return replace(scenario, cluster=replace(scenario.cluster, phases={**known, **phases})) if phases else scenario
