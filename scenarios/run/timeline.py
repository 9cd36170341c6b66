"""Plays the timeline of a scenario: steps at their time, steps that wait for a state, repetitions and undoing."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from replica.trace.events import CheckMade, EndOffsetSeen, FaultBegan, FaultEnded, TraceRow
from replica.trace.listening import Listener, on
from scenarios.check.event_watch import state_failures, state_holds
from scenarios.check.expectations import Expectation, RunSight, check_now, end_offset_seen
from scenarios.language.expect import EndOffsetTest
from scenarios.language.selectors import SelectorError
from scenarios.language.steps import At, Step, When
from scenarios.language.verbs.checks import Check
from scenarios.language.verbs.clients import Produce
from scenarios.language.verbs.declaration import Lasts
from scenarios.language.verbs.every import VERBS
from scenarios.run.cluster_under_test import ClusterUnderTest, NotPossibleNow
from scenarios.run.disk_faults import Done
from scenarios.run.faults import Faults
from scenarios.run.workload import Workloads

Work = Callable[[], Awaitable[None]]
Tell = Callable[[str, bool], None]
"""The result of an operator's step, in a sentence, and whether it is done (of a check: whether it held)."""


@dataclass(frozen=True, slots=True)
class InForce:
    """A fault that has begun and has not ended."""

    step: Step
    done: Done
    began_us: int


class EndOffsetAnswers(Listener):
    """Listener that collects the answers to `check: end_offset` steps; each is the first one after its request."""

    def __init__(self) -> None:
        self.waiting: list[tuple[EndOffsetTest, str]] = []
        self.answered: list[tuple[EndOffsetTest, str, EndOffsetSeen]] = []

    @on(EndOffsetSeen)
    def _seen(self, row: TraceRow, event: EndOffsetSeen) -> None:
        for waiting in list(self.waiting):
            test, name = waiting
            if (test.client, *test.partition) == (event.client, event.topic, event.partition):
                self.waiting.remove(waiting)
                self.answered.append((test, name, event))


