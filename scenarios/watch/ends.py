"""When the end of a leader's log was first seen beyond an offset: the age of the oldest record a follower lacks."""

from __future__ import annotations

from bisect import bisect_right

from replica.ids import Offset

SAMPLES_KEPT = 512


class LeaderEnds:
    """Samples of one leader's log end, for as long as a replica lacks some of its records. Both lists only rise.

    Of a replica that stays behind for long, the samples become coarser, never more than SAMPLES_KEPT.
    """

    __slots__ = ("_at_us", "_ends")

    def __init__(self) -> None:
        self._at_us: list[int] = []
        self._ends: list[Offset] = []

    def add(self, at_us: int, end: Offset, slowest: Offset) -> None:
        """slowest: where the shortest of the replicas' logs ends"""
        if self._ends and end < self._ends[-1]:
            self._at_us, self._ends = [], []
        if not self._ends or end > self._ends[-1]:
            self._at_us.append(at_us)
            self._ends.append(end)
        needless = max(0, min(bisect_right(self._ends, slowest), len(self._ends) - 1))
        if needless:
            del self._at_us[:needless], self._ends[:needless]
        if len(self._ends) > SAMPLES_KEPT:
            del self._at_us[1:-1:2], self._ends[1:-1:2]

    def first_beyond(self, end: Offset) -> int | None:
        """When the leader was first seen with a record at `end`; None: it was not."""
        place = bisect_right(self._ends, end)
        return self._at_us[place] if place < len(self._at_us) else None
