"""Runs one scenario, simulated or live, and judges the run.

All files are written to a temporary folder, which gets its final name only when the run is complete.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import trio

from cluster.network.virtual_time import VirtualTime
from replica.trace.events import InvariantBroken, RunFinished, RunStarted, TraceLog, TraceRow
from scenarios.check.expectations import Expectation, Expectations, RunSight
from scenarios.check.invariants.checker import InvariantChecker
from scenarios.check.summary import Counters, build_summary
from scenarios.check.verdict import Verdict, judge
from scenarios.language.spec import Scenario
from scenarios.language.values.reading import TIME_MAX_US
from scenarios.language.write import lock
from scenarios.metrics.dashboard import Dashboard
from scenarios.observe.availability import GoneTopics
from scenarios.observe.columns.names import write_json
from scenarios.observe.groups import ShareGroups, SkippedInputs, UnreadTimes
from scenarios.observe.ledger import RecordLedger
from scenarios.observe.mirror import LogMirror
from scenarios.observe.story import Story
from scenarios.observe.view import ClusterView
from scenarios.observe.wait_times import WaitTimes
from scenarios.process.failures import first_leaf
from scenarios.process.work_folders import LOCK_FILE, UNJUDGED, name_folder, next_run_dir, work_folder
from scenarios.run.cluster_under_test import ClusterUnderTest, NotPossibleNow
from scenarios.run.controller_calls import FirstTopics
from scenarios.run.faults import Faults
from scenarios.run.final_state import FindPlaces, Naming, state_final_logs
from scenarios.run.probe import CoreProbe, PartitionRounds
from scenarios.run.runs import RunInterrupted, lock_sha256
from scenarios.run.timeline import EndOffsetAnswers, Timeline
from scenarios.run.workload import Workloads
from scenarios.run.worlds import NewWorld, simulated

if TYPE_CHECKING:
    from scenarios.observe.trace_writer import TraceWriter
    from scenarios.run.kafka_limits import RealKafka

TOPICS_MUST_EXIST_BY_US = 30_000_000
EVENTS_PER_PROGRESS = 2000
EVENTS_PER_PROBE, LIVE_EVENTS_PER_PROBE = 64, 1024
"""Number of events between two probes of the nodes' state, larger in live runs because nodes wait during a probe.

The invariants on the trace are checked after every event.
"""
Listener = Callable[[TraceRow], None]
Companion = Callable[["ScenarioRun"], Awaitable[None]]
Watchers = Callable[[ClusterView], Sequence[Listener]]
OnInterrupt = Callable[["ScenarioRun", Path], None]
"""A function that is called with an interrupted run and its temporary folder."""
Progress = Callable[[int, int, int], None]
"""A function that is called with the time of the run, its duration (both in microseconds), and the events so far."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished run.

    Attributes:
        summary: content of summary.json.
        broken: all broken invariants, including those that the verdict shows as another anomaly.
        run_dir: folder of the run, None if it was not kept.
        rows: the trace if it was requested, otherwise empty.
    """

    scenario: Scenario
    summary: dict[str, Any]
    verdict: Verdict
    broken: tuple[InvariantBroken, ...]
    expectations: list[Expectation]
    ledger: RecordLedger
    story: Story
    run_dir: Path | None
    rows: list[TraceRow]

    @property
    def held(self) -> bool:
        return all(result.held for result in self.expectations)

    @property
    def broke_an_invariant(self) -> bool:
        """Return True if an invariant that the era's rules promise is broken. This means a bug in Highwater."""
        return self.verdict.our_bug


