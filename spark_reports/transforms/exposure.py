"""Data at risk: records whose producers got the ack while they stood above the high watermark."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from replica.trace.names import RECORD_ACKED
from spark_reports.schema import PARTITION_KEY
from spark_reports.transforms.intervals import held_by
from spark_reports.transforms.terms import TERM_KEY


def data_at_risk(produce: DataFrame, terms: DataFrame, moved: DataFrame) -> DataFrame:
    """One row per moment at which the number of acked records above their leader's high watermark changed.

    They would be gone if that leader died then. A record counts from its ack until the leader's high watermark passes
    it, or until the term ends: from then on its fate depends on the next leader (see `lost_records`).
    in:  produce table, leader_terms(), high_watermark table
    out: *TERM_KEY, acks, at_us, seq, at_risk_records
    """
    of_term = [*TERM_KEY, "from_seq", "acks"]
    exposed = _released(_acked(produce, terms), terms, moved).filter(F.col("released.at_us") > F.col("at_us"))
    began = F.struct("at_us", "seq", F.lit(1).alias("change"))
    ended = F.struct("released.at_us", "released.seq", F.lit(-1).alias("change"))
    at_once = [*of_term, "at_us"]
    so_far = Window.partitionBy(*of_term).orderBy("at_us").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        exposed.select(*of_term, F.inline(F.array(began, ended)))
        .groupBy(*at_once)
        .agg(F.sum("change").alias("change"), F.max("seq").alias("seq"))
        .filter(F.col("change") != 0)
        .withColumn("at_risk_records", F.sum("change").over(so_far))
        .select(*TERM_KEY, "acks", "at_us", "seq", "at_risk_records")
    )


def _acked(produce: DataFrame, terms: DataFrame) -> DataFrame:
    """Acks in the terms of the leaders that gave them."""
    acked = produce.filter(F.col("event") == RECORD_ACKED).select(
        *PARTITION_KEY, F.col("peer").alias("leader"), "acks", "offset", "at_us", "seq"
    )
    return held_by(acked, terms.select(*TERM_KEY, "from_seq", "until_seq", "until_us"), (*PARTITION_KEY, "leader"))


def _released(acked: DataFrame, terms: DataFrame, moved: DataFrame) -> DataFrame:
    """With `released`, the seq and time at which the high watermark passed the record: an as-of join by offset.

    In a term the high watermark only rises: of the values above a record the smallest is the first. By falling value,
    records before equal values, it is the one last met.
    """
    marks = (
        moved.filter(F.col("role") == "leader")
        .select(
            *PARTITION_KEY, "leader_epoch", F.col("node").alias("leader"), "seq", "at_us",
            F.col("high_watermark").alias("value"),
        )
        .join(F.broadcast(terms.select(*TERM_KEY, "from_seq", "until_seq")), list(TERM_KEY))
        .filter(F.col("seq").between(F.col("from_seq"), F.col("until_seq")))
    )  # fmt: skip
    began = terms.select(
        *TERM_KEY, "from_seq", F.col("from_seq").alias("seq"), F.col("from_us").alias("at_us"),
        F.col("high_watermark").alias("value"),
    )  # fmt: skip
    passed = marks.drop("until_seq").unionByName(began)
    nothing = F.lit(None)
    records = acked.select(
        *TERM_KEY, "from_seq", F.col("offset").alias("value"), F.lit(0).alias("is_mark"), "acks", "at_us", "seq",
        F.struct(F.col("until_seq").alias("seq"), F.col("until_us").alias("at_us")).alias("end"),
        nothing.cast("struct<seq:bigint,at_us:bigint>").alias("mark"),
    )  # fmt: skip
    as_rows = passed.select(
        *TERM_KEY, "from_seq", "value", F.lit(1).alias("is_mark"), nothing.cast("long").alias("acks"),
        nothing.cast("long").alias("at_us"), nothing.cast("long").alias("seq"),
        nothing.cast("struct<seq:bigint,at_us:bigint>").alias("end"),
        F.struct(F.col("seq"), F.col("at_us")).alias("mark"),
    )  # fmt: skip
    by_value = Window.partitionBy(*TERM_KEY, "from_seq").orderBy(F.col("value").desc(), "is_mark")
    first_above = F.last("mark", ignorenulls=True).over(
        by_value.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        records.unionByName(as_rows)
        .withColumn("released", F.coalesce(first_above, "end"))
        .filter(F.col("is_mark") == 0)
    )
