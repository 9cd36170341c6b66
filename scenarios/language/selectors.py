"""Selectors: which nodes a step means. Parsed with the file, resolved once, at the moment the step fires.

`b1` · `[b1, b2]` · `leader(t-0)` · `followers(t-0)` · `follower(t-0,1)` · `isr(t-0)` · `replicas(t-0)` · `controller` ·
`brokers` · `clients` · `rack(A)` · `others(b1)` · `coordinator(g)` (of a consumer group) ·
`"@name"` (what an earlier step named by `as` had resolved to).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from replica.ids import OUTSIDE, TopicPartition

FUNCTIONS_OF_PARTITION = ("leader", "followers", "follower", "isr", "replicas")
FUNCTIONS_OF_NAMES = ("rack", "others", "coordinator")
FUNCTIONS = (*FUNCTIONS_OF_PARTITION, *FUNCTIONS_OF_NAMES)
WORDS = ("controller", "brokers", "clients")

_CALL = re.compile(r"([a-z]+)\(([^()]*)\)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OUTSIDER = re.compile(re.escape(OUTSIDE) + r"[A-Za-z0-9._~%: -]+")


@dataclass(frozen=True, slots=True)
class Term:
    """One name or call of a selector.

    kind: `node`, `captured` (an `@name`), one of WORDS or one of FUNCTIONS
    names: the node, the captured name, the rack, the group, or the nodes after `others`
    position: for `follower`, counted from 1 in assignment order, the current leader left out
    """

    kind: str
    names: tuple[str, ...] = ()
    partition: TopicPartition | None = None
    position: int = 0


@dataclass(frozen=True, slots=True)
class Selector:
    """Terms in the order written; no terms at all means no node (`none`)."""

    terms: tuple[Term, ...]

    def __str__(self) -> str:
        texts = [text_of(term) for term in self.terms]
        return ", ".join(texts) if texts else "none"

    @property
    def plain_names(self) -> tuple[str, ...] | None:
        """The nodes, when the selector names them outright; None when it depends on the state of the run."""
        if all(term.kind == "node" for term in self.terms):
            return tuple(term.names[0] for term in self.terms)
        return None


NO_NODES = Selector(())


class ClusterSight(Protocol):
    """The state of the run at this instant that resolving needs; the controller's view of leaders and ISRs."""

    @property
    def brokers(self) -> tuple[str, ...]: ...

    @property
    def clients(self) -> tuple[str, ...]: ...

    @property
    def controller(self) -> str:
        """the active one, or the last that was"""
        ...

    @property
    def racks(self) -> Mapping[str, str]:
        """rack of each broker that has one"""
        ...

    def leader(self, partition: TopicPartition) -> str | None: ...

    def coordinator(self, group_id: str) -> str | None: ...

    def isr(self, partition: TopicPartition) -> tuple[str, ...]: ...

    def replicas(self, partition: TopicPartition) -> tuple[str, ...]:
        """in assignment order"""
        ...


