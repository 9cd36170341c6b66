"""The clocks of a node: its deadlines, in the order of (due time, order of scheduling), and its wall clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


CANCELLED_MAX = 64
"""The number of cancelled deadlines above which they are removed, if they also outnumber the live ones."""


DUE_US, CALLBACK, TIMERS = 0, 2, 3
"""Positions of entries in a Timer. The order of scheduling is between the first two."""


class Timer(list[Any]):
    """One deadline, as an entry of the heap: due time, order of scheduling, callback, and its Timers.

    The callback is None after it was called or cancelled. `cancel` may be called repeatedly, and drops the callback.
    """

    __slots__ = ()

    def cancel(self) -> None:
        if self[CALLBACK] is not None:
            self[CALLBACK] = None
            self[TIMERS].cancelled += 1

    @property
    def callback(self) -> Callable[[int], Any] | None:
        found: Callable[[int], Any] | None = self[CALLBACK]
        return found


class Timers(Generic[T]):
    """A heap of callbacks that may return actions of type T. Kafka uses a timing wheel; the order is the same.

    Most deadlines are cancelled long before they are due, so cancelled ones are counted and removed early.
    """

    __slots__ = ("_heap", "_scheduled", "cancelled")

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._scheduled = 0
        self.cancelled = 0

    def at(self, due_us: int, callback: Callable[[int], list[T] | None]) -> Timer:
        """Call `callback(now_us)` once at or after `due_us`."""
        if self.cancelled > CANCELLED_MAX and self.cancelled * 2 > len(self._heap):
            self._heap = [timer for timer in self._heap if timer[CALLBACK] is not None]
            heapq.heapify(self._heap)
            self.cancelled = 0
        timer = Timer((due_us, self._scheduled, callback, self))
        heapq.heappush(self._heap, timer)
        self._scheduled += 1
        return timer

    @property
    def next_deadline_us(self) -> int | None:
        heap = self._heap
        while heap and heap[0][CALLBACK] is None:
            heapq.heappop(heap)
            self.cancelled -= 1
        return heap[0][DUE_US] if heap else None

    def run_due(self, now_us: int) -> list[T]:
        """Call everything due at `now_us`, including what these callbacks schedule for now or earlier.

        Return their actions.
        """
        actions: list[T] = []
        while (due_us := self.next_deadline_us) is not None and due_us <= now_us:
            timer = heapq.heappop(self._heap)
            callback, timer[CALLBACK] = timer[CALLBACK], None
            actions += callback(now_us) or []
        return actions


# ----------------------------------------------------------------------------------------------------------- wall clock
#
# The wall clock of one machine. Kafka uses two clocks: `Time.milliseconds`, which an operator or NTP can set, and
# `Time.nanoseconds`, which cannot jump.
#
# Replica lag, segment ages and the expiry of producers are measured by the first (Partition.scala, UnifiedLog.java);
# sessions, timers, purgatories and schedulers by the second (KAFKA-4051), which here is the run's own time.
# Simplified: request timeouts between brokers, which Kafka's NetworkClient measures by the wall clock, do not see
# jumps.


class WallClock:
    """The wall clock of a machine. It keeps its state when processes of the machine end.

    Attributes:
        offset_us: difference to the clock of the run, which never jumps.
        least_us, most_us: lowest and highest value so far of the sum of all jumps.
    """

    __slots__ = ("_moved_us", "least_us", "most_us", "offset_us")

    def __init__(self, offset_us: int = 0) -> None:
        self.offset_us = offset_us
        self._moved_us = self.least_us = self.most_us = 0

    def jump(self, by_us: int) -> None:
        self.offset_us += by_us
        self._moved_us += by_us
        self.least_us, self.most_us = min(self.least_us, self._moved_us), max(self.most_us, self._moved_us)

    def at(self, now_us: int) -> int:
        """Return the clock's time in microseconds at a time of the run."""
        return now_us + self.offset_us
