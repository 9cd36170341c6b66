"""Metadata changes are applied in order, a large change one slice at a time.

Kafka has a thread of its own for it, beside those that answer requests: while a broker makes the logs of 10,000
partitions, it serves those that it has. Here other work has its turn between two slices.
source: MetadataLoader.java, BrokerMetadataPublisher.scala
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from cluster.broker.replicas.blocking_logs import PartitionLocks
from cluster.broker.replicas.changes import ReplicaChanges
from cluster.clocks import Timers
from cluster.node import Action
from replica.ids import TopicPartition

AT_ONCE_MAX = 100
"""A change of so many partitions is made in one step."""
SLICE = 8
"""So many partitions of a larger one are."""
PAUSE_US = 1
"""Between two slices: work due by then comes first."""

Done = Callable[[int], None]


class _Slice(NamedTuple):
    """done: None while more of the same change follows"""

    names: Sequence[TopicPartition]
    configured: Sequence[str]
    done: Done | None


class MetadataPublisher:
    """Keeps the order; `changes` do the work, each slice once no append to its partitions is in progress."""

    def __init__(self, changes: ReplicaChanges, locks: PartitionLocks, timers: Timers[Action]) -> None:
        self._changes = changes
        self._locks = locks
        self._timers = timers
        self._waiting: deque[_Slice] = deque()
        self._is_amid_change = False

    def publish(self, changed: Sequence[TopicPartition], configured: Sequence[str], now_us: int, done: Done) -> None:
        """done: called once all of it has been acted upon"""
        size = SLICE if len(changed) > AT_ONCE_MAX else AT_ONCE_MAX
        starts = range(0, len(changed), size) if changed else (0,)
        for start in starts[:-1]:
            self._waiting.append(_Slice(changed[start : start + size], (), None))
        self._waiting.append(_Slice(changed[starts[-1] :], configured, done))
        self._go_on(now_us)

    def _go_on(self, now_us: int) -> None:
        while self._waiting and not self._is_amid_change:
            one = self._waiting.popleft()
            self._is_amid_change = one.done is None
            self._locks.change(one.names, partial(self._make, one), now_us)

    def _make(self, one: _Slice, now_us: int) -> None:
        self._changes.apply(one.names, one.configured, now_us)
        if one.done is not None:
            one.done(now_us)
        else:
            self._timers.at(now_us + PAUSE_US, self._continue)

    def _continue(self, now_us: int) -> None:
        self._is_amid_change = False
        self._go_on(now_us)
