"""Replication lag as the leader knows it, as events for the fold that measures it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from replica.trace.names import FOLLOWER_FETCHED, LEADERSHIP_BEGAN, NODE_STARTED, NODE_STOPPED
from spark_reports.folds import lag as fold
from spark_reports.results import RESULT_TABLES
from spark_reports.schema import PARTITION_KEY
from spark_reports.transforms.folding import folded


def replication_lag(
    control: DataFrame, turns: DataFrame, log: DataFrame, fetch: DataFrame, terms: DataFrame
) -> DataFrame:
    """One row per moment a follower's distance to its leader changed: its fetches, and the leader's own appends.

    lag_records: records the follower had not asked beyond (>= 0).
    lag_us:      age of the oldest record it lacked, since the leader had it in this term; 0 while it lacked none.
    peak_lag_us: that age just before this moment: the fetch that ends a lag no longer shows it.
    behind_us:   time since it was last caught up, by the rule that shrinks the ISR (Replica.updateFetchStateOrThrow:
                 its fetch reached the leader's end, or the leader's end at its fetch before); 0 while it lacked none.
    A leader knows nothing of a follower before its first fetch of the term: no row before it. The last moment of a term
    is one, so that the lag of a silent follower is drawn up to it.

    in:  the table control, node_turns(), the tables log and fetch, leader_terms()
    out: *PARTITION_KEY, leader_epoch, leader, follower, at_us, seq, fetch_offset, log_end_offset, lag_records, lag_us,
         peak_lag_us, behind_us
    """
    of_leader: list[Column | str] = [*PARTITION_KEY, "seq", "at_us", "leader_epoch", F.col("node").alias("leader")]
    node: list[Column | str] = [*PARTITION_KEY, "seq", "at_us", F.col("node").alias("leader")]
    facts = {
        fold.TERM_ENDED: terms.select(
            *PARTITION_KEY, F.col("until_seq").alias("seq"), F.col("until_us").alias("at_us"), "leader_epoch", "leader"
        ),
        fold.STOPPED: turns.filter(F.col("event") == NODE_STOPPED).select(*node),
        fold.STARTED: turns.filter(F.col("event") == NODE_STARTED).select(*node),
        fold.BEGAN: control.filter(F.col("event") == LEADERSHIP_BEGAN).select(*of_leader, "log_end_offset"),
        fold.APPENDED: log.filter(F.col("role") == "leader").select(*of_leader, "log_end_offset", "last_offset"),
        fold.FETCHED: fetch.filter(F.col("event") == FOLLOWER_FETCHED).select(
            *of_leader, F.col("peer").alias("follower"), "fetch_offset", "log_end_offset"
        ),
    }
    return folded(facts, fold.COLUMNS, fold.replication_lag, RESULT_TABLES["replication_lag"].ddl)
