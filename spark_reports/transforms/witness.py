"""Find why a record was lost: replicas that had it, leaders that did not, and events that removed it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica.trace import names
from spark_reports.folding import folded, settled
from spark_reports.folds import losses as fold
from spark_reports.held import none_of
from spark_reports.io import Trace
from spark_reports.results import RESULT_TABLES
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.partitions import as_json
from spark_reports.transforms.records import RECORD_KEY


def lost_records(fates: DataFrame, trace: Trace) -> DataFrame:
    """Return one row per record that was acknowledged and lost, with the later events that decided its outcome.

    Args:
        fates: record_fates().
    """
    is_gone = F.col("lost") & F.col("acked_seq").isNotNull() & ~F.col("present")
    lost = settled(
        fates.filter(is_gone).select(
            *RECORD_KEY, F.col("acked_seq").alias("seq"), "acks", "sent_us", "acked_us", "acked_by",
            F.col("ack_offset").alias("offset"),
        )
    )  # fmt: skip
    if lost.isEmpty():
        return none_of(lost.sparkSession, RESULT_TABLES["lost_records"].ddl)

    def of(event: str, *columns: str) -> DataFrame:
        return trace.control.filter(F.col("event") == event).select(*PARTITION_KEY, "seq", "at_us", "reason", *columns)

    ends = ("log_end_offset", "previous_log_end_offset")
    facts = {
        fold.LOST: lost,
        fold.KEPT: _kept(lost, trace),
        fold.ELECTED: of(names.LEADER_ELECTED, "broker", "clean").withColumnRenamed("broker", "node"),
        fold.TRUNCATED: of(names.LOG_TRUNCATED, "node", *ends),
        fold.DISK_LOST: of(names.DATA_LOST, "node"),
        fold.OPENED: of(names.LOG_RECOVERED, "node", "log_end_offset", "size_bytes"),
    }
    return folded(facts, fold.COLUMNS, fold.lost_records, RESULT_TABLES["lost_records"].ddl)


def _kept(lost: DataFrame, trace: Trace) -> DataFrame:
    """Return one row per lost record and replica that appended it at any time.

    The columns are *RECORD_KEY, offset, node, seq and last_seq (of its first and its last append).
    """
    batches = (
        trace.produce.filter(F.col("event") == names.BATCH_SENT)
        .select(*PARTITION_KEY, "crc", F.explode("records").alias("record"))
        .join(F.broadcast(lost.select(*RECORD_KEY, "offset")), list(RECORD_KEY))
        .distinct()
    )
    appends = trace.log.filter(F.col("event") == names.BATCH_APPENDED).select(*PARTITION_KEY, "crc", "node", "seq")
    return (
        appends.join(F.broadcast(batches), [*PARTITION_KEY, "crc"])
        .groupBy(*RECORD_KEY, "offset", "node")
        .agg(F.min("seq").alias("seq"), F.max("seq").alias("last_seq"))
    )


_KEY_MOMENTS = (
    names.FAULT_BEGAN,
    names.FAULT_ENDED,
    names.NODE_STARTED,
    names.NODE_STOPPED,
    names.DATA_LOST,
    names.BROKER_FENCED,
    names.LEADER_ELECTED,
    names.PARTITION_WENT_OFFLINE,
    names.ELECTION_REFUSED,
    names.ISR_COMMITTED,
    names.ISR_REJECTED,
    names.LOG_TRUNCATED,
    names.LOG_RECOVERED,
    names.INVARIANT_BROKEN,
)


TOLD_BY_THEIR_NODE = ("kill", "power_off", "stop", "start", "restart")
"""Verbs whose effect node_stopped and node_started describe, in live runs at a slightly different time."""


def key_moments(control: DataFrame) -> DataFrame:
    """Return one row per key event of a run: faults, stops, elections, ISR changes, truncations and others.

    Events at time 0, when the cluster was built, are left out. So are ISR updates without a change, logs opened without
    damage, and faults whose effect the stop or start of a node describes.
    """
    changed = (F.col("event") != names.ISR_COMMITTED) | (F.array_sort("isr") != F.array_sort("previous_isr"))
    damaged = (F.col("event") != names.LOG_RECOVERED) | (F.col("size_bytes") > 0)
    told_by_node = F.col("event").isin(names.FAULT_BEGAN, names.FAULT_ENDED) & F.col("verb").isin(*TOLD_BY_THEIR_NODE)
    is_key = F.col("event").isin(*_KEY_MOMENTS) & (F.col("at_us") > 0) & changed & damaged & ~told_by_node
    return control.filter(is_key).select(
        RUN, "seq", "at_us", "event", "verb", "how", "topic", "partition",
        F.coalesce("broker", "node").alias("node"), "reason",
        F.coalesce("proposal", as_json(control.drop("proposal"))).alias("data"),
    )  # fmt: skip


def runs(control: DataFrame) -> DataFrame:
    """Return one row per run: run, scenario, variant, seed, profile, end_us, events (number of rows of the trace)."""
    started = F.col("event") == names.RUN_STARTED
    return control.groupBy(RUN).agg(
        *[F.max(F.when(started, F.col(name))).alias(name) for name in ("scenario", "variant", "seed", "profile")],
        F.max("at_us").alias("end_us"),
        (F.max("seq") + 1).alias("events"),
    )
