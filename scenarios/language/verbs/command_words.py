"""The words of a command such as `cut b1-b3 3s`, from which a verb takes its values one by one."""

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
    """Raised if the words of a command do not describe a step.

    Attributes:
        fix: an example of a correct command, or other advice.
    """

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


@dataclass(slots=True)
class ShorthandWords:
    """The words of a command after its verb.

    Attributes:
        usage: an example of a command with that verb.
        left: the words that were not taken yet.
        nodes: names of the nodes of the running cluster.
    """

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
        """Take and return the first word that fits, at any position; None if none fits."""
        for place, word in enumerate(self.left):
            if fits(word):
                return self.left.pop(place)
        return None

    def take_all(self, what: str) -> list[str]:
        """Take and return all words except a time, which is left because it is the duration of the fault."""
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
        item, two = self.sides(what)
        return [listed(item), listed(two)]

    def sides(self, what: str = "two sides, such as b1-b3") -> tuple[str, str]:
        """Take two sides, such as `b1-b3`, `b1 b3`, `leader(t-0)-b3` or `b1,b2-b3`."""
        first = self.take(what)
        splits = [(first[:at], first[at + 1 :]) for at in _dashes(first) if first[:at] and first[at + 1 :]]
        is_unknown_client = first.startswith(OUTSIDE) and any(map(self.are_nodes, self.left))
        if not splits or self.are_nodes(first) or is_unknown_client:
            return first, self.take(what)
        known = [both for both in splits if all(self.are_nodes(side) for side in both)]
        # Names of clients often have dashes. If the name is unknown, a known other side shows where it ends.
        known = known or [both for both in splits if all(self.is_end(side) for side in both)]
        if len(splits) > 1 and len(known) != 1:
            raise self.wrong(f"`{first}` can be split in more than one way: write the two sides as two words")
        return (known or splits)[0]

    def is_end(self, side: str) -> bool:
        """Return True if the text names nodes, or may name an external client."""
        return side.startswith(OUTSIDE) or self.are_nodes(side)

    def are_nodes(self, side: str) -> bool:
        """Return True if the text consists of names of nodes or of selectors, separated by commas."""
        return all(part in self.nodes or part in WORDS or _CALL.fullmatch(part) for part in split(side))

    def settings(self) -> dict[str, str]:
        """Return the words of the form KEY=VALUE as a mapping. They remain to be read."""
        return {match[1]: match[2] for word in self.left if (match := SETTING_WORD.fullmatch(word))}

    def take_settings(self, what: str) -> dict[str, str]:
        """Take and return the words of the form KEY=VALUE, at least one."""
        found = self.settings()
        self.left = [word for word in self.left if not SETTING_WORD.fullmatch(word)]
        if not found:
            raise self.wrong(f"`{self.verb}` needs {what}")
        return found


def listed(text: str) -> object:
    """Split names at commas outside brackets. Return a list, or the text itself if it is a single name."""
    parts = split(text)
    return parts if len(parts) > 1 else text


def split(text: str) -> list[str]:
    return re.split(r",(?![^()]*\))", text)


def _dashes(text: str) -> list[int]:
    return [at for at, item in enumerate(text) if item == "-" and text.count("(", 0, at) == text.count(")", 0, at)]
