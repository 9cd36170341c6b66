"""Two sequences of standings side by side: where they part, and which partings are only ties.

A tie is a stretch in which the same members came into the ISR, or left it, in another order or in other steps, under
the same leader: which of two followers fetched first is not decided by any rule of Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from scenarios.agree.facts import Stood

TIE_LENGTH_MAX = 12
"""Standings of one tie: of a partition with so many followers."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """pairs: places of equal standings in both; ties: pairs of the places where each tie begins

    parts_at: the first places that do not belong together, None when there are none; a place may be behind the end
    """

    pairs: tuple[tuple[int, int], ...]
    ties: tuple[tuple[int, int], ...]
    parts_at: tuple[int, int] | None


def align(one: Sequence[Stood], other: Sequence[Stood]) -> Alignment:
    pairs: list[tuple[int, int]] = []
    ties: list[tuple[int, int]] = []
    left = right = 0
    while left < len(one) and right < len(other):
        if one[left].standing == other[right].standing:
            pairs.append((left, right))
            left, right = left + 1, right + 1
            continue
        end = _end_of_tie(one, left, other, right)
        if end is None:
            break
        ties.append((left, right))
        left, right = end
    parts = left < len(one) or right < len(other)
    return Alignment(tuple(pairs), tuple(ties), (left, right) if parts else None)


def _end_of_tie(one: Sequence[Stood], left: int, other: Sequence[Stood], right: int) -> tuple[int, int] | None:
    """The places of the first standing that both have again, if all between is one tie."""
    if not left or not right:
        return None
    for steps in range(2 * TIE_LENGTH_MAX):
        for first in range(steps + 1):
            mine, theirs = left + first, right + steps - first
            if mine >= len(one) or theirs >= len(other) or one[mine].standing != other[theirs].standing:
                continue
            paths = one[left - 1 : mine + 1], other[right - 1 : theirs + 1]
            grow = all(_only_moves(path, grows=True) for path in paths)
            return (mine, theirs) if grow or all(_only_moves(path, grows=False) for path in paths) else None
    return None


def _only_moves(path: Sequence[Stood], *, grows: bool) -> bool:
    """Under one leader in one epoch, every step of the ISR adds members, or every step removes some."""
    for before, after in pairwise(path):
        if (before.standing.leader, before.standing.leader_epoch) != (
            after.standing.leader,
            after.standing.leader_epoch,
        ):
            return False
        fewer, more = set(before.standing.isr), set(after.standing.isr)
        if not (fewer < more if grows else more < fewer):
            return False
    return True
