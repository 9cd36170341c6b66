"""Compute the replication lag that a leader knows of: in records, and in time as Kafka's ISR rule measures it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_reports.folds.codes import begins, codes, ends, first_place, highest_so_far, last_of, numbers, of_kind
from spark_reports.folds.events import Events, Made

COLUMNS = (
    "what", "seq", "at_us", "leader", "leader_epoch", "follower", "fetch_offset", "log_end_offset", "last_offset",
)  # fmt: skip
BEGAN, APPENDED, FETCHED, TERM_ENDED, STARTED, STOPPED = (
    "began", "appended", "fetched", "term ended", "started", "stopped",
)  # fmt: skip


_MET_SEQ, _CAUGHT_UP_US = "met_seq", "caught_up_us"
"""Columns of fetches kept from earlier slices: `seq` of the follower's first fetch, and time when it was caught up."""


def replication_lag(schema: pa.Schema, events: Events) -> Made:
    """Return a row with a follower's lag for each of its fetches, each append of its leader, and the end of the term.

    An append and the end of a term give a row to each follower that has fetched in the term.
    """
    facts, views = events.rows, _Views(events)
    moments = _moments(views)
    caught_up = _caught_up_us(views, moments)
    found = _measured(views, moments, caught_up)
    # Sort by event, and for the same event by the order in which its leader first saw the followers.
    order = np.flatnonzero(views.is_new[moments.event])
    order = order[np.lexsort((moments.met_seq[moments.pair[order]], views.row_index[moments.event[order]]))]
    row_index = pa.array(views.row_index[moments.event[order]])
    table = facts.select(["run", "topic", "partition", "leader_epoch", "leader", "at_us", "seq"]).take(row_index)
    follower = facts["follower"].take(pa.array(views.row_index[moments.met[moments.pair[order]]]))
    table = table.append_column("follower", follower)
    for name, values in found.items():
        table = table.append_column(name, values.take(pa.array(order)))
    return table.select(schema.names).cast(schema).to_batches(), _needed(events, views, moments, caught_up)


class _Views:
    """The events of leaders, grouped by view.

    A view is what a leader knows of its followers in one life and one leader epoch. A life is the time from a node's
    start to its stop: after a restart a leader no longer knows its followers, even if its epoch is the same. If a topic
    is deleted and created again, its epochs start again, and a new view begins although life and epoch may be equal.

    Attributes:
        row_index: index of each event in `facts`.
        number: number of each event's view, from 0.
        last_change: index of the last event, up to each event, at which its view began or ended.
        life_now: latest life of each node, by the node's number.
    """

    def __init__(self, events: Events) -> None:
        self.facts = facts = events.rows
        node, life = codes(facts, "topic", "partition", "leader"), _lives(facts)
        epoch = numbers(facts, "leader_epoch", -1)
        row_index = np.flatnonzero(~of_kind(facts, STARTED, STOPPED))
        row_index = row_index[np.lexsort((life[row_index], epoch[row_index], node[row_index]))]
        self.row_index = row_index
        first = begins(node[row_index], epoch[row_index], life[row_index])
        began, over = of_kind(facts, BEGAN)[row_index], of_kind(facts, TERM_ENDED)[row_index]
        latest = last_of(began | over, first)
        first[1:] |= began[1:] & over[latest[:-1]] & ~first[1:]
        self.last_change = np.where(first, np.arange(len(first)), latest)
        self.node, self.life, self.is_new = node[row_index], life[row_index], events.is_new[row_index]
        self.life_now = np.zeros(int(node.max(initial=-1)) + 1, np.int64)
        self.life_now[node] = life
        self.number = np.cumsum(first) - 1
        self.count = int(first.sum())
        self.is_over, self.is_append = over, of_kind(facts, APPENDED)[row_index]
        self.is_fetch = of_kind(facts, FETCHED)[row_index] & self.has("fetch_offset")
        self.began = first_place(self.number, began, self.count)

    def has(self, column: str) -> Any:
        return self.facts[column].is_valid().to_numpy()[self.row_index]

    def column(self, name: str) -> Any:
        return numbers(self.facts, name)[self.row_index]

    def known(self, name: str) -> _Known:
        """Return a column that only events kept from earlier slices may have; other values are unknown."""
        if name not in self.facts.column_names:
            return _Known(np.zeros(len(self.row_index), np.int64), np.zeros(len(self.row_index), bool))
        return _Known(self.column(name), self.has(name))


