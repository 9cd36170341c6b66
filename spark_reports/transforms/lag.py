"""Replication lag as the leader knows it: in records, and in time as Kafka's ISR rule measures it."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.intervals import held_by
from spark_reports.transforms.partitions import lives
from spark_reports.transforms.terms import TERM_KEY

_TERM = (*TERM_KEY, "life")
"""A leader that was down knows nothing of its followers any more, though its epoch may be the same."""
_OUT = (
    "follower", "at_us", "seq", "fetch_offset", "log_end_offset", "lag_records", "lag_us", "peak_lag_us", "behind_us",
)  # fmt: skip


def replication_lag(control: DataFrame, log: DataFrame, fetch: DataFrame, terms: DataFrame) -> DataFrame:
    """One row per moment a follower's distance to its leader changed: its fetches, and the leader's own appends.

    lag_records: records the follower had not asked beyond (>= 0).
    lag_us:      age of the oldest record it lacked, since the leader had it in this term; 0 while it lacked none.
    peak_lag_us: what that age had grown to just before this moment: the fetch that ends a lag shows it no more.
    behind_us:   time since it was last caught up, by the rule that shrinks the ISR (Replica.updateFetchStateOrThrow:
                 its fetch reached the leader's end, or the leader's end at its fetch before); 0 while it lacked none.
    A leader knows nothing of a follower before its first fetch of the term: no row before it. The key holds the leader
    epoch because offsets fall when a log is truncated.

    in:  the tables control, log and fetch, leader_terms()
    out: *PARTITION_KEY, leader_epoch, leader, follower, at_us, seq, fetch_offset, log_end_offset, lag_records, lag_us,
         peak_lag_us, behind_us
    """
    fetched = fetch.filter(F.col("event") == "follower_fetched").select(
        *PARTITION_KEY, "leader_epoch", F.col("node").alias("leader"), F.col("peer").alias("follower"),
        "at_us", "seq", "fetch_offset", "log_end_offset", F.lit(True).alias("is_fetch"),
    )  # fmt: skip
    # Who fetched in another life of the leader has no fetch before these moments, and no row.
    followers = fetched.select(*TERM_KEY, "follower").distinct()
    fetched = _in_lives(fetched, control)
    appends = _in_lives(_appends(log), control)
    moments = appends.drop("last_offset").unionByName(_term_ends(control, terms))
    seen_by_each = moments.join(F.broadcast(followers), list(TERM_KEY)).select(*fetched.columns)
    measured = _measured(fetched.unionByName(seen_by_each), control)
    return _with_age_of_oldest_missing(measured, appends)


def _appends(log: DataFrame) -> DataFrame:
    return log.filter(F.col("role") == "leader").select(
        *PARTITION_KEY, "leader_epoch", F.col("node").alias("leader"), "at_us", "seq",
        F.lit(None).cast("long").alias("fetch_offset"), "log_end_offset", F.lit(False).alias("is_fetch"), "last_offset",
    )  # fmt: skip


def _term_ends(control: DataFrame, terms: DataFrame) -> DataFrame:
    """The last moment of each leader's term, so that the lag of a silent follower is drawn up to it."""
    nothing = F.lit(None).cast("long")
    ends = terms.select(
        *TERM_KEY, F.col("until_us").alias("at_us"), F.col("until_seq").alias("seq"),
        nothing.alias("fetch_offset"), nothing.alias("log_end_offset"), F.lit(False).alias("is_fetch"),
    )  # fmt: skip
    return _in_lives(ends, control, at_stop=True)


def _in_lives(facts: DataFrame, control: DataFrame, *, at_stop: bool = False) -> DataFrame:
    """Facts of leaders with the life of the broker they belong to (`at_stop`: its stop as well)."""
    life = lives(control).withColumnRenamed("node", "leader")
    if not at_stop:
        life = life.withColumn("until_seq", F.col("until_seq") - 1)
    # A trace may say nothing of a start: then there was one life.
    alive = held_by(facts, life, (RUN, "leader"), "left").fillna(0, ["life"])
    return alive.drop("from_seq", "until_seq", "started_us")


