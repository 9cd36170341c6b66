"""The names that a scenario defines, and readers of values that refer to nodes, partitions, clients or selectors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from cluster.config import BASE_RELEASE
from replica.ids import INTERNAL_TOPICS, OUTSIDE, TopicPartition
from replica.rules import KafkaRelease
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
    spoken_call,
    text_of,
)
from scenarios.language.spec import Workload
from scenarios.language.values.reading import Reader, kind_of
from scenarios.language.values.yaml_source import Mapping as MappingNode
from scenarios.language.values.yaml_source import Node, Scalar, Sequence

ANY_NODE = "a node"
BROKER = "a broker"
CONTROLLER = "a controller"
LINK_END = "an end of a link"
"""A node, or a connected external client. Steps can affect the network of an external client and nothing else."""
SHOWN_CLIENTS_MAX = 20
_NUMBERED = re.compile(r"(?:b|broker|node|kafka|server)?[-_ ]?(\d{1,4})", re.ASCII | re.IGNORECASE)
_SUCH_AS = "for example b1, leader(t-0) or rack(A)"
_ANY = ("any", "one", "random", "some")
"""Words with which users ask for a random node, which the language does not have."""
NO_PARTITION = TopicPartition("", 0)
"""Placeholder for a partition that could not be read."""


@dataclass(slots=True)
class Scope:
    """The names that a scenario has defined so far.

    Names are added as the file is read from top to bottom. Only the labels of the timeline are read before its steps.
    """

    reader: Reader
    release: KafkaRelease = BASE_RELEASE
    """The release of Kafka to which the era belongs."""
    brokers: list[str] = field(default_factory=list)
    log_dirs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the log directories of each broker."""
    controllers: list[str] = field(default_factory=list)
    unnamed_controller: str | None = None
    """The default name that the controller got because the file names none; None if the file names one."""
    racks: dict[str, list[str]] = field(default_factory=dict)
    """Brokers of each rack."""
    topics: dict[str, int] = field(default_factory=dict)
    """Number of partitions of each topic."""
    producers: dict[str, str] = field(default_factory=dict)
    """Topic of each producer."""
    consumers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Topics of each consumer."""
    members: list[str] = field(default_factory=list)
    """Names of the members of groups: transforms and share consumers."""
    outsiders: list[str] = field(default_factory=list)
    """Names of the external clients that have connected to a running cluster."""
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    prefixes: dict[str, str] = field(default_factory=dict)
    """Name of the producer that uses each prefix of record names."""
    labels: dict[str, str] = field(default_factory=dict)
    """Verb of each labelled step, by the label (`as`)."""
    refused: list[str] = field(default_factory=list)
    """Names of nodes and topics whose definition was an error. References to them cause no further error."""

    @property
    def clients(self) -> list[str]:
        return [*self.producers, *self.consumers, *self.members]

    @property
    def nodes(self) -> list[str]:
        return [*self.brokers, *self.controllers, *self.clients]

    # ------------------------------------------------------------------------------------------- references

    def unknown(
        self,
        title: str,
        name: str,
        known: list[str],
        place: Place,
        path: str,
        meant: str | None = None,
        label: str = "unknown",
    ) -> None:
        """Report a name that does not exist.

        Args:
            known: the names that exist.
            meant: the name that the user probably meant; None to search `known` for a similar one.
            label: advice for the case that no known name is similar.
        """
        # If the name was refused, or nothing of its kind could be read, an error was reported already.
        follows = name in self.refused or (not known and not self.refused and self.reader.problems.any_error)
        suggestion = meant or did_you_mean(name, known)
        notes = [f"help: known names are {', '.join(known)}"] if known else []
        label = "" if suggestion else label
        self.reader.error(
            "E131", title, place, path=path, suggestion=suggestion, label=label, notes=notes, follows=follows
        )

    def check_node(self, name: str, place: Place, path: str, what: str = ANY_NODE, meant: str | None = None) -> None:
        known = {BROKER: self.brokers, CONTROLLER: self.controllers}.get(what, self.nodes)
        if name.startswith(OUTSIDE):
            self._check_outsider(name, place, path, what)
        elif name not in known:
            kind = "controller" if what == CONTROLLER else "broker" if what == BROKER or not self.clients else "node"
            label = "names no node: write b1, leader(t-0) or follower(t-0,1)" if name in _ANY else "unknown"
            known = known if self.brokers else []
            self.unknown(f"unknown {kind} `{name}`", name, known, place, path, meant, label)

    def _check_outsider(self, name: str, place: Place, path: str, what: str) -> None:
        if what != LINK_END:
            label = "use cut, latency, bandwidth, loss, hold or reset_peer"
            title = f"`{name}` is an external client: a step can affect only its network"
            self.reader.error("E125", title, place, path=path, label=label)
        elif name not in self.outsiders:
            title = f"no client `{name}` has connected"
            self.unknown(title, name, self.outsiders[-SHOWN_CLIENTS_MAX:], place, path)

    def broker(self, node: Node, path: str, what: str) -> str:
        """Read the name of one broker."""
        name = self.reader.text(node, path, what)
        if isinstance(node, Scalar):
            self.check_node(name, node.place, path, BROKER, self.broker_meant(name))
        return name

    def client(self, node: Node, path: str, what: str, known: list[str], kind: str) -> str:
        name = self.reader.text(node, path, what)
        if isinstance(node, Scalar) and name not in known:
            self.unknown(f"unknown {kind} `{name}`", name, known, node.place, path)
        return name

    def check_partition(self, partition: TopicPartition, place: Place, path: str) -> None:
        if partition.topic in INTERNAL_TOPICS:
            return  # Brokers create an internal topic on demand, with as many partitions as their config says.
        count = self.topics.get(partition.topic)
        if count is None:
            self.unknown(f"unknown topic `{partition.topic}`", partition.topic, list(self.topics), place, path)
        elif partition.partition >= count:
            self.reader.error(
                "E132",
                f"`{partition.topic}` has no partition {partition.partition}",
                place,
                path=path,
                label=f"it has partitions 0 to {count - 1}" if count > 1 else "it has only partition 0",
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
            only = next(iter(self.topics)) if len(self.topics) == 1 and re.fullmatch(r"[0-9]{1,6}", text) else None
            meant = f"{text}-0" if text in self.topics else only and f"{only}-{text}"
            self.reader.error("E131", str(error), place, path=path, suggestion=meant)
            return NO_PARTITION
        self.check_partition(partition, place, path)
        return partition

    # -------------------------------------------------------------------------------------------- selectors

    def selector(self, node: Node, path: str, what: str, of: str = ANY_NODE) -> Selector:
        """Read a selector or a list of selectors. `none` means no node."""
        if isinstance(node, Sequence):
            terms = [
                term
                for item, item_path in self.reader.items(node, path, what)
                for term in self.selector(item, item_path, what, of).terms
            ]
            return Selector(tuple(terms))
        if not isinstance(node, Scalar) or node.is_null or node.is_empty:
            title = f"{what} must be a node or a list of nodes, not {kind_of(node)}"
            meant = _as_selector(node)
            others = isinstance(node, MappingNode) and len(node.entries) > 1
            label = f"write {meant or 'b1'} here, and put other keys beside the verb" if others else ""
            label = label if label or meant else _SUCH_AS
            self.reader.error("E125", title, node.place, path=path, suggestion=meant, label=label)
            return NO_NODES
        if node.text == "none":
            return NO_NODES
        read = [self._term(text, node.place, path, of) for text in _split(node.text)]
        return Selector(tuple(term for term in read if term is not None))

    def some_nodes(self, node: Node, path: str, what: str, of: str = ANY_NODE) -> Selector:
        """Read a selector that must not be `none`."""
        selector = self.selector(node, path, what, of)
        if _names_nothing(node):
            self.reader.error("E125", f"{what} names no node", node.place, path=path)
        return selector

    def _term(self, text: str, place: Place, path: str, of: str) -> Term | None:
        try:
            term = parse_term(text)
        except SelectorError as error:
            label = "" if error.suggestion else _SUCH_AS
            self.reader.error("E125", str(error), place, path=path, suggestion=error.suggestion, label=label)
            return None
        self._check_term(term, place, path, of)
        return term

    def _check_term(self, term: Term, place: Place, path: str, of: str) -> None:
        if term.partition is not None:
            self.check_partition(term.partition, place, path)
        elif term.kind == "node":
            self.check_node(term.names[0], place, path, of, self.meant(term.names[0]))
        elif term.kind == "others":
            for name in term.names:
                self.check_node(name, place, path, BROKER)
        elif term.kind == "rack" and term.names[0] not in self.racks:
            self.unknown(f"unknown rack `{term.names[0]}`", term.names[0], list(self.racks), place, path)
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
                label="" if suggestion else f"add `as: {name}` to an earlier step",
            )
        elif of == BROKER and term.kind in ("controller", "clients"):
            self.reader.error("E125", f"`{text_of(term)}` is not a broker", place, path=path)

    def meant(self, name: str) -> str | None:
        """Return the selector that the user probably meant by a name that is not a node; None if unknown."""
        racks = {rack.lower(): rack for rack in self.racks}
        if name.lower() in racks:
            return f"rack({racks[name.lower()]})"
        if name in self.topics:
            return f"leader({name}-0)"
        with suppress(SelectorError):
            if parse_partition(name).topic in self.topics:
                return f"leader({name})"
        return "brokers" if name == "all" else spoken_call(name) or self.broker_meant(name)

    def cut_off(self, name: str, *more: str) -> str | None:
        """Return two sides that separate nodes from the rest, such as `[b1, [b2, c1]]`; None if unclear.

        Clients are on neither side unless `name` is one.

        Args:
            name: a node, a rack or a selector; a broker or controller if there are `more`.
            more: further brokers and controllers on the side of `name`.
        """
        if more:
            inside = [name, *more]
            outside = [broker for broker in (*self.brokers, *self.controllers) if broker not in inside]
            is_clear = outside and set(inside) <= {*self.brokers, *self.controllers}
            return f"[[{', '.join(inside)}], [{', '.join(outside)}]]" if is_clear else None
        meant = self.meant(name) or name
        try:
            term = parse_term(meant)
        except SelectorError:
            return None
        if term.kind == "leader":
            return f"[{meant}, followers({term.partition})]"
        if term.kind in ("controller", "clients") or meant in self.clients:
            return f"[{meant}, brokers]"
        inside = self.racks.get(term.names[0], []) if term.kind == "rack" else [meant]
        machines = [*self.brokers, *self.controllers]
        outside = [machine for machine in machines if machine not in inside]
        return f"[{meant}, [{', '.join(outside)}]]" if outside and set(inside) & set(machines) else None

    def broker_meant(self, name: str) -> str | None:
        """Return the broker that a name such as `broker1`, `node-1` or `1` means by its number; None if unclear."""
        match = _NUMBERED.fullmatch(name)
        alike = [broker for broker in self.brokers if match and re.findall(r"\d+$", broker) == [match[1]]]
        return alike[0] if len(alike) == 1 else None

    # ---------------------------------------------------------------------------------------------- records

    def records(self, node: Node, path: str, what: str) -> tuple[str, ...]:
        """Read record names: `r0..r9, r15`, a list of such texts, or `none`."""
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
            ends = re.fullmatch(r"([a-z]+)(\d+) ?(?:-|–|…|\.{3,}|to|:) ?([a-z]*)(\d+)", text.strip(), re.ASCII)
            meant = f"{ends[1]}{ends[2]}..{ends[1]}{ends[4]}" if ends and ends[3] in ("", ends[1]) else None
            self.reader.error("E124", f"{what}: {error}", node.place, path=path, suggestion=meant)
            return ()
        for prefix in dict.fromkeys(split_record_name(name)[0] for name in names):
            if prefix not in self.prefixes:
                known = [f"{used}0" for used in self.prefixes]
                self.unknown(f"no producer sends records named `{prefix}0`", f"{prefix}0", known, node.place, path)
        return names


def _names_nothing(node: Node) -> bool:
    """Return True for `none`, an empty list, or a list of such values."""
    if isinstance(node, Sequence):
        return all(map(_names_nothing, node.items))
    return isinstance(node, Scalar) and node.text == "none"


NODE_WORDS = ("broker", "brokers", "node", "nodes", "server", "target", "leader", "isr", "rack", "racks")
"""Keys that users invent for the nodes of a step, as in `kill: {broker: b1}`."""


def _as_selector(node: Node) -> str | None:
    """Return the selector that a mapping such as `{rack: A}` or `{broker: b1}` means; None if it resembles none."""
    if not isinstance(node, MappingNode):
        return None
    name, value = next(((key, value) for key, (_, value) in node.entries.items() if key in NODE_WORDS), ("", node))
    if isinstance(value, Scalar):
        return spoken_call(f"{name} {value.text}") or value.text[:40]
    items = value.items if isinstance(value, Sequence) else []
    names = [item.text[:40] for item in items if isinstance(item, Scalar)]
    return f"[{', '.join(names)}]" if names else None


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]
