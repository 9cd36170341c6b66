"""The wall clock of one machine. Kafka asks two clocks: `Time.milliseconds`, which an operator or NTP can set, and
`Time.nanoseconds`, which cannot jump.

Replica lag, segment ages and the expiry of producers are measured by the first (Partition.scala, UnifiedLog.java);
sessions, timers, purgatories and schedulers by the second (KAFKA-4051), which here is the run's own time.
Simplified: request timeouts between brokers, which Kafka's NetworkClient measures by the wall clock, do not see jumps.
"""

from __future__ import annotations


class WallClock:
    """offset_us: how far it is ahead of the run's own time; it survives the processes on the machine.

    least_us, most_us: how far jumps have taken it from where it began
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
        """The clock's time at this instant of the run, microseconds."""
        return now_us + self.offset_us
