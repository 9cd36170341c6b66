"""The events of several processes in one order, in which no effect precedes its cause.

A node writes the events of each step to its control pair before anything else can follow from them. They are stamped
with a clock that all processes of the machine share. So if a step was read in one round over all pairs, all that led to
it was read in that round or is in the next, and sorting both rounds by time puts causes first. So nothing has
to be waited for, and a process that is stopped or dead delays no other.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from cluster.live.control import AnswerTold, EventsTold, ExitTold, ObservationTold
from cluster.live.time import LiveTime
from replica.trace.events import TraceLog

InPlace = EventsTold | AnswerTold | ObservationTold | ExitTold
"""The kinds of message that have a place in the order."""


class EventSource:
    """One life of one node.

    read: takes what there is to read now, and returns the part of it that has a place in the order
    told: called for each item that is no event, when its turn has come
    """

    def __init__(
        self,
        read: Callable[[], list[InPlace]],
        told: Callable[[AnswerTold | ObservationTold | ExitTold], None],
    ) -> None:
        self.read = read
        self.told = told
        self.numbers = array("q")
        """The number of each of its events in the trace, by its own number."""


class GatheringTime(LiveTime):
    """Wall time of the process that runs the cluster: every step begins with what the nodes have told before it."""

    def __init__(self, trace: TraceLog) -> None:
        super().__init__(trace)
        self._sources: list[EventSource] = []
        self._unripe: list[tuple[int, int, InPlace, EventSource]] = []
        """Read in the latest round only: (time, place of the source, what, source)."""
        self._gathering = False
        self._latest_us = 0

    def listen_to(self, source: EventSource) -> None:
        self._sources.append(source)

    def leave(self, source: EventSource) -> None:
        """It has told everything."""
        self._sources.remove(source)

    def begin(self, cause: int | None) -> None:
        self.gather()
        super().begin(cause)
        self._latest_us = self.now_us

    def gather(self) -> bool:
        """Put what is ripe into the trace; false if nothing new was read and nothing waits."""
        if self._gathering:
            return False
        read = self._round()
        first = self._unripe + read
        if not first:
            return False
        second = self._round()
        ripe_us = max(entry[0] for entry in first)
        entries = sorted(first + second, key=lambda entry: entry[:2])
        ripe = [entry for entry in entries if entry[0] <= ripe_us]
        self._unripe = entries[len(ripe) :]
        self._gathering = True
        try:
            for _, _, what, source in ripe:
                self._put(what, source)
        finally:
            self._gathering = False
        if self._unripe:
            self.at(self.now_us, _nothing)  # So that another step comes soon.
        return True

    def gather_all(self) -> None:
        """Until everything that was reported before now has been taken."""
        while self.gather():
            pass

    def _round(self) -> list[tuple[int, int, InPlace, EventSource]]:
        return [
            (what.at_us, place, what, source) for place, source in enumerate(self._sources) for what in source.read()
        ]

    def _put(self, what: InPlace, source: EventSource) -> None:
        log = self._trace
        # What had to wait for its turn gets the time of now: the trace does not go back in time.
        self._latest_us = self.now_us = log.at_us = max(self._latest_us, what.at_us)
        if not isinstance(what, EventsTold):
            log.cause = None
            source.told(what)
            return
        for number, causes, event in what.events:
            assert number == len(source.numbers), "a process numbers its events without gaps"
            log.cause = None
            source.numbers.append(log.emit(event, *(source.numbers[cause] for cause in causes)))


def _nothing() -> None:
    pass
