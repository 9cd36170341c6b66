"""What a step did, and the words for it: shared by those who perform steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

Nodes = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """What a step did: the nodes it resolved to (what `as` captures), and how it reads in the trace.

    ended: labels of the faults that it ended
    """

    targets: Nodes
    sentence: str
    undo: Callable[[], Awaitable[str]] | None = None
    ended: Sequence[str] = ()


def listed_nodes(nodes: Nodes) -> str:
    return nodes[0] if len(nodes) == 1 else ", ".join(nodes[:-1]) + f" and {nodes[-1]}" if nodes else "nobody"


def by_number(nodes: Nodes, singular: str, plural: str) -> str:
    return singular if len(nodes) == 1 else plural
