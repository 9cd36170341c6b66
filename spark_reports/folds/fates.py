"""What became of every record: all that was said of it in a run, by columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_reports.folds.codes import (
    begins,
    codes,
    ends,
    first_place,
    highest_so_far,
    is_one_of,
    last_of,
    numbers,
    of_kind,
)
from spark_reports.folds.events import Events
from spark_reports.folds.files import WORD

SENT, ACKED, HANDED_OVER, FAILED, STORED, READ, PROMISED, KNOWN = (
    "sent", "acked", "handed over", "failed", "stored", "read", "promised", "known",
)  # fmt: skip
PLACE = "place"
"""Column of fates() by which those of a partition are in order: their offsets. Those of records that are not in the log
stand anywhere between."""

TOLD_ACKED, TOLD_FAILED, TOLD_NOTHING = "acked", "failed", "unknown"

_Rows = Any
"""A mask, or places, of events: numpy's."""


class FinalLogs(NamedTuple):
    """Small tables, each with run, topic and partition.

    replicas: node, is_leader, high_watermark: of each partition the replica whose log is the partition's
    aborted:  offset: records whose transactions were, or will be
    open:     node, offset: records whose transactions are not decided
    """

    replicas: pa.Table
    aborted: pa.Table
    open: pa.Table

    def entries(self, facts: pa.Table) -> pa.Table:
        """Facts without those STORED elsewhere, and with columns for those that stay: whether a reader gets it (it is
        below the high watermark of a running leader), and whether its transaction was aborted, or is open."""
        if not len(facts) or not of_kind(facts, STORED).all():
            return facts
        offset = numbers(facts, "offset")
        is_stored, readable, aborted, is_open = (np.zeros(len(facts), bool) for _ in range(4))
        code = codes(facts, "topic", "partition", "node")
        for one in np.unique(code).tolist():
            places = np.flatnonzero(code == one)
            (where,) = facts.select(["run", "topic", "partition", "node"]).slice(int(places[0]), 1).to_pylist()
            replica = _those(self.replicas, where).to_pylist()
            if not replica:
                continue
            is_stored[places] = True
            if replica[0]["is_leader"]:
                readable[places] = offset[places] < replica[0]["high_watermark"]
            open_here, node = _those(self.open, where), where.pop("node")
            assert node is not None
            aborted[places] = np.isin(offset[places], _those(self.aborted, where)["offset"].to_numpy())
            is_open[places] = np.isin(offset[places], open_here["offset"].to_numpy())
        for name, flags in (("readable", readable), ("aborted", aborted), ("open", is_open)):
            facts = facts.append_column(name, pa.array(flags))
        return facts.filter(pa.array(is_stored))


def _those(rows: pa.Table, where: dict[str, Any]) -> pa.Table:
    for column, value in where.items():
        rows = rows.filter(pc.equal(rows[column], value))
    return rows


def all_columns(facts: pa.Table) -> pa.Table:
    """With nulls for what none of these facts has."""
    for name, kind in _KINDS.items():
        if name not in facts.column_names:
            facts = facts.append_column(name, pa.nulls(len(facts), kind))
    return facts


_KINDS = {
    **dict.fromkeys(("client", "peer", "error", "node", "why"), WORD),
    **dict.fromkeys(("seq", "at_us", "acks", "offset", "latency_us"), pa.int64()),
    **dict.fromkeys(("definite", "readable", "aborted", "open"), pa.bool_()),
}


class _Events:
    """The events of one share, record after record and each record's in their order."""

    def __init__(self, facts: pa.Table) -> None:
        code, seq = codes(facts, "run", "topic", "record"), numbers(facts, "seq")
        order = np.lexsort((seq, code))
        self.facts = facts.take(pa.array(order))
        first = begins(code[order])
        self.record = np.cumsum(first) - 1
        self.records = int(first.sum())
        self.any_of = np.flatnonzero(first)

    def column(self, name: str) -> Any:
        return numbers(self.facts, name)

    def has(self, rows: _Rows) -> Any:
        """Of each record whether it has one of these."""
        found = np.zeros(self.records, bool)
        found[self.record[rows]] = True
        return found

    def first(self, rows: _Rows) -> Any:
        """The place of each record's first one of these, -1 if there is none."""
        return first_place(self.record, rows, self.records)

    def taken(self, name: str, places: Any) -> pa.Array:
        """A column at those places; null at -1."""
        return self.facts[name].combine_chunks().take(pa.array(places, mask=places < 0))

    def folded(self, rows: _Rows, values: Any, by: Callable[[Any, Any, Any], None], start: int) -> pa.Array:
        """`by`: np.minimum.at or np.maximum.at     start: what every value is before; null where there are none"""
        found = np.full(self.records, start)
        by(found, self.record[rows], values[rows])
        return pa.array(found, mask=~self.has(rows))

    def least(self, rows: _Rows, name: str) -> pa.Array:
        known = rows & self.facts[name].is_valid().to_numpy()
        return self.folded(known, self.column(name), np.minimum.at, np.iinfo(np.int64).max)

    def count(self, rows: _Rows) -> Any:
        return np.bincount(self.record[rows], minlength=self.records)


