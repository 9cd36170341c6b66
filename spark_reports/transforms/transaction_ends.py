"""How the transactions ended that records were sent in. Definitions: scenarios/observe/taken_records.py."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from replica.trace.names import (
    BATCH_SENT,
    OPEN_BATCH_FOUND,
    TRANSACTION_BEGAN,
    TRANSACTION_ENDED,
    TRANSACTION_STATE_CHANGED,
)
from spark_reports.held import has_no_rows
from spark_reports.io import Trace
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.records import ABORTED, COMMITTED, RECORD_KEY

_COMMITS = ("PrepareCommit", "CompleteCommit")
_PREPARED = ("PrepareCommit", "PrepareAbort")
_COMPLETE = ("CompleteCommit", "CompleteAbort")
_PRODUCER = (RUN, "producer_id")


def known_of_records(trace: Trace, gone: DataFrame) -> DataFrame:
    """One row per word on a record beside those of its producer and of the logs: it is gone for a good reason
    (`gone`: gone_records()), it was ABORTED, or COMMITTED.

    out: *RECORD_KEY, why
    """
    if has_no_rows(trace.transaction):
        return gone
    return gone.unionByName(ended_records(trace.produce, trace.transaction))


def ended_records(produce: DataFrame, transaction: DataFrame) -> DataFrame:
    """One row per record that was ABORTED: so was every transaction that it was sent in; and in runs that end with a
    transaction open in a log, one per record that was COMMITTED: one of them was.

    in:  the tables produce and transaction     out: *RECORD_KEY, why
    """
    producers = transaction.filter(F.col("event").isin(TRANSACTION_STATE_CHANGED, TRANSACTION_BEGAN))
    producers = producers.select(*_PRODUCER).distinct()
    sent = (
        produce.filter((F.col("event") == BATCH_SENT) & (F.col("attempt") == 1))
        .join(F.broadcast(producers), list(_PRODUCER), "left_semi")
        .select(*PARTITION_KEY, "producer_id", "seq", "records", F.lit(None).cast("boolean").alias("committed"))
    )
    decided = _decisions(transaction).select(
        RUN, F.lit(None).cast("string").alias("topic"), F.lit(None).cast("long").alias("partition"), "producer_id",
        "seq", F.lit(None).cast("array<string>").alias("records"), "committed",
    )  # fmt: skip
    # From the end backwards: the last decision so far is the first one after the batch was sent.
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
    open_in = transaction.filter(F.col("event") == OPEN_BATCH_FOUND).select(RUN).distinct()
    committed = of_record.filter("committed").join(F.broadcast(open_in), RUN, "left_semi")
    return (
        of_record.filter("aborted")
        .select(*RECORD_KEY, F.lit(ABORTED).alias("why"))
        .unionByName(committed.select(*RECORD_KEY, F.lit(COMMITTED).alias("why")))
    )


def _decisions(transaction: DataFrame) -> DataFrame:
    """out: run, producer_id, seq, committed"""
    stated = transaction.filter(F.col("event") == TRANSACTION_STATE_CHANGED)
    of_id = Window.partitionBy(RUN, "transactional_id").orderBy("seq")
    before = F.coalesce(F.lag("state").over(of_id), F.lit(""))
    # A coordinator that has decided it may die before it can say so.
    is_first = F.col("state").isin(*_PREPARED) | (F.col("state").isin(*_COMPLETE) & ~before.isin(*_PREPARED))
    by_coordinator = (
        stated.withColumn("is_first", is_first)
        .filter("is_first")
        .select(*_PRODUCER, "seq", F.col("state").isin(*_COMMITS).alias("committed"))
    )
    by_producer = (
        transaction.filter(F.col("event") == TRANSACTION_ENDED)
        .join(stated.select(*_PRODUCER).distinct(), list(_PRODUCER), "left_anti")
        .select(*_PRODUCER, "seq", "committed")
    )
    return by_coordinator.unionByName(by_producer)
