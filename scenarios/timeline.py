"""Plays the timeline of a scenario: steps at their time, steps that wait for a state, repetitions and undoing."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace

from replica.trace import CheckMade, EndOffsetSeen, FaultBegan, FaultEnded, TraceRow
from scenarios.expectations import Expectation, RunSight, check_now, end_offset_seen
from scenarios.fault_words import Done
from scenarios.faults import Faults
from scenarios.selectors import SelectorError
from scenarios.simulation import Simulation, SimulationError
from scenarios.state_checks import state_failures, state_holds
from scenarios.steps import At, Check, EndOffsetTest, Produce, Step, When
from scenarios.workload import Workloads

Work = Callable[[], Awaitable[None]]


class EndOffsetAnswers:
    """Listener that collects the answers to `check: end_offset` steps; each is the first one after it was asked."""

    def __init__(self) -> None:
        self.waiting: list[tuple[EndOffsetTest, str]] = []
        self.answered: list[tuple[EndOffsetTest, str, EndOffsetSeen]] = []

    def wants(self, kind: type) -> bool:
        return kind is EndOffsetSeen

    def __call__(self, row: TraceRow) -> None:
        event = row.event
        assert isinstance(event, EndOffsetSeen)
        for waiting in list(self.waiting):
            test, name = waiting
            if (test.client, *test.partition) == (event.client, event.topic, event.partition):
                self.waiting.remove(waiting)
                self.answered.append((test, name, event))


class Timeline:
    """Schedules every step in virtual time; `is_due` and `perform_due` are called between two events.

    `checks` collects the outcome of `check` steps and of `when` steps that ran out of time.
    """

    def __init__(
        self,
        simulation: Simulation,
        sight: RunSight,
        faults: Faults,
        workloads: Workloads,
        answers: EndOffsetAnswers,
    ) -> None:
        self.checks: list[Expectation] = []
        self._sim = simulation
        self._sight = sight
        self._faults = faults
        self._workloads = workloads
        self._captured: dict[str, tuple[str, ...]] = faults.captured
        self._due: deque[Work] = deque()
        self._armed: dict[int, tuple[Step, When]] = {}
        self._waiting_for: dict[int, Step] = {}
        self._seen_version = -1
        self._answers = answers
        self._in_force: dict[str, list[tuple[Step, Done]]] = {}

    def begin(self) -> None:
        """Put every `at` step into the queue; arm the first step if it is a `when`."""
        steps = self._sim.scenario.timeline
        for previous, step in zip((None, *steps), steps, strict=False):
            match step.trigger:
                case At():
                    self._at(step.trigger.at_us, step)
                case When() if previous is None:
                    self._arm(step)
                case When():
                    self._waiting_for[previous.index] = step

    def _at(self, at_us: int, step: Step, turn: int = 1) -> None:
        self._sim.time.at(max(at_us, self._sim.time.now_us), lambda: self._due.append(lambda: self._fire(step, turn)))

    def _arm(self, step: Step) -> None:
        assert isinstance(step.trigger, When)
        self._armed[step.index] = (step, step.trigger)
        self._seen_version = -1
        if step.trigger.timeout_us is not None:
            deadline_us = self._sim.time.now_us + step.trigger.timeout_us
            self._sim.time.at(deadline_us, lambda: self._due.append(lambda: self._time_out(step)))

    def is_due(self) -> bool:
        """Look at the conditions of waiting steps if anything has changed; whether there is a step to perform."""
        if self._armed and self._sight.view.version != self._seen_version:
            self._seen_version = self._sight.view.version
            self._look_at_conditions()
        return bool(self._due or self._answers.answered)

    async def perform_due(self) -> None:
        while self._answers.answered:
            test, name, event = self._answers.answered.pop(0)
            self._note(end_offset_seen(test, event, name))
        while self._due:
            await self._due.popleft()()

    def _look_at_conditions(self) -> None:
        for index, (step, when) in list(self._armed.items()):
            if state_holds(when.state, self._sight.view, self._captured):
                del self._armed[index]
                self._due.append(lambda step=step: self._fire(step, 1))  # type: ignore[misc]

    async def _time_out(self, step: Step) -> None:
        if self._armed.pop(step.index, None) is not None:
            self._never_came(step)

    def finish(self) -> None:
        """The run is over: whatever still waits has never come true."""
        for step, _ in list(self._armed.values()):
            self._never_came(step)
        for step in list(self._waiting_for.values()):
            self._note(Expectation(f"step {step.name}", False, "never armed: the step before it has not fired"))
        for test, name in self._answers.waiting:
            self._note(Expectation(name, False, f"{test.client} got no answer about the end of {test.partition}"))

    def _never_came(self, step: Step) -> None:
        assert isinstance(step.trigger, When)
        failures = "; ".join(state_failures(step.trigger.state, self._sight.view, self._captured))
        self._note(Expectation(f"when {step.name}", False, f"never came true: {failures}"))

    # -------------------------------------------------------------------------------------------------------- firing

    async def _fire(self, step: Step, turn: int) -> None:
        payload = step.payload
        match payload:
            case Check():
                self._check(step, payload)
            case Produce():
                self._workloads.produce(payload)
            case _:
                await self._do(step)
        if step.every_us is not None and turn < step.times:
            self._at(self._sim.time.now_us + step.every_us, step, turn + 1)
        if turn == 1:
            follower = self._waiting_for.pop(step.index, None)
            if follower is not None:
                self._arm(follower)

    async def _do(self, step: Step) -> None:
        cause = self._sim.trace.cause
        try:
            done = await self._faults.perform(step.name, step.payload)
            await self._sim.fabric.settle()
        except (SimulationError, SelectorError) as error:
            self._note(Expectation(f"step {step.name}", False, str(error)), step)
            return
        if step.label is not None:
            self._captured[step.label] = done.targets
        self._sim.trace.emit(
            FaultBegan(fault=step.name, verb=step.verb, targets=done.targets, reason=done.sentence),
            *(() if cause is None else (cause,)),
        )
        for label in done.ended:
            self._end(label, done.sentence)
        if done.undo is not None:
            self._in_force.setdefault(step.name, []).append((step, done))
            if step.for_us is not None:
                due_us = self._sim.time.now_us + step.for_us
                self._sim.time.at(due_us, lambda: self._due.append(lambda: self._undo(step, done)))

    async def _undo(self, step: Step, done: Done) -> None:
        """The time of a fault is over, if nothing has ended it before."""
        in_force = self._in_force.get(step.name, [])
        if (step, done) in in_force:
            in_force.remove((step, done))
            assert done.undo is not None
            sentence = await done.undo()
            await self._sim.fabric.settle()
            self._state_end(step, done, sentence)

    def _end(self, label: str, sentence: str) -> None:
        for step, done in self._in_force.pop(label, ()):
            self._state_end(step, done, sentence)

    def _state_end(self, step: Step, done: Done, sentence: str) -> None:
        self._sim.trace.emit(FaultEnded(fault=step.name, verb=step.verb, targets=done.targets, reason=sentence))

    def _check(self, step: Step, payload: Check) -> None:
        name = f"check {step.label}" if step.label else step.name
        self._note(check_now(payload, self._sight, self._sim.time.now_us, name), step)
        if payload.end_offset is not None:
            self._answers.waiting.append((payload.end_offset, name))
            self._workloads.ask_end_offset(payload.end_offset.client, payload.end_offset.partition)

    def _note(self, result: Expectation, step: Step | None = None) -> None:
        """The user is told the step's line; the trace is not, for the lock file has other lines and the same trace."""
        shown = result if step is None or not step.line else replace(result, what=f"{result.what} (line {step.line})")
        self.checks.append(shown)
        self._sim.trace.emit(CheckMade(held=result.held, reason=f"{result.what}: {result.why}"))
