"""Count over time the acknowledged records above the high watermark, which a failover could lose."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_reports.folds.codes import begins, codes, ends, last_of, numbers, of_kind
from spark_reports.folds.events import Events, Made

COLUMNS = ("what", "seq", "at_us", "leader", "leader_epoch", "acks", "value", "until_seq", "until_us")
TERM, MOVED, ACKED = "term", "moved", "acked"

_TERM = ("run", "topic", "partition", "leader_epoch", "leader")


def data_at_risk(schema: pa.Schema, events: Events) -> Made:
    """Return a row each time the number of records at risk changes in a leader's term.

    A record is at risk from its acknowledgement until the leader's high watermark passes it or the term ends. The
    column `value` is the record's offset in an acknowledgement, and the high watermark in other events.
    """
    events = events.taken(np.argsort(codes(events.rows, "topic", "partition", "leader"), kind="stable"))
    at_us = numbers(events.rows, "at_us")
    # The number of records at risk at a time is final once there is a later event.
    begin_us, until_us = at_us[~events.is_new].max(initial=-1), at_us.max(initial=-1)
    risks = _risks(events.rows)
    found = _changes(events.rows, risks, int(begin_us), None if events.is_last else int(until_us))
    needed = risks.over_us >= until_us
    needed_places = [
        risks.acked[needed],
        risks.mark[needed],
        risks.term[needed],
        risks.latest,
        np.flatnonzero(at_us == until_us)[:1],
    ]
    is_needed = np.zeros(len(at_us), bool)
    is_needed[np.concatenate(needed_places)] = True
    return found.select(schema.names).cast(schema).to_batches(), events.needed(is_needed)


class _Risks(NamedTuple):
    """The acknowledgements of records during terms, and the end of each record's risk.

    Attributes:
        acked: index of each acknowledgement's event.
        term: index of the event that began the acknowledgement's term.
        mark: index of the first high watermark that passed the record; the acknowledgement's own index if none did.
        over_us, over_seq: time and `seq` at which the record's risk ended.
        latest: indexes of the events that began the leaders' latest terms, and of the highest high watermarks in them.
    """

    acked: Any
    term: Any
    mark: Any
    over_us: Any
    over_seq: Any
    latest: Any


def _risks(facts: pa.Table) -> _Risks:
    """Return the risks in a table of events that are grouped by leader."""
    # Select the events that lie within the latest term that their leader has begun.
    is_term, is_acked = of_kind(facts, TERM), of_kind(facts, ACKED)
    first = begins(codes(facts, "topic", "partition", "leader"))
    term = last_of(is_term, first)
    seq, at_us, epoch = numbers(facts, "seq"), numbers(facts, "at_us"), numbers(facts, "leader_epoch")
    inside = is_term[term] & (seq <= numbers(facts, "until_seq")[term]) & (is_acked | (epoch == epoch[term]))
    inside &= facts["value"].is_valid().to_numpy()
    # In a term the high watermark only rises. In order of falling values, the last high watermark before a record is
    # therefore the first in time that passes it.
    value = numbers(facts, "value")
    order = np.flatnonzero(inside)
    order = order[np.lexsort((-seq[order], ~is_acked[order], -value[order], term[order]))]
    marks = order[~is_acked[order]]
    latest = term[ends(first)]
    highest = marks[begins(term[marks])]
    mark = order[last_of(~is_acked[order], begins(term[order]))]
    acked = is_acked[order]
    order, mark = order[acked], mark[acked]
    ended = is_acked[mark]
    return _Risks(
        order, term[order], mark,
        np.where(ended, numbers(facts, "until_us")[term[order]], at_us[mark]),
        np.where(ended, numbers(facts, "until_seq")[term[order]], seq[mark]),
        np.concatenate([latest, highest[np.isin(term[highest], latest)]]),
    )  # fmt: skip


def _changes(facts: pa.Table, risks: _Risks, from_us: int, until_us: int | None) -> pa.Table:
    """Return a row each time the number of records at risk changes, for from_us <= at_us < until_us.

    If `until_us` is None, there is no upper bound.
    """
    at_us, seq = numbers(facts, "at_us"), numbers(facts, "seq")
    exposed = risks.over_us > at_us[risks.acked]
    acked, over_us, over_seq = risks.acked[exposed], risks.over_us[exposed], risks.over_seq[exposed]
    # Each record adds one at its acknowledgement, and subtracts one when its risk is over.
    change = np.repeat([1, -1], len(acked))
    when_us, when = np.concatenate([at_us[acked], over_us]), np.concatenate([seq[acked], over_seq])
    whose, acks = np.tile(risks.term[exposed], 2), np.tile(numbers(facts, "acks")[acked], 2)
    by_time = np.lexsort((when_us, acks, whose))
    change, when_us, when, whose, acks = (each[by_time] for each in (change, when_us, when, whose, acks))
    first = np.flatnonzero(begins(whose, acks, when_us))
    total, latest = np.add.reduceat(change, first), np.maximum.reduceat(when, first)
    # All risks of a term are over when it ends, so a running sum over all terms is the sum of each term.
    at_risk = np.cumsum(total)
    is_counted = (total != 0) & (when_us[first] >= from_us)
    if until_us is not None:
        is_counted &= when_us[first] < until_us
    first, latest, at_risk = first[is_counted], latest[is_counted], at_risk[is_counted]
    of_term = facts.select(_TERM).take(pa.array(whose[first]))
    found = {name: of_term[name] for name in _TERM}
    return pa.table(found | {"acks": acks[first], "at_us": when_us[first], "seq": latest, "at_risk_records": at_risk})
