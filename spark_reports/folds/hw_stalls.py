"""Stalls of high watermarks below waiting records: how long they lasted, and which followers caused them."""

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
"""Shortest stall that counts. Waits for followers' next fetches are normal (replica.fetch.wait.max.ms is 500 ms)."""

ADVANCED = "the high watermark moved"


class _Stall:
    """An interval in which the high watermark did not move.

    Attributes:
        waiting: largest number of records above the high watermark.
        behind: time since which each follower that has fetched in this term has not been beyond the high watermark;
            None for followers that are beyond it.
        were_behind: earlier such times, as (follower, from, until).
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
        """Update the stall when the log end has moved but the high watermark has not."""
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
    """The ISR of a partition over time, as decided by the controller."""

    def __init__(self) -> None:
        self._states: list[tuple[int, int, list[str], int | None]] = []

    def add(self, from_us: int, until_us: int, isr: list[str], min_isr: int | None) -> None:
        if from_us < until_us:
            self._states.append((from_us, until_us, isr, min_isr))

    def during(self, from_us: int, until_us: int) -> Iterator[tuple[int, int, list[str], int | None]]:
        """Yield the states that overlap with an interval, limited to the interval, the latest first.

        Callers ask about intervals that have just ended, so this order is fast.
        """
        for begin, end, isr, min_isr in reversed(self._states):
            if end <= from_us:
                return
            if begin < until_us:
                yield max(begin, from_us), min(end, until_us), isr, min_isr


def hw_stalls(facts: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield the stalls of high watermarks.

    A stall begins when a record is above the high watermark, and ends when the high watermark moves or the term ends.
    In a term both offsets only rise. A member of the ISR that has not fetched beyond the high watermark holds it back,
    even if it once had those records and has returned without them.
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
    """Yield the row of a stall that ends now, if the stall was long enough."""
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
    """Drop events of a term except those in stretches that may be stalls.

    A stretch begins where the high watermark moves. In a possible stall the high watermark was below the log's end for
    long, or the stretch may continue. Between two possible stalls, keep the last fetch of each follower and the start
    of
    the next stretch, without the log's end, which would begin a stall.
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
    """The events of terms, term by term. A stretch of a term begins where its high watermark moves.

    Attributes:
        index: index of each event in `facts`.
        stretch: number of each event's stretch, from 0.
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
        """Return for each stretch True if a record has waited long in it, or may yet do so."""
        first = np.flatnonzero(self.begins_stretch)
        at_us, until_us = numbers(self.facts, "at_us")[self.index], numbers(self.facts, "until_us")[self.index]
        since_us = np.minimum.reduceat(np.where(self._above, at_us, np.iinfo(np.int64).max), first)
        term = first[last_of(self.is_term[first], np.zeros(len(first), bool))]
        ends_term = np.roll(self.is_term[first], -1)
        end_us = np.where(ends_term, until_us[term], np.roll(at_us[first], -1))
        goes_on = ends_term & (numbers(self.facts, "until_seq")[self.index][term] > self._latest_seq)
        return (end_us - since_us >= SHORTEST_HW_STALL_US) | goes_on


def _last_fetches(facts: pa.Table, events: _Terms, before: Any, asked: Any) -> Any:
    """Return the index of each follower's last fetch before each numbered stretch, among fetches in mask `asked`."""
    fetch_indexes = np.flatnonzero(events.is_fetch & asked)
    follower = codes(facts, "follower")[events.index[fetch_indexes]]
    order = np.argsort(follower, kind="stable")
    is_last = np.roll(begins(follower[order], before[fetch_indexes[order]]), -1)
    return fetch_indexes[order[is_last]]
