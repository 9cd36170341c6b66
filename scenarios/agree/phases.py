"""Where in their periods the periodic deeds of a run's processes fell, so that a simulated twin does them then, too.

Kafka's ReplicaManager checks the ISR every half of `replica.lag.time.max.ms`, from its own start on: a JVM that took
4 s to start looks at 4, 19, 34 s, where a simulated broker looks at 15, 30, 45 s. Likewise the heartbeats of a broker,
from the moment at which it was unfenced on, and from 4.0 on the controller's checks for sessions that have ended. Which
of two things comes first can hang on that, and no rule decides it. Nothing but these phases is given to the twin.

source: ReplicaManager.startup, scheduler.schedule("isr-expiration", ..., replicaLagTimeMaxMs / 2);
    BrokerLifecycleManager.scheduleNextCommunication; QuorumController.registerMaybeFenceStaleBroker
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from controller.sessions import CHECKS_PER_SESSION
from replica.trace import events as trace
from replica.trace.columns import TraceError
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from scenarios.agree.facts import RunFacts, epochs_in, facts_of
from scenarios.language.spec import Phases, Scenario
from scenarios.language.steps import At
from scenarios.language.write import lock
from scenarios.observe.trace_writer import read_rows
from scenarios.run.runs import RunNotFound, list_runs, lock_sha256, read_summary

PHASES = "phases.json"
"""In a run's folder: the phases by its processes' own words."""

ON_ITS_WAY_US = 20_000
"""From a check to the moment at which its shrink is seen to be committed, about."""

_STAMP = r"^(?:(\d{13})|\[([-\d]{10} [:\d]{8},\d{3})\]) "
"""Log4j 1 writes UTC."""
_SCHEDULED = re.compile(_STAMP + r".*LogDirFailureHandler.*: Starting")
"""ReplicaManager.startup schedules the check and then starts this thread, which says so."""
_UNFENCED = re.compile(_STAMP + r".*The broker has been unfenced\. Transitioning from RECOVERY to RUNNING")
"""BrokerLifecycleManager: the next heartbeat leaves one interval later."""
_CHECKED = re.compile(_STAMP + r".*Fencing broker \d+ at epoch \d+ because its session has timed out")
_ENDED = re.compile(_STAMP + r".*Fencing broker (\d+) because its session has timed out")
"""Up to 3.9, in the instant in which a session ends: the last heartbeat came one session earlier."""
_ACTIVATED = re.compile(_STAMP + r".*Activated periodic tasks: .*maybeFenceStaleBroker")
"""PeriodicTaskControlManager: the first check comes one interval later, each next one some 1 ms late."""


class MeasuredPhases(NamedTuple):
    """Microseconds by node: of the checks of brokers and controllers, and of the heartbeats of brokers."""

    checks: dict[str, int]
    heartbeats: dict[str, int]


class ShownPhases(NamedTuple):
    """What a trace shows of them, in microseconds.

    checks: of each broker whose first life has shrunk an ISR by itself, what its first shrink says
    late_us: by how much the steps of the file were late when a broker was fenced first: it is then that the phases of
        heartbeats and session checks decide what happens; 0 if none was
    """

    checks: dict[str, int]
    late_us: int


def phases_of_run(run_dir: Path, scenario: Scenario) -> MeasuredPhases:
    """By what its trace shows, else by what its processes said. raises: TraceError, OSError"""
    file = run_dir / PHASES
    said = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"checks": {}, "heartbeats": {}}
    shown = phases_shown(read_rows(run_dir / "trace"), scenario)
    heartbeats = {
        name: (at_us - shown.late_us) % _heartbeats_us(scenario, name) for name, at_us in said["heartbeats"].items()
    }
    controllers = {
        name: (said["checks"][name] - shown.late_us) % _session_checks_us(scenario)
        for name in scenario.cluster.controllers
        if name in said["checks"]
    }
    return MeasuredPhases({**said["checks"], **controllers, **shown.checks}, heartbeats)


def phases_shown(rows: Iterable[TraceRow], scenario: Scenario) -> ShownPhases:
    """rows: read once, from the first to the last"""
    shown = _Shown(scenario)
    for row in rows:
        shown(row)
    return ShownPhases(shown.checks, shown.first_fenced_late_us or 0)


class _Shown(Listener):
    """What the two are made of. `_late_us`: how much later than the file says a world does the steps of a file, so far.

    One that waits for a process to start does what follows in the file later.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.checks: dict[str, int] = {}
        self.first_fenced_late_us: int | None = None
        self._late_us = 0
        self._scenario = scenario
        self._lives: dict[str, int] = {}
        self._stopped_us: dict[str, int] = {}
        self._by_file = {step.name: step.trigger.at_us for step in scenario.timeline if isinstance(step.trigger, At)}

    @on(trace.NodeStopped)
    def _stopped(self, row: TraceRow, event: trace.NodeStopped) -> None:
        self._stopped_us[event.node] = row.at_us

    @on(trace.FaultBegan)
    def _fault_began(self, row: TraceRow, event: trace.FaultBegan) -> None:
        if event.fault in self._by_file:
            # A real process takes 0.1 s to die, and the step is in the trace when all of them have.
            dying = event.targets if event.verb in ("kill", "power_off") else ()
            began_us = min([row.at_us, *(self._stopped_us.get(name, row.at_us) for name in dying)])
            self._late_us = max(self._late_us, began_us - self._by_file.pop(event.fault))

    @on(trace.NodeStarted)
    def _started(self, row: TraceRow, event: trace.NodeStarted) -> None:
        self._lives[event.node] = self._lives.get(event.node, 0) + 1

    @on(trace.BrokerFenced)
    def _fenced(self, row: TraceRow, event: trace.BrokerFenced) -> None:
        if self.first_fenced_late_us is None:
            self.first_fenced_late_us = self._late_us

    @on(trace.IsrCommitted)
    def _isr_committed(self, row: TraceRow, event: trace.IsrCommitted) -> None:
        leader = event.proposed_by or ""
        if len(event.isr) >= len(event.previous_isr) or leader not in self._scenario.cluster.brokers:
            return
        if leader not in self.checks and self._lives.get(leader, 1) == 1:
            since_us = max(0, row.at_us - self._late_us - ON_ITS_WAY_US)
            self.checks[leader] = since_us % _isr_checks_us(self._scenario, leader)


