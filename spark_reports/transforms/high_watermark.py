"""High watermarks that stood still while records waited above them, as events for the fold that finds them."""

from __future__ import annotations

import pyarrow as pa

from replica.trace.names import FOLLOWER_FETCHED
from spark_reports.folds import hw_stalls as fold
from spark_reports.folds.events import Folding, by_partition
from spark_reports.folds.facts import Facts, same


def hw_stalls(states: pa.Table, terms: pa.Table) -> Folding:
    """One row per stretch of a leader's term in which records waited above a high watermark that did not move.

    in:  partition_states(), leader_terms()
    out: *TERM_KEY, from_us, until_us, high_watermark, waiting_records (the most), ended_by,
         pinned_by         followers that held it longest: they were in the ISR and had not fetched beyond it in this
                           term (one that comes back with less than it had counts once more)
         pinned_us         for how long, of the stall; 0 if no follower did
         under_min_isr_us  time in which the ISR was below min.insync.replicas (no advance then from 3.7, KAFKA-15583)
    """
    of_leader = {**same("seq", "at_us", "leader_epoch"), "leader": "node"}
    moved = {**of_leader, **same("log_end_offset", "high_watermark")}
    term = same("leader_epoch", "leader", "until_seq", "until_us", "ended_by", "log_end_offset", "high_watermark")
    facts = {
        fold.STATE: Facts(states, {"at_us": "from_us", **same("seq", "until_us", "isr", "min_isr")}),
        fold.TERM: Facts(terms, {"seq": "from_seq", "at_us": "from_us", **term}),
        fold.APPENDED: Facts("log", {**of_leader, **same("log_end_offset")}, {"role": ["leader"]}),
        fold.MOVED: Facts("high_watermark", moved, {"role": ["leader"]}),
        fold.FETCHED: Facts(
            "fetch", {**of_leader, "follower": "peer", **same("fetch_offset")}, {"event": [FOLLOWER_FETCHED]}
        ),
    }
    return Folding(by_partition(fold.hw_stalls, fold.cut), facts, fold.COLUMNS)
