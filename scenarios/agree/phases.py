"""Measure when a run's processes do periodic work (the phase), so that a simulated run can do it at the same times.

Kafka's ReplicaManager checks the ISR every half of `replica.lag.time.max.ms`, starting when the broker starts: a JVM
that took 4 s to start checks at 4, 19 and 34 s, a simulated broker at 15, 30 and 45 s. The same is true of a broker's
heartbeats, which start with its unfencing, and since 4.0 of the controller's checks for expired sessions. The order of
two events can depend on these phases, and no rule decides it. The simulated run gets nothing else from the
other run.

Source: ReplicaManager.startup, scheduler.schedule("isr-expiration", ..., replicaLagTimeMaxMs / 2);
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
"""File in a run's folder with the phases that `write_phases` read from its processes' log output."""

ON_ITS_WAY_US = 20_000
"""Approximate time from a broker's check of the ISR until the trace shows the commit of the smaller ISR."""

_STAMP = r"^(?:(\d{13})|\[([-\d]{10} [:\d]{8},\d{3})\]) "
"""The time stamp of a log line. Log4j 1 writes it in UTC."""
_SCHEDULED = re.compile(_STAMP + r".*LogDirFailureHandler.*: Starting")
"""ReplicaManager.startup starts the thread that logs this right after scheduling the check of the ISR."""
_UNFENCED = re.compile(_STAMP + r".*The broker has been unfenced\. Transitioning from RECOVERY to RUNNING")
"""BrokerLifecycleManager logs this one interval before it sends the next heartbeat."""
_CHECKED = re.compile(_STAMP + r".*Fencing broker \d+ at epoch \d+ because its session has timed out")
_ENDED = re.compile(_STAMP + r".*Fencing broker (\d+) because its session has timed out")
"""Up to 3.9, the controller logs this when a session ends, one session timeout after the last heartbeat."""
_ACTIVATED = re.compile(_STAMP + r".*Activated periodic tasks: .*maybeFenceStaleBroker")
"""PeriodicTaskControlManager logs this one interval before the first check. Each later check is about 1 ms late."""


class MeasuredPhases(NamedTuple):
    """The measured phases of a run's processes, in microseconds by node.

    Attributes:
        checks: phases of the periodic checks of brokers and controllers.
        heartbeats: phases of the heartbeats of brokers.
    """

    checks: dict[str, int]
    heartbeats: dict[str, int]


class ShownPhases(NamedTuple):
    """The phases that can be derived from a trace, in microseconds.

    Attributes:
        checks: phase of each broker that proposed a smaller ISR before its first restart.
        late_us: how late the steps of the timeline were when a broker was first fenced; 0 if none was fenced. Phases of
            heartbeats and session checks matter at that time.
    """

    checks: dict[str, int]
    late_us: int


def phases_of_run(run_dir: Path, scenario: Scenario) -> MeasuredPhases:
    """Return the phases from a run's trace, completed by the phases from its processes' logs.

    Raises:
        TraceError, OSError: the trace cannot be read.
    """
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
    """Return the phases that can be derived from the rows of a trace, which are in order of time."""
    shown = _Shown(scenario)
    for row in rows:
        shown(row)
    return ShownPhases(shown.checks, shown.first_fenced_late_us or 0)


class _Shown(Listener):
    """A trace listener that derives phases for `phases_shown`.

    `_late_us` is the largest delay of a step so far. A step that waits for a process to start delays all later steps.
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
            # A real process takes 0.1 s to die. The trace has the step only when all its processes have died.
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
    """Write the phases found in the processes' logs to the file PHASES in the run's folder.

    Args:
        consoles: folder with the log output of each process.
        began_us: start of the run, in microseconds since 1970.
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
    """The lines of a process's log that match one of the patterns above; none if there is no log."""

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
        """Return the time of the first line that matches, in microseconds since 1970; None if no line matches."""
        return next(map(_since_1970_us, self._found[pattern]), None)


def _last_heartbeats(said: Mapping[str, _Said], controller: str, scenario: Scenario) -> dict[str, int]:
    """Return the time of the last heartbeat, since 1970, of each broker whose first session timed out.

    The last heartbeat is used because the phase drifts: BrokerLifecycleManager sends each heartbeat one interval after
    the answer to the previous heartbeat.
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
    return scenario.cluster.broker_config(broker, scenario.rules.release).replica_lag_time_max_ms * 1000 // 2


def _heartbeats_us(scenario: Scenario, broker: str) -> int:
    return scenario.cluster.broker_config(broker, scenario.rules.release).broker_heartbeat_interval_ms * 1000


def _session_checks_us(scenario: Scenario) -> int:
    return scenario.cluster.controller_config().broker_session_timeout_ms * 1000 // CHECKS_PER_SESSION


def in_phase(scenario: Scenario, phases: MeasuredPhases) -> Scenario:
    """Return the scenario with the measured phases. Phases that were not measured stay unchanged."""
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


# ------------------------------------------------------------------------------------------------------------- playing
#
# Play a scenario several times on both sides, below one folder. Existing runs are not played again.
#
# Each repetition has a folder named by its number, with both runs: first `1/theirs/0001-NAME`, then in `1/ours` the
# simulated run with the phases of the first run.

Play = Callable[[Scenario, Path], Path]
"""A function that plays a scenario, given a folder for its runs, and returns the folder of the new run."""


class Repetition(NamedTuple):
    """The folders of the two runs of a repetition."""

    ours: Path
    theirs: Path


def why_no_two_are_alike(scenario: Scenario) -> str:
    """Return the reason why no two runs of a scenario are equal, such as random delays; empty if they can be equal."""
    delays = [scenario.network.latency, *(link.latency for link in scenario.network.links)]
    if any(delay is not None and delay.kind != "constant" for delay in delays):
        return "the delays of its links are random, so every run is different"
    if any(work.arrival is not None and work.arrival.poisson for work in scenario.workloads.values()):
        return "its records are sent at random times (`poisson`), so every run is different"
    return ""


def repetitions(
    scenario: Scenario, folder: Path, times: int, *, play_ours: Play, play_theirs: Play
) -> Iterator[Repetition]:
    """Yield the folders of all repetitions, and play the missing runs. Errors of the play functions pass through."""
    for number in range(1, times + 1):
        repetition_dir = folder / str(number)
        theirs = _kept(scenario, repetition_dir / "theirs") or play_theirs(scenario, repetition_dir / "theirs")
        twin = in_phase(scenario, phases_of_run(theirs, scenario))
        yield Repetition(_kept(twin, repetition_dir / "ours") or play_ours(twin, repetition_dir / "ours"), theirs)


def facts_in(run_dir: Path) -> RunFacts:
    """Return the facts of the run in a folder.

    Raises:
        TraceError, OSError: the trace cannot be read.
    """
    return facts_of(read_rows(run_dir / "trace"), epochs_in(run_dir / "logs"))


def _kept(scenario: Scenario, runs_dir: Path) -> Path | None:
    """Return the folder of the newest finished run of exactly this scenario; None if there is none."""
    digest = lock_sha256(lock.dump(scenario))
    for run_dir in reversed(list_runs(runs_dir)):
        try:
            if read_summary(run_dir).get("lock_sha256") == digest:
                next(iter(read_rows(run_dir / "trace")))
                return run_dir
        except (RunNotFound, TraceError, OSError, StopIteration):
            continue
    return None
