"""Find intervals in which a high watermark did not move although records waited, and the followers that caused them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_reports.folds.codes import begins, codes, last_of, numbers, of_kind

COLUMNS = (
    "what", "seq", "at_us", "leader", "leader_epoch", "log_end_offset", "high_watermark", "follower", "fetch_offset",
    "until_seq", "until_us", "ended_by", "isr", "min_isr",
)  # fmt: skip
STATE, TERM, APPENDED, MOVED, FETCHED = "state", "term", "appended", "moved", "fetched"

SHORTEST_HW_STALL_US = 500_000
"""Shortest stall that counts. Shorter waits for a follower's next fetch are normal (replica.fetch.wait.max.ms)."""

ADVANCED = "the high watermark moved"


class _Stall:
    """An interval in which the high watermark did not move although records were above it.

    A follower is behind if its last fetch offset is not beyond the high watermark.

    Attributes:
        waiting: largest number of records above the high watermark.
        behind: since when each follower that has fetched in this term is behind, None if it is not behind.
        were_behind: finished intervals in which a follower was behind, as (follower, from_us, until_us).
    """

    __slots__ = ("behind", "from_us", "waiting", "were_behind")

    def __init__(self, from_us: int, behind: dict[str, int | None]) -> None:
        self.from_us = from_us
        self.waiting = 0
        self.behind = behind
        self.were_behind: list[tuple[str, int, int]] = []


class _Term:
    __slots__ = ("asked", "ended_by", "epoch", "leader", "level", "stall", "until_seq", "until_us")

    def __init__(self, leader: str, epoch: int, until_seq: int, until_us: int, ended_by: str) -> None:
        self.leader, self.epoch = leader, epoch
        self.until_seq, self.until_us, self.ended_by = until_seq, until_us, ended_by
        self.level: int | None = None
        self.asked: dict[str, int] = {}
        self.stall: _Stall | None = None

    def stands(self, at_us: int, end: int | None) -> None:
        """Begin, update or drop the stall after an event that left the high watermark unchanged."""
        if end is None or self.level is None or end <= self.level:
            self.stall = None
            return
        if self.stall is None:
            level = self.level
            self.stall = _Stall(at_us, {name: at_us if asked <= level else None for name, asked in self.asked.items()})
        self.stall.waiting = end - self.level

    def fetched(self, at_us: int, follower: str, offset: int) -> None:
        self.asked[follower] = offset
        if self.stall is None or self.level is None:
            return
        since = self.stall.behind.get(follower, self.stall.from_us)
        if offset > self.level:
            if since is not None:
                self.stall.were_behind.append((follower, since, at_us))
            self.stall.behind[follower] = None
        elif since is None:
            self.stall.behind[follower] = at_us


class _States:
    """The ISR and min.insync.replicas of a partition over time, as decided by the controller."""

    def __init__(self) -> None:
        self._states: list[tuple[int, int, list[str], int | None]] = []

    def add(self, from_us: int, until_us: int, isr: list[str], min_isr: int | None) -> None:
        if from_us < until_us:
            self._states.append((from_us, until_us, isr, min_isr))

    def during(self, from_us: int, until_us: int) -> Iterator[tuple[int, int, list[str], int | None]]:
        """Yield (from_us, until_us, ISR, min ISR) for the part of each state within an interval, latest first.

        The intervals of interest have just ended, so this order is fast.
        """
        for begin, end, isr, min_isr in reversed(self._states):
            if end <= from_us:
                return
            if begin < until_us:
                yield max(begin, from_us), min(end, until_us), isr, min_isr


