"""Replication lag as the leader knows it, as events for the fold that measures it."""

from __future__ import annotations

import pyarrow as pa

from replica.trace.names import FOLLOWER_FETCHED, LEADERSHIP_BEGAN, NODE_STARTED, NODE_STOPPED
from spark_reports.folds import lag as fold
from spark_reports.folds.events import Folding
from spark_reports.folds.facts import Facts, same


def replication_lag(terms: pa.Table) -> Folding:
    """One row per moment a follower's distance to its leader changed: its fetches, and the leader's own appends.

    lag_records: records the follower had not asked beyond (>= 0).
    lag_us:      age of the oldest record it lacked, since the leader had it in this term; 0 while it lacked none.
    peak_lag_us: that age just before this moment: the fetch that ends a lag no longer shows it.
    behind_us:   time since it was last caught up, by the rule that shrinks the ISR (Replica.updateFetchStateOrThrow:
                 its fetch reached the leader's end, or the leader's end at its fetch before); 0 while it lacked none.
    A leader knows nothing of a follower before its first fetch of the term: no row before it. The last moment of a term
    is one, so that the lag of a silent follower is drawn up to it.

    in:  leader_terms()
    out: *PARTITION_KEY, leader_epoch, leader, follower, at_us, seq, fetch_offset, log_end_offset, lag_records, lag_us,
         peak_lag_us, behind_us
    """
    node = {**same("seq", "at_us"), "leader": "node"}
    of_leader = {**node, **same("leader_epoch", "log_end_offset")}
    term = {"seq": "until_seq", "at_us": "until_us", **same("leader_epoch", "leader")}
    facts = {
        fold.TERM_ENDED: Facts(terms, term),
        fold.STOPPED: Facts("control", node, {"event": [NODE_STOPPED]}, everywhere=True),
        fold.STARTED: Facts("control", node, {"event": [NODE_STARTED]}, everywhere=True),
        fold.BEGAN: Facts("control", of_leader, {"event": [LEADERSHIP_BEGAN]}),
        fold.APPENDED: Facts("log", {**of_leader, **same("last_offset")}, {"role": ["leader"]}),
        fold.FETCHED: Facts(
            "fetch", {**of_leader, "follower": "peer", **same("fetch_offset")}, {"event": [FOLLOWER_FETCHED]}
        ),
    }
    return Folding(fold.replication_lag, facts, fold.COLUMNS)
