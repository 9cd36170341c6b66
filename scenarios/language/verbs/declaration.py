"""The declaration of verbs. A verb is a class whose attributes are the keys of a step, decorated with `@verb`.

    @verb("tear", example="{broker: b3, partition: t-0, bytes: 10}", usage="tear b1 orders-0 100B")
    class Tear(Verb):
        \"\"\"Cut bytes off the end of a stopped broker's log; its next start is unclean.\"\"\"

        broker: Selector = key(BROKERS)
        partition: TopicPartition = key(PARTITION)
        size_bytes: int = key(BYTES, "bytes")

        def sentence(self) -> str:
            return f"tear {self.size_bytes} bytes off {self.partition} on {self.broker}"

LANGUAGE.md shows the docstring. A key without a default is required. The lock file leaves out keys that have their
default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, field, fields
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform

import yaml

from replica.frozen import dataclass
from replica.ids import TopicPartition
from scenarios.language.steps import Payload
from scenarios.language.values.condition_reading import one_level_up
from scenarios.language.values.links import Schema, sides_meant
from scenarios.language.values.reading import Fields, Reader, plain_text
from scenarios.language.values.scope import NODE_WORDS, Scope
from scenarios.language.values.yaml_source import Mapping as MappingNode
from scenarios.language.values.yaml_source import Node, Scalar
from scenarios.language.verbs.command_words import ShorthandWords

T = TypeVar("T")
V = TypeVar("V", bound="Verb")
Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Given:
    """A value of the scenario file with its context, for the functions that parse values.

    Attributes:
        path: path of the value, as messages print it.
        what: name of the value in messages.
        beside: the mapping that contains the value; None if the value follows the verb directly.
    """

    scope: Scope
    node: Node
    path: str
    what: str
    beside: Fields | None = None

    @property
    def reader(self) -> Reader:
        return self.scope.reader

    def says(self, word: str) -> bool:
        return isinstance(self.node, Scalar) and self.node.text == word


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[T]):
    """The kind of value that a key may have, with functions that read and write it.

    Attributes:
        read: reads a value. It reports errors and always returns something usable.
        write: returns the value in the form of the lock file.
        blank: replaces a missing value.
        example: an example in YAML.
        asked: what `highwater fault` asks for if the value is missing.
        take: takes the value from the words of a command.
        fits: returns True if a word of a command can only be a value of this kind; None if words cannot show that.
        meant: returns the correct form of a value that wrongly follows the verb directly, or None if unclear.
    """

    read: Callable[[Given], T]
    write: Callable[[T], Any]
    schema: Schema
    blank: T
    example: str
    asked: str = "a value"
    take: Callable[[ShorthandWords, str], object] = ShorthandWords.take
    fits: Callable[[str], object] | None = None
    meant: Callable[[Scope, Node], str | None] | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a verb's mapping, stored in an attribute of the verb's class.

    Attributes:
        default_of: computes a default from the scenario. The lock file always contains such a key.
        bare: whether the value may follow the verb directly, without a mapping.
        word: whether the value may be written in a command without the key's name.
    """

    attribute: str
    default: Any
    kind: Kind[Any]
    own_name: str
    default_of: Callable[[Scope, Mapping[str, Any]], Any] | None
    bare: bool
    word: bool
    asked: str
    required: bool

    @property
    def name(self) -> str:
        return self.own_name or self.attribute

    def is_written(self, value: object) -> bool:
        return self.required or self.default_of is not None or bool(value != self.default)


def key(
    kind: Kind[T],
    name: str = "",
    *,
    default: Any = MISSING,
    default_of: Callable[[Scope, Mapping[str, Any]], Any] | None = None,
    bare: bool = False,
    word: bool = False,
    asked: str = "",
    required: bool = False,
) -> T:
    """Declare an attribute of a verb as a key of the step. See Key for the other parameters.

    Args:
        name: the key; by default the attribute's name.
        required: require the key although it has a default, which Python demands after an attribute with a default.
    """
    about = {
        "kind": kind,
        "own_name": name,
        "default_of": default_of,
        "bare": bare,
        "word": word,
        "asked": asked or kind.asked,
        "required": required or default is MISSING,
    }
    made: Any = field(metadata=about) if default is MISSING else field(default=default, metadata=about)
    return made  # type: ignore[no-any-return]


