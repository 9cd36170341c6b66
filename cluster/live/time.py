"""Wall time with the interface of virtual time: one queue of callbacks, and a driver that runs those that are due.

Unlike in virtual time, sockets also cause steps. A task that resumes after a socket calls `enter` (or `begin`), which
sets the clock for the whole step, so that time stands still within a step as in a simulation. Steps are synchronous, so
the events of a live run are in one total order too.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import trio

from cluster.clocks import WallClock
from cluster.network.world import Parking
from replica.trace.events import TraceLog

Callback = Callable[[], None]

CALLBACKS_PER_TURN = 64
TURN_US = 20_000
"""How many due callbacks are run, and for how long, before the sockets are checked again."""


@dataclass(frozen=True, slots=True)
class Started:
    """The start of a run, by the wall clock and by the monotonic clock, which all processes of a machine share."""

    monotonic_ns: int
    epoch_us: int


class LiveTime:
    """The clock of a live run: microseconds since the run began, by the monotonic clock.

    `events` counts the steps taken.
    """

    def __init__(self, trace: TraceLog, started: Started | None = None) -> None:
        """Start the clock of a new run, or continue the clock of a run that another process has started."""
        self.now_us = 0
        self.events = 0
        self.started = started or Started(time.monotonic_ns(), time.time_ns() // 1000)
        self.epoch_us = self.started.epoch_us
        self._started_ns = self.started.monotonic_ns
        self._trace = trace
        self._queue: list[tuple[int, int, int | None, Callback]] = []
        self._seq = 0
        self._driver: trio.lowlevel.Task | None = None
        """The task of the driver while it sleeps."""
        self._between: Callable[[], bool] = _no_work
        """The argument `between` of `drive`. It refers to the whole run, so it is dropped when the driver returns."""
        self._failure: BaseException | None = None
        self._stopped = False
        self.measures_requests = True
        """True if brokers record every request with its times."""

    def stop(self) -> None:
        """End the run. The driver returns as if the run's time were over."""
        self._stopped = True
        self._wake_driver()

    @property
    def stopwatch(self) -> Callable[[], int] | None:
        return self.clock_us if self.measures_requests else None

    @property
    def slicing(self) -> Callable[[], int] | None:
        """The clock by which long requests are divided into slices. It advances within a step."""
        return self.clock_us

    def clock_us(self) -> int:
        """Return the value that `now_us` would have if a step began now."""
        return (time.monotonic_ns() - self._started_ns) // 1000

    def wall_clock(self) -> WallClock:
        return WallClock(self.epoch_us)

    # --------------------------------------------------------------------------------------------------------- steps

    def enter(self, cause: int | None = None) -> None:
        """Begin a step now, with this cause for its events. The driver wakes up to check the results."""
        self.begin(cause)
        self._wake_driver()

    def begin(self, cause: int | None) -> None:
        """Begin a step that does not wait and that ends with `done`.

        Unlike `enter`, this wakes the driver only if the step leaves work. That saves a switch of tasks and a check of
        the sockets.
        """
        self.now_us = self._trace.at_us = self.clock_us()
        self._trace.cause = cause
        self.events += 1

    def done(self) -> None:
        """End the step that `begin` began."""
        if self._driver is None:
            return
        self._trace.cause = None
        try:
            if self._between():
                self._wake_driver()
        except (Exception, KeyboardInterrupt) as failure:
            self._fail(failure)

    def _fail(self, failure: BaseException) -> None:
        """Make the driver raise a task's failure, which ends the run."""
        self._failure = failure
        self._wake_driver()

    @property
    def cause(self) -> int | None:
        """The number of the event that caused the current step, None if there is none."""
        return self._trace.cause

    def at(self, at_us: int, callback: Callback, cause: int | None = None) -> None:
        """Run `callback` at `at_us` or as soon afterwards as possible."""
        heapq.heappush(self._queue, (at_us, self._seq, self._trace.cause if cause is None else cause, callback))
        self._seq += 1
        if self._queue[0][1] == self._seq - 1:
            self._wake_driver()

    def at_by_file(self, at_us: int, callback: Callback) -> None:
        self.at(at_us, callback)

    def _wake_driver(self) -> None:
        """Wake the driver. It runs after the current step, because it is a task and steps do not wait."""
        if self._driver is not None:
            driver, self._driver = self._driver, None
            trio.lowlevel.reschedule(driver)

    # --------------------------------------------------------------------------------------------------------- tasks

    def resume(self, parking: Parking) -> None:
        """Resume a parked task."""
        if parking.task is not None:
            task, parking.task = parking.task, None
            trio.lowlevel.reschedule(task)

    async def park(self, parking: Parking) -> None:
        """Wait until `resume` is called with this parking. A cancelled task stops waiting immediately."""
        parking.task = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            parking.task = None
            parking.gone = True
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        self.enter()

    async def sleep_until(self, at_us: int) -> None:
        parking = Parking()
        self.at(at_us, partial(self.resume, parking))
        await self.park(parking)

    def reserve(self) -> Parking:
        """Return a new parking. In live runs, tasks resume in the order in which they are woken."""
        return Parking()

    def start_soon(
        self, nursery: trio.Nursery, parking: Parking, task: Callable[..., Awaitable[None]], *args: object
    ) -> None:
        nursery.start_soon(self._run_task, self._trace.cause, task, args)

    async def _run_task(
        self, cause: int | None, task: Callable[..., Awaitable[None]], args: tuple[object, ...]
    ) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()  # A process that was killed before its first step takes none.
        self.enter(cause)
        try:
            await task(*args)
        except (Exception, KeyboardInterrupt) as failure:
            self._fail(failure)

    # -------------------------------------------------------------------------------------------------------- driver

    async def drive(self, until_us: int, between: Callable[[], bool], work: Callable[[], Awaitable[None]]) -> None:
        """Run due callbacks until `until_us`.

        Args:
            between: called after every callback and after steps of other tasks; True if the driver must await `work`.

        Raises:
            Exception: whatever a failed task raised.
        """
        self._between = between
        try:
            await self._drive(until_us, between, work)
        finally:
            self._between = _no_work
        self._trace.cause = None

    async def _drive(self, until_us: int, between: Callable[[], bool], work: Callable[[], Awaitable[None]]) -> None:
        while True:
            if self._failure is not None:
                raise self._failure
            await self._run_due(between, work)
            if between():
                await work()
                self.enter()
                continue
            if self._stopped or self.now_us > until_us:
                return
            await self._sleep(until_us, between)

    async def _run_due(self, between: Callable[[], bool], work: Callable[[], Awaitable[None]]) -> None:
        queue = self._queue
        self.enter()
        ends_us = self.now_us + TURN_US
        for _ in range(CALLBACKS_PER_TURN):
            if not queue or not queue[0][0] <= self.now_us < ends_us:
                return
            _, _, cause, callback = heapq.heappop(queue)
            self.enter(cause)
            callback()
            if between():
                await work()
                self.enter()

    async def _sleep(self, until_us: int, between: Callable[[], bool]) -> None:
        """Sleep until a callback is due, there is work, or the time is over.

        Steps that lead to none of these do not renew the timeout, because a new timeout has a cost.
        """
        next_us = self._next_us(until_us)
        if next_us <= self.now_us:
            await trio.lowlevel.checkpoint()
            return

        def abort(_: object) -> trio.lowlevel.Abort:
            self._driver = None
            return trio.lowlevel.Abort.SUCCEEDED

        with trio.move_on_after((next_us - self.now_us) / 1_000_000):
            while True:
                self._driver = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(abort)
                self.enter()
                # `between` is called before `_stopped` is read, because it may stop the run.
                if self._failure is not None or between() or self._stopped:
                    return
                if self._next_us(until_us) < next_us or next_us <= self.now_us:
                    return

    def _next_us(self, until_us: int) -> int:
        """Return the next time at which the driver must act even if no step wakes it."""
        return min(self._queue[0][0], until_us + 1) if self._queue else until_us + 1


def _no_work() -> bool:
    return False
