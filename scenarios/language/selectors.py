"""Selectors, which say which nodes a step concerns, and sets of record names.

A selector is parsed with the file and resolved once, at the moment the step fires. The forms are:
`b1` · `[b1, b2]` · `leader(t-0)` · `followers(t-0)` · `follower(t-0,1)` · `isr(t-0)` · `replicas(t-0)` · `controller` ·
`brokers` · `clients` · `rack(A)` · `others(b1)` · `coordinator(g)` (of a consumer group) · `"@name"` (the nodes to
which an earlier step with `as: name` had resolved).
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
_FUNCTION = "|".join(sorted(FUNCTIONS, key=len, reverse=True))
_SPOKEN_CALL = re.compile(rf"({_FUNCTION})(?:\s+of\s+|\s*[\s:=_-]\s*)[\[{{'\"]?(\S+?)[\]}}'\"]?", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OUTSIDER = re.compile(re.escape(OUTSIDE) + r"[A-Za-z0-9._~%: -]+")


@dataclass(frozen=True, slots=True)
class Term:
    """One name or call of a selector.

    Attributes:
        kind: `node`, `captured` (an `@name`), one of WORDS or one of FUNCTIONS.
        names: the node, the captured name, the rack, the group, or the nodes after `others`.
        position: for `follower`, its number among the followers in assignment order, from 1.
    """

    kind: str
    names: tuple[str, ...] = ()
    partition: TopicPartition | None = None
    position: int = 0


@dataclass(frozen=True, slots=True)
class Selector:
    """The terms of a selector, in the order written. No terms means no node (`none`)."""

    terms: tuple[Term, ...]

    def __str__(self) -> str:
        texts = [text_of(term) for term in self.terms]
        return ", ".join(texts) if texts else "none"

    @property
    def plain_names(self) -> tuple[str, ...] | None:
        """Return the nodes if the selector names each literally; None if they depend on the state of the run."""
        if all(term.kind == "node" for term in self.terms):
            return tuple(term.names[0] for term in self.terms)
        return None


NO_NODES = Selector(())


class ClusterSight(Protocol):
    """The current state of a run, as selectors need it. Leaders and ISRs are those that the controller knows."""

    @property
    def brokers(self) -> tuple[str, ...]: ...

    @property
    def clients(self) -> tuple[str, ...]: ...

    @property
    def controller(self) -> str:
        """Return the active controller, or the last active one."""
        ...

    @property
    def racks(self) -> Mapping[str, str]:
        """Return the rack of each broker that has one."""
        ...

    def leader(self, partition: TopicPartition) -> str | None: ...

    def coordinator(self, group_id: str) -> str | None: ...

    def isr(self, partition: TopicPartition) -> tuple[str, ...]: ...

    def replicas(self, partition: TopicPartition) -> tuple[str, ...]:
        """Return the replicas in assignment order."""
        ...


class SelectorError(ValueError):
    """Raised if a text is not a selector, or if a selector matches no node at this moment.

    Attributes:
        suggestion: the selector that the user probably meant; None if unknown.
    """

    def __init__(self, message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.suggestion = suggestion


def parse_partition(text: str) -> TopicPartition:
    """Parse a partition's name such as `orders-0`.

    Raises:
        SelectorError: the text is not of the form TOPIC-NUMBER.
    """
    topic, dash, number = text.strip().rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdigit() or len(number) > 6:
        raise SelectorError(f"`{text.strip()}` is not a partition; write TOPIC-NUMBER, such as t-0")
    return TopicPartition(topic, int(number))


def parse_term(text: str) -> Term:
    """Parse one term of a selector.

    Raises:
        SelectorError: the text is not a term.
    """
    text = text.strip()
    if text.startswith("@"):
        if not _NAME.fullmatch(text[1:]):
            raise SelectorError(
                f'`{text}` is not a reference to a step; write "@NAME", where an earlier step has `as: NAME`'
            )
        return Term("captured", (text[1:],))
    call = _CALL.fullmatch(text)
    if call and (call[2].strip() or call[1] not in FUNCTIONS):
        return _parse_call(call[1], call[2])
    text = call[1] if call else text
    if text in WORDS:
        return Term(text)
    if text in FUNCTIONS:
        argument = {"rack": "A", "others": "b1", "coordinator": "g", "follower": "t-0,1"}.get(text, "t-0")
        raise SelectorError(f"`{text}` needs an argument", f"{text}({argument})")
    if not _NAME.fullmatch(text) and not _OUTSIDER.fullmatch(text):
        raise SelectorError(f"`{text}` is not a selector", spoken_call(text))
    return Term("node", (text,))


def spoken_call(text: str) -> str | None:
    """Return the call that `rack A`, `leader of t-0` or `isr: t-0` probably means; None if it resembles no call."""
    match = _SPOKEN_CALL.fullmatch(text.strip())
    if match is None:
        return None
    call = f"{match[1].lower()}({match[2]})"
    try:
        parse_term(call)
    except SelectorError as error:
        return error.suggestion
    return call


def _parse_call(function: str, argument: str) -> Term:
    arguments = [part.strip() for part in argument.split(",")]
    if function not in FUNCTIONS:
        import difflib  # imported only to report an error

        close = difflib.get_close_matches(function, FUNCTIONS, n=1)
        raise SelectorError(f"`{function}(...)` is not a selector", f"{close[0]}({argument})" if close else None)
    if function in FUNCTIONS_OF_NAMES:
        for name in arguments:
            if not _NAME.fullmatch(name):
                raise SelectorError(f"`{function}({argument})`: `{name}` is not a valid name")
        if function != "others" and len(arguments) != 1:
            raise SelectorError(f"`{function}(...)` takes exactly one {'rack' if function == 'rack' else 'group'}")
        return Term(function, tuple(arguments))
    try:
        partition = parse_partition(arguments[0])
    except SelectorError as error:
        is_topic = len(arguments) == 1 and function != "follower" and _NAME.fullmatch(argument)
        raise SelectorError(str(error), f"{function}({argument}-0)" if is_topic else None) from None
    if function != "follower":
        if len(arguments) != 1:
            raise SelectorError(f"`{function}(...)` takes exactly one partition", f"{function}({arguments[0]})")
        return Term(function, (), partition)
    if len(arguments) != 2 or not arguments[1].isascii() or not arguments[1].isdigit() or int(arguments[1]) < 1:
        raise SelectorError(
            "`follower(...)` takes a partition and a position, counted from 1", f"follower({partition},1)"
        )
    return Term(function, (), partition, int(arguments[1]))


def text_of(term: Term) -> str:
    """Return the term as a user writes it."""
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
    """Return the nodes that a selector matches at this moment, without duplicates, in the order of its terms.

    Args:
        captured: nodes that the selectors of earlier labelled steps matched, by label.

    Raises:
        SelectorError: a term matches no node at this moment.
    """
    found: dict[str, None] = {}
    for term in selector.terms:
        nodes = _nodes_of(term, sight, captured)
        if not nodes:
            raise SelectorError(f"{text_of(term)} matches no node at this moment")
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
# Record names as text: `r0..r9, r15..r19`, or `none` for no record.

RECORDS_MAX = 1_000_000

_ITEM = re.compile(r"([a-z]{1,8})(\d{1,7})(?:\s*\.\.\s*([a-z]{1,8})(\d{1,7}))?", re.ASCII)


class RecordSetError(ValueError):
    """Raised if a text is not a set of record names."""


def parse_record_names(text: str) -> tuple[str, ...]:
    """Parse record names such as `r0..r2, s5`. Order and repetition are kept.

    Raises:
        RecordSetError: the text does not name records, or names too many.
    """
    if text.strip() in ("none", ""):
        return ()
    names: list[str] = []
    for item in text.split(","):
        names.extend(_names_of(item.strip(), RECORDS_MAX - len(names)))
    return tuple(names)


def _names_of(item: str, room: int) -> Iterator[str]:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise RecordSetError(f"`{item[:60]}` is not a record or a range such as r0..r9")
    prefix, first, end_prefix, end = match.groups()
    if end is None:
        last = int(first)
    elif end_prefix != prefix:
        raise RecordSetError(f"the range `{item}` has the prefix {prefix} at its start, but {end_prefix} at its end")
    else:
        last = int(end)
    if last < int(first):
        raise RecordSetError(f"the range `{item}` ends before it begins")
    if last - int(first) >= room:
        raise RecordSetError(f"`{item}` names too many records")
    return (f"{prefix}{number}" for number in range(int(first), last + 1))
