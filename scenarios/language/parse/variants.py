"""Variants and overrides, implemented as operations on node trees, so that every node keeps its line in the file.

A variant's `patch` is merged into the file: mappings are merged key by key, other values are replaced, and `~` removes
a key. `--set path=value` puts one value into the tree, at a path as error messages print it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from cluster.config import BrokerConfig, ConsumerConfig, ProducerConfig, ShareConsumerConfig, TransformConfig
from replica.config import Config, TopicConfig
from scenarios.language.diagnostics import Diagnostic, Place, Problems, SourceText, did_you_mean
from scenarios.language.parse.steps import only_answered_from_the_trace
from scenarios.language.values.config_files import unpasted
from scenarios.language.values.synonyms import FIELD_SYNONYMS
from scenarios.language.values.yaml_source import Mapping, Node, Scalar, Sequence, parse


def merge(base: Node, patch: Node) -> Node:
    """Return a new tree with `patch` merged into `base`. Neither argument is changed."""
    if not isinstance(base, Mapping) or not isinstance(patch, Mapping):
        return patch
    merged = Mapping(base.place, dict(base.entries))
    for key, (key_node, value) in patch.entries.items():
        if isinstance(value, Scalar) and value.is_null:
            merged.entries.pop(key, None)
        elif key in merged.entries:
            below = merged.entries[key][1]
            if key == "config":
                below, value = unpasted(below), unpasted(value)
            merged.entries[key] = (key_node, merge(below, value))
        else:
            merged.entries[key] = (key_node, value)
    return merged


def apply_variant(base: Mapping, variant: Mapping) -> Mapping:
    """Return the tree of a variant: the patched file with the variant's own steps and `expect`, without `variants`."""
    tree = Mapping(base.place, {key: entry for key, entry in base.entries.items() if key != "variants"})
    patch = variant.get("patch")
    if isinstance(patch, Mapping):
        merged = merge(tree, patch)
        assert isinstance(merged, Mapping)
        tree = merged
    if "questions" in tree.entries and not (isinstance(patch, Mapping) and "questions" in patch.entries):
        key_node, questions = tree.entries["questions"]
        tree.entries["questions"] = (key_node, only_answered_from_the_trace(questions))
    tree.entries.pop("expect", None)  # The file's expectations do not apply to a variant.
    for key in ("title", "expect"):
        if key in variant.entries:
            tree.entries[key] = variant.entries[key]
    added = variant.get("add_timeline")
    if isinstance(added, Sequence):
        key_node, timeline = tree.entries.get("timeline", (variant.entries["add_timeline"][0], Sequence(added.place)))
        if isinstance(timeline, Sequence):
            tree.entries["timeline"] = (key_node, Sequence(timeline.place, [*timeline.items, *added.items]))
    return tree


class Override:
    """A `path=value` of the command line, which replaces a value in a tree. Its errors point into `path=value`."""

    def __init__(self, text: str, problems: Problems) -> None:
        self.source = SourceText.of(f"--set {text}", text)
        self.problems = problems
        self.path, equals, value = text.partition("=")
        if not equals or not self.path.strip():
            self._refuse("`--set` needs path=value", 0, label="for example seed=7")
            self.value: Node | None = None
            return
        # Blanks instead of the path keep the columns of the whole text.
        blanks = " " * (len(self.path) + 1)
        known = len(problems.found)
        self.value = parse(blanks + value, self.source, problems)
        if self.value is None and len(problems.found) == known:
            self.value = Scalar(Place(self.source, 0, len(blanks)), "")

    def applied_to(self, tree: Mapping) -> Mapping:
        """Return a copy of `tree` with the value. If the path does not exist, report that and return `tree`."""
        if self.value is None:
            return tree
        changed = self._put(tree, 0, inside="")
        assert isinstance(changed, Mapping)
        return changed

    def _refuse(self, title: str, column: int, length: int = 1, label: str = "", suggestion: str | None = None) -> None:
        place = Place(self.source, 0, column, max(1, length))
        self.problems.add(Diagnostic(code="E137", title=title, place=place, label=label, suggestion=suggestion))

    def _put(self, node: Node, start: int, inside: str) -> Node:
        """Return a copy of `node` in which the override's value replaces the node at the rest of the path.

        Args:
            start: index in `self.path` at which the rest of the path begins.
            inside: the key whose value is `node`.
        """
        assert self.value is not None
        if start > len(self.path):
            return self.value
        if isinstance(node, Scalar) and (node.is_empty or node.is_null):
            node = Mapping(node.place)
        if inside == "config":
            node = unpasted(node)
        if isinstance(node, Mapping):
            return self._put_in_mapping(node, start, inside)
        if isinstance(node, Sequence):
            return self._put_in_sequence(node, start)
        rest = self.path[start:]
        self._refuse(f"the value here is not a mapping or list, so it has no `{rest}`", start, len(rest))
        return node

    def _put_in_sequence(self, node: Sequence, start: int) -> Node:
        head = self.path[start:].split(".", 1)[0]
        if not head.isascii() or not head.isdigit() or not 1 <= int(head[:9]) <= len(node.items):
            title = f"`{head}` is not a position in this list"
            self._refuse(title, start, len(head), f"positions count from 1 to {len(node.items)}")
            return node
        items = list(node.items)
        items[int(head) - 1] = self._put(items[int(head) - 1], start + len(head) + 1, head)
        return Sequence(node.place, items)

    def _put_in_mapping(self, node: Mapping, start: int, inside: str) -> Node:
        # Kafka's keys contain dots, so below `config` the rest is one key. Elsewhere the next key ends at a dot.
        rest = self.path[start:]
        key = rest if inside == "config" else rest.split(".", 1)[0]
        place = Place(self.source, 0, start, max(1, len(key)))
        known = node.entries.get(key)
        if known is None and key != rest and key not in _CREATABLE:
            suggestion = did_you_mean(key, node.entries)
            label = (
                f"did you mean `{suggestion}`?"
                if suggestion
                else f"the keys here are: {', '.join(node.entries) or 'none'}"
            )
            self._refuse(f"there is no key `{key}` here", start, len(key), label, suggestion)
            return node
        key_node, value = known or (Scalar(place, key), Mapping(place))
        return Mapping(node.place, {**node.entries, key: (key_node, self._put(value, start + len(key) + 1, key))})


