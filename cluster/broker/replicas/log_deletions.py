"""The files of deleted replicas are removed some time after the deletion, a few directories at a time.

Kafka has a task in its scheduler's threads for it, beside those that answer requests: a topic of thousands of
partitions takes seconds to remove. Here other work has its turn in between. source: LogManager.deleteLogs
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from cluster.node import Action
from cluster.timers import Timers

AT_ONCE = 8
"""Directories that are removed in one step: some 5 ms."""
PAUSE_US = 1
"""Before the next ones: work due by then comes first."""


class LogDeletions:
    """delay_us(): from the deletion of a replica to the removal of its files; responses may be reading from them"""

    def __init__(self, timers: Timers[Action], delay_us: Callable[[], int]) -> None:
        self._timers = timers
        self._delay_us = delay_us
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        """When it is due, and what removes it; in the order of deletion."""

    def add(self, remove: Callable[[], None], now_us: int) -> None:
        due_us = now_us + self._delay_us()
        self._waiting.append((due_us, remove))
        if len(self._waiting) == 1:
            self._timers.at(due_us, self._remove_due)

    def _remove_due(self, now_us: int) -> None:
        """If a removal fails, the next ones still have their turn: Kafka, too, always schedules its next run."""
        try:
            for _ in range(AT_ONCE):
                _, remove = self._waiting.popleft()
                remove()
                if not self._waiting or self._waiting[0][0] > now_us:
                    break
        finally:
            if self._waiting:
                self._timers.at(max(self._waiting[0][0], now_us + PAUSE_US), self._remove_due)
