"""Replication lag as the leader knows it: in records, and in time as Kafka's ISR rule measures it."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

COLUMNS = (
    "what", "seq", "at_us", "leader", "leader_epoch", "follower", "fetch_offset", "log_end_offset", "last_offset",
)  # fmt: skip
BEGAN, APPENDED, FETCHED, TERM_ENDED, STARTED, STOPPED = (
    "began", "appended", "fetched", "term ended", "started", "stopped",
)  # fmt: skip


class _Follower:
    """A leader's knowledge of one follower, since its first fetch of the term."""

    __slots__ = ("at_us", "caught_up_us", "end", "fetched_us", "lag_records", "lag_us", "name", "offset", "seen_end")

    def __init__(self, name: str) -> None:
        self.name = name
        self.offset = 0
        self.end: int | None = None
        self.seen_end: int | None = None
        self.fetched_us = 0
        self.caught_up_us: int | None = None
        self.at_us = 0
        self.lag_records = 0
        self.lag_us: int | None = 0

    def fetches(self, at_us: int, offset: int, end: int | None) -> None:
        """source: Replica.updateFetchStateOrThrow"""
        caught_up_us = None
        if end is not None and offset >= end:
            caught_up_us = at_us
        elif self.seen_end is not None and offset >= self.seen_end:
            caught_up_us = self.fetched_us
        if caught_up_us is not None:
            self.caught_up_us = max(caught_up_us, self.caught_up_us or 0)
        self.offset, self.seen_end, self.fetched_us = offset, end, at_us
        if end is not None:
            self.end = end


class _View:
    """A leader's in one life and one epoch. Of each of its appends 16 bytes are kept: a follower may come back with
    less than it had."""

    __slots__ = ("appended_us", "began_offset", "began_us", "followers", "is_over", "last_offsets")

    def __init__(self) -> None:
        self.began_us: int | None = None
        self.began_offset: int | None = None
        self.is_over = False
        self.followers: dict[str, _Follower] = {}
        self.last_offsets = array("q")
        self.appended_us = array("q")

    def begins(self, at_us: int, end: int | None) -> None:
        if self.began_us is None:
            self.began_us, self.began_offset = at_us, end

    def appends(self, at_us: int, last_offset: int | None, end: int | None) -> None:
        if last_offset is not None:
            self.last_offsets.append(last_offset)
            self.appended_us.append(at_us)
        for follower in self.followers.values():
            follower.end = end if end is not None else follower.end

    def had_us(self, offset: int) -> int | None:
        """Since when the leader has had this record in its term."""
        if self.began_offset is not None and offset < self.began_offset:
            return self.began_us
        place = bisect_left(self.last_offsets, offset)
        return self.appended_us[place] if place < len(self.appended_us) else None

    def measured(self, follower: _Follower, at_us: int) -> tuple[int, int | None, int | None, int | None]:
        """out: lag_records, lag_us, peak_lag_us, behind_us"""
        peak_lag_us: int | None = 0
        if follower.lag_records > 0:  # Between two of these moments it lacks the same oldest record.
            peak_lag_us = None if follower.lag_us is None else follower.lag_us + at_us - follower.at_us
        lag_records = max(0, follower.end - follower.offset) if follower.end is not None else 0
        lag_us: int | None = 0
        behind_us: int | None = 0
        if lag_records > 0:
            had_us = self.had_us(follower.offset)
            caught_up_us = self.began_us if follower.caught_up_us is None else follower.caught_up_us
            lag_us = None if had_us is None else at_us - had_us
            behind_us = None if caught_up_us is None else at_us - caught_up_us
        follower.at_us, follower.lag_records, follower.lag_us = at_us, lag_records, lag_us
        return lag_records, lag_us, peak_lag_us, behind_us


def replication_lag(facts: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """A row for each fetch, and for each known follower at each append of its leader and at the end of its term.

    A leader that was down has lost its knowledge of its followers, though its epoch may be the same.
    """
    lives: dict[str, int] = {}
    life: dict[str, int] = {}
    views: dict[tuple[str, int, int], _View] = {}
    for what, seq, at_us, leader, epoch, follower, offset, end, last_offset in facts:
        if what == STARTED:
            life[leader] = lives[leader] = lives.get(leader, 0) + 1
            continue
        if what == STOPPED:
            life[leader] = 0
            continue
        key = (leader, epoch, life.get(leader, 0))
        view = views.get(key)
        if view is None:
            view = views[key] = _View()
        if what == BEGAN:
            if view.is_over:
                view = views[key] = _View()  # Of a topic that was deleted and made again: its epochs begin anew, too.
            view.begins(at_us, end)
        elif what == FETCHED:
            if offset is None:
                continue
            one = view.followers.get(follower)
            if one is None:
                one = view.followers[follower] = _Follower(follower)
            one.fetches(at_us, offset, end)
            yield epoch, leader, follower, at_us, seq, offset, one.end, *view.measured(one, at_us)
        else:
            if what == APPENDED:
                view.appends(at_us, last_offset, end)
            else:
                view.is_over = True
            for one in view.followers.values():
                yield epoch, leader, one.name, at_us, seq, one.offset, one.end, *view.measured(one, at_us)