class Lasts(Enum):
    """How long the effect of a verb lasts unless `for`, another verb or an operator ends it."""

    NOT = "the effect is over at once"
    WHILE_DOWN = "until its targets start"
    WHILE_PAUSED = "until its targets continue, stop or start"
    UNTIL_ENDED = "until the trace says that it ended; if nothing can end it, it is over at once"
    FOR_GOOD = "the damage stays"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The effect of a verb on the cluster, and how the effect ends.

    Attributes:
        undoable: whether `for` can undo the effect.
        disturbs: whether the effect disturbs an idle cluster.
        told_by_node: whether the trace shows the effect by events of the nodes, which stop and start.
    """

    undoable: bool = False
    lasts: Lasts = Lasts.NOT
    disturbs: bool = True
    told_by_node: bool = False


DEED, QUIET = Effect(), Effect(disturbs=False)
LASTING = Effect(undoable=True, lasts=Lasts.UNTIL_ENDED)
DAMAGE = Effect(lasts=Lasts.FOR_GOOD)


@dataclass(frozen=True)
class Declaration:
    """Everything that is declared about one verb.

    Attributes:
        example: an example of the verb's value, in YAML.
        usage: an example of a command for `highwater fault`.
        more: further examples, each with its documentation.
        word: the value that stands for all keys at their defaults.
        any_of: keys of which at least one must be given.
        one_of: keys of which exactly one must be given.
    """

    name: str
    made: type[Verb]
    example: str
    usage: str
    more: Mapping[str, str]
    word: str | None
    effect: Effect
    any_of: tuple[str, ...]
    one_of: tuple[str, ...]

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        attributes: tuple[Field[Any], ...] = fields(self.made)  # type: ignore[arg-type]  # `verb` makes it a dataclass
        return tuple(Key(made.name, made.default, **made.metadata) for made in attributes)

    @property
    def bare(self) -> Key | None:
        return next((item for item in self.keys if item.bare), None)

    @property
    def only_bare(self) -> Key | None:
        """Return the only key, for a verb whose value is never a mapping; None for other verbs."""
        return self.keys[0] if len(self.keys) == 1 and self.keys[0].bare else None

    @property
    def doc(self) -> str:
        return " ".join(inspect.cleandoc(self.made.__doc__ or "").split("\n\n")[0].split())

    @property
    def examples(self) -> Mapping[str, str]:
        """Return all examples, each with its documentation."""
        return {self.example: self.doc, **self.more}

    def example_of(self, item: Key) -> str:
        """Return an example of a key's value in YAML, from the verb's examples if any of them has the key."""
        for example in self.examples:
            tree = yaml.safe_load(example)
            if isinstance(tree, dict) and item.name in tree:
                text: str = yaml.safe_dump(tree[item.name], default_flow_style=True, width=200)
                return text.removesuffix("...\n").strip()
        return item.kind.example

    @property
    def beside(self) -> dict[str, str]:
        """Return hints, by key, for keys written beside the verb instead of inside its value."""
        if self.only_bare is not None:
            return {}
        first = self.bare or self.keys[0]
        others = [item.name for item in self.keys if item is not first]
        return {name: f"belongs inside: `{self.name}: {{{first.name}: ..., {name}: ...}}`" for name in others}

    # --------------------------------------------------------------------------------------------- reading

    def read(self, scope: Scope, node: Node, path: str) -> Verb:
        """Read the verb's value. Errors are reported."""
        what = f"`{self.name}`"
        if self.word is not None and isinstance(node, Scalar) and node.text == self.word:
            return self.made()
        bare = self.bare
        if bare is not None and (bare is self.only_bare or not isinstance(node, MappingNode)):
            return self.made(**{bare.attribute: bare.kind.read(Given(scope, node, path, what))})
        names = [item.name for item in self.keys]
        example = "" if isinstance(node, MappingNode) else self._as_mapping(scope, node)
        entries = node.entries if isinstance(node, MappingNode) and "config" in names else {}
        elsewhere = {name: "belongs under `config:`" for name in entries if "." in name} or _sides(scope, node, names)
        elsewhere |= {**self._misplaced(scope, node), **self.made.misplaced(scope, entries_of(node))}
        required = self._required_in(node)
        value = scope.reader.fields(node, path, what, names, required, elsewhere=elsewhere, example=example)
        if value.node is not None or (node.is_nothing and not any(item.required for item in self.keys)):
            self._judge_choice(value)
        values: Tree = {}
        for item in self.keys:
            values[item.attribute] = self._value(item, scope, value, values)
        payload = self.made(**values)
        payload.judge(scope, value)
        return payload

    def _as_mapping(self, scope: Scope, node: Node) -> str:
        """Return advice for a value that should be a mapping: the value as a mapping if clear, or else an example."""
        required = [item for item in self.keys if item.required]
        if len(required) == 1 and not (self.any_of or self.one_of):
            (item,) = required
            value = item.kind.meant(scope, node) if item.kind.meant is not None else plain_text(node)
            if value is not None:
                return f"write {{{item.name}: {value}}}"
        return f"for example {self.example}"

    def _required_in(self, node: Node) -> Mapping[str, str]:
        """Return the required keys with examples; empty if unknown keys of `node` may be the missing ones misspelt."""
        required = [item for item in self.keys if item.required]
        written = node.entries if isinstance(node, MappingNode) else {}
        strange = [name for name in written if self._is_strange(name)]
        missing = [item for item in required if item.name not in written]
        return {item.name: self.example_of(item) for item in (required if len(missing) > len(strange) else ())}

    def _misplaced(self, scope: Scope, node: Node) -> dict[str, str]:
        """Return hints, by key, for keys that belong inside another key: a topic, a quota, or parts of a state."""
        entries = entries_of(node)
        kinds = {item.name: item.kind for item in self.keys}
        hints = one_level_up(scope, node) if "state" in kinds else {}
        if "quota" in kinds:
            hints |= {key: "belongs under `quota:`" for key in entries if key.endswith(("_rate", "_percentage"))}
        if "topic" in entries and "partition" in kinds and isinstance(kinds["partition"].blank, TopicPartition):
            topic, number = plain_text(entries["topic"]), plain_text(entries.get("partition", node))
            hints["topic"] = f"write `partition: {topic or 't'}-{number if number and number.isdigit() else 0}`"
        return hints

    def _is_strange(self, name: str) -> bool:
        return all(name != item.name for item in self.keys)

    def _value(self, item: Key, scope: Scope, event: Fields, before: Mapping[str, Any]) -> Any:
        found = event.get(item.name)
        if found is not None:
            return item.kind.read(Given(scope, *found, f"`{item.name}`", event))
        if item.default_of is not None:
            return item.default_of(scope, before)
        return item.kind.blank if item.required else item.default

    def _judge_choice(self, event: Fields) -> None:
        """Report an error unless at least one key of `any_of`, or exactly one key of `one_of`, is given."""
        choice = self.any_of or self.one_of
        count = sum(name in event for name in choice)
        if not choice or count == 1 or (count and self.any_of):
            return
        if not count and event.node is not None and any(self._is_strange(name) for name in event.node.entries):
            return  # A misspelt key was reported already.
        names = ", ".join(f"`{name}`" for name in choice)
        title = f"{event.what} needs {'at least' if self.any_of else 'exactly'} one of {names}"
        example = next(f"{item.name}: {self.example_of(item)}" for item in self.keys if item.name == choice[0])
        event.reader.error("E105", title, event.place, label=f"for example `{example}`", path=event.path)

    # --------------------------------------------------------------------------------------------- writing

    def tree(self, payload: Verb) -> Any:
        if self.only_bare is not None:
            return self.only_bare.kind.write(getattr(payload, self.only_bare.attribute))
        values = ((item, getattr(payload, item.attribute)) for item in self.keys)
        return {item.name: item.kind.write(value) for item, value in values if item.is_written(value)}

    def of_words(self, words: ShorthandWords) -> object:
        """Take a value from the words of a command. Return it in the form that a scenario file has."""
        if self.only_bare is not None:
            return self.only_bare.kind.take(words, self.only_bare.asked)
        first, *others = (item for item in self.keys if item.required or item.bare)
        tree: Tree = {first.name: first.kind.take(words, first.asked)}
        optional = [item for item in self.keys if item.word]
        for other in optional:
            found = words.take_if(other.kind.fits) if other.kind.fits is not None else None
            if found is not None:
                tree[other.name] = found
        for other in others:
            tree[other.name] = other.kind.take(words, other.asked)
        for other in optional:
            if other.kind.fits is None and words.left:
                tree[other.name] = words.take(other.asked)
        return tree[first.name] if first.bare and len(tree) == 1 else tree

    # ---------------------------------------------------------------------------------------------- schema

    def schema(self) -> Schema:
        """Return the JSON Schema of the verb's value."""
        if self.only_bare is not None:
            return {"description": self.doc, **self.only_bare.kind.schema}
        properties = {item.name: self._schema_of(item) for item in self.keys}
        mapping: Tree = {"type": "object", "additionalProperties": False, "properties": properties}
        required = [item.name for item in self.keys if item.required]
        if required:
            mapping["required"] = required
        for word, names in (("anyOf", self.any_of), ("oneOf", self.one_of)):
            if names:
                mapping[word] = [{"required": [name]} for name in names]
        bare = self.bare
        if bare is None:
            return {"description": self.doc, **mapping}
        return {"description": self.doc, "oneOf": [bare.kind.schema, mapping]}

    def _schema_of(self, item: Key) -> Schema:
        has_default = not item.required and item.default_of is None and item.default
        return {**item.kind.schema, "default": item.kind.write(item.default)} if has_default else item.kind.schema