class Timeline:
    """Schedules every step in virtual time. Between two events `look_at_conditions` is called while a step is `armed`,
    and `perform_due` if one is `due`.

    `checks` collects the outcome of `check` steps and of `when` steps that ran out of time.
    """

    def __init__(
        self,
        cluster: ClusterUnderTest,
        sight: RunSight,
        faults: Faults,
        workloads: Workloads,
        answers: EndOffsetAnswers,
    ) -> None:
        self.checks: list[Expectation] = []
        self._cluster = cluster
        self._sight = sight
        self._faults = faults
        self._workloads = workloads
        self._captured: dict[str, tuple[str, ...]] = faults.captured
        self.due: deque[Work] = deque()
        self.armed: dict[int, tuple[Step, When]] = {}
        self._waiting_for: dict[int, Step] = {}
        self._seen_version = -1
        self._answers = answers
        self._in_force: dict[str, list[InForce]] = {}

    def begin(self) -> None:
        """Put every `at` step into the queue; arm the first step if it is a `when`."""
        steps = self._cluster.scenario.timeline
        for previous, step in zip((None, *steps), steps, strict=False):
            match step.trigger:
                case At():
                    self._cluster.time.at_by_file(step.trigger.at_us, partial(self._soon_fires, step))
                case When() if previous is None:
                    self._arm(step)
                case When():
                    self._waiting_for[previous.index] = step

    def _soon_fires(self, step: Step, turn: int = 1) -> None:
        self.due.append(lambda: self._fire(step, turn))

    def _at(self, at_us: int, step: Step, turn: int = 1) -> None:
        self._cluster.time.at(max(at_us, self._cluster.time.now_us), lambda: self._soon_fires(step, turn))

    def _arm(self, step: Step) -> None:
        assert isinstance(step.trigger, When)
        self.armed[step.index] = (step, step.trigger)
        self._seen_version = -1
        if step.trigger.timeout_us is not None:
            deadline_us = self._cluster.time.now_us + step.trigger.timeout_us
            self._cluster.time.at(deadline_us, lambda: self.due.append(lambda: self._time_out(step)))

    def look_at_conditions(self) -> None:
        """Those of the waiting steps, if anything has changed."""
        if self._sight.view.version != self._seen_version:
            self._seen_version = self._sight.view.version
            self._look_at_conditions()

    async def perform_due(self) -> None:
        while self._answers.answered:
            test, name, event = self._answers.answered.pop(0)
            self._note(end_offset_seen(test, event, name))
        while self.due:
            await self.due.popleft()()

    def _look_at_conditions(self) -> None:
        for index, (step, when) in list(self.armed.items()):
            if state_holds(when.state, self._sight.view, self._captured):
                del self.armed[index]
                self.due.append(lambda step=step: self._fire(step, 1))  # type: ignore[misc]

    async def _time_out(self, step: Step) -> None:
        if self.armed.pop(step.index, None) is not None:
            self._never_came(step)

    def finish(self) -> None:
        """The run is over: the conditions of steps that still wait have never come true."""
        for step, _ in list(self.armed.values()):
            self._never_came(step)
        for step in list(self._waiting_for.values()):
            self._note(Expectation(f"step {step.name}", False, "never armed: the step before it has not fired"))
        for test, name in self._answers.waiting:
            self._note(Expectation(name, False, f"{test.client} got no answer about the end of {test.partition}"))

    def _never_came(self, step: Step) -> None:
        assert isinstance(step.trigger, When)
        failures = "; ".join(state_failures(step.trigger.state, self._sight.view, self._captured))
        self._note(Expectation(f"when {step.name}", False, f"never came true: {failures}"))

    # ------------------------------------------------------------------------------------------------------ operator

    def in_force(self) -> list[InForce]:
        """In the order in which they began."""
        return sorted((one for several in self._in_force.values() for one in several), key=lambda one: one.began_us)

    def forget_unless(self, holds: Callable[[InForce], bool]) -> None:
        """Faults that another step has ended: their names are free, and nothing undoes them any more."""
        self._in_force = {name: [one for one in several if holds(one)] for name, several in self._in_force.items()}

    def submit(self, step: Step, tell: Tell) -> None:
        """A step from an operator, not of the file. An impossible step is an error of the operator, not the run's."""

        async def fire() -> None:
            try:
                self._faults.must_change_something(step.payload)
                sentence, held = await self._perform(step)
            except (NotPossibleNow, SelectorError) as error:
                tell(str(error), False)
                return
            tell(sentence, held)
            self._repeat(step, 1)

        match step.trigger:
            case When():
                self._arm(step)
                tell(f"{step.name} waits for its state", True)
            case At() if step.trigger.at_us > self._cluster.time.now_us:
                self._at(step.trigger.at_us, step)
                tell(f"{step.name} waits for its time", True)
            case At():
                self._soon(fire)

    def submit_end(self, name: str, tell: Tell) -> None:
        """End a fault before its time, as `for` would."""

        async def end() -> None:
            try:
                ended = [await self._undo(fault) for fault in list(self._in_force.get(name, ()))]
            except NotPossibleNow as error:
                tell(str(error), False)
                return
            tell("; ".join(ended) or f"no fault named {name} is in force", bool(ended))

        self._soon(end)

    def _soon(self, work: Work) -> None:
        self._cluster.time.at(self._cluster.time.now_us, lambda: self.due.append(work))

    # -------------------------------------------------------------------------------------------------------- firing

    async def _fire(self, step: Step, turn: int) -> None:
        try:
            await self._perform(step)
        except (NotPossibleNow, SelectorError) as error:
            self._note(Expectation(f"step {step.name}", False, str(error)), step)
        self._repeat(step, turn)
        if turn == 1:
            follower = self._waiting_for.pop(step.index, None)
            if follower is not None:
                self._arm(follower)

    async def _perform(self, step: Step) -> tuple[str, bool]:
        """The result, and whether it is one: a check may not hold, and a controller may refuse.

        raises: NotPossibleNow, SelectorError
        """
        payload = step.payload
        match payload:
            case Check():
                result = self._check(step, payload)
                return f"{result.what}: {result.why}", result.held
            case Produce():
                self._workloads.produce(payload)
                return f"{payload.producer} sends {payload.count}", True
            case _:
                done = await self._do(step)
                return done.answer or done.sentence, not done.refused

    def _repeat(self, step: Step, turn: int) -> None:
        if step.every_us is not None and turn < step.times:
            self._at(self._cluster.time.now_us + step.every_us, step, turn + 1)

    async def _do(self, step: Step) -> Done:
        cause = self._cluster.trace.cause
        done = await self._faults.perform(step.name, step.payload)
        await self._cluster.fabric.settle()
        if step.label is not None:
            self._captured[step.label] = done.targets
        self._cluster.trace.emit(
            FaultBegan(fault=step.name, verb=step.verb, targets=done.targets, effect=done.sentence),
            *(() if cause is None else (cause,)),
        )
        for label in done.ended:
            for ended in self._in_force.pop(label, ()):
                self._state_end(ended, done.sentence, step.name)
        fault = InForce(step, done, self._cluster.time.now_us)
        if done.undo is not None:
            self._in_force.setdefault(step.name, []).append(fault)
            if step.for_us is not None:
                due_us = self._cluster.time.now_us + step.for_us
                self._cluster.time.at(due_us, lambda: self.due.append(lambda: self._end(fault)))
        elif VERBS[step.verb].lasts is Lasts.UNTIL_ENDED:
            self._state_end(fault, done.sentence, step.name)
        return done

    async def _end(self, fault: InForce) -> None:
        """The time of a fault is over, if nothing has ended it before."""
        if fault in self._in_force.get(fault.step.name, ()):
            try:
                await self._undo(fault)
            except NotPossibleNow as error:
                self._note(Expectation(f"the end of {fault.step.name}", False, str(error)), fault.step)

    async def _undo(self, fault: InForce) -> str:
        assert fault.done.undo is not None
        sentence = await fault.done.undo()
        self._in_force[fault.step.name].remove(fault)
        await self._cluster.fabric.settle()
        self._state_end(fault, sentence)
        return sentence

    def _state_end(self, fault: InForce, effect: str, ended_by: str | None = None) -> None:
        step, targets = fault.step, fault.done.targets
        self._cluster.trace.emit(
            FaultEnded(fault=step.name, verb=step.verb, targets=targets, effect=effect, ended_by=ended_by)
        )

    def _check(self, step: Step, payload: Check) -> Expectation:
        name = f"check {step.label}" if step.label else step.name
        result = check_now(payload, self._sight, self._cluster.time.now_us, name)
        self._note(result, step)
        if payload.end_offset is not None:
            self._answers.waiting.append((payload.end_offset, name))
            self._workloads.ask_end_offset(payload.end_offset.client, payload.end_offset.partition)
        return result

    def _note(self, result: Expectation, step: Step | None = None) -> None:
        """The user sees the step's line; the trace lacks it, since the lock file has other lines and the same trace."""
        shown = result if step is None or not step.line else replace(result, what=f"{result.what} (line {step.line})")
        self.checks.append(shown)
        self._cluster.trace.emit(CheckMade(held=result.held, checked=result.what, finding=result.why))
