"""Where two runs diverge: two sequences of events side by side, whatever is compared of them.

`diff`, `compare`'s page and `agree` ask here: the first two about every event of the story, `agree` about the standings
of each partition, with ties.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

EndOfTie = Callable[[int, int], tuple[int, int] | None]
"""From the places of two that are not equal: those of the first that are again, if what lies between is only a tie."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """stretches: (place in the one, place in the other, how many follow each other that are equal)
    ties: pairs of the places where each tie begins

    parts_at: the first places that do not belong together, None when there are none; a place may be behind the end
    """

    stretches: tuple[tuple[int, int, int], ...]
    ties: tuple[tuple[int, int], ...]
    parts_at: tuple[int, int] | None

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Places of equals."""
        return tuple((left + step, right + step) for left, right, length in self.stretches for step in range(length))


def align(one: Sequence[Any], other: Sequence[Any], end_of_tie: EndOfTie = lambda left, right: None) -> Alignment:
    stretches: list[tuple[int, int, int]] = []
    ties: list[tuple[int, int]] = []
    left = right = 0
    while True:
        most = min(len(one) - left, len(other) - right)
        length = next((step for step in range(most) if one[left + step] != other[right + step]), most)
        if length:
            stretches.append((left, right, length))
        left, right = left + length, right + length
        end = end_of_tie(left, right) if length < most else None
        if end is None:
            break
        ties.append((left, right))
        left, right = end
    parts = left < len(one) or right < len(other)
    return Alignment(tuple(stretches), tuple(ties), (left, right) if parts else None)


# ---------------------------------------------------------------------------------------------------------- events

_SETTING = re.compile(r", acks=\w+")
"""In a sentence: what was set differently is no event in which two runs differ."""


class ToldEvent(NamedTuple):
    """node: empty for none"""

    at_us: int
    node: str
    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """same: events that both have, from the beginning. A run that ended there has no time and no sentence"""

    same: int
    at_us: tuple[int | None, int | None]
    sentences: tuple[str, str]


def first_difference(one: Sequence[ToldEvent], other: Sequence[ToldEvent]) -> Difference | None:
    """None: the same events at the same times, in the same words but for the settings that they quote."""
    left, right = ([told._replace(text=_SETTING.sub("", told.text)) for told in run] for run in (one, other))
    parts_at = align(left, right).parts_at
    if parts_at is None:
        return None
    mine, theirs = (run[place] if place < len(run) else None for run, place in zip((one, other), parts_at, strict=True))
    return Difference(
        parts_at[0],
        (mine.at_us if mine else None, theirs.at_us if theirs else None),
        (mine.text if mine else "", theirs.text if theirs else ""),
    )