def hw_stalls(facts: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each stall of a high watermark.

    A stall begins when a record is above the high watermark, and ends when the high watermark moves or the term ends.
    In a term both the log end and the high watermark only rise. A member of the ISR holds the high watermark back while
    its last fetch is not beyond it, even if the member once had more records.
    """
    states = _States()
    terms: dict[tuple[str, int], _Term] = {}
    for (
        what, seq, at_us, leader, epoch, end, high_watermark, follower, offset, until_seq, until_us, ended_by, isr,
        min_isr,
    ) in facts:  # fmt: skip
        if what == STATE:
            states.add(at_us, until_us, isr or [], min_isr)
            continue
        term = terms.get((leader, epoch))
        if what == TERM:
            if term is not None:
                yield from _rows_of_stall(term, term.until_us, term.ended_by, states)
            term = terms[leader, epoch] = _Term(leader, epoch, until_seq, until_us, ended_by)
        elif term is None or seq > term.until_seq:
            continue
        elif what == FETCHED:
            if offset is not None:
                term.fetched(at_us, follower, offset)
            continue
        if high_watermark is not None and high_watermark != term.level:
            yield from _rows_of_stall(term, at_us, ADVANCED, states)
            term.level = high_watermark
            term.stall = None
        term.stands(at_us, end)
    for term in terms.values():
        yield from _rows_of_stall(term, term.until_us, term.ended_by, states)


def _rows_of_stall(term: _Term, until_us: int, ended_by: str, states: _States) -> Iterator[tuple[Any, ...]]:
    """Yield the row of the term's stall, which ends at `until_us`, if it was long enough."""
    stall = term.stall
    if stall is None or until_us - stall.from_us < SHORTEST_HW_STALL_US:
        return
    behind = [*stall.were_behind]
    behind += [(name, since, until_us) for name, since in stall.behind.items() if since is not None]
    held: dict[str, int] = {}
    under_min_isr_us = 0
    for begin, end, isr, min_isr in states.during(stall.from_us, until_us):
        if min_isr is not None and len(isr) < min_isr:
            under_min_isr_us += end - begin
        for name, since, until in behind:
            if name in isr and name != term.leader:
                held[name] = held.get(name, 0) + max(0, min(end, until) - max(begin, since))
        for name in isr:
            if name not in stall.behind and name != term.leader:  # The follower has not fetched in this term.
                held[name] = held.get(name, 0) + end - begin
    pinned_us = max(held.values(), default=0)
    pinned_by = sorted(name for name, us in held.items() if us == pinned_us > 0)
    yield (
        term.epoch, term.leader, stall.from_us, until_us, term.level, stall.waiting, ended_by, pinned_by, pinned_us,
        under_min_isr_us,
    )  # fmt: skip


def cut(facts: pa.Table) -> pa.Table:
    """Drop the events that cannot influence the rows of stalls.

    A stretch is an interval between two moves of the high watermark. Keep all events of a stretch that is a stall or
    may become one. Before each such stretch, keep each follower's last fetch. After it, keep the event that begins the
    next stretch, without its log end, which would begin a stall.
    """
    events = _Terms(facts)
    is_long = events.is_long()[events.stretch]
    # Number the long stretches. Fetches after the last one of a finished term have no effect.
    before = np.cumsum(is_long & events.begins_stretch)
    needed = is_long | events.is_term
    needed |= np.roll(is_long, 1) & events.begins_stretch
    needed[_last_fetches(facts, events, before, ~is_long)] = True
    kept = of_kind(facts, STATE)
    kept[events.index[needed]] = True
    has_no_end = np.zeros(len(facts), bool)
    has_no_end[events.index[~is_long]] = True
    column = facts.schema.get_field_index("log_end_offset")
    end = pc.if_else(pa.array(has_no_end), None, facts["log_end_offset"])
    return facts.set_column(column, "log_end_offset", end).filter(pa.array(kept))


class _Terms:
    """The events within terms, ordered by term. A stretch is an interval between two moves of a high watermark.

    Attributes:
        index: index of each event in `facts`.
        stretch: number of each event's stretch, counted from 0 over all terms.
    """

    def __init__(self, facts: pa.Table) -> None:
        leader = codes(facts, "topic", "partition", "leader", "leader_epoch")
        index = np.flatnonzero(~of_kind(facts, STATE))
        index = index[np.argsort(leader[index], kind="stable")]
        is_term = of_kind(facts, TERM)[index]
        term = last_of(is_term, begins(leader[index]))
        is_inside = is_term[term] & (numbers(facts, "seq")[index] <= numbers(facts, "until_seq")[index][term])
        is_fetch = of_kind(facts, FETCHED)[index]
        is_inside &= ~is_fetch | facts["fetch_offset"].is_valid().to_numpy()[index]
        is_inside |= is_term
        self.facts, self.index = facts, index[is_inside]
        self._latest_seq = numbers(facts, "seq").max(initial=-1)
        self.is_term, self.is_fetch = is_term[is_inside], is_fetch[is_inside]
        level, is_stated = (
            numbers(facts, "high_watermark")[self.index],
            self._has("high_watermark") & ~self.is_fetch,
        )
        latest = last_of(is_stated, self.is_term)
        moved = is_stated & ~self.is_term
        moved[1:] &= ~is_stated[latest[:-1]] | (level[1:] != level[latest[:-1]])
        self.begins_stretch = self.is_term | moved
        self.stretch = np.cumsum(self.begins_stretch) - 1
        self._above = self._has("log_end_offset") & ~self.is_fetch & is_stated[latest]
        self._above &= numbers(facts, "log_end_offset")[self.index] > level[latest]

    def _has(self, column: str) -> Any:
        return self.facts[column].is_valid().to_numpy()[self.index]

    def is_long(self) -> Any:
        """Return a mask of the stretches that are long enough for a stall, or may still become so."""
        first = np.flatnonzero(self.begins_stretch)
        at_us, until_us = numbers(self.facts, "at_us")[self.index], numbers(self.facts, "until_us")[self.index]
        since_us = np.minimum.reduceat(np.where(self._above, at_us, np.iinfo(np.int64).max), first)
        term = first[last_of(self.is_term[first], np.zeros(len(first), bool))]
        ends_term = np.roll(self.is_term[first], -1)
        end_us = np.where(ends_term, until_us[term], np.roll(at_us[first], -1))
        goes_on = ends_term & (numbers(self.facts, "until_seq")[self.index][term] > self._latest_seq)
        return (end_us - since_us >= SHORTEST_HW_STALL_US) | goes_on


def _last_fetches(facts: pa.Table, events: _Terms, before: Any, asked: Any) -> Any:
    """Return the indexes of each follower's last fetch among fetches with equal `before` and a True in mask `asked`."""
    fetch_indexes = np.flatnonzero(events.is_fetch & asked)
    follower = codes(facts, "follower")[events.index[fetch_indexes]]
    order = np.argsort(follower, kind="stable")
    is_last = np.roll(begins(follower[order], before[fetch_indexes[order]]), -1)
    return fetch_indexes[order[is_last]]