def write_phases(run_dir: Path, consoles: Path, began_us: int, scenario: Scenario) -> None:
    """Into the run's folder. consoles: the folder of what each process has said

    began_us: 0 of the run, in microseconds since 1970
    """
    cluster = scenario.cluster
    said = {name: _Said(consoles / f"{name}.log") for name in (*cluster.brokers, *cluster.controllers)}
    checks: dict[str, int] = {}
    heartbeats: dict[str, int] = {}
    for name in cluster.brokers:
        scheduled, unfenced = said[name].first_us(_SCHEDULED), said[name].first_us(_UNFENCED)
        if scheduled is not None:
            checks[name] = (scheduled - began_us) % _isr_checks_us(scenario, name)
        if unfenced is not None:
            heartbeats[name] = (unfenced - began_us) % _heartbeats_us(scenario, name)
    for name in cluster.controllers:
        for broker, heard_us in _last_heartbeats(said, name, scenario).items():
            heartbeats[broker] = (heard_us - began_us) % _heartbeats_us(scenario, broker)
        checked, activated = said[name].first_us(_CHECKED), said[name].first_us(_ACTIVATED)
        if activated is not None:
            checks[name] = ((checked or activated) - began_us) % _session_checks_us(scenario)
    (run_dir / PHASES).write_text(json.dumps({"checks": checks, "heartbeats": heartbeats}), encoding="utf-8")


class _Said:
    """What the patterns above find in a console, read once; nothing where there is none."""

    def __init__(self, console: Path) -> None:
        self._found: dict[re.Pattern[str], list[re.Match[str]]] = {
            pattern: [] for pattern in (_SCHEDULED, _UNFENCED, _CHECKED, _ENDED, _ACTIVATED)
        }
        if console.is_file():
            with console.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    self._read(line)

    def _read(self, line: str) -> None:
        for pattern, found in self._found.items():
            if (said := pattern.match(line)) is not None:
                found.append(said)

    def all(self, pattern: re.Pattern[str]) -> list[re.Match[str]]:
        return self._found[pattern]

    def first_us(self, pattern: re.Pattern[str]) -> int | None:
        """When it was said first, in microseconds since 1970."""
        return next(map(_since_1970_us, self._found[pattern]), None)


def _last_heartbeats(said: Mapping[str, _Said], controller: str, scenario: Scenario) -> dict[str, int]:
    """Of each broker whose first life a session has ended: each heartbeat leaves a little later than the one before.

    It leaves one interval after the answer to that, which takes its time (BrokerLifecycleManager).
    """
    names = {number: name for name, number in scenario.cluster.ids.items()}
    session_us = scenario.cluster.controller_config().broker_session_timeout_ms * 1000
    heard: dict[str, int] = {}
    for ended in said[controller].all(_ENDED):
        broker = names[int(ended[3])]
        at_us = _since_1970_us(ended) - session_us
        lives = [stamp for stamp in said[broker].all(_UNFENCED) if _since_1970_us(stamp) <= at_us]
        if broker not in heard and len(lives) == 1:
            heard[broker] = at_us
    return heard


def _since_1970_us(stamp: re.Match[str]) -> int:
    if stamp[1]:
        return int(stamp[1]) * 1000
    moment = datetime.strptime(stamp[2], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000)


def _isr_checks_us(scenario: Scenario, broker: str) -> int:
    return scenario.cluster.broker_config(broker).replica_lag_time_max_ms * 1000 // 2


def _heartbeats_us(scenario: Scenario, broker: str) -> int:
    return scenario.cluster.broker_config(broker).broker_heartbeat_interval_ms * 1000


def _session_checks_us(scenario: Scenario) -> int:
    return scenario.cluster.controller_config().broker_session_timeout_ms * 1000 // CHECKS_PER_SESSION


def in_phase(scenario: Scenario, phases: MeasuredPhases) -> Scenario:
    """The same scenario, whose processes' first lives do it when these did; those of unknown phase as the file says."""
    cluster = scenario.cluster
    return replace(
        scenario,
        cluster=replace(
            cluster,
            phases=_over(cluster.phases, phases.checks),
            heartbeats=_over(cluster.heartbeats, phases.heartbeats),
        ),
    )


def _over(written: Phases, measured: dict[str, int]) -> Phases:
    return {**(written if isinstance(written, dict) else {}), **measured} if measured else written


# -------------------------------------------------------------------------------------------------------------- playing
#
# Plays a scenario in both worlds, again and again, below one folder; what is there already is not played twice.
#
# A repetition is the folder of its number, with the runs of both: `1/theirs/0001-NAME` first, then its simulated twin
# in `1/ours`, whose brokers look for lagging followers when those of the other world did.

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
