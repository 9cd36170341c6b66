"""Find the records of a batch in a log by the batch's checksum.

Several batches may have the same checksum, since external clients send the same bytes more than once.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from replica.trace.names import BATCH_APPENDED, BATCH_SENT, RECORD_ACKED
from spark_reports.folding import settled
from spark_reports.schema import PARTITION_KEY, RUN

_NEVER = (1 << 63) - 1


def named_batches(produce: DataFrame) -> DataFrame:
    """Return the records of all batches that were sent.

    The columns are *PARTITION_KEY, crc, is_twin (True if another batch has the same checksum), place (index in the
    batch), record.
    """
    batches = produce.filter(F.col("event") == BATCH_SENT).select(*PARTITION_KEY, "crc", "records").distinct()
    same_crc = Window.partitionBy(*PARTITION_KEY, "crc")
    return batches.withColumn("is_twin", F.count("*").over(same_crc) > 1).select(
        *PARTITION_KEY, "crc", "is_twin", F.posexplode("records").alias("place", "record")
    )


def told_apart(named: DataFrame, produce: DataFrame, log: DataFrame) -> DataFrame:
    """Resolve batches with equal checksums: keep only rows of the batch that was in the log at the row's offset.

    An acknowledgement has the record's offset. It comes from the leader that appended the record, before that leader
    appends anything else at this offset. A record that was never acknowledged may be in any of the batches, unless
    other records are known to be at this offset.

    Args:
        named: PARTITION_KEY, seq (when the batch was in the log), leader_epoch, base_offset, is_twin, place, record,
            and other columns.
        produce, log: tables of the trace.

    Returns:
        The columns of `named`.
    """
    position = [*PARTITION_KEY, "base_offset"]
    named = settled(named)
    twins = named.filter("is_twin").select(*position, "leader_epoch", "seq", "place").distinct()
    if twins.isEmpty():
        return named
    begins = (
        log.filter((F.col("event") == BATCH_APPENDED) & (F.col("role") == "leader"))
        .join(twins.select(*position).distinct(), position, "left_semi")
        .select(*position, "leader_epoch", F.col("node").alias("leader"), F.col("seq").alias("from_seq"))
    )
    stands = begins.withColumns(
        {
            name: F.coalesce(F.lead("from_seq").over(Window.partitionBy(*keys).orderBy("from_seq")), F.lit(_NEVER))
            for name, keys in (
                ("until_seq", [*position, "leader_epoch"]),  # until a new topic of this name
                ("until_its_next_seq", [*position, "leader"]),
            )
        }
    )
    acks = produce.filter((F.col("event") == RECORD_ACKED) & (F.col("offset") >= 0)).select(
        *PARTITION_KEY,
        F.col("peer").alias("leader"),
        F.col("record").alias("acked"),
        F.col("offset").alias("acked_at"),
        F.col("seq").alias("acked_seq"),
    )
    item = [RUN, "seq", "base_offset", "place"]
    who = (
        twins.join(stands, [*position, "leader_epoch"])
        .filter((F.col("from_seq") <= F.col("seq")) & (F.col("seq") < F.col("until_seq")))
        .join(acks, [*PARTITION_KEY, "leader"])
        .filter(F.col("acked_at") == F.col("base_offset") + F.col("place"))
        .filter((F.col("from_seq") < F.col("acked_seq")) & (F.col("acked_seq") < F.col("until_its_next_seq")))
        .groupBy(*item)
        .agg(F.collect_set("acked").alias("who"))
    )
    known = acks.select(*PARTITION_KEY, F.col("acked").alias("record"), F.lit(True).alias("is_acked")).distinct()
    is_unknown = F.col("who").isNull() & F.col("is_acked").isNull()
    stood_there = F.coalesce(F.array_contains("who", F.col("record")), is_unknown)
    found = named.join(who, item, "left").join(known, [*PARTITION_KEY, "record"], "left")
    return found.filter(~F.col("is_twin") | stood_there).select(*named.columns)
