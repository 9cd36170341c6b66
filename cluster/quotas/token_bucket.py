"""A bucket of tokens: it fills at the rate of a quota up to a burst, and may be drawn below zero once.
source: org.apache.kafka.common.metrics.stats.TokenBucket"""

from __future__ import annotations


class TokenBucket:
    """burst_s: seconds of the quota that it holds when it is full, as a new one is"""

    __slots__ = ("_burst_s", "_last_ms", "_tokens")

    def __init__(self, burst_s: int) -> None:
        self._burst_s = burst_s
        self._tokens: float | None = None
        self._last_ms = 0

    def tokens(self, per_second: float, now_ms: int) -> float:
        """Tokens there are now; less than zero while the quota is exceeded."""
        burst = self._burst_s * per_second
        filled = burst if self._tokens is None else self._tokens + per_second * (now_ms - self._last_ms) / 1000
        self._tokens, self._last_ms = min(burst, filled), now_ms
        return self._tokens

    def take(self, count: int, per_second: float, now_ms: int) -> None:
        self._tokens = min(self._burst_s * per_second, self.tokens(per_second, now_ms) - count)
