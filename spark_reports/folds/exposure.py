"""Records that were acked and stood above the high watermark: how many at a time, by columns."""

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
    """A record is at risk from its ack until its leader's high watermark has passed it, or until the term ends.

    value: of an ack the record's offset, else the high watermark
    """
    events = events.taken(np.argsort(codes(events.rows, "topic", "partition", "leader"), kind="stable"))
    at_us = numbers(events.rows, "at_us")
    # What there is to say of an instant is known when a later one has come.
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
    """Acks in terms, with what ended the risk of their records.

    acked:  places of the acks     term: of their terms     mark: of what passed each first, itself if nothing did
    latest: places of the last terms of the leaders so far, and of the highest marks in them
    """

    acked: Any
    term: Any
    mark: Any
    over_us: Any
    over_seq: Any
    latest: Any


def _risks(facts: pa.Table) -> _Risks:
    """in: leader by leader"""
    # Every event in the last term of its leader that has begun, if that has not ended.
    is_term, is_acked = of_kind(facts, TERM), of_kind(facts, ACKED)
    first = begins(codes(facts, "topic", "partition", "leader"))
    term = last_of(is_term, first)
    seq, at_us, epoch = numbers(facts, "seq"), numbers(facts, "at_us"), numbers(facts, "leader_epoch")
    inside = is_term[term] & (seq <= numbers(facts, "until_seq")[term]) & (is_acked | (epoch == epoch[term]))
    inside &= facts["value"].is_valid().to_numpy()
    # In a term the high watermark only rises: by falling value the last one met is the first that passed a record.
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
    """How many are at risk, whenever that changes in this time."""
    at_us, seq = numbers(facts, "at_us"), numbers(facts, "seq")
    exposed = risks.over_us > at_us[risks.acked]
    acked, over_us, over_seq = risks.acked[exposed], risks.over_us[exposed], risks.over_seq[exposed]
    # Each is one more at its ack, and one less when it is over.
    change = np.repeat([1, -1], len(acked))
    when_us, when = np.concatenate([at_us[acked], over_us]), np.concatenate([seq[acked], over_seq])
    whose, acks = np.tile(risks.term[exposed], 2), np.tile(numbers(facts, "acks")[acked], 2)
    by_time = np.lexsort((when_us, acks, whose))
    change, when_us, when, whose, acks = (each[by_time] for each in (change, when_us, when, whose, acks))
    first = np.flatnonzero(begins(whose, acks, when_us))
    total, latest = np.add.reduceat(change, first), np.maximum.reduceat(when, first)
    # All of a term's are over when it ends: one sum over everything is the sum of each.
    at_risk = np.cumsum(total)
    told = (total != 0) & (when_us[first] >= from_us)
    if until_us is not None:
        told &= when_us[first] < until_us
    first, latest, at_risk = first[told], latest[told], at_risk[told]
    of_term = facts.select(_TERM).take(pa.array(whose[first]))
    found = {name: of_term[name] for name in _TERM}
    return pa.table(found | {"acks": acks[first], "at_us": when_us[first], "seq": latest, "at_risk_records": at_risk})
