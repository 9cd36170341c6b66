"""The driver of wall time, and the steps of other tasks that it sleeps beside."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Awaitable, Callable

import trio
import trio.testing

from cluster.live.time import LiveTime
from replica.trace.events import TraceLog

LATE_US = 60_000_000
Steps = Callable[[LiveTime], Awaitable[None]]


class Broken(Exception):
    pass


def driven(between: Callable[[], bool], steps: Steps) -> tuple[list[str], BaseException | None]:
    """What the driver has done beside the steps, until it has worked or failed; and how it has failed."""
    done: list[str] = []
    failure: list[BaseException] = []
    time = LiveTime(TraceLog([]))

    def asked() -> bool:
        if trio.lowlevel.current_task().name == "driver":
            done.append("asked")
        return between()

    async def work() -> None:
        done.append("worked")
        time.stop()

    async def drive() -> None:
        try:
            await time.drive(LATE_US, asked, work)
        except Broken as broken:
            failure.append(broken)

    async def main() -> None:
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(drive, name="driver")
                await trio.testing.wait_all_tasks_blocked()
                done.clear()
                await steps(time)

    trio.run(main)
    return done, next(iter(failure), None)


def test_a_step_wakes_the_driver_only_if_there_is_work_for_it() -> None:
    due: list[bool] = []

    async def steps(time: LiveTime) -> None:
        for _ in range(3):
            time.begin(None)
            time.done()
            await trio.testing.wait_all_tasks_blocked()
        time.begin(None)
        due.extend([True] * 3)  # As the step asks, as the driver does when it wakes, and before it works.
        time.done()

    done, _ = driven(lambda: bool(due) and due.pop(0), steps)
    assert done[:3] == ["asked", "asked", "worked"], "it slept through the first three steps"


def test_what_a_step_schedules_for_earlier_than_anything_else_is_done_in_time() -> None:
    rung: list[int] = []

    async def steps(time: LiveTime) -> None:
        time.begin(None)
        time.at(time.now_us + 1000, lambda: rung.append(time.now_us))
        time.done()
        while not rung:
            await trio.sleep(0.001)
        time.stop()

    driven(bool, steps)
    assert rung


def test_a_check_that_fails_after_a_step_ends_the_run_as_itself() -> None:
    broken: list[Broken] = []

    def between() -> bool:
        if broken:
            raise broken[0]
        return False

    async def steps(time: LiveTime) -> None:
        time.begin(None)
        broken.append(Broken())
        time.done()

    _, failure = driven(between, steps)
    assert failure is broken[0]


def test_a_clock_whose_run_is_over_holds_nothing_of_it() -> None:
    class Run:
        def between(self) -> bool:
            return False

    run, time = Run(), LiveTime(TraceLog([]))
    time.stop()
    trio.run(time.drive, LATE_US, run.between, trio.lowlevel.checkpoint)
    there = weakref.ref(run)
    del run
    gc.collect()
    assert there() is None
