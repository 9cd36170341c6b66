"""Rates over the last seconds, measured as Kafka's quotas do. Source: SampledStat, SimpleRate, Rate"""

from __future__ import annotations

from dataclasses import dataclass

SAMPLES = 11
"""Kafka's default of quota.window.num and replication.quota.window.num."""
WINDOW_US = 1_000_000
"""Kafka's default of quota.window.size.seconds and replication.quota.window.size.seconds."""


@dataclass(slots=True)
class _Sample:
    start_us: int
    last_us: int
    value: int = 0

    def reset(self, now_us: int) -> None:
        self.start_us = self.last_us = now_us
        self.value = 0


class SimpleRate:
    """A rate per second over the last `samples` windows.

    The time is counted from the start of the oldest sample, and is at least one window. One extra sample is kept,
    because a sample may overlap the beginning of this time. Source: SampledStat, Rate
    """

    __slots__ = ("_count", "_current", "_sample_us", "_samples")

    def __init__(self, samples: int = SAMPLES, sample_us: int = WINDOW_US) -> None:
        self._count = samples
        self._sample_us = sample_us
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: int, now_us: int) -> None:
        if not self._samples:
            self._samples.append(_Sample(now_us, now_us))
        sample = self._samples[self._current]
        if now_us - sample.start_us >= self._sample_us:
            sample = self._advance(now_us)
        sample.value += value
        sample.last_us = now_us

    def _advance(self, now_us: int) -> _Sample:
        self._current = (self._current + 1) % (self._count + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_us, now_us))
        else:
            self._samples[self._current].reset(now_us)
        return self._samples[self._current]

    def per_second(self, now_us: int) -> float:
        total = sum(sample.value for sample in self._purged(now_us))
        return total * 1_000_000 / self.window_us(now_us)

    def window_us(self, now_us: int) -> int:
        """Return the time by which the sum is divided: from the start of the oldest sample, at least one window."""
        return max(self._elapsed_us(now_us), self._sample_us)

    def _elapsed_us(self, now_us: int) -> int:
        return now_us - min((sample.start_us for sample in self._purged(now_us)), default=now_us)

    def _purged(self, now_us: int) -> list[_Sample]:
        for sample in self._samples:
            if now_us - sample.last_us >= self._count * self._sample_us:
                sample.reset(now_us)
        return self._samples


class Rate(SimpleRate):
    """A rate over at least all windows except one, so that a short burst is not a high rate."""

    __slots__ = ()

    def window_us(self, now_us: int) -> int:
        elapsed_us = self._elapsed_us(now_us)
        missing = max(0, self._count - 1 - elapsed_us // self._sample_us)
        return max(elapsed_us + missing * self._sample_us, 1000)