def _measured(moments: DataFrame, control: DataFrame) -> DataFrame:
    of_follower = Window.partitionBy(*_TERM, "follower").orderBy("seq")
    so_far = of_follower.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    fetch = F.when(F.col("is_fetch"), F.struct("log_end_offset", "at_us"))
    before = F.last(fetch, ignorenulls=True).over(of_follower.rowsBetween(Window.unboundedPreceding, -1))
    reached_end = F.col("fetch_offset") >= F.col("log_end_offset")
    reached_end_before = F.col("fetch_offset") >= F.col("before.log_end_offset")
    caught_up_us = F.when(
        F.col("is_fetch"),
        F.when(reached_end, F.col("at_us")).when(reached_end_before, F.col("before.at_us")),
    )
    began = control.filter(F.col("event") == "leadership_began").select(
        *PARTITION_KEY, "leader_epoch", F.col("node").alias("leader"), "at_us", "seq", "log_end_offset"
    )
    term_start = (
        _in_lives(began, control)
        .groupBy(*_TERM)
        .agg(F.min("at_us").alias("began_us"), F.min_by("log_end_offset", "seq").alias("began_offset"))
    )
    return (
        moments.withColumn("before", before)
        .withColumn("caught_up_us", caught_up_us)
        .drop("before")
        .withColumn("caught_up_us", F.max("caught_up_us").over(so_far))
        .withColumn("fetch_offset", F.last("fetch_offset", ignorenulls=True).over(so_far))
        .withColumn("log_end_offset", F.last("log_end_offset", ignorenulls=True).over(so_far))
        .filter(F.col("fetch_offset").isNotNull())
        .join(F.broadcast(term_start), list(_TERM), "left")
        .withColumn("lag_records", F.greatest(F.lit(0), F.col("log_end_offset") - F.col("fetch_offset")))
    )


def _with_age_of_oldest_missing(moments: DataFrame, appends: DataFrame) -> DataFrame:
    """Find the leader's append that holds the follower's next record: an as-of join by offset, as union and window.

    Ordered by falling offset, the append last met before a moment is the first one that ends at or above its offset.
    """
    nothing = F.lit(None)
    marks = appends.select(
        *_TERM, F.col("last_offset").alias("key_offset"), F.lit(0).alias("is_moment"), F.col("at_us").alias("had_us"),
        *[nothing.cast(moments.schema[name].dataType).alias(name) for name in moments.columns if name not in _TERM],
    )  # fmt: skip
    asked = moments.select(
        *_TERM, F.col("fetch_offset").alias("key_offset"), F.lit(1).alias("is_moment"),
        nothing.cast("long").alias("had_us"), *[name for name in moments.columns if name not in _TERM],
    )  # fmt: skip
    by_offset = Window.partitionBy(*_TERM).orderBy(F.col("key_offset").desc(), "is_moment")
    so_far = by_offset.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    had_us = (
        # Records that the leader brought into its term were there when the term began.
        F.when(F.col("fetch_offset") < F.col("began_offset"), F.col("began_us"))
        .otherwise(F.last("had_us", ignorenulls=True).over(so_far))
    )  # fmt: skip
    lacks = F.col("lag_records") > 0
    in_order = Window.partitionBy(*_TERM, "follower").orderBy("seq")
    lacked = F.lag("lag_records").over(in_order) > 0
    # Between two of these moments it lacks the same oldest record.
    grown = F.lag("lag_us").over(in_order) + F.col("at_us") - F.lag("at_us").over(in_order)
    return (
        marks.unionByName(asked)
        .withColumn("oldest_us", had_us)
        .filter(F.col("is_moment") == 1)
        .withColumn("lag_us", F.when(lacks, F.col("at_us") - F.col("oldest_us")).otherwise(0))
        .withColumn("behind_us", F.when(lacks, F.col("at_us") - F.coalesce("caught_up_us", "began_us")).otherwise(0))
        .withColumn("peak_lag_us", F.when(lacked, grown).otherwise(0))
        .select(*TERM_KEY, *_OUT)
    )
