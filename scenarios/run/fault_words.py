"""The performer of a verb, its result, and the words for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from scenarios.language.steps import Payload

Nodes = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a step: the nodes it resolved to (captured by `as`), and how it reads in the trace.

    ended: labels of the faults that it ended
    answer: to an operator, if it is not the sentence of the trace
    refused: the controller has refused all that was asked of it
    """

    targets: Nodes
    sentence: str
    undo: Callable[[], Awaitable[str]] | None = None
    ended: Sequence[str] = ()
    answer: str | None = None
    refused: bool = False


Perform = Callable[..., Awaitable[Done]]


def performs(verb: type[Payload]) -> Callable[[Perform], Perform]:
    """Declare a method (name of the fault, payload) to be the one that performs steps of this verb."""

    def declare(method: Perform) -> Perform:
        method.performs = verb  # type: ignore[attr-defined]
        return method

    return declare


def performers_of(owner: object) -> dict[type[Payload], Perform]:
    """The methods of an object that are declared with `performs`."""
    methods = vars(type(owner)).items()
    return {method.performs: getattr(owner, name) for name, method in methods if hasattr(method, "performs")}


def by_number(nodes: Nodes, singular: str, plural: str) -> str:
    return singular if len(nodes) == 1 else plural