def _lives(facts: pa.Table) -> Any:
    """Return for each event the life of its node: the number of its starts so far, or 0 while it is down."""
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
    """The events at which a follower's lag is measured, grouped by follower.

    These are its fetches and, from the first fetch on, its leader's appends and the end of the term.

    Attributes:
        pair: number of the pair (view, follower).
        event: index of the event in the views.
        met, met_seq: for each pair, index and `seq` of the follower's first fetch.
    """

    pair: Any
    event: Any
    met: Any
    met_seq: Any


def _moments(views: _Views) -> _Moments:
    fetches, others = np.flatnonzero(views.is_fetch), np.flatnonzero(views.is_append | views.is_over)
    # The last event and the last append of each view in earlier slices are needed to know what a follower lacked.
    is_asked = views.is_new[others]
    first = begins(views.number[others], is_asked)
    is_asked[ends(first)] = True
    is_asked[last_of(views.is_append[others], first)[ends(first)]] = True
    others = others[is_asked]
    follower = codes(views.facts, "follower")[views.row_index[fetches]]
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
    met_seq = views.known(_MET_SEQ).otherwise(_Known(views.column("seq"), np.ones(len(views.row_index), bool))).us
    return _Moments(pair[order], event[order], met, met_seq[met])


def _measured(views: _Views, moments: _Moments, caught_up: _Known) -> dict[str, pa.Array]:
    """Return the columns with offsets and lags, with a value for each moment."""
    event, first = moments.event, begins(moments.pair)
    at_us, end, is_fetch = views.column("at_us")[event], views.column("log_end_offset")[event], views.is_fetch[event]
    states_end = views.has("log_end_offset")[event] & ~views.is_over[event]
    latest = last_of(states_end, first)
    knows_end, end_now = states_end[latest], end[latest]
    offset = views.column("fetch_offset")[event][last_of(is_fetch, first)]
    lag_records = np.where(knows_end, np.maximum(end_now - offset, 0), 0)
    lacks = lag_records > 0
    had = _had_us(views, event, offset, lacks)
    caught_up = caught_up.at(np.cumsum(is_fetch) - 1)
    began = views.began[views.number[event]]
    begun = _Known(views.column("at_us")[began], (began >= 0) & (began < event))
    # Between two moments the follower lacks the same oldest record.
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
    """Times in microseconds, and a mask of those that are known."""

    us: Any
    known: Any

    def at(self, indexes: Any) -> _Known:
        return _Known(self.us[indexes], self.known[indexes])

    def otherwise(self, others: _Known) -> _Known:
        return _Known(np.where(self.known, self.us, others.us), self.known | others.known)


def _since(at_us: Any, then: _Known, counts: Any) -> pa.Array:
    """Return the time since `then`; 0 where `counts` is False, otherwise null where `then` is unknown."""
    return pa.array(np.where(counts, at_us - then.us, 0), mask=counts & ~then.known)


def _caught_up_us(views: _Views, moments: _Moments) -> _Known:
    """Return for each fetch the time when the follower was last caught up.

    Source: Replica.updateFetchStateOrThrow
    """
    is_fetch = views.is_fetch[moments.event]
    pair, event = moments.pair[is_fetch], moments.event[is_fetch]
    at_us, offset, end = (views.column(name)[event] for name in ("at_us", "fetch_offset", "log_end_offset"))
    has_end = views.has("log_end_offset")[event]
    known = has_end & (offset >= end)
    caught_up_us = np.where(known, at_us, np.iinfo(np.int64).min)
    as_before = (pair[1:] == pair[:-1]) & has_end[:-1] & (offset[1:] >= end[:-1]) & ~known[1:]
    caught_up_us[1:][as_before] = at_us[:-1][as_before]
    known[1:] |= as_before
    caught_up_us, known = views.known(_CAUGHT_UP_US).at(event).otherwise(_Known(caught_up_us, known))
    first = begins(pair)
    return _Known(highest_so_far(caught_up_us, first), highest_so_far(known, first))


