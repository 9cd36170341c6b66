"""The records of a batch in a log. It is found by its checksum, which several batches may have: clients from outside
send the same bytes more than once."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from replica.trace.names import BATCH_APPENDED, BATCH_SENT, RECORD_ACKED
from spark_reports.schema import PARTITION_KEY, RUN


def named_batches(produce: DataFrame) -> DataFrame:
    """out: *PARTITION_KEY, crc, is_twin (another batch has its checksum), place, record"""
    batches = produce.filter(F.col("event") == BATCH_SENT).select(*PARTITION_KEY, "crc", "records").distinct()
    same_crc = Window.partitionBy(*PARTITION_KEY, "crc")
    return batches.withColumn("is_twin", F.count("*").over(same_crc) > 1).select(
        *PARTITION_KEY, "crc", "is_twin", F.posexplode("records").alias("place", "record")
    )


def told_apart(named: DataFrame, produce: DataFrame, log: DataFrame) -> DataFrame:
    """Of twins only those that stood there: the ack of a record says at which offset it is, and it comes before a
    leader appends anything else there. One that was never acked may be any of those that no other is known to be.

    named: PARTITION_KEY, seq (when the batch stood there), base_offset, is_twin, place, record and others
    out:   the same columns
    """
    twins = named.filter("is_twin").select(RUN, "topic", "partition", "seq", "base_offset", "place", "record")
    if twins.isEmpty():
        return named
    place = [*PARTITION_KEY, "base_offset"]
    there = twins.select(*place).distinct()
    begins = (
        log.filter((F.col("event") == BATCH_APPENDED) & (F.col("role") == "leader"))
        .join(there, place, "left_semi")
        .select(*place, F.col("seq").alias("from_seq"))
    )
    later = F.lead("from_seq").over(Window.partitionBy(*place).orderBy("from_seq"))
    stands = begins.withColumn("until_seq", later)
    acks = produce.filter((F.col("event") == RECORD_ACKED) & (F.col("offset") >= 0)).select(
        *PARTITION_KEY,
        F.col("record").alias("acked"),
        F.col("offset").alias("acked_at"),
        F.col("seq").alias("acked_seq"),
    )
    one = [RUN, "seq", "base_offset", "place"]
    who = (
        twins.select(*place, "seq", "place")
        .distinct()
        .join(stands, place)
        .filter(_is_within("seq"))
        .join(acks, list(PARTITION_KEY))
        .filter((F.col("acked_at") == F.col("base_offset") + F.col("place")) & _is_within("acked_seq"))
        .groupBy(*one)
        .agg(F.collect_set("acked").alias("who"))
    )
    known = acks.select(*PARTITION_KEY, F.col("acked").alias("record"), F.lit(True).alias("is_acked")).distinct()
    found = (
        named.join(who, one, "left")
        .join(known, [*PARTITION_KEY, "record"], "left")
        .filter(
            ~F.col("is_twin")
            | F.coalesce(F.array_contains("who", F.col("record")), F.col("who").isNull() & F.col("is_acked").isNull())
        )
    )
    return found.select(*named.columns)


def _is_within(seq: str) -> Column:
    """Whether a moment is one at which the batch stood there."""
    return (F.col("from_seq") <= F.col(seq)) & (F.col("until_seq").isNull() | (F.col(seq) < F.col("until_seq")))