def no_watchers(view: ClusterView) -> Sequence[Listener]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of a run.

    Attributes:
        keep_rows: True to keep the trace in memory, in RunResult.rows.
        companions: tasks that run beside the cluster and are cancelled when the run ends.
        watchers: creates further listeners of the trace, which get each event after the cluster's view.
        traced: True to write the events to files and to keep the story.
        may_rest_from_us: time after which the run ends early once the cluster is idle; None for never.
        real: release of Apache Kafka if its JVMs are the nodes, otherwise None.
    """

    keep_rows: bool = False
    progress: Progress | None = None
    watchers: Watchers = no_watchers
    companions: Sequence[Companion] = ()
    traced: bool = True
    may_rest_from_us: int | None = None
    real: RealKafka | None = None


PLAIN = RunOptions()


class Observers:
    """The listeners that judge and describe a run from its events, either during the run or from its trace.

    Args:
        captured: nodes that steps have selected, by the steps' labels.
    """

    def __init__(self, scenario: Scenario, captured: Mapping[str, tuple[str, ...]]) -> None:
        self.view = ClusterView.of(scenario)
        self.mirror = LogMirror()
        self.ledger = RecordLedger(self.mirror.deleted, self.mirror.sent.names)
        self.story = Story(self.view)
        self.unread = UnreadTimes(self.view)
        self.shares = ShareGroups()
        self.waits = WaitTimes(self.view, scenario)
        self.dashboard = Dashboard(self.view)
        self.sight = RunSight(self.view, self.ledger, self.mirror, captured)
        self.expectations = Expectations(scenario.expect, self.sight)

    def listeners(self, *others: Listener, invariants: InvariantChecker | None = None) -> list[Listener]:
        """Return the listeners in the order of calls. `others` come after the listeners that keep state for them."""
        known = (self.view, self.ledger, self.mirror)
        checkers = () if invariants is None else (invariants,)
        gone = (self.mirror, self.ledger, self.story, *checkers, self.expectations, self.waits, self.dashboard)
        results = (self.expectations, self.unread, self.shares, self.waits, self.dashboard)
        return [*known, *checkers, *results, *others, GoneTopics(self.view, self.mirror, gone)]


class ScenarioRun(Observers):
    """One run of a scenario, with its cluster, timeline, workloads, trace and checks."""

    def __init__(self, scenario: Scenario, world: NewWorld, work_dir: Path, options: RunOptions = PLAIN) -> None:
        real = options.real
        self.captured: dict[str, tuple[str, ...]] = {}
        super().__init__(scenario, self.captured)
        self.scenario = scenario
        self.rows: list[TraceRow] = []
        self.answers = EndOffsetAnswers()
        self._writer = (
            _new_writer(work_dir / "trace", None if real is None else self._observed_by) if options.traced else None
        )
        self.invariants = InvariantChecker(
            self.view,
            self.mirror,
            scenario.rules,
            producer_expiration_us=scenario.cluster.producer_expiration_us,
            fetch_wait_us=scenario.cluster.fetch_wait_us,
        )
        written: list[Listener] = [] if self._writer is None else [self.story, self._writer]
        self._real = real
        # On real Kafka, events are derived from samples, which are not enough to check invariants.
        checked = self.invariants if real is None else None
        self._skipped = SkippedInputs()
        listeners = self.listeners(
            *written, self.answers, self._skipped, *options.watchers(self.view), invariants=checked
        )
        if options.keep_rows:
            listeners.append(self.rows.append)
        self.trace = TraceLog(listeners)
        log_root = work_dir / "logs"
        fabric = world(scenario, self.trace, log_root)
        self.cluster = ClusterUnderTest(scenario, self.trace, self.view, log_root, fabric)
        self._probe = CoreProbe(self.cluster)
        if real is None:
            self.invariants.cores = self._probe
        self.workloads = Workloads(self.cluster)
        self.faults = Faults(self.cluster, self.captured)
        slack_us = 0 if real is None else real.slack_us
        self.timeline = Timeline(self.cluster, self.sight, self.faults, self.workloads, self.answers, slack_us)
        self.is_ready = trio.Event()
        """Set when all brokers are ready and the scenario's topics exist."""
        self.is_over = False
        """True when the run has ended and is being judged."""
        self._is_ready_now = False
        """True from the moment of readiness until the next `work` sets `is_ready`.

        `is_ready` is set one step later, because the last unfenced broker begins to listen only then.
        """
        self.find_places: FindPlaces = self.mirror.sent.places
        self._companions = options.companions
        self._rounds = PartitionRounds(self.view, self.invariants.touched)
        self._next_probe = 0
        self._events_per_probe = LIVE_EVENTS_PER_PROBE if fabric.is_live else EVENTS_PER_PROBE
        # `between` reads these after every event, so they are attributes of this object.
        self._time = self.cluster.time
        self._exits = self.cluster.fabric.exits
        self._violations = self.invariants.violations
        self._stops = self.workloads.pending_stops
        self._armed, self._due, self._answered = self.timeline.armed, self.timeline.due, self.answers.answered
        self._violations_stated = 0
        self._progress = options.progress
        self._next_progress = 0
        self._first_topics = FirstTopics(self.cluster)
        self._topics_exist = False
        self._may_rest_from_us = options.may_rest_from_us
        self._is_interrupted = False
        self.cut_at_us: int | None = None
        """Time at which an interruption ended the run, None if the run was not interrupted."""

    def _observed_by(self) -> str | None:
        return self.trace.observed_by

    @property
    def writer(self) -> TraceWriter:
        assert self._writer is not None, "this run is not traced"
        return self._writer

    def begin(self) -> None:
        scenario = self.scenario
        profile = scenario.profile if self._real is None else str(self._real)
        self.trace.emit(
            RunStarted(
                scenario=scenario.id,
                variant=scenario.variant,
                seed=scenario.seed,
                profile=profile,
                title=scenario.title,
            )
        )
        self.trace.cause = None
        self.workloads.begin()
        self.timeline.begin()

    def between(self) -> bool:
        """Perform the checks that follow each event. Return True if `work` must be called before the next event."""
        if self._exits:
            self.cluster.state_exits()
            if self.cluster.has_died_out:
                self._stop()
        if not self._topics_exist:
            self._look_for_topics()
        if self._time.events >= self._next_probe:
            self._look_at_cores()
        if len(self._violations) != self._violations_stated:
            self._state_violations()
        if self._progress is not None:
            self._tell_progress(self._progress)
        if self._is_interrupted and self.cut_at_us is None:
            self._cut_short()
        if self._armed:
            self.timeline.look_at_conditions()
        return bool(self._due or self._answered or self._stops) or self._is_ready_now

    def _look_for_topics(self) -> None:
        self._topics_exist = self._first_topics.are_there()
        if self._topics_exist:
            self._is_ready_now = True
        elif self._time.now_us > TOPICS_MUST_EXIST_BY_US and not self.cluster.has_died_out:
            raise NotPossibleNow("the brokers did not come up within 30 s, so the topics could not be created")

    def _look_at_cores(self) -> None:
        self._next_probe = self._time.events + self._events_per_probe
        if self._real is None:
            self.invariants.probe(self._probe.look(self._rounds.take()))
        if self._may_rest_from_us is not None and self._time.now_us >= self._may_rest_from_us:
            self._end_at_rest()

    def _tell_progress(self, progress: Progress) -> None:
        if self._time.events >= self._next_progress:
            self._next_progress = self._time.events + EVENTS_PER_PROGRESS
            progress(self._time.now_us, self.scenario.duration_us, self.trace.next_seq)

    async def work(self) -> None:
        if self._is_ready_now:
            self._is_ready_now = False
            self.is_ready.set()
        await self.workloads.perform_due()
        await self.timeline.perform_due()

    def finish(self) -> None:
        self.is_over = True
        self.timeline.finish()
        self.trace.cause = None
        if self._real is not None:
            from cluster.kafka.observe.observed import LOG_DIRECTORY

            self.trace.observed_by = LOG_DIRECTORY
        state_final_logs(self.cluster, Naming(self.mirror.sent, self.find_places))
        self.trace.observed_by = None
        if self.cluster.scenario.transforms:
            from scenarios.run.promised_outputs import state_promised_outputs

            state_promised_outputs(self.cluster, self.ledger, self._skipped)
        if self._real is None:
            self.invariants.probe(self._probe.look())
            self.invariants.end()
            self._state_violations()
        end_us = min(self.scenario.duration_us, self.cluster.time.now_us)
        self.unread.settle(end_us)
        self.waits.settle(end_us)
        self.trace.emit(RunFinished(lasted_us=end_us))

    def _state_violations(self) -> None:
        self._violations_stated = len(self._violations)
        for event in self.invariants.take_new():
            self.trace.emit(event)

    def execute(self) -> None:
        try:
            trio.run(self._execute)
        except BaseExceptionGroup as group:
            raise first_leaf(group) from group
        if self._writer is not None:
            self._writer.close()
        self.ledger.close()

    async def _execute(self) -> None:
        async with trio.open_nursery() as nursery:
            for companion in self._companions:
                nursery.start_soon(companion, self)
            await self.cluster.run(
                until_us=self.scenario.duration_us,
                begin=self.begin,
                between=self.between,
                work=self.work,
                finish=self.finish,
            )
            nursery.cancel_scope.cancel()

    def _end_at_rest(self) -> None:
        assert isinstance(self._time, VirtualTime)
        if self.invariants.at_rest(self._time.now_us):
            self._time.end()
            self.ended_early()

    def _stop(self) -> None:
        """End a live run before its duration is over."""
        from cluster.live.time import LiveTime

        assert isinstance(self._time, LiveTime)
        self._time.stop()
        self.ended_early()

    def interrupt(self) -> None:
        """End the run before the next event. The run up to then is judged and kept."""
        self._is_interrupted = True

    def _cut_short(self) -> None:
        self.cut_at_us = self.cluster.time.now_us
        if isinstance(self._time, VirtualTime):
            self._time.end()
            self.ended_early()
        else:
            self._stop()

    def ended_early(self) -> None:
        """Set the scenario's duration to the current time, at which the run has ended early."""
        self.scenario = replace(self.scenario, duration_us=self.cluster.time.now_us)


