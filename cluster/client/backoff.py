"""Exponential backoff with jitter, as every retry of a Kafka client uses it. Source: ExponentialBackoff.java."""

from __future__ import annotations

import random

RETRY_EXP_BASE = 2
JITTER = 0.2
"""CommonClientConfigs: the same factor and jitter for retries, reconnects and connection set-up."""


class ExponentialBackoff:
    """initial * 2^attempts, at most `max_ms`, spread by 20 % either way; milliseconds in, microseconds out."""

    __slots__ = ("_initial_us", "_max_us", "_rng")

    def __init__(self, initial_ms: int, max_ms: int, rng: random.Random) -> None:
        self._initial_us = min(initial_ms, max_ms) * 1000  # Kafka: an initial value above the maximum is the maximum
        self._max_us = max_ms * 1000
        self._rng = rng

    def after_us(self, attempts: int) -> int:
        """How long to wait when `attempts` earlier ones have failed, microseconds."""
        if self._initial_us >= self._max_us:
            return self._initial_us
        doublings = min(attempts, 40)
        factor = 1 - JITTER + 2 * JITTER * self._rng.random()
        return min(int(self._initial_us * RETRY_EXP_BASE**doublings * factor), self._max_us)
