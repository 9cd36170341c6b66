"""Where a setting of `--set` or `--vary` belongs whose path leads nowhere: `acks` -> `workloads.p1.config.acks`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cluster.config import BrokerConfig, ConsumerConfig, ProducerConfig, TransformConfig
from replica.config import Config, TopicConfig
from scenarios.language.diagnostics import Problems, did_you_mean
from scenarios.language.parse.variants import Override
from scenarios.language.values.synonyms import FIELD_SYNONYMS
from scenarios.language.values.yaml_source import Mapping, Scalar

_LEADS_NOWHERE = ("E104", "E137")


def suggest_whole_paths(problems: Problems, overrides: Sequence[Override], tree: Mapping) -> None:
    """Complaints about the path of an override get the path that was likely meant, as far as there is one."""
    for number, found in enumerate(problems.found):
        if found.code not in _LEADS_NOWHERE or found.place is None:
            continue
        for override in overrides:
            if found.place.source is not override.source:
                continue
            meant = _exactly(override.path, tree) or (None if found.suggestion else _nearly(override.path, tree))
            if meant is not None:
                problems.found[number] = replace(found, label=f"did you mean `{meant}`?", suggestion=meant, notes=())


def _exactly(path: str, tree: Mapping) -> str | None:
    """The whole path of the key of Kafka's that `path` ends in; where several blocks of the scenario may hold it, in
    the one of which `path` names most.
    """
    words = path.split(".")
    blocks = sorted(_blocks(tree), key=lambda block: -len(set(block[0]).intersection(words)))
    tails = [".".join(words[place:]) for place in range(len(words))]
    return next((".".join((*names, tail)) for tail in tails for names, keys in blocks if tail in keys), None)


def _nearly(path: str, tree: Mapping) -> str | None:
    """The same of a key that is misspelt, or called as people call it."""
    blocks = list(_blocks(tree))
    known = {name for names, _ in blocks for name in names}
    rest = ".".join(word for word in path.split(".") if word not in known)
    close = [(names, did_you_mean(rest, keys, FIELD_SYNONYMS)) for names, keys in blocks]
    return next((".".join((*names, key)) for names, key in close if key is not None), None)


_SCHEMAS: dict[str, type[Config]] = {"consumer": ConsumerConfig, "transform": TransformConfig}


def _blocks(tree: Mapping) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Every `config` block that the scenario has or may have: the words of its path, and the keys that it may hold."""
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
