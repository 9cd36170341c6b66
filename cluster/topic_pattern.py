"""A pattern of topic names: clients of the classic protocol evaluate it, brokers that of KIP-848's members.

A client's regular expression is RE2's, which takes linear time on any input; none may reach Python's `re`. Simple ones
need no library, for others google-re2 is imported when the first one comes.
Simplified: of java.util.regex there are letters, digits, `_`, `-`, `.`, `\\.` and classes as in [a-z0-9], each with
`*`, `+` or `?`, and `|` between whole patterns. RE2 reads these alike, and a name takes no more steps than its length
times the pattern's.

source: SubscriptionState.matchesSubscribedPattern, SubscriptionPattern; of brokers GroupMetadataManager
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
"""Characters: as many as a topic's name may have."""
PATTERNS_MAX = 1024
"""Compiled patterns that are kept."""
_ITEM = re.compile(r"(\.|\\\.|[A-Za-z0-9_-]|\[[A-Za-z0-9_.-]+\])([*+?]|)", re.ASCII)
WHAT_IT_MAY_HAVE = r"letters, digits, `_`, `-`, `.`, `\.`, classes as in [a-z], each with `*`, `+` or `?`; `|`"


class _Item(NamedTuple):
    """one: a pattern of one character     may_lack, may_repeat: by `?`, `*` and `+`"""

    one: re.Pattern[str]
    may_lack: bool
    may_repeat: bool


class TopicPattern:
    def __init__(self, text: str) -> None:
        """raises: ValueError, with what is wrong"""
        if not 0 < len(text) <= PATTERN_MAX:
            raise ValueError(f"it has {len(text)} characters; allowed are 1 to {PATTERN_MAX}")
        self.text = text
        self._ways = [_items(way) for way in text.split("|")]

    def matches(self, name: str) -> bool:
        """From its first letter to its last."""
        return any(_matches(way, name) for way in self._ways)


def _items(way: str) -> list[_Item]:
    found: list[_Item] = []
    position = 0
    while position < len(way):
        match = _ITEM.match(way, position)
        if match is None:
            raise ValueError(f"`{way[position]}` cannot stand there")
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
    """By the set of items that the next character may belong to, so that no way is tried twice."""
    at = _reached(way, {0})
    for letter in name:
        after: set[int] = set()
        for place in at:
            if place < len(way) and way[place].one.fullmatch(letter):
                after.update((place, place + 1) if way[place].may_repeat else (place + 1,))
        at = _reached(way, after)
    return len(way) in at


def _reached(way: list[_Item], at: set[int]) -> set[int]:
    """With those behind items that may lack."""
    found = set(at)
    for place, item in enumerate(way):
        if place in found and item.may_lack:
            found.add(place + 1)
    return found


def described_by(pattern: str, what: str) -> Callable[[str], bool]:
    """Whether the pattern describes a text from its first letter to its last. raises: KafkaError, about `what`"""
    try:
        return _compiled(pattern)
    except ImportError:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            "this broker evaluates such a pattern with google-re2, which is not installed: pip install google-re2",
        ) from None
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"{what} `{shown(pattern)}` is not a valid regular expression: {shown(str(error))}.",
        ) from None


def matching(pattern: str, topics: Iterable[str]) -> list[str]:
    """Those that the pattern describes from their first letter to their last."""
    try:
        describes = _compiled(pattern)
    except (ImportError, ValueError):
        return []  # Another broker took it, and this one cannot read it.
    return [topic for topic in topics if describes(topic)]


@lru_cache(maxsize=PATTERNS_MAX)
def _compiled(pattern: str) -> Callable[[str], bool]:
    """raises: ImportError; ValueError for what is no pattern"""
    try:
        # A name matches from end to end, so anchors say nothing more; librdkafka marks every pattern with one.
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
