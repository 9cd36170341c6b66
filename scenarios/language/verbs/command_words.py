"""The words behind a verb on a command line, `cut b1-b3 3s`, taken one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from replica.ids import OUTSIDE
from scenarios.language.selectors import WORDS

TIME_WORD = re.compile(r"\d+(\.\d+)?(us|ms|s|m)", re.ASCII)
RATE_WORD = re.compile(r"\d.*/s|none", re.ASCII)
PARTITION_WORD = re.compile(r"[a-zA-Z0-9._-]+-\d+", re.ASCII)
SETTING_WORD = re.compile(r"([a-z][a-z0-9._]*)=(.*)", re.ASCII)
_CALL = re.compile(r"[a-z]+\([^()]*\)")


class ShorthandError(ValueError):
    """The words are no step; `fix` is a command that would be one."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


@dataclass(slots=True)
class ShorthandWords:
    """What stands after a verb. usage: a command with that verb     nodes: names of the running cluster"""

    verb: str
    usage: str
    left: list[str]
    nodes: Collection[str]

    def wrong(self, message: str) -> ShorthandError:
        return ShorthandError(message, f"for example: highwater fault {self.usage}")

    def take(self, what: str) -> str:
        if not self.left:
            raise self.wrong(f"`{self.verb}` needs {what}")
        return self.left.pop(0)

    def take_listed(self, what: str) -> object:
        return listed(self.take(what))

    def take_if(self, fits: Callable[[str], object]) -> str | None:
        """The first word that fits, wherever it stands."""
        for place, word in enumerate(self.left):
            if fits(word):
                return self.left.pop(place)
        return None

    def take_all(self, what: str) -> list[str]:
        """But not a time: that is how long it lasts."""
        lasts = self.take_if(TIME_WORD.fullmatch)
        words, self.left = self.left, [] if lasts is None else [lasts]
        if not words:
            raise self.wrong(f"`{self.verb}` needs {what}")
        return words

    def take_nodes(self, what: str) -> object:
        named = [part for word in self.take_all(what) for part in split(word)]
        return named if len(named) > 1 else named[0]

    def take_islands(self, what: str) -> object:
        return [split(word) for word in self.take_all(what)]

    def take_labels(self, what: str) -> object:
        names, self.left = self.left, []
        return names or "all"

    def take_sides(self, what: str) -> object:
        one, two = self.sides(what)
        return [listed(one), listed(two)]

    def sides(self, what: str = "two sides, such as b1-b3") -> tuple[str, str]:
        """`b1-b3`, `b1 b3`, `leader(t-0)-b3`, `b1,b2-b3`."""
        first = self.take(what)
        splits = [(first[:at], first[at + 1 :]) for at in _dashes(first) if first[:at] and first[at + 1 :]]
        is_unknown_client = first.startswith(OUTSIDE) and any(map(self.are_nodes, self.left))
        if not splits or self.are_nodes(first) or is_unknown_client:
            return first, self.take(what)
        known = [both for both in splits if all(self.are_nodes(side) for side in both)]
        # The name of a client has dashes as often as not; if it is unknown, the other side says where it ends.
        known = known or [both for both in splits if all(self.is_end(side) for side in both)]
        if len(splits) > 1 and len(known) != 1:
            raise self.wrong(f"`{first}` can be divided in more than one way: write the two sides as two words")
        return (known or splits)[0]

    def is_end(self, side: str) -> bool:
        """Nodes, or what may be a client from outside."""
        return side.startswith(OUTSIDE) or self.are_nodes(side)

    def are_nodes(self, side: str) -> bool:
        """Names of nodes or selectors, separated by commas."""
        return all(part in self.nodes or part in WORDS or _CALL.fullmatch(part) for part in split(side))

    def settings(self) -> dict[str, str]:
        """Of the words that look like KEY=VALUE; they are still there."""
        return {found[1]: found[2] for word in self.left if (found := SETTING_WORD.fullmatch(word))}


def listed(text: str) -> object:
    """Nodes are separated by commas, but not those within a selector's brackets."""
    parts = split(text)
    return parts if len(parts) > 1 else text


def split(text: str) -> list[str]:
    return re.split(r",(?![^()]*\))", text)


def _dashes(text: str) -> list[int]:
    """Where dashes stand outside of brackets."""
    return [at for at, one in enumerate(text) if one == "-" and text.count("(", 0, at) == text.count(")", 0, at)]
