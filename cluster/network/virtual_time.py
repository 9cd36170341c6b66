"""Virtual time: one queue of everything that will happen, and at most one runnable task at any moment.

All events of a run are ordered by one queue of (at_us, seq). An item either is a plain callback or resumes exactly one
waiting task. There is one baton: its holder takes the next item, sets the clock to the item's time and runs it. When an
item resumes a task, the baton passes to that task until it waits again. (A task that resumes itself does not even
switch.) So trio never chooses between two tasks of a run, and the order of a run depends neither on trio's scheduler
nor on its version.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from cluster.clocks import WallClock
from cluster.network.world import Parking
from replica.trace.events import TraceLog

Callback = Callable[[], None]


class VirtualTime:
    """The queue of virtual time, and the driver that runs it.

    Callbacks run in one thread, in an order that depends only on the sequence of calls.
    """

    def __init__(self, trace: TraceLog, *, measures_requests: bool = False) -> None:
        self.now_us = 0
        self.events = 0
        self.slicing: Callable[[], int] | None = None
        """Always None: requests take no virtual time and so are not sliced."""
        self.stopwatch: Callable[[], int] | None = (lambda: self.now_us) if measures_requests else None
        self._trace = trace
        self._queue: list[tuple[int, int, int | None, Callback]] = []
        self._seq = 0
        self._resumed: Parking | None = None
        self._holder: trio.lowlevel.Task | None = None
        self._driver: trio.lowlevel.Task | None = None
        self._starting: Parking | None = None
        self._failure: BaseException | None = None
        self._until_us = 0
        self._between: Callable[[], bool] = bool

    @property
    def cause(self) -> int | None:
        """The number of the event that caused the current step, None if there is none."""
        return self._trace.cause

    def wall_clock(self) -> WallClock:
        """Return a clock that starts in 1970, as in every simulated run."""
        return WallClock()

    # ----------------------------------------------------------------------------------------------------- schedule

    def at(self, at_us: int, callback: Callback, cause: int | None = None) -> None:
        """Schedule a callback at `at_us`, which must not be in the past.

        Args:
            cause: event that causes the callback; by default the current cause.
        """
        assert at_us >= self.now_us, "a callback was scheduled in the past"
        heapq.heappush(self._queue, (at_us, self._seq, self._trace.cause if cause is None else cause, callback))
        self._seq += 1

    def at_by_file(self, at_us: int, callback: Callback) -> None:
        self.at(at_us, callback)

    def resume(self, parking: Parking) -> None:
        """Let a parked task run next. A callback may resume at most one task."""
        assert self._resumed is None, "a callback resumed more than one task"
        if not parking.gone:
            self._resumed = parking

    # --------------------------------------------------------------------------------------------------------- tasks

    async def park(self, parking: Parking) -> None:
        """Wait until `resume` is called with this parking. A cancelled task stops waiting immediately."""
        task = parking.task = trio.lowlevel.current_task()
        if self._holder is task:
            following = self._advance()
            if following is parking:
                parking.task = None
                return
            self._pass_baton(following)

        def abort(_: object) -> trio.lowlevel.Abort:
            parking.task = None
            parking.gone = True
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def reserve(self) -> Parking:
        """Reserve a position in the queue at the current time, for the first step of a task to be started."""
        parking = Parking()
        self.at(self.now_us, partial(self.resume, parking))
        return parking

    def start_soon(
        self, nursery: trio.Nursery, parking: Parking, task: Callable[..., Awaitable[None]], *args: object
    ) -> None:
        """Start a task. Its first step runs at the reserved position in the queue."""
        nursery.start_soon(self._run_task, parking, task, args)

    async def _run_task(self, parking: Parking, task: Callable[..., Awaitable[None]], args: tuple[object, ...]) -> None:
        await self.park(parking)
        try:
            await task(*args)
        except (Exception, KeyboardInterrupt) as failure:
            self._failure = failure  # The driver raises the failure unchanged, which ends the run.
        finally:
            if self._holder is trio.lowlevel.current_task():
                self._pass_baton(None)

    # ---------------------------------------------------------------------------------------------------- the baton

    def _advance(self) -> Parking | None:
        """Run items until one resumes a task, and return that task's parking.

        Return None if the driver must do its own work first, or if no item is due before the end.
        """
        queue, trace, between = self._queue, self._trace, self._between
        while True:
            if between() or not queue or queue[0][0] > self._until_us:
                return None
            at_us, _, cause, callback = heapq.heappop(queue)
            self.now_us = trace.at_us = at_us
            trace.cause = cause
            self.events += 1
            callback()
            if self._resumed is not None:
                parking, self._resumed = self._resumed, None
                return parking

    def _pass_baton(self, parking: Parking | None) -> None:
        """Let the task that waits at `parking` run; or the driver, if it is None or the task has not started yet."""
        assert self._driver is not None
        if parking is None or parking.task is None:
            self._starting = parking
            self._holder = self._driver
            trio.lowlevel.reschedule(self._driver)
            return
        task, parking.task = parking.task, None
        self._holder = task
        trio.lowlevel.reschedule(task)

    def end(self) -> None:
        """End the run. Items due at the current time still run, later ones do not."""
        self._until_us = self.now_us

    async def drive(self, until_us: int, between: Callable[[], bool], work: Callable[[], Awaitable[None]]) -> None:
        """Run the queue up to and including `until_us`.

        Args:
            between: called after every item; True if the driver must await `work` before the next item.

        Raises:
            Exception: whatever a failed task raised.
        """
        self._driver = self._holder = trio.lowlevel.current_task()
        self._until_us, self._between = until_us, between
        while True:
            if self._failure is not None:
                raise self._failure
            following = self._starting or self._advance()
            self._starting = None
            if following is not None:
                await self._hand_over(following)
            elif between():
                await work()
            elif not self._queue or self._queue[0][0] > self._until_us:
                break
        self.now_us = self._trace.at_us = self._until_us
        self._trace.cause = None

    async def _hand_over(self, parking: Parking) -> None:
        while parking.task is None:  # The task was just started: trio has not run it up to its first wait yet.
            if parking.gone:
                return
            await trio.lowlevel.checkpoint()
        self._pass_baton(parking)

        def abort(_: object) -> trio.lowlevel.Abort:
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
