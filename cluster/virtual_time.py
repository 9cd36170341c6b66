"""Virtual time: one queue of everything that will happen, and at most one runnable task at any moment.

All that can happen at one virtual instant is ordered by one queue of (at_us, seq). A driver task takes the next item,
sets the clock to its time and runs it. An item either is a plain callback, or resumes exactly one waiting task; the
driver then waits until that task waits again (or ends). So trio never has two of our tasks to choose between, and the
order of a run does not depend on its scheduler: no private switch, no pinned version.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from replica.trace import TraceLog

Callback = Callable[[], None]


class Parking:
    """Where one task waits until the queue resumes it; `gone` once that task was cancelled."""

    __slots__ = ("gone", "task")

    def __init__(self) -> None:
        self.task: trio.lowlevel.Task | None = None
        self.gone = False


class VirtualTime:
    """The queue and its driver. Everything in it runs in one thread, in one order, given one sequence of calls."""

    def __init__(self, trace: TraceLog) -> None:
        self.now_us = 0
        self.events = 0
        self._trace = trace
        self._queue: list[tuple[int, int, int | None, Callback]] = []
        self._seq = 0
        self._resumed: Parking | None = None
        self._running: trio.lowlevel.Task | None = None
        self._driver: trio.lowlevel.Task | None = None

    # ----------------------------------------------------------------------------------------------------- schedule

    def at(self, at_us: int, callback: Callback, cause: int | None = None) -> None:
        """Run `callback` at `at_us`, not before now. `cause` is the fact it follows from, else what led to this call."""
        assert at_us >= self.now_us, "nothing can be scheduled in the past"
        heapq.heappush(self._queue, (at_us, self._seq, self._trace.cause if cause is None else cause, callback))
        self._seq += 1

    def resume(self, parking: Parking) -> None:
        """From a callback: let this one task run next, at once. At most one per callback."""
        assert self._resumed is None, "a callback resumes one task at most"
        if not parking.gone:
            self._resumed = parking

    # --------------------------------------------------------------------------------------------------------- tasks

    async def park(self, parking: Parking) -> None:
        """Wait until `resume` picks this parking. Cancellation just leaves."""
        parking.task = trio.lowlevel.current_task()
        self._yield_to_driver()

        def abort(_: object) -> trio.lowlevel.Abort:
            parking.task = None
            parking.gone = True
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def reserve(self) -> Parking:
        """A place in the queue, now, for the first step of a task that is about to be started."""
        parking = Parking()
        self.at(self.now_us, partial(self.resume, parking))
        return parking

    def start_soon(
        self, nursery: trio.Nursery, place: Parking, task: Callable[..., Awaitable[None]], *args: object
    ) -> None:
        """Start a task whose first step has the reserved `place` in the queue."""
        nursery.start_soon(self._run_task, place, task, args)

    async def _run_task(self, parking: Parking, task: Callable[..., Awaitable[None]], args: tuple[object, ...]) -> None:
        await self.park(parking)
        try:
            await task(*args)
        finally:
            self._yield_to_driver()

    def _yield_to_driver(self) -> None:
        """Wake the driver if it waits for the current task; a task that was cancelled runs without being waited for."""
        if self._running is not None and trio.lowlevel.current_task() is self._running:
            self._running = None
            assert self._driver is not None
            trio.lowlevel.reschedule(self._driver)

    # -------------------------------------------------------------------------------------------------------- driver

    async def drive(self, until_us: int, after_event: Callable[[], Awaitable[None]]) -> None:
        """Run the queue up to and including `until_us`; `after_event` runs in the driver between two events."""
        self._driver = trio.lowlevel.current_task()
        queue, trace = self._queue, self._trace
        while queue and queue[0][0] <= until_us:
            at_us, _, cause, callback = heapq.heappop(queue)
            self.now_us = trace.at_us = at_us
            trace.cause = cause
            self.events += 1
            callback()
            if self._resumed is not None:
                parking, self._resumed = self._resumed, None
                await self._hand_over(parking)
            await after_event()
        self.now_us = trace.at_us = until_us
        trace.cause = None

    async def _hand_over(self, parking: Parking) -> None:
        while parking.task is None:  # Started a moment ago: trio has not run it up to its first wait yet.
            if parking.gone:
                return
            await trio.lowlevel.checkpoint()
        task, parking.task = parking.task, None
        self._running = task
        trio.lowlevel.reschedule(task)

        def abort(_: object) -> trio.lowlevel.Abort:
            self._running = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
