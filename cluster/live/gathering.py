"""Merges the events of several node processes so that no effect precedes its cause.

A node writes the events of each step to its control pair before anything else can follow from them. Each event has a
time by a clock that all processes of the machine share. If a step was read in one round over all control pairs, each of
its causes was read in that round or will be read in the next. So sorting two rounds by time puts causes first. The
merge waits for no process; a stopped or dead process delays no other.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from cluster.live.control import AnswerTold, EventsTold, ExitTold, ObservationTold
from cluster.live.time import LiveTime
from replica.trace.events import TraceLog

InPlace = EventsTold | AnswerTold | ObservationTold | ExitTold
"""The messages that are ordered by time."""


class EventSource:
    """The messages from one process of a node.

    Args:
        read: returns the messages of type InPlace that can be read now, and handles all others itself.
        receive: called in order for each of those messages that has no trace events.
    """

    def __init__(
        self,
        read: Callable[[], list[InPlace]],
        receive: Callable[[AnswerTold | ObservationTold | ExitTold], None],
    ) -> None:
        self.read = read
        self.receive = receive
        self.numbers = array("q")
        """For each event of the node, its number in the trace."""


class GatheringTime(LiveTime):
    """The clock of the process that runs the cluster. Each step first takes the messages that nodes sent before it."""

    def __init__(self, trace: TraceLog) -> None:
        super().__init__(trace)
        self._sources: list[EventSource] = []
        self._unripe: list[tuple[int, int, InPlace, EventSource]] = []
        """Messages that are not in the trace yet, as (time, index of the source, message, source).

        An earlier message may still come.
        """
        self._gathering = False
        self._latest_us = 0

    def listen_to(self, source: EventSource) -> None:
        self._sources.append(source)

    def leave(self, source: EventSource) -> None:
        """Remove a source whose messages have all been read."""
        self._sources.remove(source)

    def begin(self, cause: int | None) -> None:
        self.gather()
        super().begin(cause)
        self._latest_us = self.now_us

    def gather(self) -> bool:
        """Write into the trace all messages that no later message can precede. Return False if there were none."""
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
            self.at(self.now_us, _nothing)  # Cause another step soon.
        return True

    def gather_all(self) -> None:
        """Read and write all messages that have been sent so far."""
        while self.gather():
            pass

    def _round(self) -> list[tuple[int, int, InPlace, EventSource]]:
        return [
            (what.at_us, number, what, source) for number, source in enumerate(self._sources) for what in source.read()
        ]

    def _put(self, what: InPlace, source: EventSource) -> None:
        log = self._trace
        # A late message gets the latest time, because times in the trace never decrease.
        self._latest_us = self.now_us = log.at_us = max(self._latest_us, what.at_us)
        if not isinstance(what, EventsTold):
            log.cause = None
            source.receive(what)
            return
        for number, causes, event in what.events:
            assert number == len(source.numbers), "an event of a process is missing or repeated"
            log.cause = None
            source.numbers.append(log.emit(event, *(source.numbers[cause] for cause in causes)))


def _nothing() -> None:
    pass
