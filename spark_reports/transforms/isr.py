"""The replicas in sync, and the reasons of those that were not: ISR membership as intervals."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from replica.trace.names import PARTITION_CREATED
from spark_reports.schema import PARTITION_KEY, REPLICA_KEY
from spark_reports.transforms.partitions import touching

LEADER, IN_SYNC, OUT_OF_SYNC = "leader", "in sync", "out of sync"


def isr_changes(states: DataFrame) -> DataFrame:
    """One row per change of a partition's ISR.

    in:  partition_states()
    out: *PARTITION_KEY, at_us, seq, previous_isr, isr, joined, left, leader, reason
    """
    before = F.lag("isr").over(Window.partitionBy(*PARTITION_KEY).orderBy("seq"))
    return (
        states.withColumn("previous_isr", before)
        .filter((F.col("event") != PARTITION_CREATED) & (F.array_sort("isr") != F.array_sort("previous_isr")))
        .select(
            *PARTITION_KEY,
            F.col("from_us").alias("at_us"),
            "seq",
            "previous_isr",
            "isr",
            F.array_except("isr", "previous_isr").alias("joined"),
            F.array_except("previous_isr", "isr").alias("left"),
            "leader",
            "reason",
        )
    )


def isr_intervals(states: DataFrame) -> DataFrame:
    """One row per stretch in which a replica's standing did not change, with the reason why the stretch began.

    in:  partition_states()
    out: *REPLICA_KEY, from_us, until_us, standing (leader, in sync, out of sync), reason; none of length 0
    """
    standing = (
        F.when(F.col("leader") == F.col("node"), LEADER)
        .when(F.array_contains("isr", F.col("node")), IN_SYNC)
        .otherwise(OUT_OF_SYNC)
    )
    per_replica = (
        states.filter(F.col("until_us") > F.col("from_us"))
        .withColumn("node", F.explode(F.array_union("replicas", "isr")))
        .withColumn("standing", standing)
    )
    return touching(per_replica, (*REPLICA_KEY, "standing")).select(
        *REPLICA_KEY, "from_us", "until_us", "standing", "reason"
    )
