"""Check events and state: `EventWatch` finds expected and forbidden events, `state_holds` evaluates conditions.

Columns are compared when an event is emitted, so `"@victim"` means the nodes captured under that name by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeGuard

from replica.trace.events import CLASS_OF_EVENT, TraceEvent, TraceRow
from replica.trace.listening import Handler, Listener
from scenarios.language.expect import (
    EventTest,
    EventValue,
    NodeTest,
    NumberTest,
    PartitionTest,
    ReplicaTest,
    StateTest,
    TimeTest,
)
from scenarios.language.selectors import Selector, SelectorError, resolve
from scenarios.observe.view import ClusterView, ReplicaView
from scenarios.observe.wording import seconds

# --------------------------------------------------------------------------------------------------------- state checks
#
# Evaluation of conditions on the state of the run, for `when`, `check` and `expect.state`.

Captured = Mapping[str, tuple[str, ...]]


def state_holds(test: StateTest, view: ClusterView, captured: Captured) -> bool:
    """Return whether all parts of the condition hold now. This is cheap enough for every change of `view.version`."""
    return next(_findings(test, view, captured, only_failures=True), None) is None


def state_failures(test: StateTest, view: ClusterView, captured: Captured) -> list[str]:
    """Return a line with the expected and the actual value for each part of the condition that does not hold."""
    return [line for _, line in _findings(test, view, captured, only_failures=True)]


def state_findings(test: StateTest, view: ClusterView, captured: Captured) -> list[tuple[bool, str]]:
    """Return (True if it holds, line of text) for every part of the condition."""
    return list(_findings(test, view, captured, only_failures=False))


def _findings(
    test: StateTest, view: ClusterView, captured: Captured, *, only_failures: bool
) -> Iterator[tuple[bool, str]]:
    parts = [_of_partition(part, view, captured) for part in test.partitions]
    parts.extend(_of_node(node, view, captured) for node in test.nodes)
    for what, expected, actual, held in chain.from_iterable(parts):
        if held and only_failures:
            continue
        yield held, f"{what} is {actual}" if held else f"{what}: expected {expected}, found {actual}"


_Finding = tuple[str, str, str, bool]
"""The name of a value, its expected value, its actual value, and whether the actual one is as expected."""


def _of_partition(test: PartitionTest, view: ClusterView, captured: Captured) -> Iterator[_Finding]:
    name = str(test.partition)
    known = view.partitions.get(test.partition)
    leader = known.leader if known else None
    if test.leader is not None:
        wanted = _names(test.leader, view, captured)
        yield f"leader of {name}", wanted[1], leader or "nobody", wanted[0] == ((leader,) if leader else ())
    if test.epoch is not None:
        yield _number(f"epoch of {name}", test.epoch, known.leader_epoch if known else None)
    if test.isr is not None:
        yield _members(f"ISR of {name}", _names(test.isr, view, captured), known.isr if known else ())
    if test.elr is not None:
        yield _members(f"ELR of {name}", _names(test.elr, view, captured), known.elr if known else ())
    if test.offline is not None:
        offline = leader is None
        yield name, "offline" if test.offline else "online", "offline" if offline else "online", offline is test.offline
    replica = known.replicas.get(leader) if known and leader else None
    if test.hw is not None:
        yield _number(f"HW of {name}", test.hw, replica.high_watermark if replica else None)
    if test.leo is not None:
        yield _number(f"LEO of {name}", test.leo, replica.log_end_offset if replica else None)


def _of_node(test: NodeTest, view: ClusterView, captured: Captured) -> Iterator[_Finding]:
    nodes, text = _names(test.node, view, captured)
    if not nodes:
        yield "node", text, "nobody", False
        return
    for name in nodes:
        node = view.nodes.get(name)
        running = node is not None and node.running
        if test.running is not None:
            words = {True: "running", False: "down"}
            yield name, words[test.running], words[running], running is test.running
        if test.fenced is not None:
            fenced = node is None or node.fenced
            states = {True: "fenced", False: "not fenced"}
            yield name, states[test.fenced], states[fenced], fenced is test.fenced
        for part in test.replicas:
            yield from _of_replica(name, part, view.replica(part.partition, name))


def _of_replica(node: str, test: ReplicaTest, replica: ReplicaView | None) -> Iterator[_Finding]:
    where = f"of {test.partition} on {node}"
    if test.hw is not None:
        yield _number(f"HW {where}", test.hw, replica.high_watermark if replica else None)
    if test.leo is not None:
        yield _number(f"LEO {where}", test.leo, replica.log_end_offset if replica else None)
    if test.epoch is not None:
        yield _number(f"epoch {where}", test.epoch, replica.leader_epoch if replica else None)
    if test.leading is not None:
        leading = replica is not None and replica.role == "leader"
        words = {True: "leading", False: "not leading"}
        yield f"{node} for {test.partition}", words[test.leading], words[leading], leading is test.leading


def _members(what: str, wanted: tuple[tuple[str, ...] | None, str], members: tuple[str, ...]) -> _Finding:
    return what, wanted[1], _braces(members), wanted[0] is not None and sorted(wanted[0]) == sorted(members)


def _number(what: str, test: NumberTest, value: int | None) -> _Finding:
    return what, str(test), "unknown" if value is None else str(value), value is not None and test.holds(value)


def _names(selector: Selector, view: ClusterView, captured: Captured) -> tuple[tuple[str, ...] | None, str]:
    """Return the nodes that a selector matches now (None if it cannot be resolved), and a text for messages."""
    try:
        nodes = resolve(selector, view, captured)
    except SelectorError:
        return None, str(selector)
    text = nodes[0] if len(nodes) == 1 else _braces(nodes) if nodes else "nobody"
    return nodes, text if selector.plain_names is not None else f"{text} ({selector})"


def _braces(names: tuple[str, ...]) -> str:
    return "{" + ", ".join(names) + "}"


NEAR_MISSES_KEPT = 3


@dataclass(slots=True)
class Watch:
    """An EventTest and its findings so far.

    Attributes:
        found: number of matching events.
        first: description of the first matching event.
        near_misses: descriptions of events of the same kind that do not match, at most NEAR_MISSES_KEPT.
    """

    test: EventTest
    captured: Captured
    found: int = 0
    first: str = ""
    near_misses: list[str] = field(default_factory=list)

    def see(self, row: TraceRow, event: TraceEvent) -> None:
        in_time = self.test.between is None or self.test.between.holds(row.at_us)
        fits = all(
            value_fits(getattr(event, column), wanted, self.captured) for column, wanted in self.test.where.items()
        )
        if in_time and fits:
            self.found += 1
            self.first = self.first or self._line(row)
        elif len(self.near_misses) < NEAR_MISSES_KEPT and self._same_place(event):
            self.near_misses.append(self._line(row))

    @property
    def held(self) -> bool:
        if self.test.count is not None:
            return self.test.count.holds(self.found)
        return self.found == 0 if self.test.never else self.found > 0

    @property
    def why(self) -> str:
        if self.held:
            return f"found {self.found}" + (f", first at {self.first}" if self.first else "")
        if self.test.never:
            return f"expected none, found {self.found}, first at {self.first}"
        wanted = f"expected {self.test.count or 'at least 1'}, found {self.found}"
        if self.found:
            return f"{wanted}, first at {self.first}"
        return f"{wanted}; events of that kind: {'; '.join(self.near_misses) or 'none'}"

    def _same_place(self, event: TraceEvent) -> bool:
        columns = [column for column in ("topic", "partition") if column in self.test.where]
        return all(value_fits(getattr(event, column), self.test.where[column], {}) for column in columns)

    def _line(self, row: TraceRow) -> str:
        """Return an event's time and the columns that the test compares: `19.000 s (broker b2, leader_epoch 1)`."""
        shown = [
            f"{column} {printed(getattr(row.event, column))}"
            for column in self.test.where
            if column not in ("topic", "partition")
        ]
        return f"{seconds(row.at_us)} ({', '.join(shown)})" if shown else seconds(row.at_us)


