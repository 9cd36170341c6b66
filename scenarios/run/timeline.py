"""Performs a scenario's timeline: steps with a time, steps that wait for a state, repetitions, and ends of faults."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from replica.trace.events import CheckMade, EndOffsetSeen, FaultBegan, FaultEnded, ResponseInjected, TraceRow
from replica.trace.listening import Listener, on
from scenarios.check.event_watch import state_failures, state_holds
from scenarios.check.expectations import Expectation, RunSight, check_now, end_offset_seen
from scenarios.language.expect import EndOffsetTest
from scenarios.language.selectors import SelectorError
from scenarios.language.spec import TopicSpec
from scenarios.language.steps import At, Step, When
from scenarios.language.verbs.checks import Check
from scenarios.language.verbs.clients import Produce
from scenarios.language.verbs.declaration import Lasts
from scenarios.language.verbs.every import VERBS
from scenarios.observe.wording import count_of
from scenarios.run.cluster_under_test import ClusterUnderTest, NotPossibleNow
from scenarios.run.disk_faults import LOOK_US, Done
from scenarios.run.faults import Faults
from scenarios.run.workload import Workloads

Work = Callable[[], Awaitable[None]]
Tell = Callable[[str, bool], None]
"""A function that gets the result of an operator's step as a sentence, and False if the step or its check failed."""


@dataclass(frozen=True, slots=True)
class InForce:
    """A fault that has begun and has not ended yet."""

    step: Step
    done: Done
    began_us: int

    @property
    def what(self) -> str:
        return self.done.sentence if self.done.course is None else self.done.course.progress


class EndOffsetAnswers(Listener):
    """Listener that collects the answers to `check: end_offset` steps, and reports injected responses.

    The first answer about the partition that a client gets after the step counts.

    Attributes:
        on_injected: called with the name of the fault that has injected a response.
        waiting: (test, name) of the checks without an answer.
        answered: (test, name, answer) of the others.
    """

    on_injected: Callable[[str], None]

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

    @on(ResponseInjected)
    def _injected(self, row: TraceRow, event: ResponseInjected) -> None:
        self.on_injected(event.fault)


