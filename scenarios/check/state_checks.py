"""Evaluates conditions on the state of the run: those of `when`, `check` and `expect.state`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from scenarios.language.conditions import NodeTest, NumberTest, PartitionTest, ReplicaTest, StateTest
from scenarios.language.selectors import Selector, SelectorError, resolve
from scenarios.observe.view import ClusterView, ReplicaView

Captured = Mapping[str, tuple[str, ...]]


def state_holds(test: StateTest, view: ClusterView, captured: Captured) -> bool:
    """Whether all parts hold now; cheap enough for a `when` step to ask after every change of `view.version`."""
    return next(_findings(test, view, captured, only_failures=True), None) is None


def state_failures(test: StateTest, view: ClusterView, captured: Captured) -> list[str]:
    """One line per part that does not hold, expected and actual value side by side; empty when the state is so."""
    return [line for _, line in _findings(test, view, captured, only_failures=True)]


def state_findings(test: StateTest, view: ClusterView, captured: Captured) -> list[tuple[bool, str]]:
    """(held, line) for every part."""
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
"""what, expected, actual, held"""


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
    """The nodes a selector means now (None: it matches no node that it may name), and how to print them."""
    try:
        nodes = resolve(selector, view, captured)
    except SelectorError:
        return None, str(selector)
    text = nodes[0] if len(nodes) == 1 else _braces(nodes) if nodes else "nobody"
    return nodes, text if selector.plain_names is not None else f"{text} ({selector})"


def _braces(names: tuple[str, ...]) -> str:
    return "{" + ", ".join(names) + "}"
