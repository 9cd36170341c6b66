"""S15 beside a real log: what its leader-epoch cache says once records are deleted and the broker is killed.

The checkpoint of log starts is a minute old at most, so deleted records come back, and what the cache has forgotten of
them does not; but the recovery of a log whose cache is empty reads them again.
source: LogManager.checkpointLogStartOffsets, LogLoader.recoverSegment, LeaderEpochFileCache.truncateFromStart
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_probe import FakeProbe
from trace_script import T0, TraceScript

from replica.config import TopicConfig
from replica.log.batches.records import build_batch
from replica.log.files.disk import Disk
from replica.log.log import Log
from replica.trace import events as trace
from scenarios.check.invariants.checker import EpochCacheSnapshot


class DeletingLog:
    """The log of b1, which leads alone: its events, and after each one what its cache says."""

    def __init__(self, root: Path) -> None:
        self.disk = Disk(root, sync=False)
        self.script = TraceScript(brokers=("b1",), min_isr=1)
        self.log = self._opened()
        self.records = 0

    def append(self, *epochs: int) -> None:
        for epoch in epochs:
            if epoch > self.script.epoch:
                self.script.leads("b1", epoch)
            name, offset = f"r{self.records}", self.log.log_end_offset
            self.log.append_as_leader(build_batch([(None, name.encode())], timestamp_ms=1), epoch, 0)
            self.script.append("b1", offset, name)
            self.records += 1
            self.script.advance(offset + 1)
            self._look()

    def delete_below(self, start: int) -> None:
        self.log.set_log_start_offset(start)
        self.script.state(trace.LogStartOffsetAdvanced, node="b1", log_start_offset=start)
        self._look()

    def crash(self) -> None:
        """No checkpoint of log starts has been written so far."""
        self.script.stop("b1")
        self.log.abandon()
        self.log = self._opened()
        self.script.start("b1")
        self.script.recover("b1", self.log.log_end_offset, start=self.log.log_start_offset)
        self._look()

    def truncate(self, end: int) -> None:
        self.log.truncate_to(end)
        self.script.truncate("b1", end)
        self._look()

    def _opened(self) -> Log:
        return Log.open(self.disk.root / str(T0), T0, TopicConfig(), self.disk, clean=False)[0]

    def _look(self) -> None:
        self.script.checker.probe(FakeProbe(caches=[EpochCacheSnapshot("b1", T0, self.log.leader_epochs.entries)]))


def raised_by_less(log: DeletingLog) -> None:
    log.delete_below(3)
    log.crash()
    log.delete_below(1)


def all_deleted_and_killed_twice(log: DeletingLog) -> None:
    log.delete_below(4)
    log.crash()
    log.crash()


def cut_below_the_start(log: DeletingLog) -> None:
    log.delete_below(3)
    log.truncate(1)
    log.append(2, 2)


def cut_below_what_was_deleted_and_came_back(log: DeletingLog) -> None:
    log.delete_below(3)
    log.crash()
    log.truncate(1)
    log.append(2, 2)


@pytest.mark.parametrize(
    "story",
    [raised_by_less, all_deleted_and_killed_twice, cut_below_the_start, cut_below_what_was_deleted_and_came_back],
)
def test_what_a_cache_says_of_deleted_records_is_no_broken_rule(
    story: Callable[[DeletingLog], None], tmp_path: Path
) -> None:
    log = DeletingLog(tmp_path)
    log.append(0, 0, 1, 1)
    story(log)
    assert "S15" not in log.script.broken()


@pytest.mark.parametrize(
    ("entries", "is_broken"),
    [
        ([(1, 3)], False),
        ([(1, 2)], False),
        ([(0, 0), (1, 2)], False),
        ([(0, 0), (1, 3)], True),
        ([(0, 3)], True),
        ([], True),
    ],
)
def test_a_cache_may_know_of_deleted_records_that_came_back_but_nothing_wrong(
    entries: list[tuple[int, int]], is_broken: bool, tmp_path: Path
) -> None:
    log = DeletingLog(tmp_path)
    log.append(0, 0, 1, 1)
    log.delete_below(3)
    log.crash()
    log.script.checker.probe(FakeProbe(caches=[EpochCacheSnapshot("b1", T0, tuple(entries))]))
    assert ("S15" in log.script.broken()) is is_broken