def fates(facts: pa.Table) -> pa.Table:
    """A row for each record, and its PLACE. One that is sent without a partition (-1) gets it from later events."""
    events = _Events(all_columns(facts))
    facts = events.facts
    is_sent, is_acked, is_failed = (of_kind(facts, what) for what in (SENT, ACKED, FAILED))
    is_told = is_acked | is_failed | of_kind(facts, HANDED_OVER)
    is_stored = of_kind(facts, STORED)
    is_readable, is_aborted, is_open = (
        facts[name].fill_null(False).to_numpy() for name in ("readable", "aborted", "open")
    )
    sent, acked = events.first(is_sent), events.first(is_acked)
    stored = _least_offset(events, is_stored)
    definite = is_failed & facts["definite"].fill_null(False).to_numpy()
    told = np.where(events.has(is_acked), 0, np.where(events.has(definite), 1, 2)).astype(np.int32)
    partition = np.full(events.records, np.iinfo(np.int64).min)
    np.maximum.at(partition, events.record, events.column("partition"))
    # Events of unknown seq, such as a final log's, are of no use for an order; the first of a client's is by seq.
    found: dict[str, Any] = {
        **{name: events.taken(name, events.any_of) for name in ("run", "topic", "record")},
        "partition": partition,
        "client": events.taken("client", sent),
        "acks": events.least(is_sent, "acks"),
        "sent_us": events.least(is_sent, "at_us"),
        "sent_seq": events.least(is_sent, "seq"),
        "last_sent_seq": events.folded(is_sent, events.column("seq"), np.maximum.at, -1),
        "told": pa.DictionaryArray.from_arrays(told, [TOLD_ACKED, TOLD_FAILED, TOLD_NOTHING]),
        "told_us": events.least(is_told, "at_us"),
        "told_seq": events.least(is_told, "seq"),
        "handed_over": events.has(of_kind(facts, HANDED_OVER)),
        "acked_us": events.least(is_acked, "at_us"),
        "acked_seq": events.least(is_acked, "seq"),
        "acked_by": events.taken("peer", acked),
        "ack_offset": events.taken("offset", acked),
        "latency_us": events.least(is_told, "latency_us"),
        "error": events.taken("error", events.first(is_failed & facts["error"].is_valid().to_numpy())),
        "copies": events.count(is_stored & ~is_aborted),
        "settled_copies": events.count(is_stored & ~is_aborted & ~is_open),
        "offset": events.taken("offset", stored),
        "present": stored >= 0,
        "readable": (stored >= 0) & is_readable[stored],
        "read": events.has(of_kind(facts, READ)),
        "promised": events.has(of_kind(facts, PROMISED)),
    }
    for why in ("deleted", "expired", "compacted", "aborted", "committed"):
        name = f"is_{why}" if why in ("aborted", "committed") else why
        found[name] = events.has(is_one_of(facts["why"], [why]))
    place = np.where(stored >= 0, events.column("offset")[stored], np.arange(events.records))
    return pa.table({**found, PLACE: place})


def _least_offset(events: _Events, rows: _Rows) -> Any:
    """The place of each record's one with the least offset, -1 if there is none."""
    places = np.flatnonzero(rows)
    places = places[np.argsort(-events.column("offset")[places], kind="stable")]
    found = np.full(events.records, -1)
    found[events.record[places]] = places
    return found


def with_anomalies(events: Events) -> tuple[pa.Table, pa.Table]:
    """Records of some partitions in slices by PLACE, with what is wrong with them."""
    fates = events.rows

    def flag(name: str) -> Any:
        return fates[name].to_numpy()

    def is_told(word: str) -> Any:
        return is_one_of(fates["told"], [word])

    copies, settled = numbers(fates, "copies"), numbers(fates, "settled_copies")
    is_taken = flag("deleted") | flag("expired") | flag("compacted")
    is_undone = flag("promised") & (copies == 0) & ~is_taken
    is_acked, present = is_told(TOLD_ACKED), flag("present")
    is_gone = ~present & ~is_taken
    is_aborted = np.where(present, copies == 0, flag("is_aborted") & ~is_taken)
    # It is there, and the marker that committed it is in no log that counts.
    is_stranded = flag("is_committed") & (copies > 0) & (settled == 0)
    is_sent = fates["sent_seq"].is_valid().to_numpy()
    is_reordered, is_needed = _reordered(fates, present & is_sent)
    flags = {
        "lost": (is_acked & is_gone & ~flag("is_aborted")) | is_undone,
        "unseen": is_acked & present & (~flag("readable") | is_stranded),
        "missing": is_told(TOLD_NOTHING) & is_sent & is_gone,
        "duplicated": settled > 1,
        "dirty": flag("read") & is_gone,
        "reordered": is_reordered,
        "aborted": is_acked & is_aborted & ~is_undone,
    }
    for name, values in flags.items():
        fates = fates.append_column(name, pa.array(values))
    return fates.drop_columns(PLACE).filter(pa.array(events.is_new)), events.needed(is_needed)


def _reordered(fates: pa.Table, counts: _Rows) -> tuple[Any, Any]:
    """Whether it stands after a record of its producer's that was sent later; and whether it is the last of its
    producer's that was sent so far: records that follow may stand after it.

    counts: whether a record was sent and is in its partition's log
    """
    places = np.flatnonzero(counts)
    code, offset = codes(fates, "run", "topic", "partition", "client")[places], numbers(fates, "offset")[places]
    order = np.lexsort((offset, code))
    first, sent_seq = begins(code[order]), numbers(fates, "sent_seq")[places[order]]
    latest = highest_so_far(sent_seq, first)
    last = numbers(fates, "last_sent_seq")[places[order]]
    is_reordered, is_latest = np.zeros(len(fates), bool), np.zeros(len(fates), bool)
    # Of its own sending the first is not later than the last: it need not be left out.
    is_reordered[places[order]] = last < latest
    is_latest[places[order[last_of(sent_seq == latest, first)[ends(first)]]]] = True
    return is_reordered, is_latest
