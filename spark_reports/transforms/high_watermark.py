"""High watermarks that stood still while records waited above them, as events for the fold that finds them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from replica.trace.names import FOLLOWER_FETCHED
from spark_reports.folds import hw_stalls as fold
from spark_reports.results import RESULT_TABLES
from spark_reports.schema import PARTITION_KEY
from spark_reports.transforms.folding import folded


def hw_stalls(states: DataFrame, terms: DataFrame, log: DataFrame, fetch: DataFrame, moved: DataFrame) -> DataFrame:
    """One row per stretch of a leader's term in which records waited above a high watermark that did not move.

    in:  partition_states(), leader_terms(), the tables log, fetch and high_watermark
    out: *TERM_KEY, from_us, until_us, high_watermark, waiting_records (the most), ended_by,
         pinned_by         followers that held it longest: they were in the ISR and had not fetched beyond it in this
                           term (one that comes back with less than it had counts once more)
         pinned_us         for how long, of the stall; 0 if no follower did
         under_min_isr_us  time in which the ISR was below min.insync.replicas (no advance then from 3.7, KAFKA-15583)
    """
    of_leader: list[Column | str] = [*PARTITION_KEY, "seq", "at_us", "leader_epoch", F.col("node").alias("leader")]
    as_leader = F.col("role") == "leader"
    facts = {
        fold.STATE: states.select(
            *PARTITION_KEY, "seq", F.col("from_us").alias("at_us"), "until_us", "isr", "min_isr"
        ),
        fold.TERM: terms.select(
            *PARTITION_KEY, F.col("from_seq").alias("seq"), F.col("from_us").alias("at_us"), "leader_epoch", "leader",
            "until_seq", "until_us", "ended_by", "log_end_offset", "high_watermark",
        ),
        fold.APPENDED: log.filter(as_leader).select(*of_leader, "log_end_offset"),
        fold.MOVED: moved.filter(as_leader).select(*of_leader, "log_end_offset", "high_watermark"),
        fold.FETCHED: fetch.filter(F.col("event") == FOLLOWER_FETCHED).select(
            *of_leader, F.col("peer").alias("follower"), "fetch_offset"
        ),
    }  # fmt: skip
    return folded(facts, fold.COLUMNS, fold.hw_stalls, RESULT_TABLES["hw_stalls"].ddl)
