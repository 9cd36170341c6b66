"""Records that were acked and stood above the high watermark: how many at a time, by columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_reports.folds.codes import begins, codes, last_of, numbers, of_kind

COLUMNS = ("what", "seq", "at_us", "leader", "leader_epoch", "acks", "value", "until_seq", "until_us")
TERM, MOVED, ACKED = "term", "moved", "acked"

_TERM = ("run", "topic", "partition", "leader_epoch", "leader")


def data_at_risk(schema: pa.Schema, facts: pa.Table) -> list[pa.RecordBatch]:
    """A record is at risk from its ack until its leader's high watermark has passed it, or until the term ends.

    value: of an ack the record's offset, else the high watermark
    """
    # Every event in the last term of its leader that has begun, if that has not ended.
    facts = facts.take(pa.array(np.argsort(codes(facts, "topic", "partition", "leader"), kind="stable")))
    is_term, is_acked = of_kind(facts, TERM), of_kind(facts, ACKED)
    term = last_of(is_term, begins(codes(facts, "topic", "partition", "leader")))
    seq, at_us, epoch = numbers(facts, "seq"), numbers(facts, "at_us"), numbers(facts, "leader_epoch")
    inside = is_term[term] & (seq <= numbers(facts, "until_seq")[term]) & (is_acked | (epoch == epoch[term]))
    inside &= facts["value"].is_valid().to_numpy()
    # In a term the high watermark only rises: by falling value the last one met is the first that passed a record.
    value = numbers(facts, "value")
    order = np.flatnonzero(inside)
    order = order[np.lexsort((-seq[order], ~is_acked[order], -value[order], term[order]))]
    mark = order[last_of(~is_acked[order], begins(term[order]))]
    acked = is_acked[order]
    order, mark = order[acked], mark[acked]
    ended = is_acked[mark]
    over_us = np.where(ended, numbers(facts, "until_us")[term[order]], at_us[mark])
    over_seq = np.where(ended, numbers(facts, "until_seq")[term[order]], seq[mark])
    exposed = over_us > at_us[order]
    order, over_us, over_seq = order[exposed], over_us[exposed], over_seq[exposed]
    # Each is one more at its ack, and one less when it is over.
    change = np.repeat([1, -1], len(order))
    when_us, when = np.concatenate([at_us[order], over_us]), np.concatenate([seq[order], over_seq])
    whose, acks = np.tile(term[order], 2), np.tile(numbers(facts, "acks")[order], 2)
    by_time = np.lexsort((when_us, acks, whose))
    change, when_us, when, whose, acks = (each[by_time] for each in (change, when_us, when, whose, acks))
    first = np.flatnonzero(begins(whose, acks, when_us))
    total, latest = np.add.reduceat(change, first), np.maximum.reduceat(when, first)
    told = total != 0
    # All of a term's are over when it ends: one sum over everything is the sum of each.
    at_risk = np.cumsum(total)[told]
    first, latest = first[told], latest[told]
    of_term = facts.select(_TERM).take(pa.array(whose[first]))
    found = {name: of_term[name] for name in _TERM}
    found |= {"acks": acks[first], "at_us": when_us[first], "seq": latest, "at_risk_records": at_risk}
    batches: list[pa.RecordBatch] = pa.table(found).select(schema.names).cast(schema).to_batches()
    return batches
