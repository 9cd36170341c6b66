"""A scenario under other names: its YAML with every broker, controller, topic and client called otherwise.

new = Renaming({"b1": "zeta", "t": "orders"})
text = new.of_scenario(text)          # keys and values, selectors and expectations; prose stays
row = new.back(str(row))              # `zeta` -> `b1`
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

import yaml

PROSE = ("id", "title", "question", "sources", "tags")


class Renaming:
    """names: old -> new"""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._new = dict(names)
        self._old = {new: old for old, new in names.items()}
        assert len(self._old) == len(self._new), "two would have one name"
        # `t` is a word in `leader(t-0)` and `t-0.log`, and none in `@t` or `cut.t`, which are labels.
        self._old_word = re.compile(rf"(?<![\w@.])(?:{'|'.join(map(re.escape, self._new))})(?!\w)")
        self._new_word = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, self._old))})(?!\w)")

    def of_scenario(self, text: str) -> str:
        tree = yaml.compose(text, yaml.SafeLoader)
        self._rename(tree)
        return str(yaml.serialize(tree))

    def back(self, text: str) -> str:
        return self._new_word.sub(lambda found: self._old[found[0]], text)

    def _rename(self, node: yaml.Node) -> None:
        if isinstance(node, yaml.ScalarNode):
            node.value = self._old_word.sub(lambda found: self._new[found[0]], node.value)
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                self._rename(item)
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value not in PROSE:
                    self._rename(key)
                    self._rename(value)


def random_by_old_names(renaming: Renaming) -> type[random.Random]:
    """Random streams are called after nodes and clients; this gives each renamed one the stream of its old name."""

    class OldNames(random.Random):
        def seed(self, a: Any = None, version: int = 2) -> None:
            super().seed(renaming.back(a) if isinstance(a, str) else a, version)

    return OldNames
