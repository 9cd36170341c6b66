"""The names in a scenario, and readers of values that refer to them: nodes, partitions, clients, selectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cluster.config import BASE_RELEASE
from replica.ids import INTERNAL_TOPICS, OUTSIDE, TopicPartition
from replica.trace.ranges import split_record_name
from scenarios.language.diagnostics import Place, did_you_mean
from scenarios.language.selectors import (
    NO_NODES,
    RecordSetError,
    Selector,
    SelectorError,
    Term,
    parse_partition,
    parse_record_names,
    parse_term,
    text_of,
)
from scenarios.language.spec import Workload
from scenarios.language.values.reading import Reader, kind_of
from scenarios.language.values.yaml_source import Node, Scalar, Sequence

ANY_NODE = "a node"
BROKER = "a broker"
LINK_END = "an end of a link"
"""A node, or a client from outside that has connected: of that only the network can be broken."""
SHOWN_CLIENTS_MAX = 20
NO_PARTITION = TopicPartition("", 0)
"""Stands in for a partition that could not be read."""


@dataclass(slots=True)
class Scope:
    """Filled while the file is read from top to bottom; the timeline's labels before its steps."""

    reader: Reader
    release: str = BASE_RELEASE
    """of the era"""
    brokers: list[str] = field(default_factory=list)
    log_dirs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    controllers: list[str] = field(default_factory=list)
    unnamed_controller: str | None = None
    """what the controller is called where the file names none"""
    racks: list[str] = field(default_factory=list)
    topics: dict[str, int] = field(default_factory=dict)
    producers: dict[str, str] = field(default_factory=dict)
    """name -> topic"""
    consumers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """name -> topics"""
    transforms: list[str] = field(default_factory=list)
    outsiders: list[str] = field(default_factory=list)
    """clients from outside, of a cluster that runs"""
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    prefixes: dict[str, str] = field(default_factory=dict)
    """record-name prefix -> producer"""
    labels: dict[str, str] = field(default_factory=dict)
    """`as` of a step -> its verb"""
    refused: list[str] = field(default_factory=list)
    """names of nodes and topics that an error has refused already: those who use them are not to blame"""

    @property
    def clients(self) -> list[str]:
        return [*self.producers, *self.consumers, *self.transforms]

    @property
    def nodes(self) -> list[str]:
        return [*self.brokers, *self.controllers, *self.clients]

    # ------------------------------------------------------------------------------------------- references

    def unknown(self, title: str, name: str, known: list[str], place: Place, path: str) -> None:
        # The name was refused, or nothing of its kind could be read: that is an error already.
        follows = name in self.refused or (not known and not self.refused and self.reader.problems.any_error)
        suggestion = did_you_mean(name, known)
        notes = [f"help: there are {', '.join(known)}"] if known else []
        label = "" if suggestion else "unknown"
        self.reader.error(
            "E131", title, place, path=path, suggestion=suggestion, label=label, notes=notes, follows=follows
        )

    def check_node(self, name: str, place: Place, path: str, what: str = ANY_NODE) -> None:
        known = self.brokers if what == BROKER else self.nodes
        if name.startswith(OUTSIDE):
            self._check_outsider(name, place, path, what)
        elif name not in known:
            kind = "broker" if what == BROKER or not self.clients else "node"
            self.unknown(f"unknown {kind} `{name}`", name, known if self.brokers else [], place, path)

    def _check_outsider(self, name: str, place: Place, path: str, what: str) -> None:
        if what != LINK_END:
            label = "cut, latency, bandwidth, loss, hold and reset_peer can be done to it"
            title = f"`{name}` is a client from outside: only its network can be broken"
            self.reader.error("E125", title, place, path=path, label=label)
        elif name not in self.outsiders:
            title = f"no client `{name}` has connected"
            self.unknown(title, name, self.outsiders[-SHOWN_CLIENTS_MAX:], place, path)

    def broker(self, node: Node, path: str, what: str) -> str:
        """The name of one broker."""
        name = self.reader.text(node, path, what)
        if isinstance(node, Scalar):
            self.check_node(name, node.place, path, BROKER)
        return name

    def client(self, node: Node, path: str, what: str, known: list[str], kind: str) -> str:
        name = self.reader.text(node, path, what)
        if isinstance(node, Scalar) and name not in known:
            self.unknown(f"unknown {kind} `{name}`", name, known, node.place, path)
        return name

    def check_partition(self, partition: TopicPartition, place: Place, path: str) -> None:
        if partition.topic in INTERNAL_TOPICS:
            return  # The brokers make it once it is needed, with as many partitions as their config says.
        count = self.topics.get(partition.topic)
        if count is None:
            self.unknown(f"unknown topic `{partition.topic}`", partition.topic, list(self.topics), place, path)
        elif partition.partition >= count:
            self.reader.error(
                "E132",
                f"`{partition.topic}` has no partition {partition.partition}",
                place,
                path=path,
                label=f"it has {count}: 0 to {count - 1}" if count > 1 else "it has one: 0",
            )

    def partition(self, node: Node, path: str, what: str) -> TopicPartition:
        text = self.reader.text(node, path, what)
        if not isinstance(node, Scalar):
            return NO_PARTITION
        return self.partition_of(text, node.place, path)

    def partition_of(self, text: str, place: Place, path: str) -> TopicPartition:
        try:
            partition = parse_partition(text)
        except SelectorError as error:
            self.reader.error("E131", str(error), place, path=path)
            return NO_PARTITION
        self.check_partition(partition, place, path)
        return partition

    # -------------------------------------------------------------------------------------------- selectors

    def selector(self, node: Node, path: str, what: str, of: str = ANY_NODE) -> Selector:
        """A selector or a list of them; `none` is no node."""
        if isinstance(node, Sequence):
            terms = [
                term
                for item, item_path in self.reader.items(node, path, what)
                for term in self.selector(item, item_path, what, of).terms
            ]
            return Selector(tuple(terms))
        if not isinstance(node, Scalar) or node.is_null or node.is_empty:
            self.reader.error(
                "E125", f"{what} must be a node or a list of nodes, not {kind_of(node)}", node.place, path=path
            )
            return NO_NODES
        if node.text == "none":
            return NO_NODES
        return Selector(tuple(self._term(text, node.place, path, of) for text in _split(node.text)))

    def some_nodes(self, node: Node, path: str, what: str, of: str = ANY_NODE) -> Selector:
        """A selector other than `none`."""
        selector = self.selector(node, path, what, of)
        if not selector.terms and (isinstance(node, Sequence) or (isinstance(node, Scalar) and node.text == "none")):
            self.reader.error("E125", f"{what} names no node", node.place, path=path)
        return selector

    def _term(self, text: str, place: Place, path: str, of: str) -> Term:
        try:
            term = parse_term(text)
        except SelectorError as error:
            self.reader.error("E125", str(error), place, path=path, suggestion=error.suggestion)
            return Term("node", ("",))
        self._check_term(term, place, path, of)
        return term

    def _check_term(self, term: Term, place: Place, path: str, of: str) -> None:
        if term.partition is not None:
            self.check_partition(term.partition, place, path)
        elif term.kind == "node":
            self.check_node(term.names[0], place, path, of)
        elif term.kind == "others":
            for name in term.names:
                self.check_node(name, place, path, BROKER)
        elif term.kind == "rack" and term.names[0] not in self.racks:
            self.unknown(f"unknown rack `{term.names[0]}`", term.names[0], self.racks, place, path)
        elif term.kind == "captured" and term.names[0] not in self.labels:
            known = [f"@{label}" for label in self.labels]
            name = term.names[0]
            suggestion = did_you_mean(f"@{name}", known)
            self.reader.error(
                "E133",
                f"no step is named `{name}`",
                place,
                path=path,
                suggestion=suggestion,
                label="" if suggestion else f"some step needs `as: {name}`",
            )
        elif of == BROKER and term.kind in ("controller", "clients"):
            self.reader.error("E125", f"`{text_of(term)}` is not a broker", place, path=path)

    # ---------------------------------------------------------------------------------------------- records

    def records(self, node: Node, path: str, what: str) -> tuple[str, ...]:
        """`r0..r9, r15`, a list of such, or `none`."""
        if isinstance(node, Sequence):
            return tuple(
                name
                for item, item_path in self.reader.items(node, path, what)
                for name in self.records(item, item_path, what)
            )
        text = self.reader.text(node, path, what)
        try:
            names = parse_record_names(text)
        except RecordSetError as error:
            self.reader.error("E124", f"{what}: {error}", node.place, path=path)
            return ()
        for prefix in dict.fromkeys(split_record_name(name)[0] for name in names):
            if prefix not in self.prefixes:
                known = [f"{used}0" for used in self.prefixes]
                self.unknown(f"no producer sends records named `{prefix}0`", f"{prefix}0", known, node.place, path)
        return names


def _split(text: str) -> list[str]:
    """Comma-separated terms; commas inside parentheses belong to their term."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]
