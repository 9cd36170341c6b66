"""The clock of a run on real Kafka, and the agenda with the scenario's scheduled actions.

The run begins when the cluster has started: until then the clock is negative, and the trace shows time 0. A JVM takes
seconds to start, unlike the brokers of other modes. While a JVM started by the scenario comes up, the agenda pauses,
which delays all later actions.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Awaitable, Callable

from cluster.clocks import WallClock
from cluster.live.time import LiveTime
from replica.trace.events import TraceLog

WARM_UP_US = 600_000_000
"""How far below 0 the clock starts."""
FOREVER_US = 1 << 62
LOOK_US = 20_000
"""The interval at which the clock and the agenda check the conditions that they wait for."""

Callback = Callable[[], None]


class KafkaTime(LiveTime):
    def __init__(self, trace: TraceLog, may_begin: Callable[[], bool]) -> None:
        """Start the clock below 0.

        Args:
            may_begin: called repeatedly until it returns True; the clock is then set to 0. An exception of it ends the
                run.
        """
        super().__init__(trace)
        self._may_begin = may_begin
        self.has_begun = False
        self.agenda = Agenda(self)
        self._started_ns += WARM_UP_US * 1000
        self.epoch_us += WARM_UP_US
        self._wall_clocks: list[WallClock] = []
        self.measures_requests = False

    def wall_clock(self) -> WallClock:
        """Create a machine's clock. The clock is set again when the run begins."""
        clock = super().wall_clock()
        self._wall_clocks.append(clock)
        return clock

    def begin(self, cause: int | None) -> None:
        super().begin(cause)
        self._trace.at_us = max(0, self.now_us)

    async def drive(self, until_us: int, between: Callable[[], bool], work: Callable[[], Awaitable[None]]) -> None:
        def at_first() -> bool:
            found = between()
            if self._may_begin():
                self.stop()
            return found

        self.enter()
        self._look()
        await super().drive(0, at_first, work)
        self._stopped = False
        self._begin()
        self.agenda.at(until_us, self.stop)
        await super().drive(FOREVER_US, between, work)

    def at_by_file(self, at_us: int, callback: Callback) -> None:
        self.agenda.at(at_us, callback)

    def _look(self) -> None:
        """Take steps at short intervals until the run begins, so that `may_begin` is called."""
        if not self.has_begun:
            self.at(self.now_us + LOOK_US, self._look)

    def _begin(self) -> None:
        self.has_begun = True
        self._started_ns = time.monotonic_ns()
        before_us, self.epoch_us = self.epoch_us, time.time_ns() // 1000
        for clock in self._wall_clocks:
            clock.offset_us += self.epoch_us - before_us
        self.enter()


class Agenda:
    """The scheduled actions of a scenario. Their schedule pauses while a condition is awaited."""

    def __init__(self, time: LiveTime) -> None:
        self._time = time
        self._entries: list[tuple[int, int, Callback]] = []
        self._count = 0
        self._waiting: dict[Callable[[], bool], int] = {}
        """Awaited conditions with their deadlines."""
        self._stands_since_us: int | None = None
        self._late_us = 0

    @property
    def late_us(self) -> int:
        """The current delay of all scheduled actions in microseconds."""
        stands = 0 if self._stands_since_us is None else self._time.now_us - self._stands_since_us
        return self._late_us + stands

    def at(self, at_us: int, callback: Callback) -> None:
        heapq.heappush(self._entries, (at_us, self._count, callback))
        self._count += 1
        self._time.at(at_us + self._late_us, self._come_due)

    def wait_for(self, has_come: Callable[[], bool], patience_us: int) -> None:
        if self._stands_since_us is None:
            self._stands_since_us = self._time.now_us
            self._time.at(self._time.now_us + LOOK_US, self._look)
        self._waiting[has_come] = self._time.now_us + patience_us

    def _look(self) -> None:
        now_us = self._time.now_us
        self._waiting = {
            has_come: until_us for has_come, until_us in self._waiting.items() if now_us < until_us and not has_come()
        }
        if self._waiting:
            self._time.at(now_us + LOOK_US, self._look)
            return
        self._late_us, self._stands_since_us = self.late_us, None
        for at_us, _, _ in self._entries:
            self._time.at(at_us + self._late_us, self._come_due)

    def _come_due(self) -> None:
        """Run the first entry if it is due. Each entry causes at least one call, at its time or later."""
        if self._stands_since_us is None and self._entries and self._entries[0][0] + self._late_us <= self._time.now_us:
            _, _, callback = heapq.heappop(self._entries)
            callback()