def run_scenario(
    scenario: Scenario,
    *,
    runs_dir: Path | None,
    world: NewWorld = simulated,
    keep_logs: bool = True,
    keep_rows: bool = False,
    progress: Progress | None = None,
    watchers: Watchers = no_watchers,
    companions: Sequence[Companion] = (),
    traced: bool = True,
    may_rest_from_us: int | None = None,
    real: RealKafka | None = None,
    on_interrupt: OnInterrupt | None = None,
) -> RunResult:
    """Run a scenario and judge it.

    Args:
        runs_dir: directory in which the run gets a new folder; None to keep no files.
        world: creates the hosts, network and time of a mode (simulated, live, real Kafka).
        keep_logs: False to delete the brokers' logs from a run that is kept.
        watchers, traced, may_rest_from_us, real: see RunOptions. With `runs_dir`, `traced` must be True. Without a
            trace the digest is empty.
        on_interrupt: called at KeyboardInterrupt, while the temporary folder still exists.

    Raises:
        OSError: the folder cannot be written. No folder with a final name remains.
        RunInterrupted: a signal has ended the run early. The run up to then is kept.
    """
    assert traced or runs_dir is None
    started = time.perf_counter()
    with ExitStack() as stack:
        work_dir = stack.enter_context(work_folder(runs_dir))
        options = RunOptions(
            keep_rows=keep_rows,
            progress=progress,
            watchers=watchers,
            companions=companions,
            traced=traced,
            may_rest_from_us=may_rest_from_us,
            real=real,
        )
        run = ScenarioRun(scenario, world, work_dir, options)
        if on_interrupt is not None:
            stack.enter_context(_when_interrupted(on_interrupt, run, work_dir))
            shown = replace(scenario, duration_us=min(scenario.duration_us, TIME_MAX_US))  # A scenario may have no end.
            (work_dir / LOCK_FILE).write_text(lock.dump(shown), encoding="utf-8")
        if runs_dir is not None:
            stack.enter_context(_when_judging_fails(run, work_dir, runs_dir))
        is_interruptible = runs_dir is not None and on_interrupt is None and real is None
        signals = stack.enter_context(_ending_at_a_signal(run)) if is_interruptible else []
        run.execute()
        asked_us, scenario = scenario.duration_us, run.scenario
        broken = tuple(violation.event for violation in run.invariants.violations)
        verdict = judge(run.ledger, broken)
        not_judged = () if real is None else real.not_judged
        results = [*run.timeline.checks, *run.expectations.results(verdict, scenario.duration_us), *not_judged]
        digests = run.writer.digests() if traced else ("", "")
        run_dir = None if runs_dir is None else stack.enter_context(next_run_dir(runs_dir, scenario.run_name))
        summary = build_summary(
            scenario,
            run.ledger,
            run.unread.found,
            run.waits.waits,
            verdict,
            results,
            Counters(
                events=run.trace.next_seq,
                steps=run.cluster.time.events,
                bytes={name: machine.host.bytes for name, machine in run.cluster.machines.items()},
                digests=digests,
                run_dir=run_dir,
                wall_s=time.perf_counter() - started,
                live=run.cluster.fabric.is_live,
                real_kafka=None if real is None else real.version,
            ),
        )
        summary |= run.shares.as_json()
        summary["dashboard"] = run.dashboard.outcome(scenario.duration_us, run.ledger, verdict.records["lost"])
        if run_dir is not None:
            if run.cut_at_us is not None:
                asked = replace(scenario, duration_us=asked_us)  # The lock file gets the requested duration.
                summary["cut_short"] = {"at_s": run.cut_at_us / 1_000_000, "of_s": asked_us / 1_000_000}
                keep_run(asked, work_dir, run_dir, summary, keep_logs=keep_logs)
            else:
                keep_run(scenario, work_dir, run_dir, summary, keep_logs=keep_logs)
    result = RunResult(scenario, summary, verdict, broken, results, run.ledger, run.story, run_dir, run.rows)
    if signals:
        raise RunInterrupted(result)
    return result


