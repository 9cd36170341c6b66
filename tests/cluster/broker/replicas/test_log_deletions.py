"""The files of deleted replicas go when their delay is over, and never very many in one step."""

from __future__ import annotations

from functools import partial

import pytest

from cluster.broker.replicas.log_life import AT_ONCE, LogDeletions
from cluster.clocks import Timers
from cluster.node import Action

SECOND = 1_000_000


def test_a_large_topic_goes_a_few_directories_at_a_time_and_in_order() -> None:
    timers: Timers[Action] = Timers()
    deletions, removed = LogDeletions(timers, lambda: 60 * SECOND), list[int]()
    topic = list(range(1000))
    for number in topic:
        deletions.add(partial(removed.append, number), 0)
    deletions.add(partial(removed.append, 1000), 10 * SECOND)
    steps = []
    while (due_us := timers.next_deadline_us) is not None:
        before = len(removed)
        timers.run_due(due_us)
        steps.append((due_us, len(removed) - before))
    assert removed == [*topic, 1000]
    assert max(count for _, count in steps) == AT_ONCE
    assert [due_us - 60 * SECOND for due_us, _ in steps] == [*range(1000 // AT_ONCE), 10 * SECOND]


def test_after_a_pause_the_next_deletion_waits_for_its_own_delay() -> None:
    timers: Timers[Action] = Timers()
    deletions, removed = LogDeletions(timers, lambda: 60 * SECOND), list[str]()
    deletions.add(partial(removed.append, "t-0"), 0)
    timers.run_due(60 * SECOND)
    deletions.add(partial(removed.append, "u-0"), 70 * SECOND)
    timers.run_due(130 * SECOND - 1)
    assert removed == ["t-0"]
    timers.run_due(130 * SECOND)
    assert removed == ["t-0", "u-0"] and timers.next_deadline_us is None


def test_a_directory_that_cannot_be_removed_keeps_no_other() -> None:
    def refuse() -> None:
        raise OSError("I/O error")

    timers: Timers[Action] = Timers()
    deletions, removed = LogDeletions(timers, lambda: 60 * SECOND), list[str]()
    deletions.add(partial(removed.append, "t-0"), 0)
    deletions.add(refuse, 0)
    deletions.add(partial(removed.append, "t-2"), 0)
    with pytest.raises(OSError, match="I/O error"):
        timers.run_due(60 * SECOND)
    assert removed == ["t-0"]
    timers.run_due(60 * SECOND + 1)
    assert removed == ["t-0", "t-2"] and timers.next_deadline_us is None
