"""What of a listener is called with an event, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replica.trace import events as trace
from replica.trace.events import TraceLog, TraceRow
from replica.trace.listening import Handler, Listener, Routes, on

STOPPED = trace.NodeStopped(node="b1", how="kill")


class Told(Listener):
    def __init__(self, said: list[str], *parts: Listener) -> None:
        self.said = said
        self.parts = parts

    def say(self, what: str, row: TraceRow) -> None:
        self.said.append(f"{type(self).__name__}.{what} {row.seq}")

    @on(trace.NodeStopped)
    def z(self, row: TraceRow, event: trace.NodeStopped) -> None:
        self.say("z", row)

    @on(trace.NodeStopped)
    def a(self, row: TraceRow, event: trace.NodeStopped) -> None:
        self.say("a", row)


class Derived(Told):
    @on(trace.NodeStopped)
    def c(self, row: TraceRow, event: trace.NodeStopped) -> None:
        self.say("c", row)

    def z(self, row: TraceRow, event: Any) -> None:
        """Declared in the base."""
        self.say("own z", row)


class Parted(Told):
    pass


class OfAll(Told):
    @on(trace.TraceEvent)
    def z(self, row: TraceRow, event: trace.TraceEvent) -> None:
        self.say("all", row)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (Told, ["Told.z 0", "Told.a 0"]),
        (Derived, ["Derived.own z 0", "Derived.a 0", "Derived.c 0"]),
        (lambda said: Parted(said, Derived(said), Told(said)),
         ["Derived.own z 0", "Derived.a 0", "Derived.c 0", "Told.z 0", "Told.a 0", "Parted.z 0", "Parted.a 0"]),
        (OfAll, ["OfAll.all 0", "OfAll.a 0"]),
    ],
)  # fmt: skip
def test_methods_take_an_event_as_they_are_defined_bases_first_and_parts_before(
    make: Callable[[list[str]], Listener], expected: list[str]
) -> None:
    said: list[str] = []
    TraceLog([make(said)]).emit(STOPPED)
    assert said == expected
    said.clear()
    make(said)(TraceRow(0, 0, (), STOPPED))
    assert said == expected


def test_a_kind_is_taken_with_those_derived_from_it_and_no_other() -> None:
    class Refusals(Listener):
        @on(trace.RequestRefused)
        def _refused(self, row: TraceRow, event: trace.RequestRefused) -> None: ...

    kinds = [kind for kind in trace.EVENT_CLASSES if Refusals().handlers_of(kind)]
    assert kinds == [trace.RequestRefused, trace.OffsetCommitRefused]


def test_listeners_are_called_in_their_order_and_a_function_with_every_row() -> None:
    said: list[str] = []
    log = TraceLog([lambda row: said.append(f"first {row.seq}"), Told(said), lambda row: said.append("last")])
    log.emit(STOPPED)
    log.emit(trace.TopicDeleted(node="c1", topic="t"))
    assert said == ["first 0", "Told.z 0", "Told.a 0", "last", "first 1", "last"]


def test_a_listener_is_asked_once_for_each_kind() -> None:
    asked: list[type] = []

    class Asked(Listener):
        def handlers_of(self, kind: type) -> tuple[Handler, ...]:
            asked.append(kind)
            return ()

    log = TraceLog([Asked()])
    for _ in range(3):
        log.emit(STOPPED)
    assert asked == [trace.NodeStopped]
    assert Routes([])[trace.NodeStopped] == ()
