"""One queue, one order, one runnable task."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from cluster.network.virtual_time import VirtualTime
from cluster.network.world import Parking
from replica.trace.events import RunFinished, TraceLog, TraceRow


def drive(prepare: Callable[[VirtualTime, trio.Nursery], None], until_us: int = 1000) -> VirtualTime:
    time = VirtualTime(TraceLog())

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            prepare(time, nursery)
            await time.drive(until_us, bool, nothing)
            nursery.cancel_scope.cancel()

    async def nothing() -> None: ...

    trio.run(main)
    return time


@given(st.lists(st.integers(0, 100)))
def test_callbacks_come_by_time_then_in_the_order_asked_for(times: list[int]) -> None:
    done: list[tuple[int, int]] = []

    def prepare(time: VirtualTime, _: trio.Nursery) -> None:
        for number, at_us in enumerate(times):
            time.at(at_us, lambda at_us=at_us, number=number: done.append((time.now_us, number)))

    time = drive(prepare)
    assert done == sorted((at_us, number) for number, at_us in enumerate(times))
    assert (time.now_us, time.events) == (1000, len(times))


def test_the_end_is_included_and_nothing_after_it() -> None:
    done: list[int] = []

    def prepare(time: VirtualTime, _: trio.Nursery) -> None:
        for at_us in (999, 1000, 1001):
            time.at(at_us, partial(done.append, at_us))

    drive(prepare)
    assert done == [999, 1000]


def test_tasks_take_turns_where_the_queue_says() -> None:
    """Ten tasks that all wake at the same instants: the order is that of their places, not one that trio chooses."""
    said: list[tuple[int, int]] = []

    async def talk(time: VirtualTime, number: int) -> None:
        for _ in range(5):
            said.append((time.now_us, number))
            parking = Parking()
            time.at(time.now_us + 100, partial(time.resume, parking))
            await time.park(parking)

    def prepare(time: VirtualTime, nursery: trio.Nursery) -> None:
        for number in range(10):
            time.start_soon(nursery, time.reserve(), talk, time, number)

    drive(prepare)
    assert said == [(turn * 100, number) for turn in range(5) for number in range(10)]


def test_a_cancelled_task_is_not_resumed_and_the_others_go_on() -> None:
    said: list[str] = []
    scope = trio.CancelScope()

    async def wait(time: VirtualTime, name: str, at_us: int) -> None:
        with scope if name == "cancelled" else trio.CancelScope():
            parking = Parking()
            time.at(at_us, partial(time.resume, parking))
            await time.park(parking)
            said.append(name)

    def prepare(time: VirtualTime, nursery: trio.Nursery) -> None:
        time.start_soon(nursery, time.reserve(), wait, time, "cancelled", 500)
        time.start_soon(nursery, time.reserve(), wait, time, "spared", 600)
        time.at(400, scope.cancel)

    time = drive(prepare)
    assert (said, time.now_us) == (["spared"], 1000)


@pytest.mark.parametrize("in_a_task", [True, False])
def test_a_failure_ends_the_run(in_a_task: bool) -> None:
    done: list[int] = []

    def fail() -> None:
        raise ZeroDivisionError

    async def fail_later(time: VirtualTime) -> None:
        parking = Parking()
        time.at(300, partial(time.resume, parking))
        await time.park(parking)
        fail()

    def prepare(time: VirtualTime, nursery: trio.Nursery) -> None:
        if in_a_task:
            time.start_soon(nursery, time.reserve(), fail_later, time)
        else:
            time.at(300, fail)
        time.at(301, partial(done.append, 301))

    with pytest.raises(ExceptionGroup) as failure:
        drive(prepare)
    assert [type(error) for error in failure.value.exceptions] == [ZeroDivisionError]
    assert done == []


def test_a_callback_takes_its_cause_along() -> None:
    rows: list[TraceRow] = []
    trace = TraceLog([rows.append])
    time = VirtualTime(trace)

    def state() -> None:
        trace.emit(RunFinished(lasted_us=0))

    async def main() -> None:
        first = trace.emit(RunFinished(lasted_us=0))
        trace.emit(RunFinished(lasted_us=0))
        time.at(10, state, first)
        time.at(20, state)

        async def nothing() -> None: ...

        await time.drive(100, bool, nothing)

    trio.run(main)
    assert [(row.at_us, row.causes) for row in rows[2:]] == [(10, (0,)), (20, (1,))]


def test_the_past_is_over() -> None:
    time = VirtualTime(TraceLog())
    time.now_us = 5
    with pytest.raises(AssertionError, match="past"):
        time.at(4, print)