def entries_of(node: Node) -> dict[str, Node]:
    return {key: value for key, (_, value) in node.entries.items()} if isinstance(node, MappingNode) else {}


_SIDE_WORDS = (
    *NODE_WORDS,
    *("from", "to", "source", "destination", "src", "dst", "upstream", "downstream", "a", "b"),
)


def _sides(scope: Scope, node: Node, names: Collection[str]) -> dict[str, str]:
    """Return hints, by key, for the ends of a link under keys of another verb, such as `from` and `to` for `cut`."""
    entries = node.entries if isinstance(node, MappingNode) else {}
    if "between" in names and "between" not in entries:
        ends = {name: entry for name, entry in entries.items() if name in _SIDE_WORDS}
        meant = sides_meant(scope, MappingNode(node.place, ends)) if ends else None
        return dict.fromkeys(ends, f"write `between: {meant or '[b1, b3]'}`")
    if "between" in entries and "from" in names and "to" in names:
        return {"between": "write `from: b1, to: b3`"}
    return {}


class Verb(Payload):
    """Base class of the verbs. `declaration` describes how a verb is written."""

    __slots__ = ()
    declaration: ClassVar[Declaration]

    def tree(self) -> Any:
        return self.declaration.tree(self)

    def judge(self, scope: Scope, event: Fields) -> None:
        """Report errors that concern several keys together. Subclasses may override this."""

    @classmethod
    def misplaced(cls, scope: Scope, written: Mapping[str, Node]) -> Mapping[str, str]:
        """Return hints for keys that the verb does not have. Subclasses may override this."""
        return {}

    @classmethod
    def of_words(cls, words: ShorthandWords) -> object:
        return cls.declaration.of_words(words)


@dataclass_transform(field_specifiers=(key,), frozen_default=True)
def verb(
    name: str,
    *,
    example: str,
    usage: str,
    more: Mapping[str, str] | None = None,
    word: str | None = None,
    effect: Effect = DEED,
    any_of: tuple[str, ...] = (),
    one_of: tuple[str, ...] = (),
) -> Callable[[type[V]], type[V]]:
    """Declare a class as a verb. See Declaration for the parameters."""

    def declare(plain: type[V]) -> type[V]:
        made = dataclass(frozen=True, slots=True)(plain)
        made.verb, made.undoable = name, effect.undoable
        made.declaration = Declaration(name, made, example, usage, more or {}, word, effect, any_of, one_of)
        return made

    return declare