def _had_us(views: _Views, event: Any, offset: Any, lacks: Any) -> _Known:
    """Return for each event the time at which the leader of the term had the record at the follower's offset."""
    at_us, had_us, known = views.column("at_us"), np.zeros(len(event), np.int64), np.zeros(len(event), bool)
    appends = np.flatnonzero(views.is_append & views.has("last_offset"))
    last_offset = views.column("last_offset")[appends]
    bounds = np.searchsorted(views.number[appends], np.arange(views.count + 1))
    asked = np.flatnonzero(lacks)
    asks = np.searchsorted(views.number[event[asked]], np.arange(views.count + 1))
    for number in range(views.count):
        its, here = slice(bounds[number], bounds[number + 1]), asked[asks[number] : asks[number + 1]]
        if its.start < its.stop and len(here):
            row_index = np.searchsorted(last_offset[its], offset[here])
            append = appends[its][np.minimum(row_index, its.stop - its.start - 1)]
            is_there = (row_index < its.stop - its.start) & (append <= event[here])
            had_us[here[is_there]], known[here[is_there]] = at_us[append[is_there]], True
    began = views.began[views.number[event]]
    is_older = lacks & (began >= 0) & (began < event) & views.has("log_end_offset")[began]
    is_older &= offset < views.column("log_end_offset")[began]
    return _Known(np.where(is_older, at_us[began], had_us), known | is_older)


def _needed(events: Events, views: _Views, moments: _Moments, caught_up: _Known) -> pa.Table:
    """Return the events of unfinished views that the next slice needs.

    These are the start of the view, all appends (a follower may return with fewer records than it had), the last fetch
    of each follower with its derived columns, and the last start or stop of each node.
    """
    if events.is_last:
        return events.needed(None)
    facts, last = events.rows, ends(begins(views.number))
    goes_on = _goes_on(views, last)
    is_inside = goes_on[views.number]
    began = views.began[goes_on & (views.began >= 0)]
    is_fetch = views.is_fetch[moments.event]
    fetched = ends(begins(moments.pair[is_fetch])) & is_inside[moments.event[is_fetch]]
    pair, row_index = moments.pair[is_fetch][fetched], views.row_index[moments.event[is_fetch][fetched]]
    turns = np.flatnonzero(of_kind(facts, STARTED, STOPPED))
    node = codes(facts, "topic", "partition", "leader")[turns]
    order = np.argsort(node, kind="stable")
    needed = np.zeros(len(facts), bool)
    needed[views.row_index[is_inside & views.is_append]] = True
    needed[views.row_index[np.concatenate([began, views.last_change[last][goes_on]])]] = True
    needed[row_index] = True
    needed[turns[order[ends(begins(node[order]))]]] = True
    for name, known in (
        (_MET_SEQ, _Known(moments.met_seq[pair], np.ones(len(pair), bool))), (_CAUGHT_UP_US, caught_up.at(fetched)),
    ):  # fmt: skip
        values, is_unknown = np.zeros(len(facts), np.int64), np.ones(len(facts), bool)
        values[row_index], is_unknown[row_index] = known.us, ~known.known
        others = facts.drop_columns(name) if name in facts.column_names else facts
        facts = others.append_column(name, pa.array(values, mask=is_unknown))
    return events._replace(rows=facts).needed(needed)


def _goes_on(views: _Views, last: Any) -> Any:
    """Return a mask of the views that may have more events in later slices.

    These are the views that have not ended and whose node's life continues or is unknown. A node's latest view counts
    even if it has ended, since the leader may not know this yet. `last` has the indexes of the views' last events.
    """
    node, life, row_index = views.node[last], views.life[last], views.row_index[last]
    latest = np.full(len(views.life_now), -1)
    np.maximum.at(latest, node, row_index)
    is_over = views.is_over[views.last_change[last]]
    return ((life == 0) | (life == views.life_now[node])) & (~is_over | (row_index == latest[node]))
