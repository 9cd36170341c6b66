"""The kinds of values that keys of verbs may have, each with a reader, a writer and a JSON Schema.

The schemas refer to definitions in tests/scenarios/language/scenario_schema.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from replica.frozen import dataclass
from replica.ids import TopicPartition
from scenarios.language.selectors import NO_NODES, Selector
from scenarios.language.steps import Delay, Direction
from scenarios.language.values.links import (
    Sides,
    delay_tree,
    is_short_list,
    read_delay,
    read_sides,
    ref,
    sides_meant,
    sides_tree,
)
from scenarios.language.values.reading import NUMBER_MAX, SIZE_MAX, Fields
from scenarios.language.values.scope import ANY_NODE, BROKER, CONTROLLER, LINK_END, NO_PARTITION, Scope
from scenarios.language.values.trees import bandwidth_text, names_of, selector_tree, share_text, time_text
from scenarios.language.values.yaml_source import Scalar, Sequence
from scenarios.language.verbs.command_words import RATE_WORD, ShorthandWords
from scenarios.language.verbs.declaration import Given, Kind, Verb, key


def _same(value: Any) -> Any:
    return value


# ------------------------------------------------------------------------------------------------------- scalars


def choice(*words: str, for_none: str | None = None) -> Kind[Any]:
    """Return a kind that allows only these words.

    Args:
        for_none: the word that stands for None.
    """

    def read(value: Given) -> str | None:
        text = value.reader.choice(value.node, value.path, value.what, words)
        return None if text == for_none else text

    return Kind(
        read=read, write=_same, schema={"enum": list(words)}, blank=words[0], example=words[0], fits=words.__contains__
    )


def integer(low: int = 0, high: int = NUMBER_MAX, *, example: str = "5", asked: str = "a number") -> Kind[int]:
    return Kind(
        read=lambda value: value.reader.integer(value.node, value.path, value.what, low, high),
        write=_same,
        schema={"type": "integer", "minimum": low, "maximum": high},
        blank=low,
        example=example,
        asked=asked,
    )


def size(low: int = 1, high: int = SIZE_MAX) -> Kind[int]:
    return Kind(
        read=lambda value: value.reader.size(value.node, value.path, value.what, low, high),
        write=lambda value: f"{value}B",
        schema={**ref("size"), "minimum": low, "maximum": high},
        blank=low,
        example="1kB",
        asked="a size, such as 100B",
    )


def time(low_us: int = 1, *, example: str = "200ms", asked: str = "a time, such as 200ms") -> Kind[int]:
    return Kind(
        read=lambda value: value.reader.time(value.node, value.path, value.what, low_us),
        write=time_text,
        schema=ref("time"),
        blank=low_us,
        example=example,
        asked=asked,
    )


BYTES = replace(size(), write=_same)
"""A size in bytes. The lock file has it as a plain number."""

BOOLEAN = Kind(
    read=lambda value: value.reader.boolean(value.node, value.path, value.what),
    write=_same,
    schema={"type": "boolean"},
    blank=False,
    example="true",
)


def _text(value: Given) -> str:
    if isinstance(value.node, Scalar) and value.node.is_nothing:
        value.reader.error("E111", f"{value.what} must be text, but is empty", value.node.place, path=value.path)
    return value.reader.text(value.node, value.path, value.what)


TEXT = Kind(read=_text, write=_same, schema=ref("scalar"), blank="", example="k")

SHARE = Kind(
    read=lambda value: value.reader.share_ppm(value.node, value.path, value.what),
    write=share_text,
    schema=ref("share"),
    blank=0,
    example="10%",
    asked="a rate, such as 5%",
)
BANDWIDTH: Kind[int] = Kind(
    read=lambda value: value.reader.bandwidth(value.node, value.path, value.what),
    write=bandwidth_text,
    schema=ref("bandwidth"),
    blank=1,
    example="50kB/s",
    asked="a rate, such as 50kB/s",
    fits=RATE_WORD.fullmatch,
)
BANDWIDTH_OR_NONE: Kind[int | None] = Kind(
    read=lambda value: None if value.says("none") else BANDWIDTH.read(value),
    write=lambda value: "none" if value is None else bandwidth_text(value),
    schema={"oneOf": [BANDWIDTH.schema, {"const": "none"}]},
    blank=1,
    example="none",
    asked="a rate, such as 1MB/s, or none",
)


# --------------------------------------------------------------------------------------------------------- nodes


Take = Callable[[ShorthandWords, str], object]


def _nodes(of: str, example: str, take: Take = ShorthandWords.take_listed) -> Kind[Selector]:
    return Kind(
        read=lambda value: value.scope.some_nodes(value.node, value.path, value.what, of),
        write=selector_tree,
        schema=ref("nodes"),
        blank=NO_NODES,
        example=example,
        asked=of if of in (BROKER, CONTROLLER) else "a node",
        take=take,
    )


NODES = _nodes(ANY_NODE, "b1", ShorthandWords.take_nodes)
ALL_BROKERS = _nodes(BROKER, "b1", ShorthandWords.take_nodes)
"""One or more brokers. A command may name several, separated by spaces."""
BROKERS = _nodes(BROKER, "b1")
CONTROLLERS = _nodes(CONTROLLER, "c1")
LINK_ENDS = _nodes(LINK_END, "b1")


@dataclass(frozen=True, slots=True)
class OnNodes(Verb):
    """Base class of verbs whose only value is a selector of nodes."""

    nodes: Selector = key(NODES, bare=True)

    def sentence(self) -> str:
        return f"{self.verb.replace('_', ' ')} {self.nodes}"


REPLICAS: Kind[Selector] = replace(
    BROKERS,
    write=lambda replicas: list(replicas.plain_names or ()) or selector_tree(replicas),
    example="[b1, b2]",
    asked="replicas, such as b1,b2",
)
"""Replicas of a partition, which the lock file has as a list if they are plain names."""


def _read_apart(value: Given) -> Sides:
    sides = read_sides(value.scope, value.node, value.path)
    check_apart(value, sides or ())
    return sides or (NO_NODES, NO_NODES)


def check_apart(value: Given, sides: tuple[Selector, ...]) -> None:
    """Report an error if a node belongs to two sides."""
    seen: list[str] = []
    for side in sides:
        for name in side.plain_names or ():
            if name in seen:
                value.reader.error("E134", f"`{name}` is named on both sides", value.node.place, path=value.path)
            seen.append(name)


SIDES: Kind[Sides] = Kind(
    read=_read_apart,
    write=sides_tree,
    schema=ref("sides"),
    blank=(NO_NODES, NO_NODES),
    example="[b1, b3]",
    asked="two sides, such as b1-b3",
    take=ShorthandWords.take_sides,
    meant=sides_meant,
)
DIRECTION: Kind[Direction] = replace(choice("both", "to", "from"), schema=ref("direction"))
DELAY: Kind[Delay] = Kind(
    read=lambda value: read_delay(value.reader, value.node, value.path, value.what),
    write=delay_tree,
    schema=ref("delay"),
    blank=Delay("constant", 0),
    example="200ms",
    asked="a time, such as 200ms",
)


def _read_islands(value: Given) -> tuple[Selector, ...]:
    meant = sides_meant(value.scope, value.node)
    label = f"write {meant}" if meant else "for example [[b1], [b2, b3, c1]]"
    items = value.reader.items(value.node, value.path, value.what, label)
    islands = tuple(value.scope.some_nodes(item, path, "an island", LINK_END) for item, path in items)
    if len(islands) < 2 and is_short_list(value.node):
        title = f"{value.what} needs two islands or more"
        value.reader.error("E105", title, value.node.place, path=value.path, label=label)
    check_apart(value, islands)
    return islands


ISLANDS: Kind[tuple[Selector, ...]] = Kind(
    read=_read_islands,
    write=lambda islands: [names_of(island) for island in islands],
    schema={"type": "array", "minItems": 2, "items": ref("nodes")},
    blank=(),
    example="[[b1], [b2, b3, c1]]",
    asked="two islands or more, such as b1 b2,b3",
    take=ShorthandWords.take_islands,
)


def labels_of(*verbs: str) -> Kind[tuple[str, ...]]:
    """Return a kind for labels of steps with one of these verbs: one label, a list, or `all`, which is read as ()."""

    def read(value: Given) -> tuple[str, ...]:
        scope, node = value.scope, value.node
        if value.says("all"):
            return ()
        is_one = isinstance(node, Scalar)
        known = [label for label, verb in scope.labels.items() if verb in verbs]
        if not known and not (isinstance(node, Scalar) and node.text.removeprefix("@") in scope.labels):
            title = f"{value.what}: no {' or '.join(verbs)} step has a label"
            label = "write `all`, or add `as: NAME` to the step to undo, and write that NAME"
            value.reader.error("E131", title, node.place, path=value.path, label=label)
            return ()
        items = [(node, value.path)] if is_one else value.reader.items(node, value.path, value.what)
        names: list[str] = []
        for item, item_path in items:
            name = value.reader.text(item, item_path, value.what).removeprefix("@")
            if name not in known and isinstance(item, Scalar):
                verb = scope.labels.get(name)
                missing = f"no {' or '.join(verbs)} step has the label `{name}`"
                title = f"{value.what}: {missing if verb is None else f'`{name}` labels a {verb} step'}"
                scope.unknown(title, name, [*known, "all"], item.place, item_path, None if known else "all")
            names.append(name)
        if not names and isinstance(node, Sequence):
            title = f"{value.what} names nothing"
            value.reader.error("E105", title, node.place, path=value.path, label="use a label, or `all`")
        return tuple(names)

    return Kind(
        read=read,
        write=lambda names: list(names) or "all",
        schema=ref("labels"),
        blank=(),
        example="all",
        take=ShorthandWords.take_labels,
    )


# ------------------------------------------------------------------------------------------------------- cluster

PARTITION: Kind[TopicPartition] = Kind(
    read=lambda value: value.scope.partition(value.node, value.path, value.what),
    write=str,
    schema=ref("partitionName"),
    blank=NO_PARTITION,
    example="t-0",
    asked="a partition",
)


def _name_of(kind: str, example: str, asked: str, known: Callable[[Given], list[str]]) -> Kind[str]:
    return Kind(
        read=lambda value: value.scope.client(value.node, value.path, value.what, known(value), kind),
        write=_same,
        schema={"type": "string"},
        blank="",
        example=example,
        asked=asked,
    )


TOPIC = _name_of("topic", "t", "a topic", lambda value: list(value.scope.topics))
PRODUCER = _name_of("producer", "p1", "a producer of the scenario", lambda value: list(value.scope.producers))
CONSUMER = _name_of("consumer", "c1r", "a consumer of the scenario", lambda value: list(value.scope.consumers))


def check_partition(scope: Scope, fields: Fields, topic: str, partition: int | None) -> None:
    """Report an error if the topic has no partition of this number."""
    count = scope.topics.get(topic)
    if partition is not None and count is not None and partition >= count:
        title = f"`{topic}` has no partition {partition}"
        place, path = fields.key_place("partition"), f"{fields.path}.partition"
        scope.reader.error(
            "E132", title, place, path=path, label=f"it has {count} partition{'' if count == 1 else 's'}"
        )
