"""The events of several processes in one order."""

from __future__ import annotations

from cluster.live.control import EventsTold, NumberedEvent
from cluster.live.gathering import EventSource, GatheringTime, InPlace
from replica.trace.events import NodeStarted, TraceLog, TraceRow


class Mouth:
    """One process: its events become readable in the rounds for which they are stated."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rounds: list[list[InPlace]] = []
        self.source = EventSource(self._read, lambda told: None)
        self._number = 0

    def _read(self) -> list[InPlace]:
        return self.rounds.pop(0) if self.rounds else []

    def event(self, at_us: int, *causes: int) -> EventsTold:
        self._number += 1
        event = NodeStarted(node=f"{self.name}{self._number - 1}", role="broker", incarnation=1)
        return EventsTold(at_us, (NumberedEvent(self._number - 1, causes, event),))


def world(*names: str) -> tuple[list[TraceRow], GatheringTime, list[Mouth]]:
    rows: list[TraceRow] = []
    time = GatheringTime(TraceLog([rows.append]))
    mouths = [Mouth(name) for name in names]
    for mouth in mouths:
        time.listen_to(mouth.source)
    return rows, time, mouths


def names(rows: list[TraceRow]) -> list[str]:
    return [row.event.node for row in rows if isinstance(row.event, NodeStarted)]


def test_a_cause_that_is_read_a_round_later_still_comes_first() -> None:
    rows, time, (a, b) = world("a", "b")
    effect = b.event(20)
    a.rounds = [[], [a.event(10)]]  # written after a was read and before b was
    b.rounds = [[effect], []]
    time.gather()
    assert names(rows) == ["a0", "b0"]


def test_what_only_the_later_round_has_brought_waits_for_one_more() -> None:
    """Its own causes may not have been read yet."""
    rows, time, (a, b) = world("a", "b")
    b.rounds = [[b.event(20)], [b.event(40)], []]
    a.rounds = [[], [], [a.event(30)]]
    time.gather()
    assert names(rows) == ["b0"]
    time.gather_all()
    assert names(rows) == ["b0", "a0", "b1"]


def test_time_never_goes_back_and_causes_keep_their_events() -> None:
    rows, time, (a, b) = world("a", "b")
    a.rounds = [[a.event(50), a.event(60, 0)]]
    time.gather_all()
    b.rounds = [[b.event(5), b.event(70, 0)]]  # a process that was stopped in the middle of a step
    time.gather_all()
    assert [(row.at_us, row.causes) for row in rows] == [(50, ()), (60, (0,)), (60, ()), (70, (2,))]