_CREATABLE = ("config", "protocol", "network", "expect")
"""Blocks that an override creates if its path leads through them and the file does not have them."""


# ------------------------------------------------------------------------------------------------------- override paths
#
# Suggestions for a path of `--set` or `--vary` that does not exist: `acks` -> `workloads.p1.config.acks`.

_LEADS_NOWHERE = ("E104", "E137")


def suggest_whole_paths(problems: Problems, overrides: Iterable[Override], tree: Mapping) -> None:
    """Replace each error about the path of an override by one that suggests the path probably meant."""
    for number, found in enumerate(problems.found):
        if found.code not in _LEADS_NOWHERE or found.place is None:
            continue
        for override in overrides:
            if found.place.source is not override.source:
                continue
            meant = _exactly(override.path, tree) or (None if found.suggestion else _nearly(override.path, tree))
            if meant not in (None, override.path):
                problems.found[number] = replace(found, label=f"did you mean `{meant}`?", suggestion=meant, notes=())


def _exactly(path: str, tree: Mapping) -> str | None:
    """Return the full path of the Kafka key with which `path` ends; None if no block of the scenario may have that key.

    If several blocks may have the key, the block with the most names in common with `path` is chosen.
    """
    words = path.split(".")
    blocks = sorted(_blocks(tree), key=lambda block: -len(set(block[0]).intersection(words)))
    tails = [".".join(words[place:]) for place in range(len(words))]
    return next((".".join((*names, tail)) for tail in tails for names, keys in blocks if tail in keys), None)


def _nearly(path: str, tree: Mapping) -> str | None:
    """Return the full path of the Kafka key that `path` misspells or calls by a common name; None if unknown."""
    blocks = list(_blocks(tree))
    known = {name for names, _ in blocks for name in names}
    rest = ".".join(word for word in path.split(".") if word not in known)
    close = [(names, did_you_mean(rest, keys, FIELD_SYNONYMS)) for names, keys in blocks]
    return next((".".join((*names, key)) for names, key in close if key is not None), None)


_SCHEMAS: dict[str, type[Config]] = {
    "consumer": ConsumerConfig,
    "share_consumer": ShareConsumerConfig,
    "transform": TransformConfig,
}


def _blocks(tree: Mapping) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield the path of every `config` block that the scenario may have, with the keys that the block may contain."""
    for name in _entries(tree, "topics"):
        yield ("topics", name, "config"), list(TopicConfig.keys())
    for name, workload in _entries(tree, "workloads").items():
        kind = workload.get("kind") if isinstance(workload, Mapping) else None
        schema = _SCHEMAS.get(kind.text if isinstance(kind, Scalar) else "", ProducerConfig)
        yield ("workloads", name, "config"), list(schema.keys())
    yield ("cluster", "config"), list(BrokerConfig.keys())


def _entries(tree: Mapping, key: str) -> dict[str, object]:
    node = tree.get(key)
    return {name: value for name, (_, value) in node.entries.items()} if isinstance(node, Mapping) else {}