class EventWatch(Listener):
    """Listener that evaluates all EventTests of an `expect` block.

    Args:
        captured: nodes that steps have captured, by the name in `as`. It may grow during the run.
    """

    def __init__(self, tests: Sequence[EventTest], captured: Captured) -> None:
        self.watches = [Watch(test, captured) for test in tests]

    def handlers_of(self, kind: type) -> tuple[Handler, ...]:
        return tuple(watch.see for watch in self.watches if CLASS_OF_EVENT[watch.test.event] is kind)


def value_fits(value: object, wanted: EventValue, captured: Captured) -> bool:
    """Return whether a column has the expected value. Lists may be in any order; `@name` means its captured nodes."""
    if isinstance(wanted, NumberTest):
        return isinstance(value, int) and not isinstance(value, bool) and wanted.holds(value)
    if isinstance(wanted, str) and wanted.startswith("@"):
        nodes = captured.get(wanted[1:], ())
        return value in nodes if isinstance(value, str) else value == nodes
    if isinstance(wanted, tuple):
        named = [name for item in wanted for name in (captured.get(item[1:], ()) if item[:1] == "@" else (item,))]
        return _is_list(value) and sorted(value) == sorted(named)
    return value == wanted


def _is_list(value: object) -> TypeGuard[Sequence[str]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def printed(value: object) -> str:
    """Return a column's value, or the value that a test expects, as text for a screen."""
    if _is_list(value):
        return "{" + ", ".join(value) + "}"
    return "none" if value is None else str(value)


def described(test: EventTest) -> str:
    """Return a description such as `leader_elected of t-0 with broker b2, between 17.000 s and 20.000 s`."""
    where: Mapping[str, EventValue] = test.where
    text = f"never {test.event}" if test.never else test.event
    if "topic" in where and "partition" in where:
        text += f" of {printed(where['topic'])}-{printed(where['partition'])}"
    columns = [
        f"{column} {printed(wanted)}" for column, wanted in where.items() if column not in ("topic", "partition")
    ]
    if columns:
        text += f" with {', '.join(columns)}"
    return text + (f", {time_window(test.between)}" if test.between is not None else "")


def time_window(test: TimeTest) -> str:
    """Return a description such as `between 17.000 s and 20.000 s`, `from 30.000 s on` or `until 5.000 s`."""
    if test.low_us is not None and test.high_us is not None:
        return f"between {seconds(test.low_us)} and {seconds(test.high_us)}"
    if test.low_us is not None:
        return f"from {seconds(test.low_us)} on"
    return "at any time" if test.high_us is None else f"until {seconds(test.high_us)}"
