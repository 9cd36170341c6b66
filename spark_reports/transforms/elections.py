"""Elections, and how long each took from the loss of the old leader to the first write under the new one."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.intervals import first_after


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
    spans = chosen.select(*PARTITION_KEY, "seq", F.col("previous_leader").alias("node"), before.alias("seq_before"))
    at = ("seq", "at_us")
    stops = control.filter(F.col("event") == "node_stopped").select(RUN, "node", *at)
    offline = control.filter(F.col("event") == "partition_went_offline").select(*PARTITION_KEY, *at)
    with_stop = first_after(spans, stops, (RUN, "node"), "seq_before", "stop")
    with_both = first_after(with_stop, offline, PARTITION_KEY, "seq_before", "offline")

    def of_its_own(loss: str) -> Column:
        return F.when(F.col(f"{loss}.seq") < F.col("seq"), F.col(f"{loss}.at_us"))

    lost_us = F.least(of_its_own("stop"), of_its_own("offline"))
    return with_both.select(*PARTITION_KEY, "seq", lost_us.alias("lost_us"))
