"""Define the folds of each partition's timelines, and of high watermarks that did not move."""

from __future__ import annotations

import pyarrow as pa

from replica.trace import names
from spark_reports.folds import exposure, lag, timeline
from spark_reports.folds import hw_stalls as stalls
from spark_reports.folds.events import Folding, by_partition
from spark_reports.folds.facts import Facts, same

_OWN_STATE = (names.LEADERSHIP_BEGAN, names.FOLLOWING_BEGAN, names.LOG_TRUNCATED, names.LOG_RECOVERED)


def replica_timeline() -> Folding:
    """Return a folding with one row per event that changed or restated a replica's offsets.

    A stop of the replica's broker also has a row, without offsets.

    Order the rows by seq, not by `log_end_offset`, which truncations reduce.
    """
    its = same("node", "at_us", "seq", "event")
    appended = {**its, **same("log_end_offset")}
    ends = {**appended, **same("high_watermark", "reason")}
    facts = {
        timeline.PLACED: Facts(
            "control",
            same("seq", "replicas"),
            {"event": [names.PARTITION_CREATED, names.REASSIGNMENT_BEGAN]},
            ahead=True,
        ),
        timeline.STATED: Facts("control", ends, {"event": _OWN_STATE}),
        timeline.APPENDED: Facts("log", appended),
        timeline.MOVED: Facts("high_watermark", ends),
        timeline.STOPPED: Facts("control", {**its, **same("reason")}, {"event": [names.NODE_STOPPED]}, everywhere=True),
    }
    return Folding(timeline.replica_timeline, facts, timeline.COLUMNS)


def replication_lag(terms: pa.Table) -> Folding:
    """Return a folding with one row per event at which a follower's lag changed: its fetches and its leader's appends.

    A follower's first row in a term is its first fetch, before which the leader does not know its offset. Its last row
    is the end of the term, which shows the lag of a follower that no longer fetches.

    `peak_lag_us` is the lag just before the event, since a fetch that ends a lag no longer shows it. By the ISR rule a
    follower is caught up if its fetch reached the leader's log end, or the leader's log end at its previous fetch
    (Replica.updateFetchStateOrThrow).

    Args:
        terms: leader_terms().
    """
    node = {**same("seq", "at_us"), "leader": "node"}
    of_leader = {**node, **same("leader_epoch", "log_end_offset")}
    term = {"seq": "until_seq", "at_us": "until_us", **same("leader_epoch", "leader")}
    facts = {
        lag.TERM_ENDED: Facts(terms, term),
        lag.STOPPED: Facts("control", node, {"event": [names.NODE_STOPPED]}, everywhere=True),
        lag.STARTED: Facts("control", node, {"event": [names.NODE_STARTED]}, everywhere=True),
        lag.BEGAN: Facts("control", of_leader, {"event": [names.LEADERSHIP_BEGAN]}),
        lag.APPENDED: Facts("log", {**of_leader, **same("last_offset")}, {"role": ["leader"]}),
        lag.FETCHED: Facts(
            "fetch", {**of_leader, "follower": "peer", **same("fetch_offset")}, {"event": [names.FOLLOWER_FETCHED]}
        ),
    }
    return Folding(lag.replication_lag, facts, lag.COLUMNS)


def data_at_risk(terms: pa.Table) -> Folding:
    """Return a folding with one row per change of the number of acknowledged records above the high watermark.

    These records could be lost if the leader died. A record counts from its acknowledgement until the leader's high
    watermark passes it, or until the term ends. After that its outcome depends on the next leader (see `lost_records`).

    Args:
        terms: leader_terms().
    """
    at = same("seq", "at_us")
    term = {"seq": "from_seq", "at_us": "from_us", "value": "high_watermark"}
    moved = {**at, **same("leader_epoch"), "leader": "node", "value": "high_watermark"}
    facts = {
        exposure.TERM: Facts(terms, {**term, **same("leader", "leader_epoch", "until_seq", "until_us")}),
        exposure.MOVED: Facts("high_watermark", moved, {"role": ["leader"]}),
        exposure.ACKED: Facts(
            "produce", {**at, "leader": "peer", **same("acks"), "value": "offset"}, {"event": [names.RECORD_ACKED]}
        ),
    }
    return Folding(exposure.data_at_risk, facts, exposure.COLUMNS)


def hw_stalls(states: pa.Table, terms: pa.Table) -> Folding:
    """Return a folding with one row per interval in which a leader's high watermark did not move below waiting records.

    A follower that has returned with fewer records can hold the high watermark back again. From 3.7 on it does not
    advance while the ISR is below min.insync.replicas (KAFKA-15583).

    Args:
        states: partition_states().
        terms: leader_terms().
    """
    of_leader = {**same("seq", "at_us", "leader_epoch"), "leader": "node"}
    moved = {**of_leader, **same("log_end_offset", "high_watermark")}
    term = same("leader_epoch", "leader", "until_seq", "until_us", "ended_by", "log_end_offset", "high_watermark")
    facts = {
        stalls.STATE: Facts(states, {"at_us": "from_us", **same("seq", "until_us", "isr", "min_isr")}),
        stalls.TERM: Facts(terms, {"seq": "from_seq", "at_us": "from_us", **term}),
        stalls.APPENDED: Facts("log", {**of_leader, **same("log_end_offset")}, {"role": ["leader"]}),
        stalls.MOVED: Facts("high_watermark", moved, {"role": ["leader"]}),
        stalls.FETCHED: Facts(
            "fetch", {**of_leader, "follower": "peer", **same("fetch_offset")}, {"event": [names.FOLLOWER_FETCHED]}
        ),
    }
    return Folding(by_partition(stalls.hw_stalls, stalls.cut), facts, stalls.COLUMNS)
