"""When a partition could not do its work, or did it on too few replicas; and when clients were left waiting."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from replica.trace import INTERNAL_TOPICS
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.partitions import touching

_WINDOW = (*PARTITION_KEY, "kind")
LEADERLESS, LEADER_DOWN = "no leader", "leader down"
UNDER_REPLICATED, UNDER_MIN_ISR = "under-replicated", "under min ISR"

SHORTEST_STALL_US = 500_000
"""A client that waits less is not called unavailable: one metadata refresh and retry takes about as long."""


def is_internal() -> Column:
    """Whether the topic is one that brokers keep for themselves."""
    return F.col("topic").isin(*INTERNAL_TOPICS)


def unavailability(states: DataFrame, stopped: DataFrame) -> DataFrame:
    """One row per stretch in which a partition was not as it should be; stretches of different kinds overlap.

    `no leader`: the controller had none. `leader down`: it still named one whose broker had stopped.
    `under-replicated`: fewer in sync than assigned. `under min ISR`: fewer in sync than min.insync.replicas, so that
    acks=all is refused.
    in:  partition_states(), stopped_intervals()
    out: *PARTITION_KEY, kind, from_us, until_us, reason (of the decision that began it), internal (topic)
    """
    conditions: dict[str, Column] = {
        LEADERLESS: F.col("leader").isNull(),
        UNDER_REPLICATED: F.size("isr") < F.col("replication_factor"),
        UNDER_MIN_ISR: F.size("isr") < F.col("min_isr"),
    }
    held = F.array(*[F.when(condition, F.lit(kind)) for kind, condition in conditions.items()])
    per_kind = states.filter(F.col("until_us") > F.col("from_us")).withColumn("kind", F.explode(F.array_compact(held)))
    windows = touching(per_kind, _WINDOW).unionByName(_leader_down(states, stopped))
    return windows.withColumn("internal", is_internal())


def _leader_down(states: DataFrame, stopped: DataFrame) -> DataFrame:
    leading = states.filter(F.col("leader").isNotNull()).select(
        *PARTITION_KEY,
        F.col("leader").alias("node"),
        F.col("from_us").alias("led_from"),
        F.col("until_us").alias("led_until"),
        "seq",
    )
    from_us = F.greatest("led_from", "from_us")
    until_us = F.least("led_until", "until_us")
    down = (
        leading.join(F.broadcast(stopped), [RUN, "node"])
        .filter(until_us > from_us)
        .select(
            *PARTITION_KEY,
            F.lit(LEADER_DOWN).alias("kind"),
            from_us.alias("from_us"),
            until_us.alias("until_us"),
            "seq",
            "reason",
        )
    )
    return touching(down, _WINDOW)


def availability(windows: DataFrame, states: DataFrame) -> DataFrame:
    """One row per partition: microseconds of each kind of trouble, and of the time observed.

    in:  unavailability(), partition_states()
    out: *PARTITION_KEY, observed_us, offline_us (no leader, or leader down), under_replicated_us, under_min_isr_us,
         internal (topic)
    """
    length = F.col("until_us") - F.col("from_us")
    observed = states.groupBy(*PARTITION_KEY).agg((F.max("until_us") - F.min("from_us")).alias("observed_us"))

    def of_kind(*kinds: str) -> Column:
        return F.coalesce(F.sum(F.when(F.col("kind").isin(*kinds), length)), F.lit(0))

    sums = windows.groupBy(*PARTITION_KEY).agg(
        of_kind(LEADERLESS, LEADER_DOWN).alias("offline_us"),
        of_kind(UNDER_REPLICATED).alias("under_replicated_us"),
        of_kind(UNDER_MIN_ISR).alias("under_min_isr_us"),
    )
    return observed.join(sums, list(PARTITION_KEY), "left").fillna(0).withColumn("internal", is_internal())


def write_stalls(produce: DataFrame, ends: DataFrame) -> DataFrame:
    """One row per stretch in which a producer had records waiting for a partition and no write succeeded.

    A stretch begins when a record starts to wait, or with the last success while others wait; it ends with the next
    success, when the last waiting record is given up, or with the run. Those under SHORTEST_STALL_US are left out.
    in:  produce table, run_ends()
    out: run, topic, partition, client, from_us, until_us, refused (attempts), errors (sorted names), recovered (a
         success ended it)
    """
    waiting_change = (
        F.when(F.col("event") == "record_sent", 1)
        .when(F.col("event").isin("record_acked", "record_handed_over", "record_failed"), -1)
        .otherwise(0)
    )
    is_success = F.col("event").isin("record_acked", "record_handed_over")
    of_producer = [*PARTITION_KEY, "client"]
    # A record without a key is sent before it has a partition (-1): it waits for the one it got later.
    got = F.max("partition").over(Window.partitionBy(RUN, "topic", "record"))
    partition = F.when(F.col("record").isNull(), F.col("partition")).otherwise(got)
    in_order = Window.partitionBy(*of_producer).orderBy("seq")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    steps = (
        produce.filter(F.col("event") != "batch_sent")
        .withColumn("partition", partition)
        .select(*of_producer, "seq", "at_us", "event", "error")
        .withColumn("waiting", F.sum(waiting_change).over(so_far))
        .withColumn("successes", F.sum(is_success.cast("int")).over(so_far))
    )
    # What is given up in the end is over: what is sent afterwards waits anew.
    nothing_left = F.coalesce(
        F.sum((F.col("waiting") == 0).cast("int")).over(in_order.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0)
    )
    stretches = (
        steps.withColumn("calms", nothing_left)
        .groupBy(*of_producer, "successes", "calms")
        .agg(
            F.min(F.when(F.col("waiting") > 0, F.col("at_us"))).alias("from_us"),
            F.max_by("waiting", "seq").alias("still_waiting"),
            F.max("at_us").alias("last_us"),
            F.min("at_us").alias("first_us"),
            F.sum((F.col("event") == "batch_refused").cast("int")).alias("refused"),
            F.array_sort(F.collect_set("error")).alias("errors"),
        )
    )
    next_success = F.lead("first_us").over(Window.partitionBy(*of_producer).orderBy("successes", "calms"))
    ended = F.when(F.col("still_waiting") > 0, F.coalesce("next_us", "end_us")).otherwise(F.col("last_us"))
    return (
        stretches.withColumn("next_us", next_success)
        .join(F.broadcast(ends), RUN)
        .withColumn("until_us", ended)
        .withColumn("recovered", (F.col("still_waiting") > 0) & F.col("next_us").isNotNull())
        .filter(F.col("until_us") - F.col("from_us") >= SHORTEST_STALL_US)
        .select(*of_producer, "from_us", "until_us", "refused", "errors", "recovered")
    )
