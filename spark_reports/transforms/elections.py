"""Elections, and how long each took from the loss of the old leader to the first write under the new one."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_reports.schema import PARTITION_KEY, RUN


def elections(control: DataFrame, log: DataFrame) -> DataFrame:
    """One row per leader the controller chose.

    out: *PARTITION_KEY, at_us, seq, leader, previous_leader, leader_epoch, clean, isr, reason,
         lost_us         when the previous leader stopped, or the partition went offline, since the election before;
                         null if the old leader was deposed while it ran
         leading_us      when the chosen broker learned that it leads; null if it never did
         first_write_us  its first append in that epoch; null if there was none
         elect_us        at_us - lost_us
         write_us        first_write_us - lost_us: time to recover, as a producer sees it
    """
    chosen = control.filter(F.col("event") == "leader_elected").select(
        *PARTITION_KEY, "at_us", "seq", F.col("broker").alias("leader"), "previous_leader", "leader_epoch", "clean",
        "isr", "reason",
    )  # fmt: skip
    began = control.filter(F.col("event") == "leadership_began")
    epoch = [*PARTITION_KEY, "leader_epoch"]
    leading = began.groupBy(*epoch).agg(F.min("at_us").alias("leading_us"))
    first_write = log.filter(F.col("role") == "leader").groupBy(*epoch).agg(F.min("at_us").alias("first_write_us"))
    return (
        chosen.join(F.broadcast(_losses(control, chosen)), [*PARTITION_KEY, "seq"], "left")
        .join(F.broadcast(leading), epoch, "left")
        .join(F.broadcast(first_write), epoch, "left")
        .withColumn("elect_us", F.col("at_us") - F.col("lost_us"))
        .withColumn("write_us", F.col("first_write_us") - F.col("lost_us"))
    )


def _losses(control: DataFrame, chosen: DataFrame) -> DataFrame:
    """When each election's outage began: the first stop of a leader, or loss of any, since the election before."""
    before = F.coalesce(F.lag("seq").over(Window.partitionBy(*PARTITION_KEY).orderBy("seq")), F.lit(-1))
    spans = chosen.select(*PARTITION_KEY, "seq", "previous_leader", before.alias("seq_before"))
    stops = control.filter(F.col("event") == "node_stopped").select(
        RUN, F.lit(None).cast("string").alias("topic"), F.lit(None).cast("long").alias("partition"), "node",
        F.col("at_us").alias("loss_us"), F.col("seq").alias("loss_seq"),
    )  # fmt: skip
    offline = control.filter(F.col("event") == "partition_went_offline").select(
        *PARTITION_KEY, F.lit(None).cast("string").alias("node"),
        F.col("at_us").alias("loss_us"), F.col("seq").alias("loss_seq"),
    )  # fmt: skip
    lost = stops.unionByName(offline).select(
        RUN, F.col("topic").alias("of_topic"), F.col("partition").alias("of_partition"), "node", "loss_us", "loss_seq"
    )
    in_span = (F.col("loss_seq") > F.col("seq_before")) & (F.col("loss_seq") < F.col("seq"))
    is_its_own = (F.col("node") == F.col("previous_leader")) | (
        (F.col("of_topic") == F.col("topic")) & (F.col("of_partition") == F.col("partition"))
    )
    return (
        spans.join(F.broadcast(lost), RUN)
        .filter(in_span & is_its_own)
        .groupBy(*PARTITION_KEY, "seq")
        .agg(F.min("loss_us").alias("lost_us"))
    )
