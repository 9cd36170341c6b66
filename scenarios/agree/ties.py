"""Two sequences of standings side by side: where they part, and which partings are only ties.

A tie is a stretch in which the same members left the ISR, or came into it, or first left and then came, in another
order or in other steps, under the same leader: no rule decides which of two followers fetched first, nor which of two
brokers that are stopped at once is heard of first. The one that left last may be in the ELR meanwhile; the tie ends
where both are equal again.
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
    """The places of the first standing that both have again, and up to which all is one tie."""
    if not left or not right:
        return None
    for steps in range(2 * TIE_LENGTH_MAX):
        for first in range(steps + 1):
            mine, theirs = left + first, right + steps - first
            if mine >= len(one) or theirs >= len(other) or one[mine].standing != other[theirs].standing:
                continue
            lowest = [_lowest_isr(path) for path in (one[left - 1 : mine + 1], other[right - 1 : theirs + 1])]
            if lowest[0] == lowest[1] is not None:
                return mine, theirs
    return None


def _lowest_isr(path: Sequence[Stood]) -> tuple[str, ...] | None:
    """Under one leader in one epoch, first every step removes members of the ISR, or only changes the ELR, and then
    every step adds some: the ISR between the two. None if the path is another one.
    """
    lowest, grows = path[0].standing.isr, False
    for before, after in pairwise(path):
        if (before.standing.leader, before.standing.leader_epoch) != (
            after.standing.leader,
            after.standing.leader_epoch,
        ):
            return None
        fewer, more = set(before.standing.isr), set(after.standing.isr)
        grows = grows or fewer < more
        if not (fewer < more if grows else more <= fewer):
            return None
        if not grows:
            lowest = after.standing.isr
    return lowest