class SelectorError(ValueError):
    """The text is not a selector, or it matches no node at this moment; `suggestion` names the likely intent."""

    def __init__(self, message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.suggestion = suggestion


def parse_partition(text: str) -> TopicPartition:
    """`orders-0` -> TopicPartition. raises: SelectorError"""
    topic, dash, number = text.strip().rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdigit() or len(number) > 6:
        raise SelectorError(f"`{text.strip()}` is not a partition; write TOPIC-NUMBER, such as t-0")
    return TopicPartition(topic, int(number))


def parse_term(text: str) -> Term:
    """raises: SelectorError"""
    text = text.strip()
    if text.startswith("@"):
        if not _NAME.fullmatch(text[1:]):
            raise SelectorError(f'`{text}` names no step; write "@name", with the name after some step\'s `as`')
        return Term("captured", (text[1:],))
    call = _CALL.fullmatch(text)
    if call:
        return _parse_call(call[1], call[2])
    if text in WORDS:
        return Term(text)
    if text in FUNCTIONS:
        argument = {"rack": "A", "others": "b1", "coordinator": "g", "follower": "t-0,1"}.get(text, "t-0")
        raise SelectorError(f"`{text}` needs an argument", f"{text}({argument})")
    if not _NAME.fullmatch(text) and not _OUTSIDER.fullmatch(text):
        raise SelectorError(f"`{text}` is not a selector")
    return Term("node", (text,))


def _parse_call(function: str, argument: str) -> Term:
    arguments = [part.strip() for part in argument.split(",")]
    if function not in FUNCTIONS:
        import difflib  # only on the way to an error

        close = difflib.get_close_matches(function, FUNCTIONS, n=1)
        raise SelectorError(f"`{function}(...)` is not a selector", f"{close[0]}({argument})" if close else None)
    if function in FUNCTIONS_OF_NAMES:
        for name in arguments:
            if not _NAME.fullmatch(name):
                raise SelectorError(f"`{function}({argument})`: `{name}` is not a name")
        if function != "others" and len(arguments) != 1:
            raise SelectorError(f"`{function}(...)` takes one {'rack' if function == 'rack' else 'group'}")
        return Term(function, tuple(arguments))
    partition = parse_partition(arguments[0])
    if function != "follower":
        if len(arguments) != 1:
            raise SelectorError(f"`{function}(...)` takes one partition", f"{function}({arguments[0]})")
        return Term(function, (), partition)
    if len(arguments) != 2 or not arguments[1].isascii() or not arguments[1].isdigit() or int(arguments[1]) < 1:
        raise SelectorError("`follower(...)` takes a partition and a position from 1", f"follower({partition},1)")
    return Term(function, (), partition, int(arguments[1]))


def text_of(term: Term) -> str:
    """The term as a user writes it."""
    match term.kind:
        case "node":
            return term.names[0]
        case "captured":
            return f"@{term.names[0]}"
        case "rack" | "others" | "coordinator":
            return f"{term.kind}({', '.join(term.names)})"
        case "follower":
            return f"follower({term.partition},{term.position})"
        case "controller" | "brokers" | "clients":
            return term.kind
        case function:
            return f"{function}({term.partition})"


def resolve(selector: Selector, sight: ClusterSight, captured: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The nodes meant now, each once, in the order written. raises: SelectorError if a term matches no node now."""
    found: dict[str, None] = {}
    for term in selector.terms:
        nodes = _nodes_of(term, sight, captured)
        if not nodes:
            raise SelectorError(f"{text_of(term)} names no node at this moment")
        found.update(dict.fromkeys(nodes))
    return tuple(found)


def _nodes_of(term: Term, sight: ClusterSight, captured: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    if term.partition is not None:
        return _replicas_of(term, term.partition, sight)
    match term.kind:
        case "node":
            return term.names
        case "captured":
            return captured.get(term.names[0], ())
        case "controller":
            return (sight.controller,)
        case "brokers":
            return sight.brokers
        case "clients":
            return sight.clients
        case "coordinator":
            broker = sight.coordinator(term.names[0])
            return () if broker is None else (broker,)
        case "rack":
            return tuple(broker for broker in sight.brokers if sight.racks.get(broker) == term.names[0])
        case _:
            return tuple(broker for broker in sight.brokers if broker not in term.names)


def _replicas_of(term: Term, partition: TopicPartition, sight: ClusterSight) -> tuple[str, ...]:
    leader = sight.leader(partition)
    match term.kind:
        case "leader":
            return () if leader is None else (leader,)
        case "isr":
            return sight.isr(partition)
        case "replicas":
            return sight.replicas(partition)
    followers = tuple(replica for replica in sight.replicas(partition) if replica != leader)
    if term.kind == "followers":
        return followers
    return followers[term.position - 1 : term.position]


# ---------------------------------------------------------------------------------------------------------- record sets
#
# Sets and sequences of record names as text: `r0..r9, r15..r19`, `none`. Both ways.

RECORDS_MAX = 1_000_000

_ITEM = re.compile(r"([a-z]{1,8})(\d{1,7})(?:\s*\.\.\s*([a-z]{1,8})(\d{1,7}))?", re.ASCII)


class RecordSetError(ValueError):
    """The text is not a set of records."""


def parse_record_names(text: str) -> tuple[str, ...]:
    """`r0..r2, s5` -> (r0, r1, r2, s5), order and repetition kept. raises: RecordSetError"""
    if text.strip() in ("none", ""):
        return ()
    names: list[str] = []
    for item in text.split(","):
        names.extend(_names_of(item.strip(), RECORDS_MAX - len(names)))
    return tuple(names)


def _names_of(item: str, room: int) -> Iterator[str]:
    found = _ITEM.fullmatch(item)
    if found is None:
        raise RecordSetError(f"`{item[:60]}` is not a record or a range such as r0..r9")
    prefix, first, end_prefix, end = found.groups()
    if end is None:
        last = int(first)
    elif end_prefix != prefix:
        raise RecordSetError(f"`{item}` begins with {prefix} and ends with {end_prefix}")
    else:
        last = int(end)
    if last < int(first):
        raise RecordSetError(f"`{item}` runs backwards")
    if last - int(first) >= room:
        raise RecordSetError(f"`{item}` stands for too many records")
    return (f"{prefix}{number}" for number in range(int(first), last + 1))
