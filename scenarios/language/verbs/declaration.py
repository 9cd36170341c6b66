"""What a verb is: a class whose attributes are the keys of a step, and what `@verb` says about them together.

    @verb("tear", example="{broker: b3, partition: t-0, bytes: 10}", usage="tear b1 orders-0 100B")
    class Tear(Verb):
        \"\"\"Cut bytes off the end of a stopped broker's log; its next start is unclean.\"\"\"

        broker: Selector = key(BROKERS)
        partition: TopicPartition = key(PARTITION)
        size_bytes: int = key(BYTES, "bytes")

        def sentence(self) -> str:
            return f"tear {self.size_bytes} bytes off {self.partition} on {self.broker}"

The docstring is the line of LANGUAGE.md. A key without a default is required; one that has its default is left out of
the lock.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform

import yaml

from replica.frozen import dataclass
from scenarios.language.steps import Payload
from scenarios.language.values.links import Schema
from scenarios.language.values.reading import Fields, Reader
from scenarios.language.values.scope import Scope
from scenarios.language.values.yaml_source import Mapping as MappingNode
from scenarios.language.values.yaml_source import Node, Scalar
from scenarios.language.verbs.command_words import ShorthandWords

T = TypeVar("T")
V = TypeVar("V", bound="Verb")
Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Given:
    """A value as the file has it. what: how messages call it     beside: the mapping it is a part of, if any"""

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
    """What may stand behind a key.

    read: notes what is wrong and returns something usable     write: as the lock file has it
    blank: stands for a value that is missing     example: in YAML     asked: what `highwater fault` asks for
    take: of the words of a command     fits: whether a word of a command can only be this
    """

    read: Callable[[Given], T]
    write: Callable[[T], Any]
    schema: Schema
    blank: T
    example: str
    asked: str = "a value"
    take: Callable[[ShorthandWords, str], object] = ShorthandWords.take
    fits: Callable[[str], object] | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a verb's mapping, and the attribute that holds its value.

    default_of: a default that depends on the file, so the lock has it
    bare: may stand behind the verb without a mapping     word: may stand in a command without its name
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
    """An attribute of a verb that is read from `name`, or from its own name. The rest: see Key.

    required: also with a default, which Python wants after an attribute that has one
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
    """How long what a verb does stays so, if nothing ends it before: `for`, another verb, an operator."""

    NOT = "a deed: it is over at once"
    WHILE_DOWN = "until its targets start"
    WHILE_PAUSED = "until its targets continue, stop or start"
    UNTIL_ENDED = "until the trace says that it ended; if nothing can end it, it is over at once"
    FOR_GOOD = "the damage stays"


