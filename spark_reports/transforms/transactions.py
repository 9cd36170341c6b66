"""Compute how transactions ended according to their coordinators, and how long they delayed readers."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from replica.trace import names
from spark_reports.held import has_no_rows
from spark_reports.io import Trace
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.records import ABORTED, COMMITTED, RECORD_KEY
from spark_reports.transforms.terms import TERM_KEY

_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")
_PREPARED = ("PrepareCommit", "PrepareAbort")
_COMPLETE = ("CompleteCommit", "CompleteAbort")


def transactions(transaction: DataFrame) -> DataFrame:
    """Return one row per transaction: from its first open state until all of its markers are written.

    Args:
        transaction: table of the trace.
    """
    of_id = Window.partitionBy(RUN, "transactional_id").orderBy("seq")
    so_far = of_id.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    begins = F.col("state").isin(*_OPEN) & ~F.col("previous_state").isin(*_OPEN)
    states = (
        transaction.filter(F.col("event") == names.TRANSACTION_STATE_CHANGED)
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
    """Return one row per interval of a leader's term in which the last stable offset was below the high watermark.

    An interval ends when the last stable offset moves, or with the term.

    Args:
        transaction, moved: the tables `transaction` and `high_watermark` of the trace.
        terms: leader_terms().
    """
    about: list[Column | str] = [
        *PARTITION_KEY, "leader_epoch", F.col("node").alias("leader"), "seq", "at_us", "high_watermark",
    ]  # fmt: skip
    stated = transaction.filter(F.col("event") == names.LAST_STABLE_OFFSET_MOVED).select(*about, "last_stable_offset")
    marks = moved.filter(F.col("role") == "leader").select(*about, F.lit(None).cast("long").alias("last_stable_offset"))
    # The high watermark that moves the last stable offset is recorded just before it, and belongs to the next interval.
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


_COMMITS = ("PrepareCommit", "CompleteCommit")
_PRODUCER = (RUN, "producer_id")


def known_of_records(trace: Trace, gone: DataFrame) -> DataFrame:
    """Return the records that were removed legitimately, ABORTED or COMMITTED, one row per record and fact.

    Args:
        gone: gone_records().

    Returns:
        *RECORD_KEY, why.
    """
    if has_no_rows(trace.transaction):
        return gone
    return gone.unionByName(ended_records(trace.produce, trace.transaction))


def ended_records(produce: DataFrame, transaction: DataFrame) -> DataFrame:
    """Return one row per record that is ABORTED: all transactions in which it was sent were aborted.

    For a run that ends with an open transaction in a log, also return one row per record that is COMMITTED: one of the
    transactions in which it was sent was committed.

    Args:
        produce, transaction: tables of the trace.

    Returns:
        *RECORD_KEY, why.
    """
    producers = transaction.filter(F.col("event").isin(names.TRANSACTION_STATE_CHANGED, names.TRANSACTION_BEGAN))
    producers = producers.select(*_PRODUCER).distinct()
    sent = (
        produce.filter((F.col("event") == names.BATCH_SENT) & (F.col("attempt") == 1))
        .join(F.broadcast(producers), list(_PRODUCER), "left_semi")
        .select(*PARTITION_KEY, "producer_id", "seq", "records", F.lit(None).cast("boolean").alias("committed"))
    )
    decided = _decisions(transaction).select(
        RUN, F.lit(None).cast("string").alias("topic"), F.lit(None).cast("long").alias("partition"), "producer_id",
        "seq", F.lit(None).cast("array<string>").alias("records"), "committed",
    )  # fmt: skip
    # In descending order of seq, the last decision so far is the first one after the batch was sent.
    later = Window.partitionBy(*_PRODUCER).orderBy(F.col("seq").desc()).rowsBetween(Window.unboundedPreceding, -1)
    ended = F.last("committed", ignorenulls=True).over(later)
    of_record = (
        sent.unionByName(decided)
        .withColumn("ended", ended)
        .filter(F.col("records").isNotNull())
        .select(*PARTITION_KEY, F.explode("records").alias("record"), "ended")
        .groupBy(RUN, "topic", "record")
        .agg(
            F.max("partition").alias("partition"),
            F.bool_and(~F.coalesce("ended", F.lit(True))).alias("aborted"),
            F.bool_or(F.coalesce("ended", F.lit(False))).alias("committed"),
        )
    )
    open_in = transaction.filter(F.col("event") == names.OPEN_BATCH_FOUND).select(RUN).distinct()
    committed = of_record.filter("committed").join(F.broadcast(open_in), RUN, "left_semi")
    return (
        of_record.filter("aborted")
        .select(*RECORD_KEY, F.lit(ABORTED).alias("why"))
        .unionByName(committed.select(*RECORD_KEY, F.lit(COMMITTED).alias("why")))
    )


def _decisions(transaction: DataFrame) -> DataFrame:
    """Return the decisions to commit or abort a transaction: run, producer_id, seq, committed."""
    stated = transaction.filter(F.col("event") == names.TRANSACTION_STATE_CHANGED)
    of_id = Window.partitionBy(RUN, "transactional_id").orderBy("seq")
    before = F.coalesce(F.lag("state").over(of_id), F.lit(""))
    # A coordinator may die between its decision and the event of its decision.
    is_first = F.col("state").isin(*_PREPARED) | (F.col("state").isin(*_COMPLETE) & ~before.isin(*_PREPARED))
    by_coordinator = (
        stated.withColumn("is_first", is_first)
        .filter("is_first")
        .select(*_PRODUCER, "seq", F.col("state").isin(*_COMMITS).alias("committed"))
    )
    by_producer = (
        transaction.filter(F.col("event") == names.TRANSACTION_ENDED)
        .join(stated.select(*_PRODUCER).distinct(), list(_PRODUCER), "left_anti")
        .select(*_PRODUCER, "seq", "committed")
    )
    return by_coordinator.unionByName(by_producer)
