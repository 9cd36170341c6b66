"""An append in progress keeps a change of its partition's leadership waiting, and that keeps new appends waiting.

source: Partition.leaderIsrUpdateLock (appends hold it for reading, makeLeader and makeFollower for writing; a reader
does not overtake a waiting writer), AbstractFetcherThread.partitionMapLock. Simplified: fetches and changes of the ISR
do not wait for an append in progress.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from replica.ids import TopicPartition

Work = Callable[[int], None]


class PartitionLocks:
    """Changes are made in their order, each once no append to its partitions is in progress."""

    __slots__ = ("_appending", "_behind", "_changes")

    def __init__(self) -> None:
        self._appending: dict[TopicPartition, int] = {}
        self._changes: deque[tuple[Sequence[TopicPartition], Work]] = deque()
        self._behind: list[Work] = []

    def begin_append(self, names: Sequence[TopicPartition]) -> None:
        for name in names:
            self._appending[name] = self._appending.get(name, 0) + 1

    def end_append(self, names: Sequence[TopicPartition], now_us: int) -> None:
        for name in names:
            self._appending[name] -= 1
            if not self._appending[name]:
                del self._appending[name]
        if self._changes:
            self._make_changes(now_us)

    def change(self, names: Sequence[TopicPartition], work: Work, now_us: int) -> None:
        """Do `work` as soon as no append to `names` is in progress."""
        self._changes.append((names, work))
        self._make_changes(now_us)

    @property
    def are_free(self) -> bool:
        """No change is waiting."""
        return not self._changes

    def is_change_waiting(self, names: Sequence[TopicPartition]) -> bool:
        return any(name in waiting for waiting, _ in self._changes for name in names)

    def after_changes(self, work: Work) -> None:
        """Do `work` once no change waits any more."""
        self._behind.append(work)

    def _make_changes(self, now_us: int) -> None:
        while self._changes and not any(name in self._appending for name in self._changes[0][0]):
            _, work = self._changes.popleft()
            work(now_us)
        if not self._changes:
            behind, self._behind = self._behind, []
            for work in behind:
                work(now_us)