@dataclass(frozen=True)
class Declaration:
    """What is known of one verb.

    example: what stands behind the verb, in YAML     more: further examples, each with its line of doc
    usage: a command of `highwater fault`     word: instead of keys, when all are at their defaults
    undoable: `for` can undo it     disturbs: a cluster that was at rest is not, right after it
    told_by_node: its nodes' own stops and starts say in the trace what it did
    any_of: at least one of these keys must be given     one_of: exactly one of them
    """

    name: str
    made: type[Verb]
    example: str
    usage: str
    more: Mapping[str, str]
    word: str | None
    undoable: bool
    lasts: Lasts
    disturbs: bool
    told_by_node: bool
    any_of: tuple[str, ...]
    one_of: tuple[str, ...]

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        attributes: tuple[Field[Any], ...] = fields(self.made)  # type: ignore[arg-type]  # `verb` makes it a dataclass
        return tuple(Key(made.name, made.default, **made.metadata) for made in attributes)

    @property
    def bare(self) -> Key | None:
        return next((one for one in self.keys if one.bare), None)

    @property
    def only_bare(self) -> Key | None:
        """The key that is all there is: no mapping stands behind this verb."""
        return self.keys[0] if len(self.keys) == 1 and self.keys[0].bare else None

    @property
    def doc(self) -> str:
        return " ".join(inspect.cleandoc(self.made.__doc__ or "").split("\n\n")[0].split())

    @property
    def examples(self) -> Mapping[str, str]:
        """Each with its line of doc."""
        return {self.example: self.doc, **self.more}

    def example_of(self, one: Key) -> str:
        """A value of a key, in YAML: as in an example of the verb, if one has it."""
        for example in self.examples:
            tree = yaml.safe_load(example)
            if isinstance(tree, dict) and one.name in tree:
                text: str = yaml.safe_dump(tree[one.name], default_flow_style=True, width=200)
                return text.removesuffix("...\n").strip()
        return one.kind.example

    # --------------------------------------------------------------------------------------------- reading

    def read(self, scope: Scope, node: Node, path: str) -> Verb:
        """What stands behind the verb; what is wrong is noted."""
        what = f"`{self.name}`"
        if self.word is not None and isinstance(node, Scalar) and node.text == self.word:
            return self.made()
        bare = self.bare
        if bare is not None and (bare is self.only_bare or not isinstance(node, MappingNode)):
            return self.made(**{bare.attribute: bare.kind.read(Given(scope, node, path, what))})
        given = scope.reader.fields(node, path, what, [one.name for one in self.keys], self._required_in(node))
        if given.node is not None or (node.is_nothing and not any(one.required for one in self.keys)):
            self._judge_choice(given)
        values: Tree = {}
        for one in self.keys:
            values[one.attribute] = self._value(one, scope, given, values)
        payload = self.made(**values)
        payload.judge(scope, given)
        return payload

    def _required_in(self, node: Node) -> Mapping[str, str]:
        """Keys that must be given, each with an example. A misspelt key is one mistake, not two."""
        required = [one for one in self.keys if one.required]
        written = node.entries if isinstance(node, MappingNode) else {}
        strange = [name for name in written if all(name != one.name for one in self.keys)]
        missing = [one for one in required if one.name not in written]
        return {one.name: self.example_of(one) for one in (required if len(missing) > len(strange) else ())}

    def _value(self, one: Key, scope: Scope, given: Fields, before: Mapping[str, Any]) -> Any:
        found = given.get(one.name)
        if found is not None:
            return one.kind.read(Given(scope, *found, f"`{one.name}`", given))
        if one.default_of is not None:
            return one.default_of(scope, before)
        return one.kind.blank if one.required else one.default

    def _judge_choice(self, given: Fields) -> None:
        """Whether as many of `any_of` or `one_of` are given as must be."""
        choice = self.any_of or self.one_of
        count = sum(name in given for name in choice)
        if not choice or count == 1 or (count and self.any_of):
            return
        names = ", ".join(f"`{name}`" for name in choice)
        title = f"{given.what} needs one of {names}{', and only one' if count else ''}"
        example = next(f"{one.name}: {self.example_of(one)}" for one in self.keys if one.name == choice[0])
        given.reader.error("E105", title, given.place, label=f"such as `{example}`", path=given.path)

    # --------------------------------------------------------------------------------------------- writing

    def tree(self, payload: Verb) -> Any:
        if self.only_bare is not None:
            return self.only_bare.kind.write(getattr(payload, self.only_bare.attribute))
        values = ((one, getattr(payload, one.attribute)) for one in self.keys)
        return {one.name: one.kind.write(value) for one, value in values if one.is_written(value)}

    def of_words(self, words: ShorthandWords) -> object:
        """What a command says, as the file would have it."""
        if self.only_bare is not None:
            return self.only_bare.kind.take(words, self.only_bare.asked)
        first, *others = (one for one in self.keys if one.required or one.bare)
        tree: Tree = {first.name: first.kind.take(words, first.asked)}
        optional = [one for one in self.keys if one.word]
        for one in optional:
            found = words.take_if(one.kind.fits) if one.kind.fits is not None else None
            if found is not None:
                tree[one.name] = found
        for one in others:
            tree[one.name] = one.kind.take(words, one.asked)
        for one in optional:
            if one.kind.fits is None and words.left:
                tree[one.name] = words.take(one.asked)
        return tree[first.name] if first.bare and len(tree) == 1 else tree

    # ---------------------------------------------------------------------------------------------- schema

    def schema(self) -> Schema:
        """Of what stands behind the verb."""
        if self.only_bare is not None:
            return {"description": self.doc, **self.only_bare.kind.schema}
        properties = {one.name: self._schema_of(one) for one in self.keys}
        mapping: Tree = {"type": "object", "additionalProperties": False, "properties": properties}
        required = [one.name for one in self.keys if one.required]
        if required:
            mapping["required"] = required
        for word, names in (("anyOf", self.any_of), ("oneOf", self.one_of)):
            if names:
                mapping[word] = [{"required": [name]} for name in names]
        bare = self.bare
        if bare is None:
            return {"description": self.doc, **mapping}
        return {"description": self.doc, "oneOf": [bare.kind.schema, mapping]}

    def _schema_of(self, one: Key) -> Schema:
        has_default = not one.required and one.default_of is None and one.default
        return {**one.kind.schema, "default": one.kind.write(one.default)} if has_default else one.kind.schema


class Verb(Payload):
    """What a step does; `declaration` says how it is written."""

    __slots__ = ()
    declaration: ClassVar[Declaration]

    def tree(self) -> Any:
        return self.declaration.tree(self)

    def judge(self, scope: Scope, given: Fields) -> None:
        """Notes what is wrong with the keys together."""

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
    undoable: bool = False,
    lasts: Lasts = Lasts.NOT,
    disturbs: bool = True,
    told_by_node: bool = False,
    any_of: tuple[str, ...] = (),
    one_of: tuple[str, ...] = (),
) -> Callable[[type[V]], type[V]]:
    """Declare a class to be a verb. The parameters: see Declaration."""

    def declare(plain: type[V]) -> type[V]:
        made = dataclass(frozen=True, slots=True)(plain)
        made.verb, made.undoable = name, undoable
        made.declaration = Declaration(
            name, made, example, usage, more or {}, word, undoable, lasts, disturbs, told_by_node, any_of, one_of
        )
        return made

    return declare
