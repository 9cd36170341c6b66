"""A pattern of topic names: clients of the classic protocol evaluate it, brokers that of KIP-848's members.

Simplified: of java.util.regex there are letters, digits, `_`, `-`, `.`, `\\.` and classes as in [a-z0-9], each with
`*`, `+` or `?`, and `|` between whole patterns. RE2 reads these alike, and a name takes no more steps than its length
times the pattern's.

source: SubscriptionState.matchesSubscribedPattern, SubscriptionPattern
"""

from __future__ import annotations

import re
from typing import NamedTuple

PATTERN_MAX = 249
"""Characters: as many as a topic's name may have."""
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
