"""Log end offset and high watermark of every replica over time, as that replica's own events state them."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from replica.trace.names import (
    FOLLOWING_BEGAN,
    LEADERSHIP_BEGAN,
    LOG_RECOVERED,
    LOG_TRUNCATED,
    NODE_STOPPED,
    PARTITION_CREATED,
    REASSIGNMENT_BEGAN,
)
from spark_reports.schema import PARTITION_KEY, REPLICA_KEY, RUN

_OWN_STATE = (LEADERSHIP_BEGAN, FOLLOWING_BEGAN, LOG_TRUNCATED, LOG_RECOVERED)


def replica_timeline(control: DataFrame, log: DataFrame, high_watermark: DataFrame) -> DataFrame:
    """One row per event that moved, or restated, a replica's ends; a stop of its broker is a row without offsets.

    out: *REPLICA_KEY, at_us, seq, event, log_end_offset, high_watermark, uncommitted_records (LEO - HW; null while the
         high watermark is not known), reason. Truncations make `log_end_offset` fall, so order by seq, not by offset.
    """
    own_state = control.filter(F.col("event").isin(*_OWN_STATE)).select(
        *REPLICA_KEY, "at_us", "seq", "event", "log_end_offset", "high_watermark", "reason"
    )
    appended = log.select(
        *REPLICA_KEY, "at_us", "seq", "event", "log_end_offset",
        F.lit(None).cast("long").alias("high_watermark"), F.lit(None).cast("string").alias("reason"),
    )  # fmt: skip
    moved = high_watermark.select(*REPLICA_KEY, "at_us", "seq", "event", "log_end_offset", "high_watermark", "reason")
    return _with_known_ends(own_state.unionByName(appended).unionByName(moved).unionByName(_stops(control)))


def _stops(control: DataFrame) -> DataFrame:
    replicas = (
        control.filter(F.col("event").isin(PARTITION_CREATED, REASSIGNMENT_BEGAN))
        .select(*PARTITION_KEY, F.explode("replicas").alias("node"))
        .distinct()
    )
    stopped = control.filter(F.col("event") == NODE_STOPPED).select(RUN, "node", "at_us", "seq", "event", "reason")
    nothing = F.lit(None).cast("long")
    return replicas.join(F.broadcast(stopped), [RUN, "node"]).select(
        *REPLICA_KEY, "at_us", "seq", "event",
        nothing.alias("log_end_offset"), nothing.alias("high_watermark"), "reason",
    )  # fmt: skip


def _with_known_ends(facts: DataFrame) -> DataFrame:
    # An append does not restate the high watermark: it is the one last stated since the broker's start.
    so_far = Window.partitionBy(*REPLICA_KEY).orderBy("seq").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    is_stop = F.col("event") == NODE_STOPPED
    stated = F.when(is_stop | F.col("high_watermark").isNotNull(), F.struct("high_watermark"))
    known = F.last(stated, ignorenulls=True).over(so_far)["high_watermark"]
    return facts.select(
        *REPLICA_KEY,
        "at_us",
        "seq",
        "event",
        "log_end_offset",
        F.when(F.col("log_end_offset").isNotNull(), known).alias("high_watermark"),
        (F.col("log_end_offset") - known).alias("uncommitted_records"),
        "reason",
    )
