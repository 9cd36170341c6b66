"""Compute the terms of a partition's leaders, and how long each election took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from spark_reports.folds.codes import begins, codes, numbers, of_kind

TERM_COLUMNS = ("what", "seq", "at_us", "leader", "leader_epoch", "log_end_offset", "high_watermark")
ELECTION_COLUMNS = (
    "what", "seq", "at_us", "leader", "leader_epoch", "previous_leader", "clean", "isr", "reason",
)  # fmt: skip
BEGAN, CHOSEN, STOPPED, DELETED, REMOVED, OVER = "began", "chosen", "stopped", "deleted", "removed", "over"
CREATED, ELECTED, OFFLINE, STARTED, APPENDED = "created", "elected", "offline", "started", "appended"

NEXT_TERM, LEADER_STOPPED, RUN_ENDED = "the next term began", "the leader stopped", "the run ended"
TOPIC_DELETED, REPLICA_REMOVED = "the topic was deleted", "the leader removed its replica"


def leader_terms(facts: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each term of a leader.

    A term begins when the leader learns of its leadership. It ends with the first event of a higher epoch, the leader's
    stop, the deletion of the topic, or the end of the run. A term that begins after the deletion of its topic ends when
    the leader removes its replica. A leader that learns of its leadership again in the same term begins no new one.
    """
    terms: dict[tuple[int, str], tuple[int, int, int | None, int | None]] = {}

    def ended(keys: list[tuple[int, str]], at_us: int, seq: int, why: str) -> Iterator[tuple[Any, ...]]:
        for epoch, leader in keys:
            from_us, from_seq, end, high_watermark = terms.pop((epoch, leader))
            yield epoch, leader, from_us, from_seq, at_us, seq, why, end, high_watermark

    for what, seq, at_us, leader, epoch, end, high_watermark in facts:
        if what in (STOPPED, REMOVED):
            why = LEADER_STOPPED if what == STOPPED else REPLICA_REMOVED
            yield from ended([key for key in terms if key[1] == leader], at_us, seq, why)
        elif what in (DELETED, OVER):
            yield from ended([*terms], at_us, seq, RUN_ENDED if what == OVER else TOPIC_DELETED)
        elif epoch is not None:
            yield from ended([key for key in terms if key[0] < epoch], at_us, seq, NEXT_TERM)
        if what == BEGAN:
            terms.setdefault((epoch, leader), (at_us, seq, end, high_watermark))


class _Election:
    """An election; `said` has the first columns of its row: epoch, seq, at_us, leader, etc."""

    __slots__ = ("first_write_us", "leading_us", "lost_us", "said")

    def __init__(self, said: tuple[Any, ...]) -> None:
        self.said = said
        self.lost_us: int | None = None
        self.leading_us: int | None = None
        self.first_write_us: int | None = None

    def row(self) -> tuple[Any, ...]:
        lost_us, written_us = self.lost_us, self.first_write_us
        elect_us = None if lost_us is None else self.said[2] - lost_us
        write_us = None if lost_us is None or written_us is None else written_us - lost_us
        return (*self.said, lost_us, self.leading_us, written_us, elect_us, write_us)


def elections(facts: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each election. Its lost_us is the start of the outage in progress, null if there is none.

    The loss of a leader begins an outage, unless one is in progress. The outage ends when the next leader learns of its
    leadership. Epochs of a recreated topic start from 0 again, so (leader, epoch) stands for the latest such election.
    """
    found: list[_Election] = []
    last: dict[tuple[str, int], _Election] = {}
    now: tuple[str | None, int] = (None, -1)
    down: set[str] = set()
    lost_us: int | None = None
    for what, seq, at_us, node, epoch, previous_leader, clean, isr, reason in facts:
        if what == APPENDED:
            its = last.get((node, epoch))
            if its is not None and its.first_write_us is None:
                its.first_write_us = at_us
            continue
        is_lost = False
        if what == STARTED:
            down.discard(node)
        elif what == STOPPED:
            down.add(node)
            is_lost = node == now[0]
        elif what == BEGAN:
            its = last.get((node, epoch))
            if its is not None and its.leading_us is None:
                its.leading_us = at_us
            if node == now[0] and epoch >= now[1]:
                lost_us = None
        else:
            now = (node, epoch)
            if what == CREATED:
                lost_us = None
            if what == ELECTED:
                item = last[node, epoch] = _Election((epoch, seq, at_us, node, previous_leader, clean, isr, reason))
                item.lost_us = lost_us
                found.append(item)
            is_lost = what == OFFLINE or (what == ELECTED and node in down)
        if is_lost and lost_us is None:
            lost_us = at_us
    for item in found:
        yield item.row()


def elections_cut(facts: pa.Table) -> pa.Table:
    """Drop each append that directly follows another append of the same leader, since only its first append counts."""
    is_append = of_kind(facts, APPENDED)
    leader, epoch = codes(facts, "topic", "partition", "leader"), numbers(facts, "leader_epoch", np.iinfo(np.int64).min)
    return facts.filter(pa.array(~is_append | begins(is_append, leader, epoch)))
