"""Patterns of topic names, which clients of the classic protocol evaluate, and brokers for KIP-848's members.

A client's regular expression has RE2's syntax, which is matched in linear time; none may reach Python's `re`. Simple
expressions need no library; google-re2 is imported for the first other one.

Simplified: of java.util.regex there are letters, digits, `_`, `-`, `.`, `\\.` and classes as in [a-z0-9], each with
`*`, `+` or `?`, and `|` between whole patterns. RE2 matches these in the same way, and a name takes no more steps than
its length times the pattern's.

Source: SubscriptionState.matchesSubscribedPattern, SubscriptionPattern; of brokers GroupMetadataManager
(throwIfRegularExpressionIsInvalid, refreshRegularExpressions), TransactionStateManager.listTransactionStates
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from replica.errors import ErrorCode, KafkaError
from replica.wording import shown

PATTERN_MAX = 249
"""The maximum number of characters of a pattern, as for a topic's name."""
PATTERNS_MAX = 1024
"""The maximum number of compiled patterns in the cache."""
_ITEM = re.compile(r"(\.|\\\.|[A-Za-z0-9_-]|\[[A-Za-z0-9_.-]+\])([*+?]|)", re.ASCII)
WHAT_IT_MAY_HAVE = r"letters, digits, `_`, `-`, `.`, `\.`, classes such as [a-z], each with `*`, `+` or `?`, and `|`"


class _Item(NamedTuple):
    """A pattern for one character. `?`, `*` and `+` make it optional or repeatable."""

    one: re.Pattern[str]
    may_lack: bool
    may_repeat: bool


class TopicPattern:
    def __init__(self, text: str) -> None:
        """Parse a pattern.

        Raises:
            ValueError: if the pattern is invalid; the text says why.
        """
        if not 0 < len(text) <= PATTERN_MAX:
            raise ValueError(f"the pattern has {len(text)} characters; 1 to {PATTERN_MAX} are allowed")
        self.text = text
        self._ways = [_items(way) for way in text.split("|")]

    def matches(self, name: str) -> bool:
        """Return True if the whole name matches."""
        return any(_matches(way, name) for way in self._ways)


def _items(way: str) -> list[_Item]:
    found: list[_Item] = []
    position = 0
    while position < len(way):
        match = _ITEM.match(way, position)
        if match is None:
            raise ValueError(f"`{way[position]}` is not allowed at character {position + 1} of `{way}`")
        sign = match[2]
        found.append(_Item(_one(match[1]), sign in ("?", "*"), sign in ("*", "+")))
        position = match.end()
    return found


def _one(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.ASCII)
    except re.error as error:
        raise ValueError(f"`{text}`: {error.msg}") from None


def _matches(way: list[_Item], name: str) -> bool:
    """Return True if the alternative matches the whole name.

    All reachable items are tracked together, so that the time is linear.
    """
    at = _reached(way, {0})
    for letter in name:
        after: set[int] = set()
        for position in at:
            if position < len(way) and way[position].one.fullmatch(letter):
                after.update((position, position + 1) if way[position].may_repeat else (position + 1,))
        at = _reached(way, after)
    return len(way) in at


def _reached(way: list[_Item], at: set[int]) -> set[int]:
    """Return these positions and those that can be reached from them by skipping optional items."""
    found = set(at)
    for position, item in enumerate(way):
        if position in found and item.may_lack:
            found.add(position + 1)
    return found


def described_by(pattern: str, what: str) -> Callable[[str], bool]:
    """Return a function that returns True if its whole argument matches the pattern.

    Raises:
        KafkaError: if the pattern is invalid; its message calls the pattern `what`.
    """
    try:
        return _compiled(pattern)
    except ImportError:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            "this pattern needs the Python package google-re2, which is not installed; run: pip install google-re2",
        ) from None
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"{what} `{shown(pattern)}` is not a valid regular expression: {shown(str(error))}.",
        ) from None


def matching(pattern: str, topics: Iterable[str]) -> list[str]:
    """Return the topics whose whole name matches the pattern; none if this broker cannot compile it."""
    try:
        describes = _compiled(pattern)
    except (ImportError, ValueError):
        return []  # Another broker accepted the pattern.
    return [topic for topic in topics if describes(topic)]


@lru_cache(maxsize=PATTERNS_MAX)
def _compiled(pattern: str) -> Callable[[str], bool]:
    """Return a function that returns True if its whole argument matches the pattern.

    Raises:
        ImportError: if google-re2 is needed and missing.
        ValueError: if the pattern is invalid.
    """
    try:
        # The whole name has to match, so anchors add nothing; librdkafka begins every pattern with one.
        return TopicPattern(pattern.removeprefix("^").removesuffix("$")).matches
    except ValueError:
        return _compiled_by_re2(pattern)


def _compiled_by_re2(pattern: str) -> Callable[[str], bool]:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        found = re2.compile(pattern, options)
    except re2.error as error:
        (why,) = error.args
        raise ValueError(why.decode("utf-8", "replace")) from None

    def describes(topic: str) -> bool:
        return found.fullmatch(topic) is not None

    return describes
