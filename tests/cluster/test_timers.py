"""Deadlines of a core, against a plain sorted list."""

from __future__ import annotations

import weakref

from hypothesis import given
from hypothesis import strategies as st

from cluster.clocks import CANCELLED_MAX, Timers


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=400), st.lists(st.integers(0, 60), max_size=8))
def test_live_deadlines_come_once_and_in_order(wanted: list[tuple[int, bool]], moments: list[int]) -> None:
    timers: Timers[int] = Timers()
    live: list[tuple[int, int]] = []
    for number, (due_us, is_cancelled) in enumerate(wanted):
        timer = timers.at(due_us, lambda now_us, number=number: [number])  # type: ignore[misc]
        if is_cancelled:
            timer.cancel()
            timer.cancel()
        else:
            live.append((due_us, number))
    live.sort()
    for now_us in sorted(moments):
        assert timers.next_deadline_us == (live[0][0] if live else None)
        due = [number for due_us, number in live if due_us <= now_us]
        live = live[len(due) :]
        assert timers.run_due(now_us) == due


def test_a_cancelled_deadline_holds_nothing() -> None:
    class Request:
        pass

    timers: Timers[int] = Timers()
    request = Request()
    gone = weakref.ref(request)
    timers.at(1_000_000, lambda now_us, request=request: []).cancel()  # type: ignore[misc]
    del request
    assert gone() is None
    for number in range(10_000):
        timers.at(2_000_000 + number, lambda now_us: []).cancel()
    assert len(timers._heap) <= 2 * CANCELLED_MAX
