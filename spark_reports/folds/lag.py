"""Replication lag as the leader knows it, in records, and in time as Kafka's ISR rule measures it: by columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_reports.folds.codes import begins, codes, first_place, highest_so_far, last_of, numbers, of_kind

COLUMNS = (
    "what", "seq", "at_us", "leader", "leader_epoch", "follower", "fetch_offset", "log_end_offset", "last_offset",
)  # fmt: skip
BEGAN, APPENDED, FETCHED, TERM_ENDED, STARTED, STOPPED = (
    "began", "appended", "fetched", "term ended", "started", "stopped",
)  # fmt: skip


def replication_lag(schema: pa.Schema, facts: pa.Table) -> list[pa.RecordBatch]:
    """A row for each fetch, and for each known follower at each append of its leader and at the end of its term."""
    views = _Views(facts)
    moments = _moments(views)
    found = _measured(views, moments)
    # In the order of the events; of one event in the order in which its leader met the followers.
    order = np.lexsort((views.place[moments.met[moments.pair]], views.place[moments.event]))
    place = pa.array(views.place[moments.event[order]])
    table = facts.select(["run", "topic", "partition", "leader_epoch", "leader", "at_us", "seq"]).take(place)
    follower = facts["follower"].take(pa.array(views.place[moments.met[moments.pair[order]]]))
    table = table.append_column("follower", follower)
    for name, values in found.items():
        table = table.append_column(name, values.take(pa.array(order)))
    batches: list[pa.RecordBatch] = table.select(schema.names).cast(schema).to_batches()
    return batches


class _Views:
    """The events of leaders, view by view, each view's in their order: what a leader knows in one life and one epoch.

    A leader that was down has lost its knowledge of its followers, though its epoch may be the same. Of a topic that
    was deleted and made again the epochs begin anew, too: there a view begins with what begins after its end.
    place: of the events in `facts`     number: of the view of each, from 0
    """

    def __init__(self, facts: pa.Table) -> None:
        self.facts = facts
        node, life = codes(facts, "topic", "partition", "leader"), _lives(facts)
        epoch = numbers(facts, "leader_epoch", -1)
        place = np.flatnonzero(~of_kind(facts, STARTED, STOPPED))
        place = place[np.lexsort((life[place], epoch[place], node[place]))]
        self.place = place
        first = begins(node[place], epoch[place], life[place])
        began, over = of_kind(facts, BEGAN)[place], of_kind(facts, TERM_ENDED)[place]
        latest = last_of(began | over, first)
        first[1:] |= began[1:] & over[latest[:-1]] & ~first[1:]
        self.number = np.cumsum(first) - 1
        self.count = int(first.sum())
        self.is_over, self.is_append = over, of_kind(facts, APPENDED)[place]
        self.is_fetch = of_kind(facts, FETCHED)[place] & self.has("fetch_offset")
        self.began = first_place(self.number, began, self.count)

    def has(self, column: str) -> Any:
        return self.facts[column].is_valid().to_numpy()[self.place]

    def column(self, name: str) -> Any:
        return numbers(self.facts, name)[self.place]


def _lives(facts: pa.Table) -> Any:
    """At each event how many times its node has started, 0 while it is down."""
    node = codes(facts, "topic", "partition", "leader")
    order = np.argsort(node, kind="stable")
    started, stopped = of_kind(facts, STARTED)[order], of_kind(facts, STOPPED)[order]
    first = begins(node[order])
    latest = last_of(started | stopped, first)
    starts = np.cumsum(started)
    before = (starts - started)[last_of(np.zeros(len(first), bool), first)]
    life = np.empty(len(facts), np.int64)
    life[order] = np.where(started[latest], starts - before, 0)
    return life


class _Moments(NamedTuple):
    """When a follower's lag is measured: at its fetches, and from the first of them on whenever its leader appends and
    when the term ends. Follower by follower, each one's in their order.

    pair: number of a view's follower     event: of the view's     met: by pair, its first fetch
    """

    pair: Any
    event: Any
    met: Any


def _moments(views: _Views) -> _Moments:
    fetches, others = np.flatnonzero(views.is_fetch), np.flatnonzero(views.is_append | views.is_over)
    follower = codes(views.facts, "follower")[views.place[fetches]]
    order = np.lexsort((follower, views.number[fetches]))
    fetches = fetches[order]
    first = begins(views.number[fetches], follower[order])
    met = fetches[first]
    begin = np.searchsorted(others, met)
    counts = np.searchsorted(others, np.searchsorted(views.number, views.number[met], "right")) - begin
    of_others = np.repeat(np.arange(len(met)), counts)
    within = np.arange(len(of_others)) - np.repeat(np.cumsum(counts) - counts, counts)
    pair = np.concatenate([np.cumsum(first) - 1, of_others])
    event = np.concatenate([fetches, others[np.repeat(begin, counts) + within]])
    order = np.lexsort((event, pair))
    return _Moments(pair[order], event[order], met)


def _measured(views: _Views, moments: _Moments) -> dict[str, pa.Array]:
    """The columns that are measured, by moment."""
    event, first = moments.event, begins(moments.pair)
    at_us, end, is_fetch = views.column("at_us")[event], views.column("log_end_offset")[event], views.is_fetch[event]
    has_end = views.has("log_end_offset")[event]
    states_end = has_end & ~views.is_over[event]
    latest = last_of(states_end, first)
    knows_end, end_now = states_end[latest], end[latest]
    offset = views.column("fetch_offset")[event][last_of(is_fetch, first)]
    lag_records = np.where(knows_end, np.maximum(end_now - offset, 0), 0)
    lacks = lag_records > 0
    had = _had_us(views, event, offset, lacks)
    fetched = (moments.pair, at_us, offset, end, has_end)
    caught_up = _caught_up_us(*(column[is_fetch] for column in fetched)).at(np.cumsum(is_fetch) - 1)
    began = views.began[views.number[event]]
    begun = _Known(views.column("at_us")[began], (began >= 0) & (began < event))
    # Between two moments it lacks the same oldest record.
    before = np.maximum(np.arange(len(event)) - 1, 0)
    lacked = lacks[before] & ~first
    return {
        "fetch_offset": pa.array(offset),
        "log_end_offset": pa.array(end_now, mask=~knows_end),
        "lag_records": pa.array(lag_records),
        "lag_us": _since(at_us, had, lacks),
        "peak_lag_us": _since(at_us, had.at(before), lacked),
        "behind_us": _since(at_us, caught_up.otherwise(begun), lacks),
    }


class _Known(NamedTuple):
    """Times, and whether each of them is known."""

    us: Any
    known: Any

    def at(self, places: Any) -> _Known:
        return _Known(self.us[places], self.known[places])

    def otherwise(self, others: _Known) -> _Known:
        return _Known(np.where(self.known, self.us, others.us), self.known | others.known)


def _since(at_us: Any, then: _Known, counts: Any) -> pa.Array:
    """The time since then; 0 where nothing is counted, and null where it is unknown when that was."""
    return pa.array(np.where(counts, at_us - then.us, 0), mask=counts & ~then.known)


def _caught_up_us(pair: Any, at_us: Any, offset: Any, end: Any, has_end: Any) -> _Known:
    """Of each fetch: when the follower was last caught up. source: Replica.updateFetchStateOrThrow"""
    known = has_end & (offset >= end)
    caught_up_us = np.where(known, at_us, np.iinfo(np.int64).min)
    as_before = (pair[1:] == pair[:-1]) & has_end[:-1] & (offset[1:] >= end[:-1]) & ~known[1:]
    caught_up_us[1:][as_before] = at_us[:-1][as_before]
    known[1:] |= as_before
    first = begins(pair)
    return _Known(highest_so_far(caught_up_us, first), highest_so_far(known, first))


def _had_us(views: _Views, event: Any, offset: Any, lacks: Any) -> _Known:
    """Since when the leader has had, in its term, the record at this offset."""
    at_us, had_us, known = views.column("at_us"), np.zeros(len(event), np.int64), np.zeros(len(event), bool)
    appends = np.flatnonzero(views.is_append & views.has("last_offset"))
    last_offset = views.column("last_offset")[appends]
    bounds = np.searchsorted(views.number[appends], np.arange(views.count + 1))
    asked = np.flatnonzero(lacks)
    asks = np.searchsorted(views.number[event[asked]], np.arange(views.count + 1))
    for number in range(views.count):
        its, here = slice(bounds[number], bounds[number + 1]), asked[asks[number] : asks[number + 1]]
        if its.start < its.stop and len(here):
            place = np.searchsorted(last_offset[its], offset[here])
            append = appends[its][np.minimum(place, its.stop - its.start - 1)]
            is_there = (place < its.stop - its.start) & (append <= event[here])
            had_us[here[is_there]], known[here[is_there]] = at_us[append[is_there]], True
    began = views.began[views.number[event]]
    is_older = lacks & (began >= 0) & (began < event) & views.has("log_end_offset")[began]
    is_older &= offset < views.column("log_end_offset")[began]
    return _Known(np.where(is_older, at_us[began], had_us), known | is_older)
