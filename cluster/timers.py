"""Deadlines of one core: pure, ordered by (due time, order of scheduling)."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Timer:
    """One deadline; `cancel` is idempotent."""

    __slots__ = ("cancelled", "due_us")

    def __init__(self, due_us: int) -> None:
        self.due_us = due_us
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Timers(Generic[T]):
    """A heap of callbacks that may each return actions of type T. Kafka uses a timing wheel; the order is the same."""

    __slots__ = ("_heap", "_scheduled")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer, Callable[[int], list[T] | None]]] = []
        self._scheduled = 0

    def at(self, due_us: int, callback: Callable[[int], list[T] | None]) -> Timer:
        """Call `callback(now_us)` once when the time has come."""
        timer = Timer(due_us)
        heapq.heappush(self._heap, (due_us, self._scheduled, timer, callback))
        self._scheduled += 1
        return timer

    @property
    def next_deadline_us(self) -> int | None:
        heap = self._heap
        while heap and heap[0][2].cancelled:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def run_due(self, now_us: int) -> list[T]:
        """Run all that is due at `now_us`, including what these callbacks schedule for now or earlier."""
        actions: list[T] = []
        while (due_us := self.next_deadline_us) is not None and due_us <= now_us:
            _, _, timer, callback = heapq.heappop(self._heap)
            timer.cancelled = True
            actions += callback(now_us) or []
        return actions
