"""Transactions as their coordinators have written them, and how long they held up readers of what is committed."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from replica.trace.names import LAST_STABLE_OFFSET_MOVED, TRANSACTION_STATE_CHANGED
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.terms import TERM_KEY

_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")
_PREPARED = ("PrepareCommit", "PrepareAbort")
_COMPLETE = ("CompleteCommit", "CompleteAbort")


def transactions(transaction: DataFrame) -> DataFrame:
    """One row per transaction: from the first state in which it is open to the one in which all markers are written.

    in:  the table transaction
    out: run, transactional_id, producer_id, producer_epoch (at its begin), partitions (all that were ever in it, in
         order of their names), from_us, decided_us, until_us, state (the last), coordinator (who stated that), fenced,
         duration_us, markers_us
    """
    of_id = Window.partitionBy(RUN, "transactional_id").orderBy("seq")
    so_far = of_id.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    begins = F.col("state").isin(*_OPEN) & ~F.col("previous_state").isin(*_OPEN)
    states = (
        transaction.filter(F.col("event") == TRANSACTION_STATE_CHANGED)
        .filter(F.col("state").isin(*_OPEN, *_COMPLETE))
        .withColumn("number", F.sum(begins.cast("int")).over(so_far))
    )
    found = states.groupBy(RUN, "transactional_id", "number").agg(
        F.min_by("producer_id", "seq").alias("producer_id"),
        F.min_by("producer_epoch", "seq").alias("producer_epoch"),
        F.array_sort(F.array_distinct(F.flatten(F.collect_list("partitions")))).alias("partitions"),
        F.min("at_us").alias("from_us"),
        F.min(F.when(F.col("state").isin(*_PREPARED), F.col("at_us"))).alias("decided_us"),
        F.min(F.when(F.col("state").isin(*_COMPLETE), F.col("at_us"))).alias("until_us"),
        F.max_by("state", "seq").alias("state"),
        F.max_by("node", "seq").alias("coordinator"),
        F.bool_or("fences").alias("fenced"),
    )
    return found.withColumns(
        {
            "duration_us": F.col("until_us") - F.col("from_us"),
            "markers_us": F.col("until_us") - F.col("decided_us"),
        }
    ).drop("number")


def lso_stalls(transaction: DataFrame, moved: DataFrame, terms: DataFrame) -> DataFrame:
    """One row per stretch of a leader's term in which the last stable offset stood below the high watermark: until it
    moved, or the term ended.

    in:  the tables transaction and high_watermark, leader_terms()
    out: *TERM_KEY, from_us, until_us, last_stable_offset, waiting_records (below the high watermark, the most)
    """
    about: list[Column | str] = [
        *PARTITION_KEY, "leader_epoch", F.col("node").alias("leader"), "seq", "at_us", "high_watermark",
    ]  # fmt: skip
    stated = transaction.filter(F.col("event") == LAST_STABLE_OFFSET_MOVED).select(*about, "last_stable_offset")
    marks = moved.filter(F.col("role") == "leader").select(*about, F.lit(None).cast("long").alias("last_stable_offset"))
    # The high watermark that moves the last stable offset is stated just before it, and belongs to what comes then.
    is_mark = F.col("last_stable_offset").isNull()
    of_leader = Window.partitionBy(*TERM_KEY).orderBy("at_us", is_mark, "seq")
    so_far = of_leader.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    known = stated.select(*TERM_KEY).distinct()
    steps = stated.unionByName(marks.join(F.broadcast(known), list(TERM_KEY))).withColumn(
        "number", F.count("last_stable_offset").over(so_far)
    )
    stretches = steps.groupBy(*TERM_KEY, "number").agg(
        F.min(F.when(~is_mark, F.col("seq"))).alias("seq"),
        F.min("at_us").alias("from_us"),
        F.min("last_stable_offset").alias("last_stable_offset"),
        F.max("high_watermark").alias("high_watermark"),
        F.bool_or(~is_mark & (F.col("last_stable_offset") < F.col("high_watermark"))).alias("is_held"),
    )
    next_us = F.lead("from_us").over(Window.partitionBy(*TERM_KEY).orderBy("number"))
    ends = terms.select(*TERM_KEY, "from_seq", "until_seq", F.col("until_us").alias("term_until_us"))
    is_then = (F.col("seq") >= F.col("from_seq")) & (F.col("seq") < F.col("until_seq"))
    held = (
        stretches.withColumn("next_us", next_us)
        .join(F.broadcast(ends), list(TERM_KEY))
        .filter(is_then & F.col("is_held"))
        .withColumn("until_us", F.least("next_us", "term_until_us"))
        .withColumn("waiting_records", F.col("high_watermark") - F.col("last_stable_offset"))
    )
    return held.filter(F.col("until_us") > F.col("from_us")).select(
        *TERM_KEY, "from_us", "until_us", "last_stable_offset", "waiting_records"
    )