class Timeline:
    """The scheduler of a timeline's steps.

    After each event, `look_at_conditions` is called if `armed` is not empty, and `perform_due` if `due` is not empty.

    Args:
        slack_us: how long a `check` step waits for its conditions to hold. With 0 they must hold when the step fires.

    Attributes:
        armed: steps that wait for their `when` state.
        due: actions to perform before the next event.
        checks: results of `check` steps, and failures of other steps.
    """

    def __init__(
        self,
        cluster: ClusterUnderTest,
        sight: RunSight,
        faults: Faults,
        workloads: Workloads,
        answers: EndOffsetAnswers,
        slack_us: int = 0,
    ) -> None:
        self._slack_us = slack_us
        self.checks: list[Expectation] = []
        self._cluster = cluster
        self._sight = sight
        self._faults = faults
        self._workloads = workloads
        self._captured: dict[str, tuple[str, ...]] = faults.captured
        self.due: deque[Work] = deque()
        self.armed: dict[int, tuple[Step, When]] = {}
        self._waiting_for: dict[int, Step] = {}
        self._waiting_checks: dict[tuple[int, int], tuple[Step, Expectation]] = {}
        """Checks that have not held yet, with their last results, by (index of the step, time until which it waits)."""
        self._seen_version = -1
        self._answers = answers
        answers.on_injected = self._response_injected
        self._injected: dict[str, int] = {}
        """Number of responses that the oldest fault of each name has injected."""
        self._in_force: dict[str, list[InForce]] = {}

    def begin(self) -> None:
        """Schedule every `at` step, and arm the first step if it has `when`. Later `when` steps are armed in turn."""
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
        """Make the armed steps due whose state holds, if the cluster has changed since the last call."""
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
        """Record a failure for each step that never fired and each action that has not ended. The run is over."""
        for step, _ in list(self.armed.values()):
            self._never_came(step)
        for step in list(self._waiting_for.values()):
            self._note(Expectation(f"step {step.name}", False, "never armed: the step before it did not fire"))
        for step, result in self._waiting_checks.values():
            self._note(result, step)
        for fault in self.in_force():
            if fault.done.course is not None:
                why = f"not over at the end of the run: {fault.what}"
                self._note(Expectation(f"step {fault.step.name}", False, why), fault.step)
        for test, name in self._answers.waiting:
            self._note(
                Expectation(name, False, f"{test.client} got no response about the end offset of {test.partition}")
            )

    def _never_came(self, step: Step) -> None:
        assert isinstance(step.trigger, When)
        failures = "; ".join(state_failures(step.trigger.state, self._sight.view, self._captured))
        self._note(Expectation(f"when {step.name}", False, f"never came true: {failures}"))

    # ------------------------------------------------------------------------------------------------------ operator

    def in_force(self) -> list[InForce]:
        """Return the faults in force, in the order in which they began."""
        return sorted((item for several in self._in_force.values() for item in several), key=lambda item: item.began_us)

    def forget_unless(self, holds: Callable[[InForce], bool]) -> None:
        """Forget the faults for which `holds` returns False, since another step has ended them."""
        self._in_force = {name: [item for item in several if holds(item)] for name, several in self._in_force.items()}

    def submit(self, step: Step, tell: Tell) -> None:
        """Perform or schedule a step of an operator. If it is impossible, `tell` gets the error; no check fails."""

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
                tell(f"{step.name} waits for its condition", True)
            case At() if step.trigger.at_us > self._cluster.time.now_us:
                self._at(step.trigger.at_us, step)
                tell(f"{step.name} waits for its time", True)
            case At():
                self._soon(fire)

    def submit_end(self, name: str, tell: Tell) -> None:
        """End the faults of this name early, as at the end of `for`."""

        async def end() -> None:
            try:
                ended = [await self._undo(fault) for fault in list(self._in_force.get(name, ()))]
            except NotPossibleNow as error:
                tell(str(error), False)
                return
            tell("; ".join(ended) or f"no fault named {name} is in force", bool(ended))

        self._soon(end)

    def submit_topic(self, topic: TopicSpec, tell: Tell) -> None:
        """Create a topic that an operator wants and the scenario does not have."""

        async def create() -> None:
            try:
                await self._faults.operator.create_topic(topic)
            except NotPossibleNow as error:
                tell(str(error), False)
                return
            tell(f"the topic {topic.name} was created with {count_of(topic.partitions, 'partition')}", True)

        self._soon(create)

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
        """Perform a step.

        Returns:
            The result as a sentence, and False if a check does not hold or the controller has refused the step.

        Raises:
            NotPossibleNow, SelectorError: the step is impossible at this moment.
        """
        payload = step.payload
        match payload:
            case Check():
                result = self._check(step, payload, self._cluster.time.now_us + self._slack_us)
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
            if done.course is not None:
                await self._go_on(fault)
        elif VERBS[step.verb].effect.lasts is Lasts.UNTIL_ENDED:
            self._state_end(fault, done.sentence, step.name)
        return done

    async def _go_on(self, fault: InForce) -> None:
        """Continue an action that takes longer than its step (Course), unless another step has ended it."""
        if fault not in self._in_force.get(fault.step.name, ()):
            return
        assert fault.done.course is not None
        outcome = fault.done.course.go_on()
        await self._cluster.fabric.settle()
        if outcome is None:
            next_us = self._cluster.time.now_us + LOOK_US
            self._cluster.time.at(next_us, lambda: self.due.append(lambda: self._go_on(fault)))
            return
        self._in_force[fault.step.name].remove(fault)
        self._state_end(fault, outcome.sentence)
        if not outcome.complete:
            self._note(Expectation(f"step {fault.step.name}", False, outcome.sentence), fault.step)

    async def _end(self, fault: InForce) -> None:
        """Undo a fault whose time is over, unless another step has ended it."""
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

    def _response_injected(self, name: str) -> None:
        """Count an injected response of a fault, and end the fault once it has injected its number of responses."""
        faults = self._in_force.get(name)
        if not faults:
            return
        oldest = faults[0]
        self._injected[name] = count = self._injected.get(name, 0) + 1
        if count == oldest.done.requests:
            del self._injected[name]
            self.due.append(lambda: self._end(oldest))

    def _state_end(self, fault: InForce, effect: str, ended_by: str | None = None) -> None:
        step, targets = fault.step, fault.done.targets
        self._cluster.trace.emit(
            FaultEnded(fault=step.name, verb=step.verb, targets=targets, effect=effect, ended_by=ended_by)
        )

    def _check(self, step: Step, payload: Check, until_us: int) -> Expectation:
        """Judge a check now and return the result. Repeat it later until it holds or `until_us` is reached."""
        name = f"check {step.label}" if step.label else step.name
        result = check_now(payload, self._sight, self._cluster.time.now_us, name)
        if payload.end_offset is not None:
            self._answers.waiting.append((payload.end_offset, name))
            self._workloads.ask_end_offset(payload.end_offset.client, payload.end_offset.partition)
        if result.held or self._cluster.time.now_us >= until_us:
            self._waiting_checks.pop((step.index, until_us), None)
            self._note(result, step)
        else:
            self._waiting_checks[step.index, until_us] = (step, result)
            again = replace(payload, end_offset=None)
            self._cluster.time.at(
                min(self._cluster.time.now_us + LOOK_US, until_us),
                lambda: self.due.append(lambda: self._check_again(step, again, until_us)),
            )
        return result

    async def _check_again(self, step: Step, payload: Check, until_us: int) -> None:
        self._check(step, payload, until_us)

    def _note(self, result: Expectation, step: Step | None = None) -> None:
        """Add a result to `checks`, with the line of its step, and to the trace, without the line.

        The trace has no line numbers, because the lock file has other lines and must produce the same trace.
        """
        shown = result if step is None or not step.line else replace(result, what=f"{result.what} (line {step.line})")
        self.checks.append(shown)
        self._cluster.trace.emit(CheckMade(held=result.held, checked=result.what, finding=result.why))
