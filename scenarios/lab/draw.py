"""Numbers and names drawn from a student's name: each student has a scenario of their own, the same on every day."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

BROKERS = ("b1", "b2", "b3")
TOPICS = ("orders", "payments", "clicks", "views", "parcels", "tickets", "sensors", "scores")


@dataclass(frozen=True, slots=True)
class Draw:
    """exercise: students get different values in each"""

    exercise: str
    student: str

    def one_of(self, choices: Sequence[T], purpose: str) -> T:
        name = " ".join(self.student.casefold().split())
        digest = hashlib.sha256(f"{self.exercise}/{purpose}/{name}".encode()).digest()
        return choices[int.from_bytes(digest[:8], "big") % len(choices)]

    def number(self, low: int, high: int, purpose: str) -> int:
        return self.one_of(range(low, high + 1), purpose)

    def topic(self) -> str:
        return self.one_of(TOPICS, "topic")

    def brokers(self) -> tuple[str, ...]:
        """The replicas in an order that is not always b1, b2, b3: the first one leads."""
        first = self.number(0, len(BROKERS) - 1, "leader")
        return BROKERS[first:] + BROKERS[:first]
