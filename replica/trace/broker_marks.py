"""How a broker looks in every picture of a trace: one colour and one dash, on the page, in the report, in a terminal.

A colour is never alone: each broker has its dash, too, and its name beside it. Hues after Okabe and Ito.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerMark:
    """light, dark: the colour on a light and on a dark ground, each with a contrast of at least 4.5 to it

    dash: lengths of a line's strokes and gaps, pixels; empty for a solid line
    """

    light: str
    dark: str
    dash: tuple[int, ...]


BROKER_MARKS = (
    BrokerMark("#566475", "#a9b7c6", ()),
    BrokerMark("#b35c00", "#ffab57", (7, 3)),
    BrokerMark("#00805f", "#4fd3ab", (2, 3)),
    BrokerMark("#876900", "#e3c34f", (9, 3, 2, 3)),
    BrokerMark("#7a4bb0", "#c9a6f5", (12, 4)),
    BrokerMark("#0a74b8", "#6fbdf3", (4, 2)),
    BrokerMark("#a8326e", "#f59ac6", (2, 6)),
    BrokerMark("#46702a", "#a5d47f", (9, 3, 2, 3, 2, 3)),
)
"""`mark_places` says which a broker has."""


def in_broker_order(names: Iterable[str]) -> list[str]:
    """alpha before beta, b2 before b10."""

    def words_and_numbers(name: str) -> tuple[list[int | str], str]:
        # They take turns, so that numbers meet numbers. b1 and b01 have the same ones.
        parts = enumerate(re.split(r"(\d+)", name))
        return [int(part) if place % 2 else part for place, part in parts], name

    return sorted(names, key=words_and_numbers)


def mark_places(brokers: Iterable[str]) -> dict[str, int]:
    """Of all brokers of a cluster, in their order: the place of each one's mark. From the ninth on they come again."""
    return {name: place % len(BROKER_MARKS) for place, name in enumerate(in_broker_order(brokers))}