def _new_writer(trace_dir: Path, observed_by: Callable[[], str | None] | None) -> TraceWriter:
    # This import loads Arrow and NumPy, which runs without a trace do not need.
    from scenarios.observe.trace_writer import TraceWriter

    return TraceWriter(trace_dir, observed_by=observed_by)


@contextmanager
def _ending_at_a_signal(run: ScenarioRun) -> Iterator[list[int]]:
    """Interrupt the run at the first SIGINT, but let the second one end the command. Yield the list of signals so far.

    SIGTERM calls the same handler. Outside the main thread, or if SIGINT has another handler, signals are not handled.
    """
    came: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield came
        return

    def end(number: int, frame: FrameType | None) -> None:
        came.append(number)
        run.interrupt()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, end)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _when_interrupted(on_interrupt: OnInterrupt, run: ScenarioRun, work_dir: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        on_interrupt(run, work_dir)
        raise


@contextmanager
def _when_judging_fails(run: ScenarioRun, work_dir: Path, runs_dir: Path) -> Iterator[None]:
    """Keep the run without a verdict if judging it fails, since its complete trace can be judged later."""
    try:
        yield
    except (OSError, NotPossibleNow):
        raise
    except Exception as error:
        if run.is_over and work_dir.exists():
            kept = keep_unjudged(run, work_dir, runs_dir)
            error.add_note(f"The run is kept without a verdict; `highwater judge {kept}` judges it again.")
        raise


def keep_run(scenario: Scenario, work_dir: Path, run_dir: Path, summary: dict[str, Any], *, keep_logs: bool) -> None:
    """Write a run's summary and lock file, add `lock_sha256` to the summary, and give the folder its final name."""
    lock_text = lock.dump(scenario)
    summary["lock_sha256"] = lock_sha256(lock_text)
    with (work_dir / "summary.json").open("w", encoding="utf-8") as file:
        write_json(summary, file)
    (work_dir / LOCK_FILE).write_text(lock_text, encoding="utf-8")
    if not keep_logs:
        shutil.rmtree(work_dir / "logs", ignore_errors=True)
    name_folder(work_dir, run_dir)
    name_last(run_dir)


def name_last(run_dir: Path) -> None:
    """Write the name of the newest run to the file `last` in its parent folder."""
    last = run_dir.parent / "last"
    temporary = last.with_name(f".last-{os.getpid()}.tmp")
    temporary.write_text(run_dir.name + "\n", encoding="utf-8")
    temporary.replace(last)


def keep_unjudged(run: ScenarioRun, work_dir: Path, runs_dir: Path) -> Path:
    """Keep the files of a run that has no verdict, under a name that shows this. Return the folder. Raises OSError."""
    run.writer.leave()
    (work_dir / "summary.json").unlink(missing_ok=True)
    (work_dir / LOCK_FILE).write_text(lock.dump(run.scenario), encoding="utf-8")
    with next_run_dir(runs_dir, f"{run.scenario.run_name}{UNJUDGED}") as run_dir:
        name_folder(work_dir, run_dir)
    return run_dir
